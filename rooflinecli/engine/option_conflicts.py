"""Options that exclude each other or that a model cannot take, whatever the layout: refused before a layout is chosen.

Sizes that no layout can have are `legality.check`'s: called at once where layouts are arrays, else when no candidate is legal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.engine import lora_serving, speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.phases import recompute
from rooflinecli.specs.hardware import load_defaults
from rooflinecli.specs.layout import OFFLOADS
from rooflinecli.specs.options import OPTIONS

_NO_LOAD = "has no rule of how passes wait under a load; --batch says how many inputs a pass takes"
_NO_OUTPUT, _NO_CACHE = "writes no tokens; leave it out", "keeps no cache; leave it out"
NOT_AUTOREGRESSIVE = {  # options of a model that decodes nothing -> why they have no meaning
    "qps": _NO_LOAD,
    "concurrency": _NO_LOAD,
    "output": _NO_OUTPUT,
    "kv_dtype": _NO_CACHE,
    "prefix_hit": _NO_CACHE,
    "kv_tier": _NO_CACHE,
    "sessions": _NO_CACHE,
    "adapters": _NO_OUTPUT,
    "speculate": _NO_OUTPUT,
}
CACHED_PROMPT = ("prefix_hit", "kv_tier", "sessions")  # which need a decoder that reads the prompt itself


def check(ctx: EstimateContext) -> None:
    """Raises UsageError with the option and the remedy."""
    _check_recomputation(ctx)
    r = ctx.request
    if r.software is not None:
        names = frameworks(ctx)
        plain, *options = r.software.split("+")  # options are joined to a framework: torchtitan+async+rowwise
        if not {plain, *(f"{plain}+{option}" for option in options)} <= set(names):
            raise unknown("software", r.software, names, option="software")
    if r.offload is not None and _offloads(r.offload):
        _ = ctx.chip.host_link
        layers = r.offload.partition(":")[2]
        if layers and int(layers) > ctx.ledger.n_layers:
            raise UsageError(
                f"--offload {r.offload}: {r.model.name} has {ctx.ledger.n_layers} layers; give at most as many",
                "offload",
            )
        if ctx.optimizer is not None and ctx.optimizer.steps and r.offload.startswith("optimizer"):
            raise UsageError(
                f"--optimizer {r.optimizer} multiplies matrices, which a host is too slow for; leave --offload {r.offload} out",
                "offload",
            )
    check_autoregressive(ctx)
    speculation.check(ctx)
    if r.kv_tier is not None or r.sessions is not None:
        from rooflinecli.engine import kv_tiers

        kv_tiers.check(ctx)
    lora_serving.check(ctx)


def _check_recomputation(ctx: EstimateContext) -> None:
    r = ctx.request
    for module in r.recompute_modules.split(",") if r.recompute_modules else ():
        if module not in recompute.MODULES:
            raise unknown("--recompute-modules", module, recompute.MODULES, option="recompute-modules")
    if r.recompute_modules is not None and r.recompute != "selective":
        raise UsageError(
            "--recompute-modules says what selective recomputation repeats; add --recompute selective",
            "recompute-modules",
        )
    if r.mlp_chunks is not None and r.recompute != "full":
        raise UsageError("--mlp-chunks tiles what full recomputation runs again; add --recompute full", "mlp-chunks")
    if r.recompute_layers is not None and r.recompute != "full":
        raise UsageError(
            "--recompute-num-layers says how many layers full recomputation covers; add --recompute full",
            "recompute-layers",
        )


def _offloads(written: str) -> bool:
    """Whether anything is offloaded. Raises UsageError for an unknown kind, and for layers other than a number of activations' layers."""
    kind, colon, layers = written.partition(":")
    whole = not colon or (kind.endswith("activations") and layers.isdigit() and int(layers) > 0)
    if kind not in OFFLOADS or not whole:
        raise UsageError(f"--offload {written}: expected {', '.join(OFFLOADS)}, or activations:LAYERS", "offload")
    return kind != "none"


def frameworks(ctx: EstimateContext) -> list[str]:
    """Training frameworks for which the efficiency tables of a chip or of its kind have constants."""
    return _frameworks([ctx.chip.spec.efficiency, load_defaults(ctx.chip.spec.kind).efficiency])


def every_framework() -> list[str]:
    """Training frameworks that any kind of chip has constants for."""
    return _frameworks([load_defaults(kind).efficiency for kind in ("gpu", "tpu")])


def _frameworks(tables: Sequence[Mapping[str, Mapping[str, Mapping[str, object]]]]) -> list[str]:
    names = {
        name
        for table in tables
        for kind in ("framework", "tp_collective", "fsdp_collective", "step", "matmul")
        for name in table.get("training", {}).get(kind, {})
        if kind != "matmul" or "@" in name
    }
    return sorted({name.rpartition("@")[2] for name in names} | {"any"})  # a matmul's are fp8@torchtitan+rowwise


def check_autoregressive(ctx: EstimateContext) -> None:
    """Raises UsageError for the first option whose number nothing reads, because the model does not decode or read its prompt."""
    spec, request = ctx.spec, ctx.request
    if ctx.is_autoregressive:
        for field in CACHED_PROMPT if spec.paired else ():
            if getattr(request, field) is not None:
                name = field.replace("_", "-")
                raise UsageError(
                    f"{OPTIONS[name].flag}: {spec.name} is an encoder with a decoder, and the prompt is read by an encoder "
                    "whose output is no prefix of another's; leave it out",
                    name,
                )
        return
    for field, why in NOT_AUTOREGRESSIVE.items():
        value = getattr(request, field)
        if value is None or (field == "output" and num.plain(value) and num.value(value) == 0):
            continue
        name = field.replace("_", "-")
        raise UsageError(f"{OPTIONS[name].flag}: {_kind(ctx)} and {why}", name)


def _kind(ctx: EstimateContext) -> str:
    return f"{ctx.spec.name} {'is an encoder' if ctx.spec.denoising is None else 'makes images'}"


def supported_phases(ctx: EstimateContext) -> tuple[str, ...]:
    """The phases asked for that the model has. Raises UsageError where decode alone was asked for."""
    phases = ctx.request.phases
    if phases == ("decode",):
        require_decode(ctx, "use --phase prefill or train")
    return tuple(phase for phase in phases if ctx.is_autoregressive or phase != "decode")


def require_decode(ctx: EstimateContext, remedy: str) -> None:
    """Raises UsageError, which ends in the remedy, for a model that does not decode."""
    if not ctx.is_autoregressive:
        raise UsageError(f"{_kind(ctx)} and decodes nothing; {remedy}", "phase")
