"""Options that do not go together, whatever the layout: refused before anything is chosen.

Sizes that no layout can have are `legal.check`'s: asked at once where layouts are arrays, else once nothing was found legal.
"""

from __future__ import annotations

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.engine import autoregressive_only, lora_serving, speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.phases import recompute
from rooflinecli.specs.hardware import load_defaults
from rooflinecli.specs.layout import OFFLOADS


def check(ctx: EstimateContext) -> None:
    """Raises UsageError with the option and the remedy."""
    _recomputation(ctx)
    r = ctx.request
    if r.software is not None and not _named(r.software, frameworks(ctx)):
        raise unknown("software", r.software, frameworks(ctx), option="software")
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
    autoregressive_only.check(ctx)
    speculation.check(ctx)
    if r.kv_tier is not None or r.sessions is not None:
        from rooflinecli.engine import kv_tiers

        kv_tiers.check(ctx)
    lora_serving.check(ctx)


def _recomputation(ctx: EstimateContext) -> None:
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


def _offloads(said: str) -> bool:
    """Whether something goes to the host. Raises UsageError unless that is known, and layers are whole numbers of activations."""
    kind, named, layers = said.partition(":")
    whole = not named or (kind.endswith("activations") and layers.isdigit() and int(layers) > 0)
    if kind not in OFFLOADS or not whole:
        raise UsageError(f"--offload {said}: expected {', '.join(OFFLOADS)}, or activations:LAYERS", "offload")
    return kind != "none"


def _named(software: str, known: list[str]) -> bool:
    """Whether the tables have a framework, and each of the options joined to it (torchtitan+async+rowwise)."""
    plain, *options = software.split("+")
    return plain in known and all(f"{plain}+{option}" in known for option in options)


def frameworks(ctx: EstimateContext) -> list[str]:
    """Training frameworks that the efficiency tables of a chip or of its kind tell apart."""
    tables = [ctx.chip.spec.efficiency, load_defaults(ctx.chip.spec.kind).efficiency]
    names = {
        name
        for table in tables
        for kind in ("framework", "tp_collective", "fsdp_collective", "step", "matmul")
        for name in table.get("training", {}).get(kind, {})
        if kind != "matmul" or "@" in name
    }
    names = {name.rpartition("@")[2] for name in names}  # a matmul's are fp8@torchtitan+rowwise
    return sorted(names | {"any"})
