"""What a request itself says about a layout: the fields a plan takes as given, its stages, the ranks that attend for themselves."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.specs.request import Request


def attention_dp_sizes(request: Request, tp: Number, dp: Number, ep: Number | None) -> tuple[Number, Number, Number]:
    """tp, dp and ep of a serving plan: with --attention-dp all ranks attend to tokens of their own and share the experts."""
    if not request.attention_dp:
        return tp, dp, 1.0 if ep is None else ep
    return 1.0 + 0.0 * tp, tp * dp, tp * dp if ep is None else ep


def layout(request: Request, phase: str) -> dict[str, Any]:
    """What a plan takes from a request as it is: schedule, ring, shard group, framework, recipe; how experts are served."""
    names = _AS_GIVEN if phase == "train" else (*_AS_GIVEN, *_SERVED)
    given = {name: value for name in names if (value := getattr(request, name)) is not None}
    if request.recompute_modules is not None:
        given["recompute_modules"] = tuple(request.recompute_modules.split(","))
    if request.stages is not None:
        given["stages"] = _stages(request)
    if request.offload is not None:
        given["offload"], _, layers = str(request.offload).partition(":")
        given |= {"offload_layers": float(layers)} if layers else {}
    return given


_AS_GIVEN = (
    "schedule",
    "ring",
    "shard",
    "imbalance",
    "capacity_factor",
    "shared_overlap",
    "dropout",
    "loss_chunks",
    "mlp_chunks",
    "expert_tp",
    "software",
    "recipe",
    "lora_rank",
    "lora_targets",
    "recompute_layers",
)


_SERVED = ("redundant_experts", "exchange", "overlap")


def _stages(request: Request) -> tuple[float, ...]:
    """Layers per stage, in numbers or by a framework's rule. Raises UsageError unless they are whole and add up to the model."""
    if request.stages in ENDS:
        return _counting_ends(request, *ENDS[str(request.stages)])
    try:
        counts = tuple(float(int(part)) for part in str(request.stages).split(","))
    except ValueError:
        raise UsageError(
            f"--layers-per-stage {request.stages}: expected whole numbers such as 11,12,12,11, or {', '.join(ENDS)}",
            "stages",
        ) from None
    layers = request.model.n_layers
    if sum(counts) != layers or min(counts) < 0:
        raise UsageError(
            f"--layers-per-stage {request.stages} adds up to {sum(counts):g}, but {request.model.name} has {layers} layers",
            "stages",
        )
    if request.pp is not None and len(counts) != int(request.pp):
        raise UsageError(
            f"--layers-per-stage names {len(counts)} stages and --pp {int(request.pp)}; make them agree", "stages"
        )
    return counts


# Megatron-LM's --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split: an end counts as a layer.
ENDS = {"embedding": (1, 0), "loss": (0, 1), "embedding+loss": (1, 1)}


def _counting_ends(request: Request, first: int, last: int) -> tuple[float, ...]:
    """Equal stages of layers and the ends that count as one. Raises UsageError where pp is not given or does not divide them."""
    layers, pp = request.model.n_layers + first + last, int(request.pp or 0)
    if pp < 2 or layers % pp:
        raise UsageError(
            f"--layers-per-stage {request.stages} counts {layers} layers and ends; give a --pp of at least 2 that divides them",
            "stages",
        )
    counts = [layers // pp] * pp
    counts[0], counts[-1] = counts[0] - first, counts[-1] - last
    return tuple(float(count) for count in counts)


def product_of_explicit_sizes(request: Request) -> tuple[int, str]:
    """What the sizes given multiply to, and how they were written."""
    given = {axis: int(value) for axis in ("tp", "pp", "dp", "cp") if (value := getattr(request, axis)) is not None}
    return math.prod(given.values()), " ".join(f"--{axis} {size}" for axis, size in given.items())
