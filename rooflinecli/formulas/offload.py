"""Weights that stay in the memory of the host: what of a model does, and what it costs to bring them over for a prompt; caches of idle
sessions by the tier of memory that keeps them.

Source of the forms: ggml-org/llama.cpp (-ngl, --n-cpu-moe); published runs of gpt-oss-120b and a 14B with some layers on the host.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_NGL = "ggml-org/llama.cpp -ngl: layers on the device, the others on the host"


@formula("h", "1", _NGL)
def host_layers(layers: Number, on_device: Number) -> Number:
    """Share of the layers that the host keeps."""
    return 1 - num.minimum(on_device, layers) / layers


@formula("h_x", "1", "ggml-org/llama.cpp --n-cpu-moe: experts of further layers on the host, in addition to those of its own layers")  # fmt: skip
def host_experts(layers: Number, share: Number) -> Number:
    """Share of the experts that the host keeps: those of its layers, and `layers` as a share of the others."""
    return layers + (1 - layers) * share


@formula("B_d", "B", "definition")
def on_device(size: Number, share: Number) -> Number:
    """What stays on the device of a part of which the host keeps `share`."""
    return size * (1 - share)


@formula("ngl", "1", "as many layers, each with its part of the cache, as the room takes; embedding and head go to the host")  # fmt: skip
def layers_that_fit(room: Number, layers: Number, size: Number) -> Number:
    """Layers of a stack of `size` bytes that `room` bytes of a device hold."""
    return num.maximum(num.minimum(num.floor(room * layers / size), layers), 0)


@formula("n_cpu_moe", "1", "as few layers' experts on the host as let the rest fit")
def experts_that_leave(missing: Number, layers: Number, size: Number) -> Number:
    """Layers whose experts must go, of `layers` with `size` bytes of experts, where `missing` bytes do not fit."""
    return num.ceil(num.maximum(missing, 0) * layers / size)


@formula("t_copy", "s", "long prompts are worked on by the device, which reads the host's weights once per micro-batch")
def copy_time(size: Number, passes: Number, link: Number, efficiency: Number) -> Number:
    """Seconds that `passes` passes over weights of the host take over a link of `link` bytes per second."""
    return passes * size / (link * efficiency)


@formula("n_idle", "sessions", "sessions whose cache fits, less the running sequences")
def idle_on_device(largest: Number, batch: Number) -> Number:
    """Sessions between two turns whose cache stays on the device."""
    return num.maximum(largest - batch, 0)


@formula("p_tier", "1", "least recently used down: the sessions that nearer places have no room for, while this one has")  # fmt: skip
def tier_hit_fraction(idle: Number, nearer: Number, here: Number) -> Number:
    """Share of idle sessions whose cache is in a place, `nearer` being what places before it keep."""
    return num.maximum(num.minimum(here, idle - nearer), 0) / num.maximum(idle, 1e-9)
