"""Microbatches, pipeline bubbles and stages."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_NARAYANAN = "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters, section 2.2"


@formula("n_mb", "microbatches", _NARAYANAN)
def microbatch_count(batch: Number, dp: Number, micro_batch: Number) -> Number:
    """Microbatches per replica and step."""
    return num.ceil(batch / (dp * micro_batch))


@formula("t_bubble", "s", _NARAYANAN + "; a stage's idle time at the ends of the step")
def pipeline_bubble(pp: Number, virtual_stages: Number, stage_time: Number) -> Number:
    """(pp - 1)/v x the time of one microbatch on one stage."""
    return (pp - 1) / virtual_stages * stage_time


@formula("t_bubble", "s", "Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2.3: ZB-H1, which keeps the memory of 1F1B")  # fmt: skip
def zero_bubble(pp: Number, virtual_stages: Number, stage_time: Number, weight_gradient_time: Number) -> Number:
    """(pp - 1)/v (F + B - W): weight gradients, W, wait for the idle slots; W is taken out of the stage time F + B + W."""
    return (pp - 1) / virtual_stages * num.maximum(stage_time - 2 * weight_gradient_time, 0)


@formula(
    "t_bubble",
    "s",
    "Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 6: no bubble inside a step where F, B and W take equally long, in the memory of 1F1B; "
    "else F + B - 2W as of ZB-2p (section 2.3). A step that ends for all devices at once, as clipping by the global norm asks, also shows "
    "their staggered start, half a forward stage each (simulated event by event)",
)
def zero_bubble_v(pp: Number, stage_time: Number, weight_gradient_time: Number) -> Number:
    """(pp - 1)(F/2 + F + B - 2W): with t = F + B + W and F = B, (pp - 1)((t - W)/4 + t - 3W)."""
    start = (stage_time - weight_gradient_time) / 4
    return (pp - 1) * (start + num.maximum(stage_time - 3 * weight_gradient_time, 0))


@formula(
    "t_bubble",
    "s",
    "DeepSeek-V3 Technical Report, table 2: (PP/2 - 1)(F&B + B - 3W); F&B taken as F + B, and F as the half of a stage's time "
    "that is not weight gradients",
)
def dual_pipe(pp: Number, stage_time: Number, weight_gradient_time: Number) -> Number:
    """(pp/2 - 1)(3/2 t - 5/2 W): with t = F + B, B = (t + W)/2."""
    idle = num.maximum(1.5 * stage_time - 2.5 * weight_gradient_time, 0)
    return num.maximum(pp / 2 - 1, 0) * idle


@formula("t_stage", "s", "layers take their share of the time of all layers, in addition to the other work of the stage")  # fmt: skip
def stage_time(layers: Number, all_layers: Number, layers_time: Number, ends: Number) -> Number:
    """Time of a stage with its share of the layers, and the embedding or head on it."""
    return layers / all_layers * layers_time + ends


@formula("t_stage", "s", "layers that pp divides: an even split, and the larger end on its stage")
def even_stage(layers_time: Number, pp: Number, stem: Number, head: Number) -> Number:
    """Time of a micro-batch on the slowest of equal stages."""
    return layers_time / pp + num.maximum(stem, head)


@formula("t_stage", "s", "no split is faster than its mean, nor than an end alone")
def least_stage(mean: Number, stem: Number, head: Number) -> Number:
    """Lower bound on the slowest stage of any split."""
    return num.maximum(mean, num.maximum(stem, head))


@formula("t_stage", "s", "a stage holds whole layers")
def whole_layers(least: Number, end: Number, layer: Number) -> Number:
    """Least time from `least` on of a stage with this end and whole layers."""
    return end + num.ceil((least - end) / layer - 1e-9) * layer


@formula("L", "layers", "first and last stage make room for embedding and head")
def layers_within(stage: Number, layer: Number, stem: Number, head: Number, pp: Number) -> Number:
    """Whole layers that pp stages work off within this time each."""
    first, last = num.floor((stage - stem) / layer + 1e-9), num.floor((stage - head) / layer + 1e-9)
    return (pp - 2) * num.floor(stage / layer + 1e-9) + first + last


@formula("f_mtp", "1", "DeepSeek-V3, section 2.2: each further token has a layer of its own and shares the head")
def predicting_factor(depth: Number, layer: Number, model: Number) -> Number:
    """1 + D (t_layer + t_head)/t_model: work with multi-token prediction over work without."""
    return 1 + depth * layer / model


@formula("beta", "1", _NARAYANAN + "; bubble over the whole step")
def bubble_fraction(pp: Number, microbatches: Number, virtual_stages: Number) -> Number:
    """(pp-1)/(v m + pp - 1): share of a step that a stage idles."""
    return (pp - 1) / (virtual_stages * microbatches + pp - 1)


@formula("l", "layers", "the fullest stage of an even split")
def layers_per_stage(layers: Number, pp: Number) -> Number:
    """Layers on the fullest pipeline stage."""
    return num.ceil(layers / pp)


@formula("n_node", "nodes", "definition")
def node_count(devices: Number, per_node: Number) -> Number:
    """Hosts that hold a number of devices."""
    return num.ceil(devices / per_node)
