"""Layers, experts and head that the host CPU keeps (llama.cpp -ngl, --n-cpu-moe).

Decode runs the host's layers on the host CPU, at the rate of its memory. Prefill runs on the device, to which the host's weights are
copied once per micro-batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number, one
from rooflinecli.formulas import offload as f
from rooflinecli.memory import DeviceParameters
from rooflinecli.price.chip import Chip
from rooflinecli.quantization.formats import Formats, formats
from rooflinecli.specs.engine import ServingEngine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.request import Request

if TYPE_CHECKING:
    from rooflinecli.engine.context import EstimateContext

DEFAULT_HOST = "ryzen-9-9950x"  # two channels of DDR5-5600
# Fraction of the link's rate: published runs took 0.8 to 1.4 of the time of copying every expert, since routing is skewed
LINK = 1.0
LINK_ERROR = 0.4


@dataclass(frozen=True, eq=False, repr=False)
class HostShare:
    """The host CPU, its formats, and its fractions of layers, experts and head."""

    chip: Chip
    formats: Formats
    layers: Number
    experts: Number
    head: Number


def host_of(
    request: Request, lift: PlainLift, engine: ServingEngine, own: Formats, spec: ModelSpec
) -> HostShare | None:
    """What the host keeps by --gpu-layers and --expert-offload; None where it keeps nothing.

    Raises UsageError for a device without host memory of its own, and for experts of a model without experts.
    """
    if request.gpu_layers is None and request.experts_on is None:
        return None
    if request.hardware.host_link is None or request.hardware.kind == "cpu":
        raise UsageError(
            f"{request.hardware.name} has no host whose memory is apart from its own; leave out --gpu-layers and --expert-offload",
            "offload-layers" if request.experts_on is None else "experts-on",
        )
    total = float(spec.n_layers)
    layers: Number = 0.0
    if request.gpu_layers is not None:
        layers = f.host_layers(total, lift("ngl", request.gpu_layers, "1", "--gpu-layers"))
    experts = f.host_experts(layers, _experts(request.experts_on, spec))
    chip = Chip(request.host or load_hardware(DEFAULT_HOST), lift, ideal=request.efficiency == "ideal", engine=engine)
    return HostShare(chip, _formats(chip, own), layers, experts, num.ceil(layers))


def _experts(written: str | None, spec: ModelSpec) -> float:
    """Fraction of the MoE layers whose experts the host keeps: `host` for all, `host:N` for those of N layers."""
    if written is None or written == "device":
        return 0.0
    moe_layers = float(sum(g.repeat for g in spec.layers if g.feedforward.kind == "moe"))
    place, _, count = written.partition(":")
    if place != "host" or (count and not count.isdigit()):
        raise UsageError(f"--expert-offload {written}: expected device, host or host:LAYERS", "experts-on")
    if not moe_layers:
        raise UsageError(
            f"--expert-offload {written}: {spec.name} has no experts; --gpu-layers keeps layers on the host",
            "experts-on",
        )
    return min(float(count), moe_layers) / moe_layers if count else 1.0


def _formats(chip: Chip, own: Formats) -> Formats:
    """The model on the host CPU: computed in the widest format it has, the weights as they are stored."""
    wide = next((d for d in ("bf16", "fp16", "fp32") if d in chip.spec.peak), "fp32")
    stored = ("weight", "expert_weight", "outer_weight", "head_weight", "kv", "state")
    kept = {name: getattr(own, name) for name in stored}
    return replace(formats(wide, None, None, chip.spec.peak, chip.spec.name), **kept)


def on_hosts(ctx: EstimateContext, layout: Layout) -> tuple[Layout, Number]:
    """A layout with hosts for ranks, since the devices of one host share its memory; and the replicas that share a host."""
    if one(layout.devices):
        return layout, 1.0
    per_host = ctx.chip.devices_per_host
    tp, hosts = num.ceil(layout.tp / per_host), num.ceil(layout.devices / per_host)
    ep = num.maximum(layout.ep * tp / layout.tp, 1.0)
    return layout.with_changes(tp=tp, ep=ep, expert_tp=None), num.maximum(layout.dp / hosts, 1.0)


def on_device(params: DeviceParameters, host: HostShare | None) -> DeviceParameters:
    """Parameters that the device keeps. llama.cpp keeps the embedding on the host with the head."""
    if host is None:
        return params
    inner, outer = f.on_device(params.inner, host.layers), f.on_device(params.outer, host.head)
    return replace(params, inner=inner, outer=outer, experts=f.on_device(params.experts, host.experts))


def host_embedding_bytes(ctx: EstimateContext) -> float:
    """Bytes of an embedding that the engine keeps in host memory: 0 for a tied one, which is the head."""
    spec = ctx.spec
    apart = spec.lm_head and not spec.tied_embeddings
    if not (apart and ctx.engine.looks_up_on_host) or ctx.request.hardware.host_link is None:
        return 0.0
    stored = spec.quantization.widths if spec.quantization is not None else None
    width = stored.embedding if stored is not None else ctx.formats.outer_weight
    return float(spec.vocab_size * (spec.embedding_dim or spec.d_model) * width)


def offload_to_fit(ctx: EstimateContext, layout: Layout, reserve: Number) -> dict[str, Any]:
    """Request fields that offload only what does not fit: experts first, then layers; {} where all fits.

    `reserve` bytes stay free; the cache is that of prompt and output.
    """
    params, own = ctx.parameters(layout), ctx.formats
    cache = memory.kv_cache(ctx.ledger, layout, own, 1.0, ctx.prompt + ctx.output, ctx.lift)
    experts = float(params.experts * own.expert_weight)
    layers, outer = float(params.inner * own.weight), float(params.outer * own.outer_weight)
    room = float(ctx.chip.capacity - reserve)
    missing = layers + experts + outer - host_embedding_bytes(ctx) + float(cache) - room
    if missing <= 0:
        return {}
    moe_layers = float(sum(g.repeat for g in ctx.spec.layers if g.feedforward.kind == "moe"))
    if experts and missing <= experts:
        return {"experts_on": f"host:{int(f.experts_that_leave(missing, moe_layers, experts))}"}
    stack = layers + experts + float(cache)
    return {"gpu_layers": float(f.layers_that_fit(room, float(ctx.spec.n_layers), stack))}


def host_bytes(params: DeviceParameters, cache: Number, own: Formats, host: HostShare) -> Number:
    """Weights and cache in the host's memory."""
    kept = params.inner * host.layers, params.outer * host.head, params.experts * host.experts
    return memory.weights(DeviceParameters(*kept), own, 1.0) + cache * host.layers
