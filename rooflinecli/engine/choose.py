"""The chosen layout: the sizes a user left open, on the devices given or on the smallest number that fits the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, divisors
from rooflinecli.core.text import either, plural
from rooflinecli.core.units import si
from rooflinecli.engine import legality
from rooflinecli.engine.context import EstimateContext, whole_model
from rooflinecli.engine.evaluate import priced, time_at_bound
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.engine.phase_answer import LayoutAnswer, layout_answer
from rooflinecli.engine.residency import resident_memory, whole_training_state
from rooflinecli.engine.serving_load import sequences, waits_for_cache
from rooflinecli.specs.layout import LEFT_OPEN, WHOLE, Layout
from rooflinecli.specs.request import MOST as ALL


@dataclass(frozen=True, eq=False, repr=False)
class ChosenLayout:
    """A layout, whether the device count was chosen, and one sentence on why it is this one; sequences per replica where those change with it."""

    layout: Layout
    chosen: bool
    reason: str
    fits: bool
    batch: Number | None = None

    @cached_property
    def shown(self) -> LayoutAnswer:
        """Its part of the answer."""
        return layout_answer(self.layout, self.chosen, self.reason)


@dataclass(frozen=True, eq=False, repr=False)
class Candidate:
    """A legal layout, whether every phase fits, whether it does with some requests in a queue for the cache, and the error where a replica
    does not sustain the request rate at all."""

    layout: Layout
    fits: bool
    unsustained: Infeasible | None = None
    queues: bool = False

    def needs(self, ctx: EstimateContext, phases: tuple[str, ...]) -> float:
        """Bytes per device in the phase that needs most."""
        if self.unsustained is not None:
            return math.inf
        return max(float(resident_memory(ctx, self.layout, phase).total_bytes) for phase in phases)


def choose(ctx: EstimateContext, phases: tuple[str, ...]) -> ChosenLayout:
    """The best of the candidates in which every one of `phases` fits (training alone, or those of serving).

    On the devices given, or on the smallest number that fits. Raises UsageError when the sizes given
    cannot be laid out at all, Infeasible when they fit on no device count.
    """
    broken: list[LegalityRule] = []
    if ctx.request.devices is not None:
        return _on(ctx, phases, int(ctx.request.devices), broken)
    smaller, any_legal, unsustained = list[Candidate](), False, list[Infeasible]()
    product, _ = legality.product_of_explicit_sizes(ctx.request)
    open_sizes = None in (ctx.request.tp, ctx.request.pp, ctx.request.dp)
    most = reach(ctx) // product if open_sizes else 1  # doubled as far as the network reaches
    for devices in (product << i for i in range(max(most, 1).bit_length())):
        tried = evaluate_candidates(ctx, phases, devices, broken)
        unsustained += [one.unsustained for one in tried if one.unsustained is not None]
        best = _best(ctx, phases, tried)
        if best is not None:
            if phases == ("train",) and (trained := _trained(ctx, devices, tried)) is not None:
                best = Candidate(trained.layout, True)
            why = _why_count(ctx, best.layout, best.needs(ctx, phases), smaller)
            if phases != ("train",):
                best = _staged(ctx, phases, best)
            return ChosenLayout(best.layout, True, why, True)
        smaller, any_legal = tried, any_legal or bool(tried)
    if not any_legal:
        legality.check(ctx)
        if broken:
            raise legality.most_violated_rule(broken).refusal
    if queued := _queued(ctx, smaller, chosen=True):
        return queued
    if unsustained:
        raise unsustained[-1]
    raise Infeasible(_does_not_fit(ctx, phases, min((one.needs(ctx, phases) for one in smaller), default=math.inf)))


def _on(ctx: EstimateContext, phases: tuple[str, ...], devices: int, broken: list[LegalityRule]) -> ChosenLayout:
    """The best on the devices given, or the one that comes nearest to fitting."""
    if phases == ("train",) and (layout := _trained(ctx, devices)) is not None:
        return layout
    tried = evaluate_candidates(ctx, phases, devices, broken)
    if not tried:
        raise _no_layout(ctx, devices, broken)
    best = _best(ctx, phases, tried)
    if best is not None:
        staged = _staged(ctx, phases, best)
        return ChosenLayout(staged.layout, False, _why(ctx, tried, staged is not best), True)
    if queued := _queued(ctx, tried, chosen=False):
        return queued
    unsustained = [one.unsustained for one in tried if one.unsustained is not None]
    if len(unsustained) == len(tried):
        raise unsustained[0]
    least = min(tried, key=lambda one: one.needs(ctx, phases))
    reason = f"none of the {len(tried)} layouts tried fits on {devices}; shown is the one that needs least memory"
    if len(tried) == 1:
        reason = f"it does not fit on {devices}"
    return ChosenLayout(least.layout, False, reason, False)


def _trained(ctx: EstimateContext, devices: int, tried: list[Candidate] | None = None) -> ChosenLayout | None:
    """The fastest training layout on the devices; None where nothing is left open or nothing fits."""
    if all(getattr(ctx.request, name) is not None for name in LEFT_OPEN["train"]):
        return None
    from rooflinecli.engine import training_layout

    found = training_layout.refined(ctx, devices, None if tried is None else [one.layout for one in tried])
    if found is None or not found[1]:
        return None
    layout, _, count = found
    why = f"the fastest{_by(ctx.request.bound)} of {count} layouts tried; `roofline search` tries every one"
    return ChosenLayout(layout, False, why, True)


def _best(ctx: EstimateContext, phases: tuple[str, ...], tried: list[Candidate]) -> Candidate | None:
    fitting = [one for one in tried if one.fits]
    if len(fitting) < 2 or phases == ("train",):  # whose layout is refined from those tried
        return fitting[0] if fitting else None
    return min(fitting, key=lambda one: _rank(ctx, one.layout))


def _queued(ctx: EstimateContext, tried: list[Candidate], chosen: bool) -> ChosenLayout | None:
    """The layout of most tokens per second among those whose cache holds some of the requests in flight, while the others queue."""
    if not (queueing := [one.layout for one in tried if one.queues]):
        return None
    best = max(queueing, key=lambda layout: float(priced(ctx, layout, "decode").tokens_per_s))
    return ChosenLayout(best, chosen, "no layout tried holds all requests in flight; this one answers most", True)


def _staged(ctx: EstimateContext, phases: tuple[str, ...], best: Candidate) -> Candidate:
    """Under a load, stages in place of the tensor ranks of a serving layout where that is faster: passes over prompts of others then
    wait for fewer collectives (without NVLink vLLM advises the same)."""
    r, layout = ctx.request, best.layout
    if (
        r.concurrency is ALL
        or (r.concurrency is None and r.qps is None)
        or r.tp is not None
        or r.pp is not None
        or layout.tp == 1
    ):
        return best
    further = (
        _candidate(ctx, phases, layout.with_changes(tp=layout.tp / stages, pp=layout.pp * stages))
        for stages in divisors(int(layout.tp))[1:]
    )
    legal = (one for one in further if legality.first_violation(ctx, one.layout, phases[-1]) is None)
    return min((best, *(one for one in legal if one.fits)), key=lambda one: _rank(ctx, one.layout)[1:])


def evaluate_candidates(
    ctx: EstimateContext, phases: tuple[str, ...], devices: int, broken: list[LegalityRule]
) -> list[Candidate]:
    """Every candidate on `devices`; `broken` collects the rules that other layouts break."""
    return [_candidate(ctx, phases, layout) for layout in candidates(ctx, phases[-1], devices, broken)]


def _candidate(ctx: EstimateContext, phases: tuple[str, ...], layout: Layout) -> Candidate:
    try:
        fits = all(resident_memory(ctx, layout, phase).fits for phase in reversed(phases))
        queues = fits and phases != ("train",) and bool(waits_for_cache(ctx, layout))
        return Candidate(layout, fits and not queues, queues=queues)
    except Infeasible as error:
        return Candidate(layout, False, error)


def _rank(ctx: EstimateContext, layout: Layout) -> tuple[Number, ...]:
    """Sort key. Pipeline stages only where memory needs them, since replicas serve more users; then what memory holds where as many
    sequences as it does are asked for, else the time between tokens."""
    if ctx.request.concurrency is ALL:
        return layout.pp, -sequences(ctx, layout) * layout.dp, layout.tp
    shared = 1 if layout.ep == 1 or ctx.request.ep is not None else SHARED
    return layout.pp, shared * time_at_bound(priced(ctx, layout, "decode"), ctx.request.bound), layout.tp


def _why(ctx: EstimateContext, tried: list[Candidate], staged: bool) -> str:
    """Why this serving layout on the devices given; `staged`: stages took the place of tensor ranks."""
    r = ctx.request
    if len(tried) == 1:
        return "the layout given" if None not in (r.tp, r.pp, r.dp) else "the only layout of the sizes left open"
    if sum(one.fits for one in tried) == 1 and not staged:
        return f"the only one of {len(tried)} layouts tried that fits"
    if r.concurrency is ALL:
        return f"of {len(tried)} layouts tried the one whose memory holds most sequences, with the fewest stages"
    with_stages = "with stages in place of tensor ranks" if staged else "with the fewest stages"
    return f"the fastest {with_stages}{_by(r.bound)} of {len(tried)} layouts tried; `roofline search` tries every one"


def _by(bound: str) -> str:
    """By what layouts are ranked."""
    return {"pessimistic": " by the pessimistic bound", "floor": " by the floor"}.get(bound, " by the expected time")


def _why_count(ctx: EstimateContext, best: Layout, needs: float, smaller: list[Candidate]) -> str:
    """Why this device count: how full each device is, and what half of them would have been."""
    per_device = f"{si(needs, 'B')} of {si(float(ctx.chip.capacity), 'B')}"
    product, sizes = legality.product_of_explicit_sizes(ctx.request)
    if best.devices < 2:
        return f"one device holds it: {per_device}"
    if best.devices == product:
        return f"{plural(product, 'device')}, as {sizes} say: {per_device} on each"
    half = "half as many would not fit" if smaller else "half as many have no legal layout"
    return f"smallest power of two that fits: {per_device} on each; {half}"


def _no_layout(ctx: EstimateContext, devices: int, broken: list[LegalityRule]) -> UsageError:
    """Why nothing can be laid out on the devices given. Raises UsageError where a size given could not be laid out on any."""
    legality.check(ctx)
    r = ctx.request
    product, sizes = legality.product_of_explicit_sizes(r)
    first = sizes.partition(" ")[0].removeprefix("--") or "n"
    makes = f"multiply to {product}" if sizes.count("--") > 1 else f"takes {plural(product, 'device')}"
    if devices % product:
        return UsageError(f"{sizes} {makes}, which does not divide -n {devices}; change one of them", first)
    if None not in (r.tp, r.pp, r.dp) and product != devices:
        return UsageError(f"{sizes} {makes}, not -n {devices}; change one of them", first)
    reach_of_chip = next((rule for rule in broken if rule.name.startswith("the network joins")), None)
    if reach_of_chip is not None and devices > reach(ctx):
        return reach_of_chip.refusal
    if broken:
        return legality.most_violated_rule(broken).refusal
    return UsageError(
        f"no layout of {ctx.spec.name} on -n {devices} with {sizes or 'the sizes given'}; change -n or free a size", "n"
    )


def smaller_work(ctx: EstimateContext, phases: tuple[str, ...], devices: float, larger: str) -> str:
    """What makes a question smaller on a number of devices: less work, unless what does not depend on it exceeds their memory, or `larger`."""
    r, train, room = ctx.request, phases == ("train",), devices * float(num.value(ctx.chip.capacity))
    held = whole_training_state(ctx) if train else float(memory.weights(whole_model(ctx.ledger), ctx.formats, 1.0))
    narrower = [] if train else ["store weights in fewer bits (--weight-dtype)"]
    network = [] if ctx.chip.levels else ["add `network:` to the chip's file"]
    if held > room:
        what = "weights, gradients and optimizer" if train else "weights"
        adapters = train and whole_training_state(EstimateContext(replace(r, recipe="lora"))) < room
        remedies = [*(["train adapters (--recipe lora)"] if adapters else narrower), *network, larger]
        return f"{what} alone ({si(held, 'B')}) exceed the {si(room, 'B')} of {plural(int(devices), 'device')}; {either(remedies)}"
    fewer = "" if r.adapters is None or train else "--num-loras, "
    cached = not train and ctx.is_autoregressive and r.kv_dtype is None
    cache = ["narrow the cache (--kv-dtype)"] if cached else []
    return either([f"lower {fewer}--batch or the lengths", *cache, *narrower, *network, larger])


def _does_not_fit(ctx: EstimateContext, phases: tuple[str, ...], least: float) -> str:
    """Why no device count will do; `least`: bytes per device of the leanest layout on the largest count, inf where unknown."""
    r, chip = ctx.request, ctx.chip.spec.name
    what = f"Training of {ctx.spec.name}" if phases == ("train",) else ctx.spec.name
    product, sizes = legality.product_of_explicit_sizes(r)
    most = product if None not in (r.tp, r.pp, r.dp) else reach(ctx)
    needs = (
        "" if math.isinf(least) else f": {si(least, 'B')} of {si(float(ctx.chip.capacity), 'B')} on each at the least"
    )
    remedies = smaller_work(
        ctx, phases, float(num.value(most)), f"free {sizes}" if sizes else "use chips with more memory"
    )
    alone = "" if ctx.chip.levels else ", whose file describes no network"
    return f"{what} does not fit on {most} x {chip}{alone}{needs}; {remedies}"


# --- the nearest alternative where a layout does not fit: the same load on the same devices laid out otherwise, or more devices ---

# Given sizes that are freed, one group after the other: the split, then what training holds with it.
_SPLIT = ("tp", "pp", "dp", "cp", "ep", "virtual_stages", "stages")
_FREED = (_SPLIT, (*_SPLIT, "micro_batch", "zero", "recompute"))


def nearest_feasible(ctx: EstimateContext, phases: tuple[str, ...]) -> ChosenLayout | None:
    """On the devices given: another split, or the sequences spread over replicas; else on more devices, the sizes given kept, replicas
    apart, unless fewer hold it without them. None where nothing fits."""
    nearest = _other_split(ctx, phases) or (None if phases == ("train",) else _as_replicas(ctx, phases))
    if nearest is not None:
        return nearest
    for names in _FREED if phases == ("train",) else _FREED[:1]:
        kept = {name for name in names if name != "dp" and getattr(ctx.request, name) is not None}
        found = list[ChosenLayout]()
        for freed in ({*names} - kept, names) if kept else (names,):
            opened: dict[str, Any] = dict.fromkeys(("devices", *freed))
            with suppress(UsageError, Infeasible):
                found.append(choose(EstimateContext(replace(ctx.request, **opened)), phases))
        if found:
            return min(found, key=lambda one: one.layout.devices)
    return None


def narrower_weights(ctx: EstimateContext) -> dict[str, str]:
    """Options of the engine's narrower weights, where the run has 16 bits and names no format."""
    r = ctx.request
    if ctx.dtype not in ("bf16", "fp16") or r.dtype is not None or r.weight_dtype is not None:
        return {}
    offered = {option: ctx.engine.narrower.get(option, "") for option in ("dtype", "weight-dtype")}
    return {option: to for option, to in offered.items() if to and (to != "fp8" or to in r.hardware.peak)}


def in_narrower_weights(ctx: EstimateContext, layouts: Mapping[str, Layout]) -> str:
    """The option of narrower weights in which the layouts of serving phases fit as they are; empty where none do."""
    for option, to in narrower_weights(ctx).items():
        narrow = replace(ctx.request, dtype=to) if option == "dtype" else replace(ctx.request, weight_dtype=to)
        other = EstimateContext(narrow)
        if all(resident_memory(other, layout, phase).fits for phase, layout in layouts.items()):
            return f"--{option} {to}"
    return ""


def layers_that_fit(ctx: EstimateContext, layout: Layout, phases: tuple[str, ...]) -> int | None:
    """The most layers under the --gpu-layers given that the devices of a layout hold; None where the host has no memory for the rest."""
    for layers in range(int(min(ctx.request.gpu_layers or 0, ctx.spec.n_layers)), -1, -1):
        fewer = EstimateContext(replace(ctx.request, gpu_layers=float(layers)))
        held = [resident_memory(fewer, layout, phase) for phase in phases]
        if fewer.host is not None and all(one.fits for one in held):
            room = num.value(fewer.host.chip.capacity)
            return layers if all(num.value(one.host_bytes or 0.0) <= room for one in held) else None
    return None


def _other_split(ctx: EstimateContext, phases: tuple[str, ...]) -> ChosenLayout | None:
    """Another layout of the devices given for the same load; None where the layout was open to begin with."""
    r = ctx.request
    if r.devices is None and None in (r.tp, r.pp, r.dp):
        return None
    product, _ = legality.product_of_explicit_sizes(r)
    devices = r.devices if r.devices is not None else float(product)
    for names in _FREED if phases == ("train",) else _FREED[:1]:
        if all(getattr(r, name) is None for name in names):
            continue
        freed: dict[str, Any] = dict.fromkeys(names)
        try:
            choice = choose(EstimateContext(replace(r, devices=devices, **freed)), phases)
        except (UsageError, Infeasible):
            continue
        if choice.fits:
            return replace(choice, reason=f"the same {plural(devices, 'device')} laid out otherwise")
    return None


def _as_replicas(ctx: EstimateContext, phases: tuple[str, ...]) -> ChosenLayout | None:
    """The sequences of one replica spread over the fewest replicas that fit, experts over all of them (attention data parallelism)."""
    r = ctx.request
    if r.devices is None or r.concurrency is not None or r.qps is not None or (r.dp or 1) > 1:
        return None
    fields = legality.layout_fields(r, "decode")
    moe = ctx.is_moe
    devices = int(r.devices)
    for dp in (count for count in divisors(devices)[1:] if count <= ctx.batch):
        ep = float(dp if moe else 1)
        layout = Layout(tp=float(devices // dp), dp=float(dp), ep=ep, zero=0, flash=r.flash, **fields)
        batch = num.ceil(ctx.batch / layout.dp)
        smaller = EstimateContext(replace(r, batch=batch))
        legal = legality.first_violation(smaller, layout, phases[-1]) is None
        if legal and all(resident_memory(smaller, layout, phase).fits for phase in phases):
            reason = f"the same {ctx.batch:g} sequences as {layout.dp:.0f} replicas of {batch:.0f}"
            return ChosenLayout(layout, False, reason, True, batch)
    return None


# --- candidates: of a server not every legal layout (`roofline search` has those), since its tensor groups stay inside the scale-up domain ---

MOST = 128  # largest size of one axis that is tried
SHARED = 1.05  # experts are parted where that is faster by more, or needed
LARGEST = 65536  # devices


def candidates(
    ctx: EstimateContext, phase: str, devices: int, broken: list[LegalityRule] | None = None
) -> Iterator[Layout]:
    """Legal layouts of the open sizes on a number of devices; `broken` collects the rules that the others break."""
    if phase == "train":
        from rooflinecli.engine import layout_space  # not loaded by an estimate of serving

        yield from layout_space.few_layouts(ctx, devices, broken)
        return
    for layout in _splits(ctx, devices):
        rule = legality.first_violation(ctx, layout, phase)
        if rule is None:
            yield layout
        elif broken is not None:
            broken.append(rule)


def _splits(ctx: EstimateContext, devices: int) -> Iterator[Layout]:
    """Layouts of a server whose axes multiply to `devices`."""
    r, cp = ctx.request, int(ctx.request.cp or 1)
    common = WHOLE.with_changes(
        cp=float(cp),
        sequence_parallel=bool(r.sequence_parallel),
        zero=0,
        flash=r.flash,
        **legality.layout_fields(r, "serve"),
    )
    for tp in _sizes(r.tp, devices):
        if r.tp is None and (not divides_heads(ctx, tp) or tp > scale_up_domain(ctx)):
            continue
        for pp in _sizes(legality.stage_count(r), devices // max(tp * cp, 1)):
            dp, rest = divmod(devices, tp * cp * pp)
            if rest or dp < 1 or (r.dp is not None and dp != int(r.dp)):
                continue
            for ep in _expert_groups(ctx, tp, dp):
                if not _worth_serving(ctx, devices, tp, pp, dp, ep):
                    continue
                split = common.with_changes(tp=float(tp), pp=float(pp), dp=float(dp), ep=float(ep))
                if r.attention_dp:
                    given = None if r.ep is None else float(r.ep)
                    sizes = legality.attention_dp_sizes(r, float(tp), float(dp), given)
                    split = split.with_changes(tp=sizes[0], dp=sizes[1], ep=sizes[2])
                yield split


def _expert_groups(ctx: EstimateContext, tp: int, dp: int) -> list[int]:
    """Expert-parallel sizes of a server that are tried: as given; else experts whole, over replicas, or over all ranks, as in a search."""
    r = ctx.request
    if r.ep is not None or r.attention_dp or not ctx.is_moe or ctx.engine.splits_layers:
        return [int(r.ep or 1)]
    return sorted({1, dp, tp * dp})


def _worth_serving(ctx: EstimateContext, devices: int, tp: int, pp: int, dp: int, ep: int) -> bool:
    """One replica where the count is open; and stages only where tensor parallelism cannot fill the scale-up domain."""
    r = ctx.request
    if ctx.engine.splits_layers and r.tp is None:
        return tp == 1 and (r.dp is not None or dp == 1)
    if r.attention_dp:
        return r.tp is not None or tp == 1
    if r.dp is None and dp > ep and r.devices is None:
        return False
    if r.tp is not None:
        return True
    widest = min(scale_up_domain(ctx), devices)
    return not (r.pp is None and pp > 1 and tp < widest and divides_heads(ctx, widest))


def _sizes(given: Number | None, devices: int) -> list[int]:
    if given is not None:
        return [int(given)]
    return [size for size in range(1, min(devices, MOST) + 1) if devices % size == 0]


def divides_heads(ctx: EstimateContext, tp: int) -> bool:
    """Whether a tensor-parallel group divides the heads of every attention."""
    return not any(heads % tp for heads in ctx.ledger.heads)


def scale_up_domain(ctx: EstimateContext) -> int:
    """The largest tensor-parallel group tried: the innermost network domain, at most 8, or 16 in a torus."""
    if not ctx.chip.levels:
        return 1
    return int(min(ctx.chip.levels[0].size, 16 if ctx.chip.levels[0].level.kind == "torus" else 8))


def reach(ctx: EstimateContext) -> int:
    """Most devices that are tried on a chip."""
    return int(min(ctx.chip.levels[-1].size if ctx.chip.levels else 1, LARGEST))
