"""A plan: the best chip in a line, a row for each feasible one, their commands, and why the others are infeasible."""

from __future__ import annotations

from rooflinecli.core.units import count
from rooflinecli.questions.multi_chip import remedy
from rooflinecli.questions.plan.question import (
    PlanAnswer,
    PlannedOffer,
    ServiceNumbers,
    ServingChip,
    ServingPlan,
    SizedChip,
    TrainingChip,
    TrainingPlan,
)
from rooflinecli.render.blocks import Block, Column, Command, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import NONE, layout, money, percent, text
from rooflinecli.render.views.search import BOUNDS

TRAINING = (
    Column(""),
    Column("chip", text=True),
    Column("devices"),
    Column("time"),
    Column("80% interval", drop=8),
    Column("total cost"),
    Column("80% interval", drop=7),
    Column("failures, checkpoints", drop=6),
    Column("time without", drop=5),
    Column("cost without", drop=5),
    Column("GPU-hours", drop=4),
    Column("MFU", drop=2),
    Column("energy", drop=3),
    Column("layout", text=True, drop=1),
)
SERVING = (
    Column("instances"),
    Column("TTFT (to)", drop=6),
    Column("ITL (to)", drop=5),
    Column("req/s", drop=3),
    Column("total batch", drop=2),
    Column("cost"),
    Column("$/M output tokens", drop=4),
    Column("layout", text=True, drop=1),
)


OFFERS = (
    Column("chip", text=True),
    Column("provider", text=True),
    Column("kind", text=True),
    Column("date", text=True),
    Column("$/device-hour"),
    Column("goodput"),
    Column("time"),
    Column("total cost"),
    Column("deadline", text=True),
)
SHOWN = 6  # offers of all chips, the cheapest first


def view(answer: PlanAnswer) -> Page:
    """Blocks of a plan of training or serving."""
    rows = answer.sized
    serving = isinstance(answer, ServingPlan)
    columns = (Column(""), Column("chip", text=True), Column("devices"), *SERVING) if serving else TRAINING
    return page(
        [Headline(_headline(answer, rows), tuple(row.hardware for row in rows[:1]))],
        [Table(columns, [_cells(row) for row in rows])] if rows else [],
        *(_command(row) for row in rows[:1]),
        _notes(answer),
        details=[*(_command(row) for row in rows[1:]), _offers(rows)],
        about="the commands of the other chips, and offers" if _cheapest(rows) else "the commands of the other chips",
    )


def _cheapest(rows: list[SizedChip]) -> list[PlannedOffer]:
    """Offers of all chips, those in time first, the cheapest first."""
    found = [offer for row in rows if isinstance(row, TrainingChip) for offer in row.offers or ()]
    return sorted(found, key=lambda o: (not o.in_time, o.elapsed_usd))


def _offers(rows: list[SizedChip]) -> list[Block]:
    """The cheapest offers over all chips, those in time first."""
    cells = [
        [
            o.hardware,
            o.provider,
            o.kind,
            o.date,
            text(o.usd_per_device_hour, "usd_per_hour"),
            percent(o.goodput),
            text(o.elapsed_s, "run_s"),
            text(o.elapsed_usd, "training_usd"),
            "met" if o.in_time else "missed",
        ]
        for o in _cheapest(rows)[:SHOWN]
    ]
    return [Table(OFFERS, cells)] if cells else []


def _command(row: SizedChip) -> list[Block]:
    return [Prose(f"{row.rank}:"), Command(row.command)]


def _headline(answer: PlanAnswer, rows: list[SizedChip]) -> str:
    goal = f"{answer.way}, by {BOUNDS[answer.hold]}"
    if not rows:
        return f"{_work(answer)}: infeasible on every chip ({goal})"
    best = rows[0]
    found = f"{best.devices:,} x {best.hardware}"
    if isinstance(best, TrainingChip):
        usd = "" if best.elapsed_usd is None else f", {money(best.elapsed_usd)}"
        found += f", {text(best.elapsed_s, 'run_s')} ({text(best.elapsed_interval_s, 'run_s')}){usd}, goodput {percent(best.goodput)} ({percent(best.goodput_interval[0])}–{percent(best.goodput_interval[1])}), MFU {percent(best.mfu)}"
    elif isinstance(best, ServingChip):
        usd = "" if best.usd_per_hour is None else f", {text(best.usd_per_hour, 'usd_per_hour')}"
        n = best.numbers
        found += f", TTFT {text(n.ttft_s, 'ttft_s')}, ITL {text(n.itl_s, 'itl_s')}, {n.requests_per_s:.3g} req/s{usd}"
    return f"{_work(answer)}: {found}; {goal}"


def _work(answer: PlanAnswer) -> str:
    """'Llama 3 8B, 15.0T tokens within 30 d'."""
    if isinstance(answer, TrainingPlan):
        by = f" within {text(answer.deadline_s, 'time_s')}" if answer.deadline_s else ""
        budget = f" for at most {money(answer.budget_usd)}" if answer.budget_usd else ""
        return f"{answer.model}, {count(answer.tokens or 0.0)} tokens{by}{budget}"
    assert isinstance(answer, ServingPlan)
    limits = "".join(f", {name.upper()} at most {text(s, 'time_s')}" for name, s in answer.limits_s.items())
    return f"{answer.model}, {answer.qps:g} req/s{limits}"


def _cells(row: SizedChip) -> list[str]:
    cells = [str(row.rank), row.hardware, f"{row.devices:,}"]
    if isinstance(row, ServingChip):
        n = row.numbers
        return [*cells, *service_cells(n, f"{n.requests_per_s:.3g}", row.usd_per_hour)]
    assert isinstance(row, TrainingChip)
    return [
        *cells,
        text(row.elapsed_s, "run_s"),
        text(row.elapsed_interval_s, "run_s"),
        text(row.elapsed_usd, "training_usd"),
        text(row.elapsed_usd_interval, "training_usd"),
        percent(1 - row.goodput),
        text(row.run_s, "run_s"),
        text(row.training_usd, "training_usd"),
        count(row.device_hours),
        percent(row.mfu),
        _energy(row.energy_j),
        layout(row.layout),
    ]


def _energy(joules: float | None) -> str:
    """Of a run, in MWh or GWh."""
    if joules is None:
        return NONE
    return f"{joules / 3.6e9:,.3g} MWh" if joules < 3.6e12 else f"{joules / 3.6e12:,.3g} GWh"


def service_cells(n: ServiceNumbers, rate: str, usd_per_hour: float | None) -> list[str]:
    """A service's cells under SERVING."""
    return [
        f"{n.instances} x {n.layout.batch:g}",
        f"{text(n.ttft_s, 'ttft_s')} ({text(n.interval_ttft_s[1], 'ttft_s')})",
        f"{text(n.itl_s, 'itl_s')} ({text(n.interval_itl_s[1], 'itl_s')})",
        rate,
        f"{n.batch_in_all:g}",
        text(usd_per_hour, "usd_per_hour"),
        text(n.usd_per_million_output_tokens, "usd_per_million_output_tokens"),
        layout(n.layout) or "1 device",
    ]


def _notes(answer: PlanAnswer) -> list[Block]:
    found = [f"{row.hardware}: infeasible, {row.why}" for row in answer.rows if not row.feasible]
    if offer := next(iter(_cheapest(answer.sized)), None):
        usd = f"{money(offer.elapsed_usd)} at {text(offer.usd_per_device_hour, 'usd_per_hour')}"
        found.append(f"cheapest offer: {offer.hardware} of {offer.provider}, {offer.kind}, {offer.date}: {usd}")
    if answer.unpriced:
        found.append(f"{remedy(answer.unpriced)}; without it a chip ranks by time, after the others")
    if isinstance(answer, ServingPlan) and answer.period_s:
        bills = [(row.hardware, row.bill_usd) for row in answer.sized if isinstance(row, ServingChip)]
        costs = ", ".join(f"{chip} {money(usd)}" for chip, usd in bills if usd is not None)
        found += [f"cost over {text(answer.period_s, 'time_s')}: {costs}"] if costs else []
    return [Prose(note, indent=2) for note in found]
