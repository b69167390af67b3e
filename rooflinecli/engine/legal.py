"""What a plan must satisfy before it is priced, and the parts of it that a request gives outright."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.engine.scene import Scene
from rooflinecli.errors import UsageError, unknown
from rooflinecli.formulas import constraints
from rooflinecli.phases import recompute
from rooflinecli.specs.hardware import load_defaults
from rooflinecli.specs.plan import RECOMPUTE
from rooflinecli.specs.request import Request

_AS_GIVEN = (
    "schedule",
    "ring",
    "shard",
    "imbalance",
    "dropout",
    "offload",
    "software",
    "recipe",
    "lora_rank",
    "lora_targets",
    "recompute_layers",
)


def layout(request: Request) -> dict[str, Any]:
    """What a plan takes from a request as it is: schedule, ring, shard group, framework, recipe."""
    given = {name: value for name in _AS_GIVEN if (value := getattr(request, name)) is not None}
    if request.recompute_modules is not None:
        given["recompute_modules"] = tuple(request.recompute_modules.split(","))
    if request.stages is not None:
        given["stages"] = _stages(request)
    return given


def _stages(request: Request) -> tuple[float, ...]:
    """Layers per stage. Raises UsageError unless they are whole numbers that add up to the model."""
    try:
        counts = tuple(float(int(part)) for part in str(request.stages).split(","))
    except ValueError:
        raise UsageError(f"--stages {request.stages}: expected whole numbers such as 11,12,12,11") from None
    layers = request.model.n_layers
    if sum(counts) != layers or min(counts) < 0:
        raise UsageError(
            f"--stages {request.stages} adds up to {sum(counts):g}, but {request.model.name} has {layers} layers"
        )
    if request.pp is not None and len(counts) != int(request.pp):
        raise UsageError(f"--stages names {len(counts)} stages and --pp {int(request.pp)}; make them agree")
    return counts


def heads(scene: Scene) -> list[int]:
    return [g.axes["N"] for g in scene.book.layers if "N" in g.axes]


def no_layout(scene: Scene, devices: int) -> str:
    r = scene.request
    given = {k: int(v) for k, v in (("tp", r.tp), ("pp", r.pp), ("dp", r.dp), ("cp", r.cp)) if v is not None}
    asked = " ".join(f"--{k} {v}" for k, v in given.items())
    for h in heads(scene):
        if r.tp is not None and not constraints.divides(float(r.tp), float(h)):
            return (
                f"--tp {int(r.tp)} does not divide the {h} attention heads of {scene.spec.name}; use a divisor of {h}"
            )
    if math.prod(given.values()) and devices % math.prod(given.values()):
        return (
            f"{asked} multiply to {math.prod(given.values())}, which does not divide -n {devices}; change one of them"
        )
    if len({"tp", "pp", "dp"} & set(given)) == 3 and math.prod(given.values()) != devices:
        return f"{asked} multiply to {math.prod(given.values())}, not to -n {devices}; change one of them"
    if r.pp is not None and int(r.pp) > scene.book.n_layers:
        return f"--pp {int(r.pp)} exceeds the {scene.book.n_layers} layers of {scene.spec.name}; use fewer stages"
    return (
        f"no layout of {scene.spec.name} on -n {devices} with {asked or 'the sizes given'}: every replica needs a sequence of the batch; "
        "raise --batch, lower --micro-batch or -n"
    )


def check(scene: Scene) -> None:
    """Refuse sizes that are not sizes. Raises UsageError with the flag and the remedy."""
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
    for h in heads(scene):
        if r.tp is not None and h % int(r.tp):
            raise UsageError(no_layout(scene, int(r.devices or r.tp)))
    if r.ep is not None and r.ep > 1:
        experts = {g.axes["E"] for g in scene.book.layers if g.moe}
        if not experts:
            raise UsageError(f"--ep {int(r.ep)}: {scene.spec.name} has no experts; leave --ep out")
        if any(e % int(r.ep) for e in experts):
            raise UsageError(
                f"--ep {int(r.ep)} does not divide the {max(experts)} experts of {scene.spec.name}; use a divisor"
            )
        if r.dp is not None and int(r.dp) % int(r.ep):
            raise UsageError(
                f"--ep {int(r.ep)} does not divide --dp {int(r.dp)}: experts are spread over data-parallel replicas; change one"
            )
    _check_training(scene)
    if r.pp is not None and int(r.pp) > scene.book.n_layers:
        raise UsageError(no_layout(scene, int(r.devices or 1)))
    limit = scene.spec.max_context
    if scene.spec.positions.kind == "learned" and limit:
        for flag, value in (("--prompt plus --output", scene.prompt + scene.output), ("--seq", scene.seq)):
            given = r.seq is not None if flag == "--seq" else r.prompt is not None or r.output is not None
            if given and float(value) > limit:
                raise UsageError(
                    f"{flag} {float(value):g} exceeds the {limit} learned positions of {scene.spec.name}; shorten it"
                )


def _check_training(scene: Scene) -> None:
    """Refuse training options that cannot be laid out. Raises UsageError with the flag and the remedy."""
    r = scene.request
    for flag, value in (
        ("--shard", r.shard),
        ("--recompute-layers", r.recompute_layers),
        ("--imbalance", r.imbalance),
        ("--lora-rank", r.lora_rank),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{flag} {value:g}: must be at least 1")
    for module in r.recompute_modules.split(",") if r.recompute_modules else ():
        if module not in recompute.MODULES:
            raise unknown("--recompute-modules", module, tuple(recompute.MODULES))
    if r.recompute_modules is not None and r.recompute != "selective":
        raise UsageError("--recompute-modules says what selective recomputation repeats; add --recompute selective")
    if r.recompute_layers is not None and r.recompute != "full":
        raise UsageError("--recompute-layers says how many layers full recomputation covers; add --recompute full")
    if r.stages is not None:
        _stages(r)
    if r.shard is not None and r.dp is not None and int(r.dp) % int(r.shard):
        raise UsageError(f"--shard {int(r.shard)} does not divide --dp {int(r.dp)}; use a divisor")
    if r.virtual_stages is not None and r.virtual_stages > 1 and r.pp is not None:
        if int(r.pp) == 1:
            raise UsageError(
                f"--virtual-stages {int(r.virtual_stages)} interleaves pipeline stages; give --pp at least 2, or leave it out"
            )
        if int(r.pp * r.virtual_stages) > scene.book.n_layers:
            raise UsageError(
                f"--pp {int(r.pp)} x --virtual-stages {int(r.virtual_stages)} exceeds the {scene.book.n_layers} layers of "
                f"{scene.spec.name}; use fewer"
            )
    if r.software is not None and r.software not in frameworks(scene):
        raise unknown("software", r.software, frameworks(scene))
    if r.offload == "optimizer":
        _ = scene.chip.host_link


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
