"""An estimate: the answer in a line, a table of phases, what limits it, memory, cost, and what to know before leaning on it."""

from __future__ import annotations

from collections.abc import Mapping

from rooflinecli.core import num
from rooflinecli.core.record import Json
from rooflinecli.core.text import plural
from rooflinecli.core.units import count, si
from rooflinecli.engine import evaluate, phase_answer
from rooflinecli.questions.estimate.answer_types import OVERLOADED, EstimateAnswer, PriceAnswer, TriedChange, Workload
from rooflinecli.render.blocks import Block, Column, Headline, Note, Page, Pairs, Prose, Table, page, records
from rooflinecli.render.numbers import NONE, amount, around, devices, interval, money, percent, rate, room, text, times
from rooflinecli.specs.prices import STALE_DAYS
from rooflinecli.specs.quantities import DERIVED, Quantity

TIMES = {"prefill": "TTFT", "decode": "ITL", "train": "step"}
PIECES = (
    ("weights_bytes", "weights"),
    ("gradients_bytes", "gradients"),
    ("optimizer_bytes", "optimizer"),
    ("activations_bytes", "activations"),
    ("kv_cache_bytes", "KV cache"),
    ("reserved_bytes", "reserved by the engine"),
)
BAR = 50  # cells of a bar of memory
_PER_MILLION = (
    ("usd_per_million_input_tokens", "input"),
    ("usd_per_million_output_tokens", "output"),
    ("usd_per_million_tokens", "input and output"),
    ("usd_per_million_training_tokens", "training"),
)
_GROUPS = {
    "waiting": "queueing",
    "engine": "scheduling",
    "prefill_interference": "prefill interference",
    "launch_wait": "waiting for launches",
    "host": "host computation",
    "host_copy": "copies from the host",
}
_SMALL = 0.005  # of the time: what is less is not named
_NAMED = 3  # groups of the time on the first screen
_ALONE = 1e3  # times the next resource: beyond it nothing else counts


def view(answer: EstimateAnswer) -> Page:
    """The first screen: the answer, the phases, what limits them and what to try. Every figure is in the JSON too, in full precision."""
    return page(
        [Headline(headline(answer))],
        [_phases(answer)],
        [Pairs(limits(answer))],
        _gap_explanations(answer),
        [
            Prose(m if constraint.endswith(OVERLOADED) else f"does not fit: {m}", indent=2, style="red")
            for m, constraint in {v.message: v.constraint for v in answer.violations}.items()
        ],
        _notes(answer),
        details=[[Prose(_facts(answer), style="dim")], [_breakdown(answer)], [_memory(answer)], [_cost(answer)]],
        about=f"breakdown, memory, cost; --explain {list(answer.timed)[-1]}.time_s derives it",
    )


def limits(answer: EstimateAnswer) -> list[tuple[str, str]]:
    """What each phase waits for, how full the memory is, and the change that helps most; of another verb, for its best row."""
    rows = []
    for name, phase in answer.timed.items():
        ratio = phase.bound_ratio or 0.0
        _, following, *_ = sorted(("compute", "memory", "communication"), key=lambda r: -float(phase.resources_s[r]))
        ahead = "" if ratio > _ALONE else f", {times(ratio)} {following}"
        most = _shares(phase)[: _NAMED if len(answer.timed) == 1 else _NAMED - 1]
        parts = ", ".join(f"{_GROUPS.get(group, group)} {percent(share)}" for share, group in most)
        rows.append((_generated_kind(answer.workload, name) or name, f"{phase.bottleneck} bound{ahead}: {parts}"))
    full = (
        f"{_generated_kind(answer.workload, name) or name} {percent(float(p.memory.total_bytes) / float(p.memory.capacity_bytes))}"
        for name, p in answer.phases.items()
    )
    capacity = next(iter(answer.phases.values())).memory.capacity_bytes
    rows.append(("memory", f"{', '.join(full)} of {room(float(capacity))} per device"))
    rows += [("try", tried(change, answer.workload)) for change in answer.changes_to_try or ()]
    return rows


def tried(change: TriedChange, work: Workload | None = None) -> str:
    """'--dtype fp8: ITL 10.2 ms (-23%), tokens/s +29%'."""
    kind = _generated_kind(work, change.phase) or "token"
    rate = f", {kind}s/s {change.rate_gain_fraction:+.0%}" if abs(change.rate_gain_fraction) > _SMALL else ""
    change_of_time = f"{'-' if change.saved_fraction > 0 else '+'}{percent(abs(change.saved_fraction))}"
    time = f"{_latency_name(work, change.phase)} {text(change.time_s, 'time_s')} ({change_of_time})"
    checked = "; check accuracy" if change.phase == "train" and "fp8" in change.flags else ""
    return f"{change.flags}: {time}{rate}{checked}"


def _generated_kind(work: Workload | None, phase: str) -> str:
    """'image' or 'video' for the phase in which a diffusion model makes one."""
    if work is None or work.diffusion_steps is None or phase != "prefill":
        return ""
    return "image" if work.video_frames is None else "video"


def _latency_name(work: Workload | None, phase: str) -> str:
    """What the time of a phase is called: TTFT, ITL, step; 'an image' or '4 videos' of a diffusion model."""
    kind = _generated_kind(work, phase)
    if not kind or work is None:
        return "latency" if phase == "prefill" and work is not None and not work.output else TIMES[phase]
    return f"{work.batch:g} {kind}s" if work.batch != 1 else f"{'an' if kind == 'image' else 'a'} {kind}"


def _throughput(work: Workload, name: str, phase: phase_answer.PhaseAnswer) -> str:
    """'943 tok/s', '0.44 images/s'."""
    if kind := _generated_kind(work, name):
        return f"{float(work.batch or 1) / float(phase.time_s):.3g} {kind}s/s"
    return rate(float(phase.tokens_per_s))


def _shares(phase: phase_answer.PhaseAnswer) -> list[tuple[float, str]]:
    """Shares of the expected time by group, the largest first, without what is next to nothing."""
    total = float(phase.time_s)
    return sorted(((float(t) / total, g) for g, t in phase.breakdown_s.items() if t > _SMALL * total), reverse=True)


def headline(answer: EstimateAnswer) -> str:
    """The answer in a sentence for each kind of work: layout, latency, throughput, dollars, bottleneck."""
    parts = []
    for work in ("serving", "training"):
        phases = {name: p for name, p in answer.phases.items() if (name == "train") == (work == "training")}
        if not phases:
            continue
        parts.append(f"{work.title()} on {devices([*phases.values()][-1].layout_of_phase.to_dict())}")
        violated = [constraint for phase, constraint in _violated(answer) if phase in phases]
        if not violated:
            parts[-1] += f": {_serving(answer, phases) if work == 'serving' else _training(answer)}"
        else:
            overloaded = all(constraint.endswith(OVERLOADED) for constraint in violated)
            parts[-1] += " does not sustain the request rate." if overloaded else " does not fit."
    load = answer.workload
    one = load.weight_dtype == load.dtype == load.matmul_dtype
    formats = load.dtype if one else f"weights in {load.weight_dtype}; matmuls in {load.matmul_dtype}"
    return f"{answer.model.name} on {answer.hardware.name}, {formats}. {' '.join(parts)}"


def _violated(answer: EstimateAnswer) -> list[tuple[str, str]]:
    """The phases that do not fit or are overloaded, each with its constraint."""
    return [(violation.constraint.partition(".")[0], violation.constraint) for violation in answer.violations]


def _serving(answer: EstimateAnswer, phases: Mapping[str, phase_answer.PhaseAnswer]) -> str:
    work, (name, last) = answer.workload, [*phases.items()][-1]
    times = ", ".join(
        f"{_latency_name(work, phase)} {around(p.time_s, p.interval_s, 'time_s')}"
        for phase, p in phases.items()
        if phase in answer.timed
    )
    bottleneck = [p for phase, p in phases.items() if phase in answer.timed][-1].bottleneck
    each = [f"{money(float(usd))}/M {what}" for key, what in _PER_MILLION[:2] if (usd := answer.cost[key]) is not None]
    price = f"{', '.join(each)} tokens" if each else ""
    if each and (kind := _generated_kind(work, name)):
        price = f"{money(_usd_of_one(answer, last))} per {kind}"
    price = f", {price}{_offer_kind(answer)}" if price else ""
    return f"{times}, {_throughput(work, name, last)}{price}; {bottleneck} bound."


def _offer_kind(answer: EstimateAnswer) -> str:
    """The kind of offer behind the dollars, where it is not on demand: ' (reserved-3y)'."""
    return "" if answer.price is None or answer.price.kind == "on-demand" else f" ({answer.price.kind})"


def _usd_of_one(answer: EstimateAnswer, phase: phase_answer.PhaseAnswer) -> float:
    """Dollars of an image or a video: those of the tokens that its passes go over."""
    tokens = float(phase.tokens_per_s) * float(phase.time_s) / float(answer.workload.batch or 1)
    return float(answer.cost.usd_per_million_input_tokens or 0.0) * tokens / 1e6


def _training(answer: EstimateAnswer) -> str:
    phase = answer.phases["train"]
    assert isinstance(phase, phase_answer.TrainAnswer)
    run, usd = "", None if answer.cost.training_usd is None else float(answer.cost.training_usd)
    if phase.run_s is not None:
        spent = "" if usd is None else f" for {money(usd)}{_offer_kind(answer)}"
        steps = f"{text(phase.steps, 'steps')} step{'' if phase.steps == 1 else 's'}"
        run = f", {steps} in {text(phase.run_s, 'time_s')}{spent}"
    if phase.run_s is not None and phase.elapsed_s is not None:
        spent = "" if answer.cost.elapsed_usd is None else f" and {money(float(answer.cost.elapsed_usd))}"
        run += f" (with failures {text(phase.elapsed_s, 'time_s')}{spent}, {text(phase.elapsed_interval_s, 'time_s')})"
    return (
        f"step {around(phase.time_s, phase.interval_s, 'time_s')}, "
        f"{rate(float(phase.tokens_per_s))}, MFU {percent(float(phase.mfu))}{run}; {phase.bottleneck} bound."
    )


def _facts(answer: EstimateAnswer) -> str:
    p, chip = answer.model.parameters, answer.hardware
    routing = "" if p.active == p.total else "; floors count the experts that the most uneven measured routing reads"
    active = "" if p.active == p.total else f" ({count(p.active)} active per token)"
    return (
        f"{count(p.total)} parameters{active}, {si(float(answer.model.weights_bytes), 'B')} of weights; a device has "
        f"{si(float(chip.peak_flops_per_s), 'FLOP/s')} in {answer.workload.matmul_dtype}, {si(float(chip.bandwidth_bytes_per_s), 'B/s')}, ridge {float(chip.ridge_flops_per_byte):.0f} FLOP/B; "
        f"MFU counts {answer.workload.attention_flops} attention{routing}"
    )


def _phases(answer: EstimateAnswer) -> Table:
    work = answer.workload
    columns = (
        Column(
            "",
            lambda n: (
                _latency_name(work, n[0]) if _generated_kind(work, n[0]) else f"{n[0]} {_latency_name(work, n[0])}"
            ),
            text=True,
        ),
        Column("floor", lambda named: text(named[1].floor_s, "floor_s"), drop=3),
        Column("expected", lambda named: text(named[1].time_s, "time_s")),
        Column("80% interval", lambda named: text(named[1].interval_s, "interval_s"), drop=4),
        Column("throughput", lambda named: _throughput(work, *named), drop=2),
        Column("MFU", lambda named: percent(float(named[1].mfu)), drop=1),
    )
    return records(columns, answer.timed.items())


def _breakdown(answer: EstimateAnswer) -> Pairs:
    """Where the expected time goes, and what else a phase says."""
    rows = []
    at_tdp = " at TDP" if answer.hardware.power_basis == "TDP" else ""
    for name, phase in answer.timed.items():
        used = (
            f"MBU {percent(float(phase.mbu))}"
            if isinstance(phase, phase_answer.DecodeAnswer)
            else f"MFU {percent(float(phase.mfu))}"
        )
        more = [
            *_further(phase),
            *(
                _derived(phase, row, at_tdp, _generated_kind(answer.workload, name))
                for row in DERIVED
                if row.name in phase.derived and not row.detail
            ),
        ]
        parts = ", ".join(f"{_GROUPS.get(group, group)} {percent(share)}" for share, group in _shares(phase))
        rows.append((_generated_kind(answer.workload, name) or name, "; ".join([used, parts, *more])))
    return Pairs(rows)


def _derived(phase: phase_answer.PhaseAnswer, row: Quantity, at_tdp: str, made: str) -> str:
    """'0.155 J per token (0.13–0.18 J, floor 0.09 J)'; what a diffusion model makes is an image or a video."""
    label = row.label.replace("image", made or "image")
    ends = phase.derived_intervals.get(f"{row.name}_interval")
    floor = ""
    if row.unit == "J" and row.time:
        least = evaluate.interval_bound(phase.derived[row.name], row.name, phase, "floor", less=True)
        floor = f", floor {amount(float(least), row.unit)}"
    between = "" if ends is None or at_tdp else f" ({interval(ends[0], ends[1], row.unit)}{floor})"
    return f"{amount(float(phase.derived[row.name]), row.unit)} {label}{at_tdp if row.errors else ''}{between}"


def _further(phase: phase_answer.PhaseAnswer) -> list[str]:
    """Return the figures that only one kind of phase has."""
    if isinstance(phase, phase_answer.TrainAnswer):
        return [f"HFU {percent(float(phase.hfu))}"] if phase.hfu > phase.mfu * 1.001 else []
    if isinstance(phase, phase_answer.DecodeAnswer):
        each, found = f"{float(phase.tokens_per_s_per_user):.1f} tok/s per user", phase.speculation
        if found is None:
            return [each]
        most = found.break_even_batch
        until = "" if most is None else f", break-even at {most:g} sequences" if most else ", never breaks even"
        gain = f"{float(found.mean_accepted_length):.2f} tokens per step, {float(found.speedup):.2f}x"
        return [each, f"speculation {gain}{until}"]
    if isinstance(phase, phase_answer.PrefillAnswer) and phase.sessions is not None:
        return [_sessions(phase.sessions)]
    return []


def _sessions(found: phase_answer.TiersAnswer) -> str:
    """'480 idle sessions: 12% on device, 70% in host (reload 0.21 s), 18% evicted; mean reload 0.15 s'."""
    parts = [f"{percent(float(found.on_device_fraction))} on device"]
    for name, tier in found.tiers.items():
        again = f" (reload {text(tier.reload_s, 'time_s')})" if tier.reload_s else ""
        parts.append(f"{percent(float(tier.in_tier_fraction))} in {name}{again}")
    if found.evicted_fraction > 1e-9:
        parts.append(f"{percent(float(found.evicted_fraction))} evicted")
    mean = f", mean reload {text(found.reload_s, 'time_s')}" if found.reload_s else ""
    return f"{float(found.idle_sessions):,.0f} idle sessions: {', '.join(parts)}{mean}"


def _memory(answer: EstimateAnswer) -> Pairs:
    """Memory per device of each phase, and the layout that has it with the reason."""
    rows, seen = [], []
    for name, phase in answer.phases.items():
        sizes = phase.layout_of_phase
        rows += [(_generated_kind(answer.workload, name) or name, _memory_use(phase.memory)), ("", _bar(phase.memory))]
        key = ("train" if name == "train" else "serve", sizes.to_dict())
        if key not in seen:
            seen.append(key)
            rows.append(("", f"{devices(sizes.to_dict())}: {sizes.reason}"))
    return Pairs(rows, title="memory per device")


def _bar(memory: phase_answer.Residency) -> str:
    """'[wwwwgggooooooaa....]': memory to scale, each part by the first letter of its label, the last cells free."""
    total = max(float(memory.capacity_bytes), float(memory.total_bytes))
    cells, upto = "", 0.0
    for key, label in PIECES:
        upto += float(memory.get(key) or 0.0)
        cells += label[0].lower() * (round(upto / total * BAR) - len(cells))
    return f"[{cells:.<{BAR}}]"


def _memory_use(memory: phase_answer.Residency) -> str:
    used = float(memory.total_bytes) / float(memory.capacity_bytes)
    pieces = [f"{label} {si(float(memory[key]), 'B')}" for key, label in PIECES if memory.get(key)]
    if memory.host_bytes:
        pieces.append(f"in host memory {si(float(memory.host_bytes), 'B')}")
    slack = ""
    if memory.slack_bytes:
        more = float(memory.slack_bytes) / float(memory.total_bytes)
        slack = f"; not counted: allocator slack, {si(float(memory.slack_bytes), 'B')} ({percent(more)}) in the median of published runs"
    return f"{percent(used)} of {si(float(memory.capacity_bytes), 'B')}: {', '.join(pieces)}{slack}"


def _cost(answer: EstimateAnswer) -> Block:
    cost = answer.cost
    if cost.usd_per_device_hour is None:
        return Prose("no price for this chip; --price USD gives the cost per million tokens", indent=2)
    kind = _generated_kind(answer.workload, "prefill")
    per_million = [
        (key, what) for key, what in _PER_MILLION if cost[key] is not None and (what == "training" or not kind)
    ]
    each = [f"{money(_usd_of_one(answer, answer.phases['prefill']))} per {kind}"] if kind else []
    each += [f"{money(float(cost[key]))}/M {what} tokens" for key, what in per_million]
    run = "" if cost.training_usd is None else f"; the run {money(float(cost.training_usd))}"
    offered = "" if answer.price is None else f" ({_price_source(answer.price)})"
    return Prose(
        f"cost at {money(float(cost.usd_per_device_hour))} per device-hour{offered}: {', '.join(each)}{run}", 2
    )


def _price_source(price: PriceAnswer) -> str:
    """'verda spot, 2026-01-01, 331 days old: ...': who offers it since when, and the spread where no provider was named."""
    parts = [" ".join(filter(None, (price.provider, price.kind, price.region))) + f", {price.date}".removesuffix(", ")]
    if price.offers > 1:
        parts.append(f"80% of {price.offers} offers {interval(*price.usd_per_device_hour_interval, 'USD')}")
    days = None if price.age_s is None else price.age_s / 86400
    stale = ": `roofline prices import` reads newer ones" if days is None or days > STALE_DAYS else ""
    return "; ".join([*parts, ("of no known day" if days is None else f"{days:.0f} days old") + stale])


def _gap_explanations(answer: EstimateAnswer) -> list[Block]:
    """Return single changes that would bring the measured phase to its time."""
    measured = next(((name, p) for name, p in answer.phases.items() if p.measured_time_s is not None), None)
    if not answer.gap_explanations or measured is None:
        return []
    name, phase = measured
    what = "the step" if name == "train" else _latency_name(answer.workload, name)
    step = f"{what} from {text(phase.time_s, 'time_s')} to {text(phase.measured_time_s, 'time_s')}"
    brings = [abs(row.gap) < 0.02 for row in answer.gap_explanations]
    nearest = "" if all(brings) else ", or comes near" if any(brings) else "; nearest:"
    head = f"{'what' if any(brings) else 'nothing'} alone would bring {step}{nearest}"
    lines = [
        row.assumption
        if brought
        else f"{row.assumption}: {text(row.time_s, 'time_s')}, {percent(abs(row.gap))} {'above' if row.gap > 0 else 'below'}"
        for row, brought in zip(answer.gap_explanations, brings, strict=True)
    ]
    return [Prose(head, style="dim"), *(Prose(f"- {line}", indent=2) for line in lines)]


# notes of the best row on the first screen of another verb; its --details have the others
_FIRST = ("no run supports", "has no flag")


def notes(answer: EstimateAnswer, first: bool | None = None) -> list[Block]:
    """What an answer warns of; of the best row of another verb what its first screen has, or the others."""
    large = tuple(f"{phase}: " for phase, _ in _violated(answer))  # what is said of them is that they do not fit
    found = [line for line in answer.notes or () if first is None or first == any(words in line for words in _FIRST)]
    return [Prose(f"note: {line}", indent=2) for line in found if not large or not line.startswith(large)]


def _notes(answer: EstimateAnswer) -> list[Block]:
    measured = [
        f"measured {name}: {text(phase.measured_time_s, 'time_s')}, {phase.measured_time_s / float(num.value(phase.time_s)) - 1:+.0%} against expected"
        for name, phase in answer.phases.items()
        if phase.measured_time_s is not None
    ]
    return [*notes(answer), *(Prose(line, indent=2) for line in measured), Note("; ".join(_workload(answer)))]


def _workload(answer: EstimateAnswer) -> list[str]:
    """The workload, defaults filled in."""
    work, parts = answer.workload, []
    if work.diffusion_steps is not None:
        twice = ", each run twice by guidance" if work.guidance else ", without guidance"
        frames = f"{work.video_frames} frames of " if work.video_frames else ""
        parts.append(
            f"{work.diffusion_steps:.10g} steps over {work.image_tokens:.10g} tokens of {frames}{work.image_size} pixels{twice}"
        )
    elif work.batch is not None:
        images = ""
        if work.images is not None:
            several = "s" if work.images != 1 else ""
            images = f" ({work.images:.10g} image{several} of {work.image_size}, {work.image_tokens:.10g} tokens each)"
        parts.append(f"serving {_load(answer)}, prompt {work.prompt:.10g}{images}, output {work.output:.10g}")
    if work.seq is not None:
        packed = f", documents of {work.doc_lengths} packed" if work.doc_lengths is not None else ""
        parts.append(f"training {work.train_batch:.10g} sequences of {work.seq:.10g} tokens{packed}")
    return parts


def _load(answer: EstimateAnswer) -> str:
    """Requests in flight or arriving, per replica."""
    work, decodes = answer.workload, "decode" in answer.phases
    if work.qps is not None:
        flight = f", {work.batch:.3g} in flight per replica" if decodes else ""
        return f"{work.qps:.10g} requests/s{flight}, lengths {work.request_lengths}"
    if work.concurrency is not None:
        most = work.concurrency == "max"
        if most and not decodes:
            return "as many requests as memory holds"
        holds = "memory holds" if work.max_num_seqs is None else f"--max-num-seqs {work.max_num_seqs:.10g} lets in"
        running, more = work.batch or 0.0, f" (all that {holds})" if most else ""
        clients = running if isinstance(work.concurrency, str) else work.concurrency
        if decodes and clients > running:
            more = f", {running:.10g} of them running at once"
        return f"{clients:.10g} requests in flight per replica{more}, lengths {work.request_lengths}"
    return f"{work.batch:.10g} sequence{'' if work.batch == 1 else 's'} per replica"


_CONSIDERED = (
    Column("layout", lambda r: devices(r["layout"]), text=True, least=24),
    Column("per device", lambda r: si(r["bytes_per_device"], "B"), drop=1),
    Column("expected", lambda r: text(r["time_s"], "time_s") if r["fits"] else NONE),
    Column("at the bound", lambda r: text(r["time_at_bound_s"], "time_s") if r["fits"] else NONE),
    Column("limited by", lambda r: r["bottleneck"] if r["fits"] else "does not fit", text=True, drop=2),
)
_TRIED = 12  # layouts shown


def why(answers: list[Json]) -> Page:
    """One group per kind of work: the choice, why not fewer devices, the layouts tried, fastest first."""
    return page(*map(_chosen, answers))


def _chosen(answer: Json) -> list[Block]:
    said, smaller = [answer["reason"]], answer["smaller"]
    if smaller:
        fewer = plural(smaller["devices"], "device")
        least, room = smaller["least_bytes_per_device"], answer["capacity_bytes"]
        said.append(f"on {fewer} the leanest layout needs {si(least, 'B')} of {si(room, 'B')}")
    chosen, more = answer["chosen"], len(answer["considered"]) - _TRIED
    mark = Column("", lambda r: "*" if r["layout"] == chosen else "", text=True)
    return [
        Headline(f"{answer['work']}: {devices(chosen)}"),
        *(Prose(line, 2) for line in said),
        records([mark, *_CONSIDERED], answer["considered"][:_TRIED]),
        *([Prose(f"… {more} more")] if more > 0 else []),
    ]
