"""The layouts that the chooser looks at: splits of the devices into the sizes left open, then what training leaves open beside.

Not every legal layout (`roofline search` has those): tensor parallelism stays inside the innermost network domain, context
parallelism and virtual stages are taken as given, experts stay whole or are spread as far as the innermost domain or the replicas
go, microbatches up to 4, ZeRO 1 or 3, recomputation none or full.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core.num import Number, divisors
from rooflinecli.engine import explicit_layout, legality
from rooflinecli.engine.context import Scene
from rooflinecli.engine.rules import Rule
from rooflinecli.specs.layout import WHOLE, Plan
from rooflinecli.specs.request import Request

MOST = 128  # largest size of one axis that is tried
LARGEST = 65536  # devices


def candidates(scene: Scene, phase: str, devices: int, refused: list[Rule] | None = None) -> Iterator[Plan]:
    """Legal layouts of the open sizes on so many devices; `refused` collects the rules that the others broke."""
    for split in _splits(scene, phase, devices):
        for sized in _micro_batches(scene, split) if phase == "train" else [split]:
            rule = legality.broken(scene, sized, phase)
            if rule is None:
                yield from _training_variants(scene, sized) if phase == "train" else [sized]
            elif refused is not None:
                refused.append(rule)


def _splits(scene: Scene, phase: str, devices: int) -> Iterator[Plan]:
    """Sizes of the axes that multiply to `devices`."""
    r, training = scene.request, phase == "train"
    cp, whole = int(r.cp or 1), _undivided(r, training)
    stages = r.pp if r.stages is None or r.stages in explicit_layout.ENDS else float(str(r.stages).count(",") + 1)
    for tp in _sizes(r.tp, devices):
        if r.tp is None and not _divides_heads(scene, tp):
            continue
        if r.tp is None and tp > innermost(scene):
            continue
        for pp in _sizes(stages, devices // max(tp * cp, 1)):
            dp, rest = divmod(devices, tp * cp * pp)
            if rest or dp < 1 or (r.dp is not None and dp != int(r.dp)):
                continue
            if not training and not _worth_serving(scene, devices, tp, pp, dp):
                continue
            if training:
                for ep in _expert_groups(scene, tp, dp):
                    yield whole.but(tp=float(tp), pp=float(pp), dp=float(dp), ep=ep)
            elif not r.attention_dp:
                yield whole.but(tp=float(tp), pp=float(pp), dp=float(dp))
            else:
                ranks = explicit_layout.attention_parallel(r, float(tp), float(dp), float(r.ep) if r.ep is not None else None)
                yield whole.but(tp=ranks[0], pp=float(pp), dp=ranks[1], ep=ranks[2])


def _expert_groups(scene: Scene, tp: int, dp: int) -> list[float]:
    """Expert groups of training: as given; else experts whole, spread over the replicas of the innermost domain, or over all that share them."""
    r, experts = scene.request, scene.book.experts
    if r.ep is not None or not experts:
        return [float(r.ep or 1)]
    groups = [e for e in divisors(dp) if not any(x % e for x in experts)]
    inside = [e for e in groups if e * tp <= innermost(scene)]
    return [float(e) for e in sorted({1, max(inside, default=1), groups[-1]})]


def untried(scene: Scene) -> str:
    """What of training layouts the candidates leave out, of the sizes that are open."""
    r = scene.request
    lacks = {
        "tp beyond the fast domain": r.tp is None
        and scene.request.devices is not None
        and scene.request.devices > innermost(scene),
        "cp": r.cp is None,
        "other ep": r.ep is None and bool(scene.book.experts),
        "virtual stages": r.virtual_stages is None,
        "micro-batches above 4": r.micro_batch is None,
        "ZeRO-2": r.zero is None,
        "shard groups": r.shard is None and r.zero in (None, 3),
        "selective recomputation": r.recompute is None,
    }
    return ", ".join(name for name, out in lacks.items() if out) or "nothing else"


def _undivided(r: Request, training: bool) -> Plan:
    """What every split has in common."""
    return WHOLE.but(
        cp=float(r.cp or 1),
        ep=float(r.ep or 1),
        micro_batch=float(r.micro_batch or 1),
        virtual_stages=float(r.virtual_stages or 1),
        sequence_parallel=bool(r.sequence_parallel),
        zero=1 if training else 0,
        flash=r.flash,
        **explicit_layout.layout(r, "train" if training else "serve"),
    )


def _worth_serving(scene: Scene, devices: int, tp: int, pp: int, dp: int) -> bool:
    """One replica where the count is open; and stages only where tensor parallelism cannot fill the inner domain."""
    r = scene.request
    if scene.engine.splits_layers and r.tp is None:
        return tp == 1 and (r.dp is not None or dp == 1)
    if r.attention_dp:
        return r.tp is not None or tp == 1
    if r.dp is None and dp > int(r.ep or 1) and r.devices is None:
        return False
    if r.tp is not None:
        return True
    widest = min(innermost(scene), devices)
    return not (r.pp is None and pp > 1 and tp < widest and _divides_heads(scene, widest))


def _micro_batches(scene: Scene, split: Plan) -> Iterator[Plan]:
    """Larger microbatches are tried on a given device count only: the fewest devices that hold a model hold it with one sequence."""
    given = scene.request.micro_batch is not None or scene.request.devices is None
    for size in [split.micro_batch] if given else [1.0, 2.0, 4.0]:
        yield split if size == split.micro_batch else split.but(micro_batch=size)


def _training_variants(scene: Scene, base: Plan) -> Iterator[Plan]:
    """ZeRO stages and recomputation left open: no rule speaks of them."""
    r = scene.request
    parallel = base.tp > 1 if r.sequence_parallel is None else r.sequence_parallel
    for zero in [r.zero] if r.zero is not None else ([1, 3] if base.dp > 1 else [0]):
        for recompute in [r.recompute] if r.recompute else ["none", "full"]:
            yield base.but(zero=zero, recompute=recompute, sequence_parallel=parallel)


def _sizes(given: Number | None, devices: int) -> list[int]:
    if given is not None:
        return [int(given)]
    return [size for size in range(1, min(devices, MOST) + 1) if devices % size == 0]


def _divides_heads(scene: Scene, tp: int) -> bool:
    return not any(heads % tp for heads in scene.book.heads)


def innermost(scene: Scene) -> int:
    """The largest tensor-parallel group tried: the innermost network domain, at most 16."""
    if not scene.chip.levels:
        return 1
    return int(min(scene.chip.levels[0].size, 16 if scene.chip.levels[0].level.kind == "torus" else 8))


def reach(scene: Scene) -> int:
    """Most devices that are tried on a chip."""
    return int(min(scene.chip.levels[-1].size if scene.chip.levels else 1, LARGEST))
