"""Efficiency constants per class of operation, with their units, and the classes that are not kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.figure import Field, Spec, WithUnit

# Classes that describe a framework, an engine or a whole phase. Nothing runs in their name, so where a file is silent they
# are neutral; a kernel's class has no neutral constants, and pricing one without any is an error.
SETTINGS = frozenset(
    "served_experts adapters framework phase straggler step tp_collective pp_collective ep_collective cp_collective fsdp_collective dp_collective hidden experts residual allocator".split()
)


@dataclass(frozen=True, slots=True)
class Constant:
    """Unit and symbol of a constant; `shaped`: it acts on an operation's sizes, not only on its FLOPs and bytes; `structural`: it is of what
    a framework does, not of how fast; `most`: its bound."""

    unit: str
    symbol: str
    shaped: bool = False
    structural: bool = False
    most: float | None = None


def _constant(
    default: float,
    unit: str,
    symbol: str,
    meaning: str,
    *,
    shaped: bool = False,
    structural: bool = False,
    gt: float | None = None,
    ge: float = 0,
    le: float | None = None,
) -> Any:
    """The one declaration of a constant: text in a file or after --set is read in its unit, a bare YAML number is SI."""
    extra = {"unit": unit, "symbol": symbol, "shaped": shaped, "structural": structural, "most": le}
    least = ge if gt is None else None
    return Field(default, meaning, json_schema_extra=extra, gt=gt, ge=least, le=le)


_share = partial(_constant, 1.0, "1", gt=0, le=1)  # of a rate that is reached
_factor = partial(_constant, 1.0, "1")  # on what another table says
_switch = partial(_constant, 0.0, "1", le=1)  # on, off, or between
_number = partial(_constant, 0.0, "1")
_seconds = partial(_constant, 0.0, "s")
_bytes = partial(_constant, 0.0, "B")


class Efficiency(Spec):
    """How one class of operation falls short of the roofline: t = |FLOP/(compute·peak), bytes/(memory·bandwidth)|_p + overhead + …

    Every extra term is non-negative and every fraction at most 1, so a priced time never beats its floor.
    """

    compute: float = _share("e_c", "fraction of the dense peak FLOP/s reached")
    memory: float = _share("e_m", "fraction of memory (or link) bandwidth reached")
    overhead: float = _seconds("o", "seconds added per operation: launch and tail")
    p: float = Field(math.inf, "exponent joining compute and memory time; .inf is max, 1 is the sum", ge=1)
    # fmt: off
    k0: float = _number("k0", "filling: elements added to a matmul's contracted dimension, keys to each query, tokens to each expert", shaped=True)
    tau: float = _seconds("tau", "seconds per element of the contracted dimension (per key; experts: of both products): serial loop latency", shaped=True)
    quant_bytes: float = _bytes("b_q", "bytes per input element of a further pass: quantizing, appending to the cache, permuting", shaped=True)
    quant_memory: float = _share("e_q", "fraction of bandwidth that this further pass reaches")
    softmax_width: float = _number("h0", "attention: columns added to the head, what the exponentials cost", shaped=True)
    tail_rows: float = _number("w", "attention: query rows by which the longest tile outlasts the others, over all units", shaped=True)
    per_item: float = _seconds("u", "attention: seconds per query tile or per cached head and sequence", shaped=True)
    unshared: float = _switch("u_kv", "decode attention: 1 where every query head reads its cached head for itself, 0 where those of a group share it", shaped=True)
    padded: float = _number("x_T", "decode attention: keys read beyond those that hold a token, over these", shaped=True)
    unpack: float = _constant(0.0, "B/s", "U", "packed weights a chip unpacks a second, where that and not memory is the bound", shaped=True)
    further: float = _switch("e_v", "fraction of the peak at which matrix-vector kernels work on rows beyond the first, while nothing is loaded", shaped=True)
    together: float = _constant(16.0, "1", "b_v", "further rows at which matrix kernels have halved what each of them costs", gt=0)
    per_hop: float = _seconds("alpha", "seconds per further member of a collective's group")
    fabric: float = _share("e_r", "fraction of the network between hosts that an exchange of tokens reaches")
    gamma: float = _seconds("gamma", "time of the sqrt term between latency and bandwidth regimes of a collective")
    per_layer: float = _seconds("o_L", "seconds per layer: kernel starts")
    per_moe_layer: float = _seconds("o_moe", "seconds per mixture-of-experts layer: routing, permutation")
    layer_cycles: float = _number("c_L", "clock cycles per layer: kernel starts of an engine on GPUs of one kind")
    moe_layer_cycles: float = _number("c_moe", "clock cycles per mixture-of-experts layer in addition")
    unit_bytes: float = _bytes("b_u", "bytes that a unit (SM) draws per clock at most: what keeps small kernels from filling HBM")
    flops_per_joule: float = _number("g", "FLOP per joule at the power limit, joined with the compute time in a norm of 4")
    per_prompt: float = _seconds("o_p", "seconds per prompt, however long and whatever the model")
    per_step: float = _seconds("o_s", "seconds per engine step: scheduling, sampling")
    per_sequence: float = _seconds("o_b", "seconds per sequence and engine step")
    per_doubling: float = _number("sigma", "stragglers: fraction of a step added per doubling of the hosts")
    passes: float = _number("z", "experts: passes over routed slots (sort, quantize, activate, combine)", shaped=True)
    per_expert: float = _seconds("o_e", "experts: seconds per expert that a rank holds, visited or not", shaped=True)
    whole_group: float = _switch("g", "experts: 1 where those passes touch every slot of the group, 0 for a rank's own")
    of_compute: float = _factor("x_c", "factor on the compute share of kernel tables, as serving sees it")
    of_memory: float = _factor("x_m", "factor on the memory share of kernel tables, as serving sees it")
    of_overhead: float = _factor("x_o", "factor on the overhead of kernel tables, as serving sees it")
    of_held: float = _factor("x_h", "factor on the seconds per expert held of kernel tables, as serving sees it")
    of_passes: float = _factor("x_z", "factor on the passes of kernel tables, as serving sees it")
    per_domain: float = _number("sigma_d", "stragglers: fraction of a step added per doubling of the innermost network's domains")
    half_length: float = _constant(0.0, "tokens", "S0", "attention: sequence length S0 of compute/(1 + S0/S)", shaped=True)
    gradient: float = _number("x_b", "attention: time per FLOP that its gradient takes beyond that of the forward pass, as a share", shaped=True)
    overlap: float = _switch("omega", "share of this time that other work can hide", structural=True)
    beyond: float = _switch("omega_b", "the same for tensor and expert groups that reach beyond the innermost network level", structural=True)
    rails: float = _share("rho", "share of a host's ports that a collective between hosts uses")
    traffic: float = _constant(1.0, "1", "x_e", "framework: factor on the bytes of elementwise kernels when nothing fuses them", ge=1)
    accumulate: float = _bytes("b_acc", "framework: bytes per parameter and microbatch to add gradients up")
    bias_passes: float = _number("x_b", "framework: passes over the output of a biased matmul for its bias and bias gradient")
    optimizer_bytes: float = _bytes("b_opt", "framework: bytes per parameter of passes outside the optimizer: unscale, norm, clip, zero")
    kept_gradient: float = _bytes("p_g", "framework: bytes per gradient that its recipes keep and reduce, where a question does not say; 0: 4", structural=True)
    kept_state: float = _bytes("p_o", "framework: bytes of optimizer state per parameter that its recipes keep, where a question does not say; 0: 12", structural=True)
    exchange_bytes: float = _bytes("b_x", "bytes per gradient that shard groups exchange; 0: those that a gradient is kept in", structural=True)
    gather_bytes: float = _bytes("b_g", "bytes per weight that sharded parameters are gathered in; 0: those that they are kept in", structural=True)
    narrow_gather: float = _switch("n_g", "1 where tensor parallelism gathers activations and their gradients in the format of the matmul that reads them", structural=True)
    host_copy: float = _switch("h_p", "1 where a host keeps a copy of sharded weights, from which the backward pass gathers", structural=True)
    sharding: float = _constant(3.0, "1", "z_max", "framework: the highest ZeRO stage that it has", ge=0)
    mtp: float = _switch("mtp", "framework: 1 where it trains a model's multi-token prediction layers", structural=True)
    pads_heads: float = _switch("pads", "framework: 1 where it pads attention heads to a multiple of the tensor group", structural=True)
    logit_bytes: float = _bytes("b_logit", "framework: bytes per logit in addition to those counted: fp32 copies of the cross-entropy", structural=True)
    slack: float = _number("s_a", "share by which memory peaks that runs reported exceed what is counted; 0: not known", structural=True)
    norm_bytes: float = _bytes("b_norm", "framework: bytes per value of a norm's input kept for backward in addition to the input itself", structural=True)
    gate_bytes: float = _bytes("b_gate", "framework: bytes per value of an activation function's output kept for backward in addition", structural=True)
    gate_input: float = _bytes("b_in", "framework: bytes per value of an activation function's input kept for backward; 0: those of an activation", structural=True)
    early_stop: float = _switch("early_stop", "framework: 1 where recomputation stops before a layer's last projection, which no gradient reads", structural=True)
    # fmt: on
    error_experts: float = _number("r_x", "what a mixture of experts adds to the error, in quadrature")
    error_hidden: float = _number("r_h", "error per hidden communication over the step, in quadrature")
    error_exposed: float = _number("r_e", "error per exposed communication over the step, in quadrature")
    error: float = _constant(0.25, "1", "r", "relative error (80%) of this class, from held-out residuals")
    source: str
    note: str = ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        for name, constant in CONSTANTS.items():
            cls.__dataclass_fields__[name].type = Annotated[float, WithUnit(constant.unit)]
        return super().__get_pydantic_core_schema__(source, handler)


CONSTANTS: dict[str, Constant] = {
    name: Constant(**field.metadata["json_schema_extra"])
    for name, field in Efficiency.__dataclass_fields__.items()
    if "json_schema_extra" in field.metadata
}
