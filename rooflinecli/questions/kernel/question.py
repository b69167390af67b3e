"""`roofline kernel`: one operation on the roofline."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.errors import ImpossibleValue
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities
from rooflinecli.core.units import duration
from rooflinecli.questions.question import Question
from rooflinecli.specs.layout import EXPERT_KERNELS
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Switch, Text, field

if TYPE_CHECKING:
    from rooflinecli.ledger.ops import Op
    from rooflinecli.specs.hardware import HardwareSpec


GATED, UNGATED = 3.0, 2.0  # matrices of an expert


# fmt: off
class KernelEngine(Group):
    """Whose kernels."""

    engine: OptText = field("free", "Whose kernels: vllm, sglang, trtllm, llamacpp, gpt-fast ...", default=None, metavar="NAME")


class Kernel(Question[Quantities]):
    """One operation, and a measured time of it."""

    hw: Text = field("name", "A chip or system (`roofline hardware`).")
    dtype: Text = field("free", "Number format.", default="bf16", metavar="FORMAT")
    measured: OptNumber = field("time", "A measured time such as '0.51 ms'; refused when it beats the floor.", default=None)
    # fmt: on

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        """Raises ImpossibleValue for a measured time below the floor."""
        from rooflinecli.specs.hardware import load_hardware

        answer = self.operation(load_hardware(self.hw), lift)
        answer.schema = f"roofline/{self.verb.replace(' ', '-')}/1"
        if self.measured is not None and not lift.traced:
            if self.measured < answer.floor_s:
                raise ImpossibleValue(
                    f"--measured {self.text_of(type(self).measured)}: impossible; the floor of this operation is {duration(answer.floor_s)}. "
                    "Check the sizes, the dtype, and that the clock waited for the device"
                )
            answer.values["measured_s"] = self.measured
        return answer

    def operation(self, chip: HardwareSpec, lift: PlainLift) -> Quantities:
        """The operation on the chip."""
        raise NotImplementedError(self.verb)

    def by_engine(
        self,
        op: Op,
        constants: str,
        chip: HardwareSpec,
        lift: PlainLift,
        engine: str | None,
        quantized_before: bool = False,
    ) -> Quantities:
        """The operation as an engine's library runs it, or by the engine's own kernels where it has some. quantized_before: its input is
        narrow already, so it launches one kernel, as the library's 16-bit matmul does, and not that of the quantization too."""
        from rooflinecli.price.chip import Chip
        from rooflinecli.questions.kernel.operations import REGIME, alone
        from rooflinecli.specs.engine import load_engine

        spec = None if engine is None else load_engine(engine)
        priced = Chip(chip, lift, engine=spec)
        regime = "serving" if spec is not None and priced.engine_has_constants(op.kind) else REGIME
        library = "" if spec is None else f"@{spec.library}"
        known = priced.constants(regime, op.kind, op.dtype, f"{constants}{library}")
        if quantized_before and num.present(known.quant_bytes):
            launch = num.minimum(priced.constants(regime, op.kind, "bf16", f"bf16{library}").overhead, known.overhead)
            priced = Chip(chip, lift, engine=spec, override={f"efficiency.{op.kind}.overhead": num.value(launch)})
        variant = f"{constants}{library}" if library else op.variant
        return alone(op._replace(variant=variant), self.dtype, priced, regime)


def sizes(lift: PlainLift, **given: Quantity) -> list[Quantity]:
    """Sizes of an operation, as numbers of the lift's kind."""
    return [lift(name, value, "1", "given") for name, value in given.items()]


# fmt: off
class Matmul(KernelEngine, Kernel):
    """x[M, K] @ w[K, N]: FLOPs, bytes, intensity, bottleneck, floor and expected time."""

    verb = "kernel matmul"
    m: Number = field("count", "Rows (tokens), or all three as MxKxN.", positional=True)
    k: Number = field("count", "Contracted dimension.", positional=True)
    n: Number = field("count", "Columns.", positional=True)
    activation_quantization: Text = field("choice", "Input of a narrow matmul: dynamic (a separate pass), static or none.", default="dynamic", choices=("dynamic", "static", "none"), former=("quantisation",))
    # fmt: on

    def _set(self, written: dict[str, object]) -> None:
        first = written.get("m")
        sizes = first.lower().split("x") if isinstance(first, str) else []
        together = len(sizes) == 3 and not {"k", "n"} & set(written)
        super()._set(written | (dict(zip(("m", "k", "n"), sizes, strict=True)) if together else {}))

    def operation(self, chip: HardwareSpec, lift: PlainLift) -> Quantities:
        from rooflinecli.price.chip import Chip
        from rooflinecli.quantization.formats import size_of
        from rooflinecli.questions.kernel.operations import matmul_op, tiling

        m, k, n = sizes(lift, m=self.m, k=self.k, n=self.n)
        op, before = matmul_op(m, k, n, self.dtype, chip), self.activation_quantization != "dynamic"
        if before:
            op = op._replace(quantized=0.0)
        answer = self.by_engine(op, op.dtype, chip, lift, self.engine, before)
        answer.values |= tiling(m, k, n, op, Chip(chip, lift), size_of(self.dtype))
        return answer


# fmt: off
class Attention(KernelEngine, Kernel):
    """The attention core: q k^T, softmax, p v."""

    verb = "kernel attention"
    q: Number = field("count", "Query tokens (1 in decode).", positional=True)
    kv: Number = field("count", "Key/value tokens.", positional=True)
    heads: Number = field("count", "Query heads.", default=1.0)
    kv_heads: OptNumber = field("count", "Key/value heads; as many as heads when omitted.", default=None)
    head_dim: Number = field("count", "Width of a head.", default=128.0)
    batch: Number = field("count", "Sequences.", default=1.0)
    causal: Switch = field("switch", "Half of the pairs, or all.", default=None, off="full")
    decode: Switch = field("switch", "One new token against a cache.", default=False)
    fused: Switch = field("switch", "Flash attention, or scores and probabilities through memory.", default=None, off="unfused")
    # fmt: on

    def operation(self, chip: HardwareSpec, lift: PlainLift) -> Quantities:
        from rooflinecli.questions.kernel.operations import attention_op

        kv_heads = self.kv_heads or self.heads
        op = attention_op(
            *sizes(lift, b=self.batch, q=self.q, kv=self.kv, heads=self.heads, kv_heads=kv_heads, head_dim=self.head_dim),
            causal=bool(self.causal),
            decode=self.decode,
            fused=self.fused is not False,
            dtype=self.dtype,
            hardware=chip,
        )
        return self.by_engine(op, "any", chip, lift, self.engine)


# fmt: off
class Elementwise(Kernel):
    """An elementwise or normalization pass: bytes in, bytes out."""

    verb = "kernel elementwise"
    elements: Text = field("free", "Elements of the result, e.g. 1e7 or 2048x8192.", positional=True)
    reads: Number = field("real", "Tensors of that size read.", default=1.0, least=0, metavar="COUNT")
    writes: Number = field("real", "Tensors of that size written.", default=1.0, least=0, metavar="COUNT")
    flops_per_element: Number = field("real", "FLOPs per element.", default=1.0, least=0, metavar="COUNT")
    # fmt: on

    def operation(self, chip: HardwareSpec, lift: PlainLift) -> Quantities:
        from rooflinecli.formulas import counts
        from rooflinecli.ledger.ops import Op
        from rooflinecli.quantization.formats import size_of
        from rooflinecli.specs.parse_values import size

        count = prod(size("elements", part) for part in self.elements.lower().split("x"))
        elements, flops_per_element, reads, writes = sizes(
            lift, elements=count, flops_per_element=self.flops_per_element, reads=self.reads, writes=self.writes
        )
        moved = counts.bytes_of(elements * (reads + writes), size_of(self.dtype))
        # where the file has no vector unit, the highest peak is a bound on it
        fastest = max(chip.peak, key=lambda dtype: chip.peak[dtype].si)
        vector = "vector_fp32" if "vector_fp32" in chip.peak else fastest
        op = Op(name="elementwise", kind="elementwise", dtype=vector, flops=elements * flops_per_element, bytes=moved)
        return self.by_engine(op, "any", chip, lift, None)


# fmt: off
class GroupedGemm(Kernel):
    """A layer of routed experts on the busiest rank: both products, and the passes over routed slots around them."""

    verb = "kernel grouped-gemm"
    tokens: Number = field("count", "Tokens entering the layer over the whole expert group.", positional=True)
    d_model: Number = field("count", "Width of the model.")
    expert_width: Number = field("count", "Width of an expert.", former=("width",))
    experts: Number = field("count", "Routed experts.")
    top_k: Number = field("count", "Experts that a token visits.")
    ep: Number = field("count", "Ranks over which experts are spread.", default=1.0)
    tp: Number = field("count", "Devices over which an expert's width is split.", default=1.0)
    redundant_experts: Number = field("real", "Further copies of busy experts; balances the ranks.", default=0.0, least=0, metavar="COUNT")
    gated: Switch = field("switch", "Three matrices per expert, or two.", default=None, off="ungated")
    expert_imbalance: OptNumber = field("real", "Slots of the busiest rank over the mean, instead of the value that routing implies.", default=None, least=0, former=("imbalance",))
    library: Text = field("choice", "Whose kernels: vllm, sglang, trtllm, trtllm-wide, deepep, deepep-low-latency.", default="vllm", choices=EXPERT_KERNELS)
    weight_dtype: OptText = field("free", "Number format of the weights alone (int4, mxfp4).", default=None, metavar="FORMAT")
    # fmt: on

    @property
    def copies(self) -> float:
        """Copies of experts that are held."""
        return self.experts + self.redundant_experts

    def operation(self, chip: HardwareSpec, lift: PlainLift) -> Quantities:
        """With --redundant-experts, copies balance the ranks and the busiest one is busier by chance alone."""
        from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, busiest_rank_share, experts_op
        from rooflinecli.price.chip import Chip
        from rooflinecli.quantization.formats import formats
        from rooflinecli.questions.kernel.operations import alone

        f = formats(self.dtype, None, self.weight_dtype, chip.peak, chip.name)
        tokens, d, wide, count, top, ranks, split, copies = sizes(
            lift, T=self.tokens, D=self.d_model, F=self.expert_width, E=self.experts, k=self.top_k,
            ep=self.ep, tp=self.tp, redundant=self.redundant_experts,
        )  # fmt: skip
        shape = ExpertShape(d, wide / split, UNGATED if self.gated is False else GATED, count + copies, top)
        imbalance = None if self.expert_imbalance is None else sizes(lift, I=self.expert_imbalance)[0]
        share = busiest_rank_share(tokens, shape, ranks, self.redundant_experts > 0, imbalance)
        stored = ExpertStorage(f.expert_weight, f.matmul_input, f.activation, f.compute, f"{f.expert_format}@{self.library}")
        op = experts_op("experts", tokens, shape, stored, ranks, share)
        assert op.routed is not None
        answer = alone(op, self.dtype, Chip(chip, lift))
        answer.values |= {
            "busiest_over_even": share, "rows": op.routed.rows, "experts_with_work": op.routed.active, "experts_held": shape.experts / ranks,
        }  # fmt: skip
        return answer


QUESTIONS = (Matmul, Attention, Elementwise, GroupedGemm)
