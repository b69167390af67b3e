"""Rules of a legal layout: one list for estimate, the choice of a layout, sweep, search and check (legality.yaml).

A rule has a name (what must hold, for a sweep's table and a search's counts), the sizes it concerns, a truth value (a mask where
sizes are arrays), and a sentence with the remedy for whoever gave the sizes. What a pipeline schedule needs stands in its own file.
The fields that a request sets itself come first: schedule, stages, recipe, how experts are served, attention data parallelism.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterator
from functools import cache, partial
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.expressions import Met, Scope, conditions
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, one
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas.constraints import divides, within
from rooflinecli.formulas.schedule import microbatch_count
from rooflinecli.parallel import pipeline
from rooflinecli.specs.layout import AXES, SIZES, Layout
from rooflinecli.specs.request import Request
from rooflinecli.specs.snapshots import packaged

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
    if request.pp is not None or request.stages is None or request.stages in ENDS:
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
    return counts


def product_of_explicit_sizes(request: Request) -> tuple[int, str]:
    """Product of the parallel sizes given, and how they were written."""
    sizes = {axis: int(value) for axis in ("tp", "pp", "dp", "cp") if (value := getattr(request, axis)) is not None}
    return math.prod(sizes.values()), " ".join(f"--{axis} {size}" for axis, size in sizes.items())


MIN_CAPACITY = 1e-3  # of an even load: a capacity factor of zero drops every token


@dataclass(slots=True, eq=False, repr=False)
class LegalityRule:
    """`holds` where the layout follows it; `sizes` are the layout fields that decide; `say` is called for a scalar only.

    `option` is the one to change, where it is not the first of `sizes`.
    """

    name: str
    sizes: tuple[str, ...]
    holds: Number
    say: Callable[[], str]
    option: str = ""

    @property
    def refusal(self) -> UsageError:
        """The error for a layout that was asked for, with the option to change."""
        return UsageError(self.say(), self.option or next(iter(self.sizes), "").replace("_", "-"))


@cache
def _conditions(kind: str, schedule: str = "", framework: str = "") -> Callable[..., Iterator[Met]]:
    """The rules of training with a pipeline schedule, or of serving, as a function; or those of what a framework launches."""
    rows = [row for row in packaged(__file__)["rules"] if row.get("in", kind) == kind]
    if framework:
        rows = [row for row in packaged(__file__, "launched")["rules"] if framework in row["of"].split()]
    elif kind == "train":
        rows += pipeline.schedule_named(schedule)["needs"]
    return conditions(rows, packaged(__file__)["let"], _NAMES, "ctx, phase, broken, layout", Layout)


def rules(ctx: EstimateContext, layout: Layout, phase: str, broken: bool = False) -> Iterator[LegalityRule]:
    """Every rule for a layout of `phase` but memory, or those that it breaks; sizes are scalars or arrays."""
    kind = "train" if phase == "train" else "serving"
    for row, each, holds in _conditions(kind, layout.schedule)(ctx, phase, broken, layout):
        known = {**_NAMES, "ctx": ctx, "layout": layout, "phase": phase, "each": each}
        names = Scope(known, packaged(__file__)["let"], layout)
        say, option = partial(row["say"].format_map, _Plain(names)), names.worked(row.get("option", ""))
        sizes = tuple(row.get("sizes", "").split())
        yield LegalityRule(row["name"].format_map(names), sizes, holds, say, option)


def launched(ctx: EstimateContext, layout: Layout, given: Container[str]) -> Iterator[LegalityRule]:
    """What the named framework launches (launched.yaml) of layouts that are chosen; a rule whose sizes are all `given` leaves no choice."""
    framework = (ctx.request.software or "").partition("+")[0]
    for row, _, holds in _conditions("train", framework=framework)(ctx, "train", False, layout) if framework else ():
        flags = [size.replace("_", "-") for size in row["sizes"].split()]
        if not all(flag in given for flag in flags):
            name = f"{framework} {row['name']}"
            say = f"--framework {name}; free --{' or --'.join(flags)}, or name another"
            yield LegalityRule(name, tuple(row["sizes"].split()), holds, partial(str, say))


class _Plain:
    """The values of a scope without their derivations, for a sentence."""

    def __init__(self, names: Scope):
        self.names = names

    def __getitem__(self, name: str) -> object:
        found = self.names[name]
        return [num.value(part) for part in found] if isinstance(found, tuple) else num.value(found)


def first_violation(ctx: EstimateContext, layout: Layout, phase: str) -> LegalityRule | None:
    """The first rule that a layout breaks, None where it is legal."""
    return next(rules(ctx, layout, phase, broken=True), None)


def all_hold(rules: list[LegalityRule]) -> Number:
    """Where every rule holds."""
    ok: Number = True
    for rule in rules:
        ok = rule.holds & ok
    return num.value(ok)


def most_violated_rule(broken: list[LegalityRule]) -> LegalityRule:
    """Of the rules that candidates broke, the one that most of them did; the first of equals."""
    counts = Counter(rule.name for rule in broken)
    return max(broken, key=lambda rule: counts[rule.name])


def check(ctx: EstimateContext) -> None:
    """Check the sizes that were given, whatever the open ones become. Raises UsageError with the flag and the remedy."""
    r = ctx.request
    given = {name: float(value) for name in SIZES if (value := getattr(r, name)) is not None}
    if r.attention_dp and r.phases != ("train",):
        given |= zip(("tp", "dp", "ep"), attention_dp_sizes(r, r.tp or 1, r.dp or 1, r.ep), strict=True)
        given = {name: float(size) for name, size in given.items() if name != "ep" or r.ep is not None}
    for phase in r.phases if "decode" not in r.phases else (p for p in r.phases if p != "prefill"):
        layout = Layout(**{**given, **layout_fields(r, phase)})
        for rule in rules(ctx, layout, phase, broken=True):
            if set(rule.sizes) <= set(given):
                raise rule.refusal


def most_zero(ctx: EstimateContext, layout: Layout) -> int:
    """The highest ZeRO stage of the layout's framework."""
    return int(num.value(ctx.training_constants("framework", layout).sharding))


def _widest_group(layout: Layout, phase: str) -> Number:
    """Devices that the widest group with anything to communicate spans; serving replicas communicate nothing."""
    widest: Number = 1.0
    stride = layout.stride
    for axis in AXES if phase == "train" else ("tp", "pp", "ep"):
        n = getattr(layout, axis)
        if axis == "ep" and phase != "train":
            n, stride["ep"] = layout.expert_replicas, layout.tp * layout.cp
        widest = num.maximum(widest, num.where(n > 1, n * stride[axis], 1.0))
    return widest


_NAMES = {  # of the rules, besides those of the layout
    "MIN_CAPACITY": MIN_CAPACITY,
    **{function.__name__: function for function in (any, float, isinstance, len, one, divides, within)},
    "num": num,
    "most_zero_of": most_zero,
    "microbatch_count": microbatch_count,
    "widest_group": _widest_group,
    "tower_heads": lambda ledger: [(n, tower.ledger.spec.name) for tower in ledger.towers for n in tower.ledger.heads],
    "encoders_of_prompt": lambda ledger: [
        (t.length, t.ledger.spec) for t in ledger.towers if t.ledger.spec.reads == "source"
    ],
    "feedforwards": lambda ctx: [layer.feedforward for layer in ctx.spec.layers],
}
