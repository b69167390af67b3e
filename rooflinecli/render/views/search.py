"""A search: the best layout in a line, the ranked table, what trails it and why, the commands, and what was rejected."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from rooflinecli.core.text import plural
from rooflinecli.core.units import duration
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import remedy
from rooflinecli.questions.search import question as types
from rooflinecli.questions.simulate.question import Numbers
from rooflinecli.render.blocks import Block, Column, Headline, Note, Page, Pairs, Prose, Table, labelled, page, records
from rooflinecli.render.numbers import NONE, around, devices, label, layout, percent, rate, rate_bound, text, to_bound
from rooflinecli.render.views.compare import BOUNDS, tornado
from rooflinecli.render.views.estimate import limits, notes
from rooflinecli.specs.quantities import AT_QPS

Row = types.TrainingRow | types.ServingRow
_LEGEND = "mb: micro-batch, vs: virtual stages, sp: sequence parallelism, hsdp: replicas of a shard group (HSDP)"
_BATCH = "batch: sequences that each data-parallel rank of an instance runs at once"
_MARK = "*"  # on a layout that no published run supports
_SHOWN_OBJECTIVES = ("tokens_per_s", "time_s", "ttft_s", "itl_s", "requests_per_s", "usd_per_million_tokens")
_ELASTICITIES = 12


def view(answer: types.SearchAnswer, estimate: EstimateAnswer | None = None) -> Page:
    """Blocks of a search of training layouts or serving instances; `estimate` is that of the best."""
    rows: list[Row] = [*answer.results]
    if isinstance(answer, types.TrainingSearch):
        headline, extra = _training_headline(answer), _within_uncertainty(answer)
    else:
        headline, extra = _serving_headline(answer), _pools(answer)
    pools, miss = answer.pools if isinstance(answer, types.ServingSearch) else None, answer.nearest_miss
    apart: list[Block] = [] if pools is None else [Prose(f"disaggregated: {pools.summary}", indent=2)]
    rejected = "; ".join("{layouts:,} by {constraint}".format(**r) for r in answer.rejected)
    return page(
        [Headline(headline), Prose(_counts(answer), style="dim")],
        [_table(answer), _extrapolated(rows)] if rows else [],
        _unsupported(rows[:1]) if estimate is None else _of_best(estimate) if rows else [],
        labelled("best", rows[0].estimate or rows[0].command) if rows else [],
        [
            Prose(f"{rank_label(row, i)} simulated: {_simulated(row.simulate)}")
            for i, row in enumerate(rows, 1)
            if isinstance(row, types.ServingRow) and row.simulate is not None
        ],
        apart if answer.chips is None else [],
        _chips(answer, rows),
        labelled("nearest layout", miss.estimate or miss.command) if miss else [],
        _of_best(estimate) if estimate is not None and not rows else [],
        _elasticities(answer),
        tornado(answer.tornado) if answer.tornado is not None else [],
        details=[
            notes(estimate, False) if estimate is not None else [],
            tornado(answer.tornado, len(answer.tornado.rows))[1:2] if answer.tornado is not None else [],
            *(
                labelled(rank_label(row, i), row.estimate or row.command)
                for i, row in enumerate(rows, 1)
                if i > 1 and row.best_of_chip
            ),
            [] if answer.chips is None else apart,
            _limits(answer),
            [Note(_LEGEND if isinstance(answer, types.TrainingSearch) else _BATCH)] if rows else [],
            [Prose(f"{rank_label(row, i)} is {row.why}", indent=2) for i, row in enumerate(rows, 1) if row.why],
            _unsupported(rows, 1),
            *extra,
            [Prose(f"rejected: {rejected}", indent=2)] if rejected else [],
        ],
        about="why others trail, rejected layouts" + (", pools" if pools is not None else ""),
    )


def _of_best(estimate: EstimateAnswer) -> list[Block]:
    """What limits the best layout, or the nearest, and what to try."""
    lacks = [Prose(f"does not fit: {v.message}", indent=2, style="red") for v in estimate.violations]
    return [Pairs(limits(estimate)), *lacks, *notes(estimate, True)]


def _extrapolated(rows: Sequence[Row]) -> Block | None:
    marked = any(map(_extrapolations, rows))
    return Note(f"{_MARK} no published run supports it: the interval is wider; --details says what") if marked else None


def _unsupported(rows: Sequence[Row], start: int = 0) -> list[Block]:
    """What no published run supports of the layouts from `start` on."""
    return [
        Prose(f"{rank_label(row, i)}{_MARK} {'; '.join(_extrapolations(row))}", indent=3)
        for i, row in enumerate(rows, 1)
        if i > start and _extrapolations(row)
    ]


def _extrapolations(row: Row) -> list[str]:
    return row.extrapolations if isinstance(row, types.TrainingRow) else []


def rank_label(row: Row, i: int) -> str:
    """The rank of a row, its place in the table where it has none."""
    return str(row.rank or i)


def _counts(answer: types.SearchAnswer) -> str:
    counts = f"{answer.layouts:,} layouts, {answer.fit:,} fit in memory"
    if not answer.where:
        return counts
    rate = (
        f" and carry {answer.qps:g} req/s"
        if isinstance(answer, types.ServingSearch) and answer.qps and not answer.meet
        else ""
    )
    on = f" on {answer.devices:g} devices" if rate and answer.devices else ""
    return f"{counts}, {answer.meet:,} meet {', '.join(map(_constraint, answer.where))}{rate}{on}"


def _constraint(written: str) -> str:
    """'ITL <= 40.0 ms' for 'serve.itl_s <= 0.04 s'."""
    name, _, limit = written.partition(" ")
    seconds = re.fullmatch(r"([<>=]+) ([\d.e+-]+) s", limit)
    return f"{label(name)} {limit if seconds is None else f'{seconds[1]} {duration(float(seconds[2]))}'}"


def _limits(answer: types.SearchAnswer) -> list[Block]:
    """The best row's values that limits apply to, but for the latencies, which the table has."""
    values = answer.results[0].limits_at_bound if answer.results else None
    shown = ", ".join(
        f"{name} {text(v, name)}" for name, v in (values or {}).items() if name not in ("serve.ttft_s", "serve.itl_s")
    )
    if not shown:
        return []
    return [Prose(f"limits apply at {BOUNDS[answer.bound]}, where the best has {shown}", style="dim")]


def _goal(answer: types.SearchAnswer) -> str:
    kind = "first of the Pareto front of" if answer.pareto else "best"
    so_far = " of what was searched until the interruption" if answer.interrupted else ""
    return f"{kind} {' and '.join(map(label, answer.objective))} by {BOUNDS[answer.bound]}{so_far}"


def _infeasible(answer: types.SearchAnswer) -> str:
    what = "satisfies the constraints" if answer.fit else "fits in memory"
    miss = answer.nearest_miss
    nearest = f"; nearest is {layout(miss.layout) or '1 device'}: {miss.shortfall}" if miss else ""
    return f"{answer.model} on {answer.hardware}: none of {answer.layouts:,} layouts {what}{nearest}"


def _chosen(answer: types.SearchAnswer) -> str:
    """The chip, where there are several the best of them."""
    best = answer.results[0]
    return (
        answer.hardware if answer.chips is None else f"{best.hardware or best.chip}, best of {len(answer.chips)} chips"
    )


def _training_headline(answer: types.TrainingSearch) -> str:
    if not answer.results:
        return _infeasible(answer)
    best = answer.results[0]
    return (
        f"{answer.model} on {_chosen(answer)}: {devices(best.layout)}, step {around(best.time_s, best.interval_s, 'time_s')}, "
        f"{rate(best.tokens_per_s)}, MFU {percent(best.mfu)}; {_goal(answer)}"
    )


def _serving_headline(answer: types.ServingSearch) -> str:
    if not answer.results:
        return _infeasible(answer)
    best = answer.results[0]
    s = best.serve
    usd = s.get("usd_per_million_tokens")
    price = "" if usd is None else f", {text(usd, 'usd_per_million_tokens')}/M input and output tokens at max req/s"
    if (offered := s.get(AT_QPS)) is not None:
        price += f" ({text(offered, AT_QPS)} at {answer.qps:g} req/s)"
    latencies = {"TTFT": "ttft", "ITL": "itl"} if "itl_s" in s else {"TTFT": "ttft"}
    between = "".join(f"{label} {_latency(best, name, 'to ')}, " for label, name in latencies.items())
    return (
        f"{answer.model} on {_chosen(answer)}: {plural(s['instances'], 'instance')} of {devices(best.layout)}, {_batch(best.layout)}: "
        f"{between}max {_requests(best, ' at the bound')}{price}; {_goal(answer)}"
    )


_TRAINING = (
    Column("layout", lambda r: layout(r.layout) or "1 device", text=True),
    Column("devices", lambda r: f"{r.layout.devices:,}", drop=4),
    Column("step", "time_s"),
    Column("up to", lambda r: text(r.interval_s[1], "time_s")),
    Column("throughput", "tokens_per_s", drop=2),
    Column("MFU", "mfu", drop=3),
    Column("memory", "memory.total_bytes", drop=1),
)
_SERVING = (
    Column("layout", lambda r: layout(r.layout) or "1 device", text=True),
    Column("instances", lambda r: f"{r.serve['instances']:g} x {r.layout.batch:g}"),
    Column("devices", lambda r: f"{r.serve['devices']:g}", drop=1),
    Column("TTFT (to)", lambda r: _latency(r, "ttft"), drop=3),
    Column("ITL (to)", lambda r: _latency(r, "itl"), optional=True),
    Column("max req/s (to)", lambda r: _requests(r), drop=2),
    Column("$/M in+out", "serve.usd_per_million_tokens", drop=4),
)


def _latency(row: types.ServingRow, name: str, separator: str = "") -> str:
    """A latency, and the value at which it was limited and ranked where that is another."""
    found = row.serve.get(f"{name}_s")
    return NONE if found is None else to_bound(found, row.serve.get(f"{name}_at_bound_s"), separator)


def _requests(row: types.ServingRow, word: str = "") -> str:
    """The most requests per second, and those at the bound."""
    return rate_bound(row.serve["requests_per_s"], row.serve["requests_per_s_at_bound"], word)


def _table(answer: types.SearchAnswer) -> Table:
    """The ranked rows: their places, chips where there are several, devices where they differ."""
    results: list[Row] = [*answer.results]
    ranks = iter(f"{rank_label(row, i)}{_MARK if _extrapolations(row) else ''}" for i, row in enumerate(results, 1))
    devices = {row.layout.devices if isinstance(row, types.TrainingRow) else row.serve["devices"] for row in results}
    goals = [name for name in answer.objective if name.rpartition(".")[2] not in _SHOWN_OBJECTIVES]
    columns = [
        c
        for c in (_TRAINING if isinstance(answer, types.TrainingSearch) else _SERVING)
        if c.head != "devices" or len(devices) > 1
    ]
    if isinstance(answer, types.TrainingSearch):
        columns += map(lambda name: Column(label(name), lambda r: text(r.score[name], name)), goals)
    else:
        columns += (Column(label(name), name) for name in goals if name != "serve.devices")
    chip = [] if answer.chips is None else [Column("chip", lambda r: r.chip or "", text=True)]
    return records([Column("", lambda _: next(ranks)), *chip, *columns], results)


def _within_uncertainty(answer: types.TrainingSearch) -> list[list[Block]]:
    found = answer.within_uncertainty
    if found is None:
        return []
    text = (
        f"{found.layouts:,} layouts, each the best of its split, are within model uncertainty of the best; the simplest is "
        f"{devices(found.simplest)}: {found.command}. {found.separates[0].upper()}{found.separates[1:]}."
    )
    return [[Prose(text)]]


def _pools(answer: types.ServingSearch) -> list[list[Block]]:
    """Disaggregated pools, the best first, and the commands of the best."""
    if answer.pools is None:
        return []
    several, places = answer.chips is not None, itertools.count(1)
    columns = (
        Column("disaggregated", lambda _: str(next(places)), text=True),
        Column("prefill workers", lambda r: _pool(r.prefill, several), text=True),
        Column("decode workers", lambda r: _pool(r.decode, several), text=True),
        Column("devices", lambda r: f"{r.devices:g}"),
        Column("TTFT", "prefill.ttft_s", drop=3),
        Column("ITL", "decode.itl_s", drop=4),
        Column("max req/s", lambda r: f"{r.requests_per_s:.3g}", drop=1),
        Column("cost", "usd_per_hour"),
        Column("$/M in+out", "usd_per_million_tokens", drop=2),
    )
    best = answer.pools
    return [
        [records(columns, answer.pool_rows)],
        labelled("prefill workers of 1", best.prefill.estimate),
        labelled("decode workers of 1", best.decode.estimate),
    ]


def _pool(pool: types.Pool, several: bool) -> str:
    """'4 x 2 h100 (tp2), batch 8'."""
    sizes, on = layout(pool.layout), f" {pool.chip}" if several else ""
    return f"{pool.instances:g} x {pool.devices:g}{on}{f' ({sizes})' if sizes else ''}, {_batch(pool)}"


def _batch(of: types.InstanceLayout | types.Pool) -> str:
    """'batch 8', of each rank where an instance has several."""
    dp = of.layout.dp if isinstance(of, types.Pool) else of.dp
    return f"batch {of.batch:g}{' per dp rank' if dp > 1 else ''}"


def _chips(answer: types.SearchAnswer, rows: list[Row]) -> list[Block]:
    """Chips without a row, each with its reason; and those without a price."""
    found: list[Block] = []
    for chip in answer.chips or ():
        if not chip.feasible:
            miss = chip.nearest_miss if isinstance(chip, types.ChipSearch) else None
            why = chip.infeasible_reason or (f"the nearest layout misses: {miss.shortfall}" if miss else "nothing fits")
            found.append(Prose(f"{chip.chip}: infeasible, {why}", indent=2))
    shown = {row.chip for row in rows}
    unpriced = [chip for chip in answer.unpriced or () if chip in shown]
    return [*found, *([Prose(remedy(unpriced), indent=2)] if unpriced else [])]


def _simulated(values: Numbers) -> str:
    if not values["feasible"]:
        return str(values["violation"])
    attained = f", SLO attainment {percent(values['slo_attainment'])}" if "slo_attainment" in values else ""
    tpot = f"; TPOT {text(values['tpot_p99_s'], 'time_s')} at p99" if "tpot_p99_s" in values else ""
    return f"TTFT {text(values['ttft_p50_s'], 'time_s')} at p50, {text(values['ttft_p99_s'], 'time_s')} at p99{tpot}{attained}"


def _elasticities(answer: types.SearchAnswer) -> list[Block]:
    if not answer.sensitivity:
        return []
    time = "step time" if isinstance(answer, types.TrainingSearch) else "ITL"
    columns = (Column("elasticity", lambda r: f"{r.elasticity:+.3f}"), Column("value", "figure", text=True))
    head = Prose(f"elasticity: % change in {time} per 1% change of each value")
    return [head, records(columns, answer.sensitivity[:_ELASTICITIES])]
