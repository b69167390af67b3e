"""The fields of a layout that a request sets itself: schedule, stages, recipe, how experts are served, attention data parallelism."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.specs.request import Request

# Megatron-LM's --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split: an end counts as a layer.
ENDS = {"embedding": (1, 0), "loss": (0, 1), "embedding+loss": (1, 1)}
_FIELDS = (
    "schedule ring placement shard imbalance capacity_factor shared_overlap ep_overlap tp_overlap dropout "
    "loss_chunks mlp_chunks expert_tp software recipe lora_rank lora_targets recompute_layers"
).split()
_SERVING_FIELDS = (*_FIELDS, "redundant_experts", "exchange", "overlap")


def attention_dp_sizes(request: Request, tp: Number, dp: Number, ep: Number | None) -> tuple[Number, Number, Number]:
    """tp, dp and ep in serving: with --attention-dp every rank attends to its own tokens and all share the experts."""
    if not request.attention_dp:
        return tp, dp, 1.0 if ep is None else ep
    return 1.0 + 0.0 * tp, tp * dp, tp * dp if ep is None else ep


def layout_fields(request: Request, phase: str) -> dict[str, Any]:
    """Fields of a layout as the request has them, parallel sizes apart."""
    names = _FIELDS if phase == "train" else _SERVING_FIELDS
    fields = {name: value for name in names if (value := getattr(request, name)) is not None}
    if request.recompute_modules is not None:
        fields["recompute_modules"] = tuple(request.recompute_modules.split(","))
    if request.stages is not None:
        fields["stages"] = _layers_per_stage(request, request.stages)
    if request.offload is not None:
        fields["offload"], _, layers = str(request.offload).partition(":")
        fields |= {"offload_layers": float(layers)} if layers else {}
    return fields


def stage_count(request: Request) -> Number | None:
    """Pipeline stages as given, or as many as --layers-per-stage names."""
    if request.stages is None or request.stages in ENDS:
        return request.pp
    return float(str(request.stages).count(",") + 1)


def _layers_per_stage(request: Request, written: str) -> tuple[float, ...]:
    """As numbers or by a framework's rule. Raises UsageError unless they are whole and add up to the layers of the model."""
    layers = request.model.n_layers
    if written in ENDS:  # equal stages of layers and the ends that count as one
        first, last = ENDS[written]
        total, pp = layers + first + last, int(request.pp or 0)
        if pp < 2 or total % pp:
            raise UsageError(
                f"--layers-per-stage {written} counts {total} layers and ends; give a --pp of at least 2 that divides them",
                "stages",
            )
        stages = [float(total // pp)] * pp
        stages[0], stages[-1] = stages[0] - first, stages[-1] - last
        return tuple(stages)
    try:
        counts = tuple(float(int(part)) for part in written.split(","))
    except ValueError:
        raise UsageError(
            f"--layers-per-stage {written}: expected whole numbers such as 11,12,12,11, or {', '.join(ENDS)}", "stages"
        ) from None
    if sum(counts) != layers or min(counts) < 0:
        raise UsageError(
            f"--layers-per-stage {written} adds up to {sum(counts):g}, but {request.model.name} has {layers} layers",
            "stages",
        )
    if request.pp is not None and len(counts) != int(request.pp):
        raise UsageError(
            f"--layers-per-stage names {len(counts)} stages and --pp {int(request.pp)}; make them agree", "stages"
        )
    return counts


def product_of_explicit_sizes(request: Request) -> tuple[int, str]:
    """Product of the parallel sizes given, and how they were written."""
    sizes = {axis: int(value) for axis in ("tp", "pp", "dp", "cp") if (value := getattr(request, axis)) is not None}
    return math.prod(sizes.values()), " ".join(f"--{axis} {size}" for axis, size in sizes.items())
