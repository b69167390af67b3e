"""The constants of training that published steps determine: the override of each, the rows it moves, and its range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rooflinecli.validate.published_training import model

Row = dict[str, Any]
EAGER, FSDP = ("llm-foundry", "pytorch"), ("llm-foundry", "pytorch", "torchtitan", "deepspeed", "xtuner")
DEEPSPEED = ("deepspeed", "xtuner")  # eager layers of its own
MEGATRON = ("megatron-bridge", "arctic", "nemo-2025", "megatron-2025", "megatron-2026")
AMPERE, HOPPER, BLACKWELL, ULTRA = ("a100",), ("h100", "h200"), ("b200", "gb200"), ("b300", "gb300")
X86, GRACE = ("h100", "h200", "b200", "b300"), ("gb200", "gb300")
OLDER_TPU = ("tpu-v4", "tpu-v5")


@dataclass(frozen=True)
class FreeConstant:
    """A constant: the path it overrides (efficiency.CLASS.NAME, or one variant's), the rows it moves, its range, and its value where no
    row determines it: a number, or the name of a related constant whose value is then taken."""

    path: str
    moves: Callable[[Row], bool]
    low: float
    high: float
    unknown: float | str

    @property
    def override(self) -> str:
        return f"efficiency.{self.path}"

    @property
    def rate(self) -> bool:
        """Whether it is the rate of a kernel on a chip, for which other chips give a prior."""
        return self.path.startswith(("prefill_attention", "matmul", "grouped_matmul"))


def software(*names: str) -> Callable[[Row], bool]:
    """Rows of these frameworks, whatever their options."""
    return lambda row: row["plan"].get("software", "any").partition("+")[0] in names


def _on(chips: tuple[str, ...], *names: str) -> Callable[[Row], bool]:
    """Rows on these chips, of these frameworks where they are named."""
    return lambda row: row["hardware"].startswith(chips) and (not names or software(*names)(row))


def _in(dtype: str, chips: tuple[str, ...]) -> Callable[[Row], bool]:
    """Rows whose matmuls run in this format on these chips."""
    return lambda row: row["dtype"] == dtype and row["hardware"].startswith(chips)


def _experts(chips: tuple[str, ...], dtype: str = "") -> Callable[[Row], bool]:
    return lambda row: moe(row) and row["hardware"].startswith(chips) and dtype in ("", row["dtype"])


def moe(row: Row) -> bool:
    """Whether the model of a row is a mixture of experts."""
    return any(layer.feedforward.kind == "moe" for layer in model(row).layers)


def _option(name: str) -> Callable[[Row], bool]:
    """Rows of a framework with this option."""
    return lambda row: f"+{name}" in row["plan"].get("software", "")


def _host(chips: tuple[str, ...], *names: str) -> Callable[[Row], bool]:
    """Mixtures of experts on hosts of one kind, in some generations of Megatron."""
    return lambda row: moe(row) and _on(chips, *names)(row)


FREE = {
    "eager_traffic": FreeConstant("framework.traffic", software(*EAGER), 1, 6, 1),
    "deepspeed_traffic": FreeConstant("framework.traffic", software(*DEEPSPEED), 1, 8, "eager_traffic"),
    "nemo_traffic": FreeConstant("framework.traffic", software("nemo-2024"), 1, 6, 1),
    "accumulation_bytes": FreeConstant("framework.accumulate", software(*FSDP), 4, 120, 12),
    "misaligned_scores": FreeConstant(
        "scores.compute",
        lambda r: bool(not r["plan"].get("flash", True) and r["model"]["d_model"] // r["model"]["heads"] % 8),
        0.01,
        0.5,
        0.5,
    ),
    "host_per_moe_layer": FreeConstant(
        "step.per_moe_layer", _host(X86, "megatron-bridge", "megatron-2025"), 1e-4, 2e-2, 1e-3
    ),
    "host_2025_grace": FreeConstant("step.per_moe_layer", _host(GRACE, "megatron-2025"), 1e-4, 2e-2, 1e-3),
    "ampere_matmul": FreeConstant("matmul.any.compute", _on(AMPERE), 0.2, 1.0, 0.58),
    "hopper_matmul": FreeConstant("matmul.any.compute", _on(HOPPER), 0.2, 1.0, 0.58),
    "blackwell_matmul": FreeConstant("matmul.any.compute", _on((*BLACKWELL, *ULTRA)), 0.2, 1.0, 0.58),
    "older_tpu_matmul": FreeConstant("matmul.any.compute", _on(OLDER_TPU), 0.2, 1.0, 0.65),
    "trillium_matmul": FreeConstant("matmul.any.compute", _on(("tpu-v6e",)), 0.2, 1.0, 0.65),
    "ironwood_matmul": FreeConstant("matmul.any.compute", _on(("tpu-v7",)), 0.2, 1.0, 0.65),
    "hopper_fp8": FreeConstant("matmul.fp8.compute", _in("fp8", HOPPER), 0.1, 1.0, 0.52),
    "blackwell_fp8": FreeConstant("matmul.fp8.compute", _in("fp8", BLACKWELL), 0.1, 1.0, 0.52),
    "ultra_fp8": FreeConstant("matmul.fp8.compute", _in("fp8", ULTRA), 0.1, 1.0, 0.52),
    "ironwood_fp8": FreeConstant("matmul.fp8.compute", _in("fp8", ("tpu-v7",)), 0.1, 1.0, 0.65),
    "rowwise_fp8": FreeConstant("matmul.fp8@torchtitan+rowwise.compute", _option("rowwise"), 0.1, 1.0, 0.52),
    "blackwell_fp4": FreeConstant("matmul.fp4.compute", _in("fp4", (*BLACKWELL, *ULTRA)), 0.1, 1.0, 0.377),
    "hopper_experts": FreeConstant("grouped_matmul.compute", _experts(HOPPER), 0.05, 1.0, 0.5),
    "blackwell_experts": FreeConstant(
        "grouped_matmul.any.compute", _experts((*BLACKWELL, *ULTRA), "bf16"), 0.05, 1.0, 0.45
    ),
    "blackwell_experts_fp8": FreeConstant("grouped_matmul.fp8.compute", _experts(BLACKWELL, "fp8"), 0.05, 1.0, 0.45),
    "ultra_experts_fp8": FreeConstant("grouped_matmul.fp8.compute", _experts(ULTRA, "fp8"), 0.05, 1.0, 0.45),
    "ironwood_experts": FreeConstant("grouped_matmul.any.compute", _experts(("tpu-v7",), "bf16"), 0.05, 1.0, 0.3),
    "ironwood_experts_fp8": FreeConstant("grouped_matmul.fp8.compute", _experts(("tpu-v7",), "fp8"), 0.05, 1.0, 0.3),
    "expert_biases": FreeConstant(
        "experts.bias_passes",
        lambda r: "gpt-oss" in str(r["model"].get("name")) and not r["hardware"].startswith("tpu"),
        1,
        60,
        4,
    ),
    "hopper_attention": FreeConstant(
        "prefill_attention.compute", _on(HOPPER, *MEGATRON, "nemo-2024", "maxtext"), 0.05, 1.0, 0.64
    ),
    "blackwell_attention": FreeConstant("prefill_attention.compute", _on(BLACKWELL, *MEGATRON), 0.05, 1.0, 0.64),
    "ultra_attention": FreeConstant("prefill_attention.compute", _on(ULTRA, *MEGATRON), 0.05, 1.0, 0.64),
    "older_tpu_attention": FreeConstant("prefill_attention.compute", _on(OLDER_TPU), 0.05, 1.0, 0.5),
    "trillium_attention": FreeConstant("prefill_attention.compute", _on(("tpu-v6e",)), 0.05, 1.0, 0.5),
    "ironwood_attention": FreeConstant("prefill_attention.compute", _on(("tpu-v7",)), 0.05, 1.0, 0.5),
    "flash_2": FreeConstant("prefill_attention.compute", _on(HOPPER, "torchtitan", "pytorch"), 0.05, 1.0, 0.45),
    "triton_hopper": FreeConstant("prefill_attention.compute", _on(HOPPER, "llm-foundry"), 0.05, 1.0, "flash_2"),
    "triton_ampere": FreeConstant("prefill_attention.compute", _on(AMPERE, "llm-foundry"), 0.05, 1.0, 0.495),
    "triton_gradient": FreeConstant("prefill_attention.gradient", software("llm-foundry"), 0.1, 2.0, 0.16),
    "rails": FreeConstant(
        "fsdp_collective.rails", lambda r: software("deepspeed", "xtuner")(r) and r["plan"]["zero"] == 3, 0.02, 1.0, 1.0
    ),
    "stragglers": FreeConstant(
        "straggler.per_doubling", lambda row: not row["hardware"].startswith("tpu"), 1e-3, 3e-2, 9e-3
    ),
    "async_tp": FreeConstant("tp_collective.overlap", _option("async"), 0.05, 1.0, 0.5),
    "internevo_traffic": FreeConstant("framework.traffic", software("internevo"), 1, 8, "eager_traffic"),
    "internevo_turns": FreeConstant("dp_collective.per_hop", software("internevo"), 1e-4, 1e-1, 1e-4),
    "xtuner_attention": FreeConstant("prefill_attention.compute", software("xtuner"), 0.05, 1.0, 0.5),
    "xla_exchange": FreeConstant("dp_collective.overlap", software("maxtext"), 0.01, 1.0, 1.0),
}
