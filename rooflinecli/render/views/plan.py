"""Plans and fleets: the answer in a line, a row for each chip or placed model, the commands, and what is infeasible and why."""

from __future__ import annotations

import math

from rooflinecli.core.text import plural
from rooflinecli.core.units import count
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.fleet.question import FleetAnswer
from rooflinecli.questions.hardware.answer import HALF
from rooflinecli.questions.multi_chip import remedy
from rooflinecli.questions.plan import question as types
from rooflinecli.questions.plan.answer import CRITERIA
from rooflinecli.render.blocks import Block, Column, Headline, Page, Pairs, Prose, labelled, page, records
from rooflinecli.render.numbers import NONE, around, layout, money, percent, rate_bound, text, to_bound
from rooflinecli.render.views.compare import BOUNDS
from rooflinecli.render.views.estimate import limits, notes

_TRAINING = (
    Column("", lambda r: str(r.rank)),
    Column("chip", "hardware", text=True),
    Column("devices", lambda r: f"{r.devices:,}"),
    Column("time", lambda r: text(r.elapsed_s, "run_s")),
    Column("80% interval", lambda r: text(r.elapsed_interval_s, "run_s"), drop=8),
    Column("total cost", lambda r: text(r.elapsed_usd, "training_usd")),
    Column("MFU", "mfu", drop=2),
)
_TRAINING_MORE = (
    *_TRAINING[:2],
    Column("80% interval", lambda r: text(r.elapsed_usd_interval, "training_usd"), drop=7),
    Column("layout", lambda r: layout(r.layout), text=True, drop=1),
    Column("failures, checkpoints", lambda r: percent(1 - r.goodput)),
    Column("time without", "run_s"),
    Column("cost without", "training_usd"),
    Column("GPU-hours", lambda r: count(r.device_hours)),
    Column("energy", lambda r: _energy(r.energy_j)),
)
_OFFERS = (
    Column("chip", "hardware", text=True),
    Column("provider", "provider", text=True),
    Column("kind", "kind", text=True),
    Column("date", "date", text=True),
    Column("$/device-hour", lambda o: text(o.usd_per_device_hour, "usd_per_hour")),
    Column("goodput", lambda o: percent(o.goodput)),
    Column("time", lambda o: text(o.elapsed_s, "run_s")),
    Column("total cost", lambda o: text(o.elapsed_usd, "training_usd")),
    Column("deadline", lambda o: "met" if o.meets_deadline else "missed", text=True),
)
_SHOWN = 6  # offers of all chips, the cheapest first; and those on spot


def _service(layout_first: bool) -> tuple[Column, ...]:
    """Columns of a service: instances of a layout, latencies with the bound that was limited, rate and cost; a fleet needs all but dollars."""
    split = Column("layout", lambda r: layout(r.numbers.layout) or "1 device", text=True, drop=0 if layout_first else 1)
    return (
        *([split] if layout_first else []),
        Column(
            "instances", lambda r: f"{r.numbers.instances} x {r.numbers.layout.batch:g}", drop=0 if layout_first else 4
        ),
        Column("max TTFT (to)", lambda r: to_bound(r.numbers.ttft_s, r.numbers.interval_ttft_s[1])),
        Column("max ITL (to)", _itl, optional=True),
        Column("req/s (at bound)" if layout_first else "max req/s (to)", _rate, drop=0 if layout_first else 3),
        Column("cost", "usd_per_hour"),
        Column("$/M output at max", "numbers.usd_per_million_output_tokens", drop=2),
        *(
            [Column("$/M in+out at the load", "numbers.usd_per_million_tokens_at_qps", drop=3)]
            if layout_first
            else [split]
        ),
    )


def _itl(row: types.ServingChip) -> str:
    n = row.numbers
    return NONE if n.itl_s is None or n.interval_itl_s is None else to_bound(n.itl_s, n.interval_itl_s[1])


def _rate(row: object) -> str:
    """Requests per second that a service sustains; of a placed model those that it is asked for too."""
    if isinstance(row, types.ServingChip):
        return rate_bound(row.numbers.requests_per_s, row.numbers.requests_per_s_interval[0])
    return f"{row.qps:.3g} of {row.requests_per_s_at_bound:.3g}"  # type: ignore[attr-defined]


_SERVING = (*_TRAINING[:3], *_service(False))
_PLACED = (
    Column("name", "name", text=True),
    Column("group", "group", text=True),
    Column("devices", lambda r: f"{r.devices:,}"),
    *_service(True),
)
_MODELS = (
    Column("name", "name", text=True),
    Column("model", "model", text=True),
    Column("requested (req/s)", lambda m: f"{m.qps:.3g}"),
    Column("served (req/s)", lambda m: f"{m.served_qps:.3g}"),
    Column("fleet fraction if alone", lambda m: NONE if m.load is None else percent(m.load)),
    Column("max traffic growth", lambda m: NONE if m.growth is None else f"{_factor(m.growth)}x"),
)
_GROUPS = (
    Column("group", "name", text=True),
    Column("chip", "hardware", text=True),
    Column("devices", lambda g: f"{g.devices:,}"),
    Column("used", lambda g: f"{g.used:,}"),
    Column("unused", lambda g: f"{g.spare:,}"),
    Column("off for power", lambda g: NONE if g.off is None else f"{g.off:,}", optional=True),
    Column("cost", "usd_per_hour"),
)


def view(answer: types.PlanAnswer, estimate: EstimateAnswer | None = None) -> Page:
    """Blocks of a plan of training or serving; `estimate` is that of the first row."""
    rows = answer.sized
    offers = [offer for row in rows if isinstance(row, types.TrainingChip) for offer in row.offers or ()]
    offers.sort(key=lambda o: (not o.meets_deadline, o.elapsed_usd))  # those in time first, the cheapest first
    return page(
        [Headline(_headline(answer, rows))],
        [records(_SERVING if isinstance(answer, types.ServingPlan) else _TRAINING, rows)] if rows else [],
        [Pairs(limits(estimate)), *notes(estimate, True)] if estimate is not None else [],
        *(labelled("best", row.command) for row in rows[:1]),
        _notes(answer, offers, estimate),
        details=[
            notes(estimate, False) if estimate is not None else [],
            [records(_TRAINING_MORE, rows)] if isinstance(answer, types.TrainingPlan) and rows else [],
            [
                Prose(note, 2)
                for row in rows[1:]
                if isinstance(row, types.TrainingChip) and (note := _cheaper_and_faster(row, answer.bound))
            ],
            *(labelled(f"{row.rank}", row.command) for row in rows[1:]),
            [records(_OFFERS, [*offers[:_SHOWN], *(o for o in offers[_SHOWN:] if o.kind == "spot")])] if offers else [],
        ],
        about=f"{'goodput, GPU-hours, energy, ' if isinstance(answer, types.TrainingPlan) else ''}all commands{', offers' if offers else ''}",
    )


def _headline(answer: types.PlanAnswer, rows: list[types.SizedChip]) -> str:
    if not rows:
        return f"{_work(answer)}: infeasible{' on every chip' if len(answer.rows) > 1 else ''}{_cheapest(answer)}"
    best = rows[0]
    found = f"{best.devices:,} x {best.hardware}"
    if isinstance(best, types.TrainingChip):
        usd = "" if best.elapsed_usd is None else f", {money(best.elapsed_usd)}"
        found += (
            f", {around(best.elapsed_s, best.elapsed_interval_s, 'run_s')}{usd}, "
            f"goodput {percent(best.goodput)}, MFU {percent(best.mfu)}"
        )
    elif isinstance(best, types.ServingChip) and isinstance(answer, types.ServingPlan):
        n: types.ServiceNumbers = best.numbers
        each = text(n.usd_per_million_tokens_at_qps, "usd_per_million_tokens")
        usd = (
            ""
            if best.usd_per_hour is None
            else f", {text(best.usd_per_hour, 'usd_per_hour')}, {each}/M input and output tokens at {answer.qps:g} req/s"
        )
        at_rate = n.ttft_at_qps_s is not None  # expected values sustain the rate
        first, other = (n.ttft_at_qps_s, n.itl_at_qps_s) if at_rate else (n.ttft_s, n.itl_s)
        itl = "" if other is None else f", ITL {text(other, 'itl_s')}"
        found += f", TTFT {text(first, 'ttft_s')}{itl}{'' if at_rate else ' at max req/s'}{usd}"
    among = f"cheapest of {len(rows)} chips, each at the " if len(rows) > 1 and answer.criterion != CRITERIA[1] else ""
    return f"{_work(answer)}: {found}; {among}{answer.criterion}, by {BOUNDS[answer.bound]}"


def _cheapest(answer: types.PlanAnswer) -> str:
    """What the cheapest run that the budget does not pay for is expected to cost, and costs at the bound that is over it; or how long the
    fastest takes that misses the deadline."""
    rows = [row for row in answer.rows if isinstance(row, types.TrainingChip) and row.elapsed_s]
    late = min(rows, key=lambda row: row.time_at_bound_s, default=None)
    if isinstance(answer, types.TrainingPlan) and late and late.time_at_bound_s > (answer.deadline_s or math.inf):
        on = f"{late.devices:,} x {late.hardware}"
        return f", the fastest takes {text(late.time_at_bound_s, 'run_s')} on {on} at {BOUNDS[answer.bound]}"
    over = [(row.cost_at_bound_usd, row) for row in rows if row.cost_at_bound_usd and row.elapsed_usd]
    usd, row = min(over, key=lambda each: each[0], default=(0.0, None))
    if row is None or usd <= (answer.budget_usd or math.inf):
        return ""
    on = f", the cheapest costs {money(row.elapsed_usd or 0.0)} on {row.devices:,} x {row.hardware}"
    return f"{on}, {money(usd)} at {BOUNDS[answer.bound]}" if answer.bound != "expected" else on


def _work(answer: types.PlanAnswer) -> str:
    """'Llama 3 8B, 15.0T tokens within 30 d'."""
    if isinstance(answer, types.TrainingPlan):
        by = f" within {text(answer.deadline_s, 'time_s')}" if answer.deadline_s else ""
        budget = f" for at most {money(answer.budget_usd)}" if answer.budget_usd else ""
        return f"{answer.model}, {count(answer.tokens or 0.0)} tokens{by}{budget}"
    assert isinstance(answer, types.ServingPlan)
    limits = "".join(f", {name.upper()} at most {text(s, 'time_s')}" for name, s in answer.limits_s.items())
    return f"{answer.model}, {answer.qps:g} req/s{limits}"


def _energy(joules: float | None) -> str:
    """Of a run, in MWh or GWh."""
    if joules is None:
        return NONE
    return f"{joules / 3.6e9:,.3g} MWh" if joules < 3.6e12 else f"{joules / 3.6e12:,.3g} GWh"


def _cheaper_and_faster(row: types.TrainingChip, bound: str) -> str:
    """The nearest count tried that beats the chosen one in time and cost, both at the bound; empty where there is none."""
    better = [
        (devices, usd, run_s)
        for devices, usd, run_s in ((t["devices"], t["training_usd"], t["run_s"]) for t in row.tried or ())
        if devices is not None and usd is not None and run_s is not None and row.cost_at_bound_usd is not None
        if devices > row.devices and run_s < row.time_at_bound_s and usd < row.cost_at_bound_usd
    ]
    if not better:
        return ""
    devices, usd, run_s = min(better)
    own = f"{money(row.cost_at_bound_usd or 0.0)}, {text(row.time_at_bound_s, 'run_s')}"
    return (
        f"{devices:,} x {row.hardware}: cheaper and faster ({money(usd)}, {text(run_s, 'run_s')}, against {own} of {row.devices:,}, all at "
        f"{BOUNDS[bound]}); the answer is the fewest devices that meet the deadline"
    )


def _notes(answer: types.PlanAnswer, offers: list[types.RunOffer], estimate: EstimateAnswer | None) -> list[Block]:
    found = [f"{row.hardware}: infeasible, {row.infeasible_reason}" for row in answer.rows if not row.feasible]
    if estimate is not None and isinstance(estimate.phases.get("train"), TrainAnswer):
        work = estimate.workload
        found.append(f"global batch: {work.train_batch:,g} sequences of {work.seq:,g} tokens (--batch, --seq)")
    if estimate is not None and estimate.workload.matmul_dtype not in HALF:
        work = estimate.workload
        found.append(f"weights in {work.weight_dtype}, matmuls at the {work.matmul_dtype} peak (--dtype, --weight-dtype)")  # fmt: skip
    found += [_cheaper_and_faster(row, answer.bound) for row in answer.sized[:1] if isinstance(row, types.TrainingChip)]
    if offers:
        offer = offers[0]
        of = "" if offer.hardware == answer.sized[0].hardware else f"{offer.hardware} of "
        whose = f"{of}{offer.provider}, {offer.kind}, {offer.date}"
        found.append(f"cheapest offer: {whose}: {money(offer.elapsed_usd)}")
    if answer.unpriced:
        found.append(f"{remedy(answer.unpriced)}; without it a chip ranks by time, after the others")
    if isinstance(answer, types.ServingPlan) and answer.period_s:
        bills = [(row.hardware, row.period_cost_usd) for row in answer.sized if isinstance(row, types.ServingChip)]
        costs = ", ".join(f"{chip} {money(usd)}" for chip, usd in bills if usd is not None)
        found += [f"cost over {text(answer.period_s, 'time_s')}: {costs}"] if costs else []
    return [Prose(note, indent=2) for note in found if note]


def fleet(answer: FleetAnswer) -> Page:
    """Blocks of a fleet: models on groups, and each group; details have the commands and each model's traffic."""
    return page(
        [Headline(_fleet_headline(answer))],
        [records(_PLACED, answer.rows)] if answer.rows else [],
        [records(_GROUPS, answer.groups)],
        [Prose(note, indent=2) for note in _fleet_notes(answer)],
        details=[
            [records(_MODELS, answer.models)],
            *(labelled(f"{row.name} on {row.group}", row.command) for row in answer.rows),
        ],
        about="the command of each model, and how far its traffic may grow",
    )


def _fleet_headline(answer: FleetAnswer) -> str:
    devices = plural(sum(g.devices for g in answer.groups), "device")
    subject = f"{plural(len(answer.models), 'model')} on {devices}"
    bound = f"at {BOUNDS[answer.bound]}"
    if answer.feasible:
        usd = "" if answer.usd_per_hour is None else f" for {money(answer.usd_per_hour)}/h"
        return (
            f"{subject}: all traffic served {bound}, on {plural(answer.devices, 'device')}{usd}, {answer.spare:,} unused; "
            f"headroom {_factor(answer.growth)}x, {answer.bottleneck} has the least"
        )
    if not answer.growth:
        return f"{subject}: {answer.bottleneck} cannot be served {bound}"
    return (
        f"{subject}: the traffic does not fit {bound}; {percent(answer.growth)} of each model's does, "
        f"and {answer.bottleneck} is the bottleneck"
    )


def _factor(factor: float) -> str:
    """A factor that may be counted on: rounded down."""
    if factor < 1:
        return f"{factor:.2g}"
    digits = max(2 - (len(str(int(factor))) - 1), 0)
    return f"{int(factor * 10**digits + 1e-9) / 10**digits:g}"


def _fleet_notes(answer: FleetAnswer) -> list[str]:
    found = [f"{m.name}: infeasible on {r.group}, {r.infeasible_reason}" for m in answer.models for r in m.refused]
    found += [
        f"with {g.needed - g.devices:,} more of {g.name} ({g.needed:,}) all traffic would fit"
        for g in answer.groups
        if g.needed is not None and g.needed > g.devices
    ]
    found += [
        f"{row.name} on {row.group}: {row.unused:,} of its devices stay idle, so that instances stay inside hosts"
        for row in answer.rows
        if row.unused
    ]
    if not answer.exact:
        found.append(f"device counts rounded to lots: within {percent(answer.optimality_gap)} of optimal")
    if answer.unpriced:
        found.append(
            f"no price is known for {', '.join(answer.unpriced)}: the fewest devices instead of the lowest cost; add `price` to the group"
        )
    return found
