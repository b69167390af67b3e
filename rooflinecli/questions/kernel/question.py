"""`roofline kernel`: questions about one operation on the roofline."""

from __future__ import annotations

from math import prod
from typing import Any

from rooflinecli.core.errors import ImpossibleValue, UsageError, unknown
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.units import duration
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Switch, Text, field


# fmt: off
class KernelChip(Group):
    """The chip, the number format, and a time that was measured."""

    hw: Text = field("name", "A chip or system (`roofline hardware`).")
    dtype: Text = field("free", "Number format.", default="bf16", metavar="FORMAT")
    measured: OptNumber = field("time", "A measured time such as '0.51 ms'; refused when it beats the floor.", default=None)


class KernelEngine(Group):
    """Whose kernels."""

    engine: OptText = field("free", "Whose kernels: vllm, sglang, trtllm, llamacpp, gpt-fast ...", default=None, metavar="NAME")


class Kernel(KernelChip, Calculator):
    """One operation, and the time that was measured of it."""

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.specs.hardware import load_hardware

        found = self.operation(load_hardware(self.hw), lift)
        if self.measured is not None and not lift.traced:
            if self.measured < found["floor_s"]:
                raise ImpossibleValue(
                    f"--measured {self.text_of(type(self).measured)}: impossible; the floor of this operation is {duration(found['floor_s'])}. "
                    "Check the sizes, the dtype, and that the clock waited for the device"
                )
            found["measured_s"] = self.measured
        return found

    def operation(self, chip: Any, lift: PlainLift) -> Values:
        """The operation on the chip."""
        raise NotImplementedError(self.verb)


class Matmul(KernelEngine, Kernel):
    """x[M, K] @ w[K, N]: FLOPs, bytes, intensity, bottleneck, floor and expected time."""

    verb = "kernel matmul"
    m: Number = field("count", "Rows (tokens).", positional=True)
    k: Number = field("count", "Contracted dimension.", positional=True)
    n: Number = field("count", "Columns.", positional=True)
    activation_quantization: Text = field("free", "Input of a narrow matmul: dynamic (a pass of its own), static or none.", default="dynamic", metavar="CHOICE", former=("quantisation",))

    def operation(self, chip: Any, lift: PlainLift) -> Values:
        from rooflinecli.questions.kernel.answer import kernel_matmul

        return kernel_matmul(self.m, self.k, self.n, self.dtype, chip, lift, self.engine, self.activation_quantization)


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

    def check(self) -> None:
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise UsageError(f"--kv-heads {self.kv_heads:g} does not divide --heads {self.heads:g}; use a divisor")
        if self.causal and self.q != self.kv:
            raise UsageError(f"--causal needs as many queries as keys, got {self.q:g} and {self.kv:g}; use --full, or --decode for one query")

    def operation(self, chip: Any, lift: PlainLift) -> Values:
        from rooflinecli.questions.kernel.answer import kernel_attention

        return kernel_attention(
            self.batch, self.q, self.kv, self.heads, self.kv_heads or self.heads, self.head_dim, bool(self.causal), self.decode,
            self.fused is not False, self.dtype, chip, lift=lift, engine=self.engine,
        )


class Elementwise(Kernel):
    """An elementwise or normalization pass: bytes in, bytes out."""

    verb = "kernel elementwise"
    elements: Text = field("free", "Elements of the result, e.g. 1e7 or 2048x8192.", positional=True)
    reads: Number = field("real", "Tensors of that size read.", default=1.0, least=0, metavar="COUNT")
    writes: Number = field("real", "Tensors of that size written.", default=1.0, least=0, metavar="COUNT")
    flops_per_element: Number = field("real", "FLOPs per element.", default=1.0, least=0, metavar="COUNT")

    def check(self) -> None:
        if not self.reads + self.writes:
            raise UsageError("--reads 0 and --writes 0 move nothing; give one of them above zero")

    def operation(self, chip: Any, lift: PlainLift) -> Values:
        from rooflinecli.questions.kernel.answer import kernel_elementwise
        from rooflinecli.specs.parse_values import size

        count = prod(size("elements", part) for part in self.elements.lower().split("x"))
        return kernel_elementwise(
            count, self.dtype, chip, flops_per_element=self.flops_per_element, reads=self.reads, writes=self.writes, lift=lift
        )


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
    expert_imbalance: OptNumber = field("real", "Slots of the busiest rank over the mean, instead of what routing makes of it.", default=None, least=0, former=("imbalance",))
    library: Text = field("free", "Whose kernels: vllm, sglang, trtllm, trtllm-wide, deepep, deepep-low-latency.", default="vllm", metavar="CHOICE")
    weight_dtype: OptText = field("free", "Number format of the weights alone (int4, mxfp4).", default=None, metavar="FORMAT")

    def check(self) -> None:
        from rooflinecli.specs.engine import EXPERT_KERNELS

        if self.library not in EXPERT_KERNELS:
            raise unknown("library", self.library, EXPERT_KERNELS, option="library")
        if self.top_k > self.experts:
            raise UsageError(f"--top-k {self.top_k:g} is more than --experts {self.experts:g}; a token visits each expert once")
        if (self.experts + self.redundant_experts) % self.ep:
            raise UsageError(f"--ep {self.ep:g} does not divide {self.experts + self.redundant_experts:g} experts; use a divisor, or other --redundant-experts")
        if self.expert_imbalance is not None and self.expert_imbalance < 1:
            raise UsageError(f"--expert-imbalance {self.expert_imbalance:g}: the busiest rank has at least the mean; give 1 or more")

    def operation(self, chip: Any, lift: PlainLift) -> Values:
        from rooflinecli.questions.kernel.grouped_gemm import kernel_grouped

        return kernel_grouped(
            self.tokens, self.d_model, self.expert_width, self.experts, self.top_k, chip, ep=self.ep, tp=self.tp,
            redundant=self.redundant_experts, balanced=self.redundant_experts > 0, gated=self.gated is not False,
            imbalance=self.expert_imbalance, dtype=self.dtype, weight_dtype=self.weight_dtype, library=self.library, lift=lift,
        )
# fmt: on


QUESTIONS = (Matmul, Attention, Elementwise, GroupedGemm)
