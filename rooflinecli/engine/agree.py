"""Options that are wrong by themselves or beside each other, whatever the layout: refused before anything is chosen."""

from __future__ import annotations

from rooflinecli.engine import legal
from rooflinecli.engine.scene import Scene
from rooflinecli.errors import UsageError, unknown
from rooflinecli.phases import recompute
from rooflinecli.specs.hardware import load_defaults
from rooflinecli.specs.plan import RECOMPUTE


def check(scene: Scene) -> None:
    """Raises UsageError with the flag and the remedy."""
    _bounds(scene)
    _recomputation(scene)
    r = scene.request
    if r.software is not None and r.software not in frameworks(scene):
        raise unknown("software", r.software, frameworks(scene))
    if r.offload == "optimizer":
        _ = scene.chip.host_link
    legal.check(scene)


def _bounds(scene: Scene) -> None:
    r = scene.request
    for flag, value in (
        ("-n", r.devices),
        ("--tp", r.tp),
        ("--pp", r.pp),
        ("--dp", r.dp),
        ("--cp", r.cp),
        ("--ep", r.ep),
        ("--micro-batch", r.micro_batch),
        ("--virtual-stages", r.virtual_stages),
        ("--batch", r.batch),
        ("--prompt", r.prompt),
        ("--seq", r.seq),
        ("--shard", r.shard),
        ("--recompute-layers", r.recompute_layers),
        ("--imbalance", r.imbalance),
        ("--lora-rank", r.lora_rank),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{flag} {value:g}: must be at least 1")
    for flag, value in (("--output", r.output), ("--tokens", r.tokens), ("--price", r.price)):
        if value is not None and value < 0:
            raise UsageError(f"{flag} {value:g}: must not be negative")
    if r.recompute and r.recompute not in RECOMPUTE:
        raise UsageError(f"--recompute {r.recompute}: expected {', '.join(RECOMPUTE)}")
    if r.zero is not None and r.zero not in (0, 1, 2, 3):
        raise UsageError(f"--zero {r.zero}: expected 0, 1, 2 or 3")
    if not 0 < r.utilisation <= 1:
        raise UsageError(f"--utilisation {r.utilisation:g}: a share of time between 0 and 1")


def _recomputation(scene: Scene) -> None:
    r = scene.request
    for module in r.recompute_modules.split(",") if r.recompute_modules else ():
        if module not in recompute.MODULES:
            raise unknown("--recompute-modules", module, tuple(recompute.MODULES))
    if r.recompute_modules is not None and r.recompute != "selective":
        raise UsageError("--recompute-modules says what selective recomputation repeats; add --recompute selective")
    if r.recompute_layers is not None and r.recompute != "full":
        raise UsageError("--recompute-layers says how many layers full recomputation covers; add --recompute full")


def frameworks(scene: Scene) -> list[str]:
    """Training frameworks that the efficiency tables of a chip or of its kind tell apart."""
    tables = [scene.chip.spec.efficiency, load_defaults(scene.chip.spec.kind).efficiency]
    names = {
        name
        for table in tables
        for kind in ("framework", "tp_collective", "step")
        for name in table.get("training", {}).get(kind, {})
    }
    return sorted(names | {"any"})
