"""A search: the best layout in a line, the ranked table, what trails it and why, the commands, and what was rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rooflinecli.core.text import plural
from rooflinecli.questions.multi_chip import remedy
from rooflinecli.questions.search.question import (
    ChipSearch,
    NearestMiss,
    Pool,
    SearchAnswer,
    ServingRow,
    ServingSearch,
    TrainingRow,
    TrainingSearch,
)
from rooflinecli.questions.simulate.question import Numbers
from rooflinecli.render.blocks import Block, Column, Command, Headline, Note, Page, Prose, Table, page
from rooflinecli.render.numbers import devices, interval, layout, percent, rate, text
from rooflinecli.render.views.sensitivity import tornado

Row = TrainingRow | ServingRow
BOUNDS = {
    "pessimistic": "the pessimistic bound",
    "expected": "the expected value",
    "floor": "the floor",
}
_LEGEND = "mb: micro-batch, vs: virtual stages, sp: sequence parallelism, hsdp: replicas of a shard group (HSDP)"
_MARK = "*"  # on a layout that no published run supports
_IN_TABLE = ("tokens_per_s", "time_s")
_ELASTICITIES = 12


def view(answer: SearchAnswer) -> Page:
    """Blocks of a search of training layouts or serving instances."""
    rows: list[Row] = [*answer.results]
    if isinstance(answer, TrainingSearch):
        table, headline = _training(answer), _training_headline(answer)
        more = _within_uncertainty(answer)
    else:
        table, headline = _serving(answer), _serving_headline(answer)
        more = _pools(answer)
    first, *others = _trailing(rows) or [[]]
    pools = answer.pools if isinstance(answer, ServingSearch) else None
    return page(
        [Headline(headline, (answer.model, answer.hardware)), Prose(_counts(answer), style="dim")],
        [table] if rows else [],
        [*first, *_unsupported(rows[:1]), *(_command("best", rows[0].estimate or rows[0].command) if rows else [])],
        *(
            _command(place(row, i), row.estimate or row.command)
            for i, row in enumerate(rows, 1)
            if i > 1 and row.best_of_chip
        ),
        [
            Prose(f"{place(row, i)} simulated: {_simulated(row.simulate)}")
            for i, row in enumerate(rows, 1)
            if isinstance(row, ServingRow) and row.simulate is not None
        ],
        [Prose(f"disaggregated: {pools.summary}", indent=2)] if pools is not None else [],
        _chips(answer, rows),
        _miss(answer.nearest_miss),
        _elasticities(answer),
        tornado(answer.tornado) if answer.tornado is not None else [],
        details=[
            _limits(answer),
            [Note(_LEGEND)] if rows and isinstance(answer, TrainingSearch) else [],
            [block for group in others for block in group],
            _unsupported(rows, 1),
            *more,
            [Prose(f"rejected: {'; '.join(f'{r.layouts:,} by {r.constraint}' for r in answer.rejected)}", indent=2)]
            if answer.rejected
            else [],
        ],
        about="why the others trail, what rejected layouts" + (", disaggregated pools" if pools is not None else ""),
    )


def _trailing(rows: Sequence[Row]) -> list[list[Block]]:
    """Why each row trails the best, where it does."""
    return [[Prose(f"{place(row, i)} is {row.why}", indent=2)] for i, row in enumerate(rows, 1) if row.why]


def _unsupported(rows: Sequence[Row], start: int = 0) -> list[Block]:
    """What no published run supports of the layouts from `start` on."""
    return [
        Prose(f"{place(row, i)}{_MARK} {'; '.join(row.extrapolations)}", indent=3)
        for i, row in enumerate(rows, 1)
        if i > start and isinstance(row, TrainingRow) and row.extrapolations
    ]


def _command(label: str, words: str) -> list[Block]:
    return [Prose(f"{label}:"), Command(words)]


def place(row: Row, i: int) -> str:
    """The rank of a row, its place in the table where it has none."""
    return str(row.rank or i)


def _counts(answer: SearchAnswer) -> str:
    counts = f"{answer.layouts:,} legal layouts, {answer.fit:,} fit in memory"
    return counts + (f", {answer.meet:,} satisfy the constraints: {'; '.join(answer.where)}" if answer.where else "")


def _limits(answer: SearchAnswer) -> list[Block]:
    """The best row's values that limits apply to, but for the latencies, which the table has."""
    values = answer.results[0].limits_at_bound if answer.results else None
    shown = ", ".join(
        f"{name} {text(v, name)}" for name, v in (values or {}).items() if name not in ("serve.ttft_s", "serve.itl_s")
    )
    if not shown:
        return []
    return [Prose(f"limits apply at {BOUNDS[answer.bound]}, where the best has {shown}", style="dim")]


def _goal(answer: SearchAnswer) -> str:
    kind = "first of the Pareto front of" if answer.pareto else "best"
    return f"{kind} {' and '.join(answer.objective)} by {BOUNDS[answer.bound]}"


def _infeasible(answer: SearchAnswer) -> str:
    what = "satisfies the constraints" if answer.fit else "fits in memory"
    return f"{answer.model} on {answer.hardware}: none of {answer.layouts:,} layouts {what}"


def _training_headline(answer: TrainingSearch) -> str:
    if not answer.results:
        return _infeasible(answer)
    best = answer.results[0]
    return (
        f"{answer.model} on {answer.hardware}: {devices(best.layout)}, step {text(best.time_s, 'time_s')} ({interval(*best.interval_s, 's')}), "
        f"{rate(best.tokens_per_s)}, MFU {percent(best.mfu)}; {_goal(answer)}"
    )


def _serving_headline(answer: ServingSearch) -> str:
    if not answer.results:
        return _infeasible(answer)
    best = answer.results[0]
    s = best.serve
    usd = s.get("usd_per_million_tokens")
    price = "" if usd is None else f", {text(usd, 'usd_per_million_tokens')}/M tokens"
    return (
        f"{answer.model} on {answer.hardware}: {plural(s['instances'], 'instance')} of {devices(best.layout)}, batch {best.layout.batch:g}: "
        f"TTFT {_to_bound(s, 'ttft', 'to ')}, ITL {_to_bound(s, 'itl', 'to ')}, {s['requests_per_s']:.3g} req/s{price}; {_goal(answer)}"
    )


def _to_bound(serve: Mapping[str, float], name: str, word: str = "") -> str:
    """A latency, and the value at which it was limited and ranked where that is another."""
    value, limited = serve[f"{name}_s"], serve.get(f"{name}_at_bound_s")
    to = "" if limited is None or limited == value else f" ({word}{text(limited, 'time_s')})"
    return f"{text(value, 'time_s')}{to}"


def _with_chip(answer: SearchAnswer, columns: list[Column], rows: list[list[str]]) -> Table:
    """The table, with the chip of each row where there are several."""
    at = [column.head for column in columns].index("devices")
    if len({row[at] for row in rows}) == 1:  # the headline has it
        columns, rows = [*columns[:at], *columns[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in rows]
    if answer.chips is None:
        return Table(columns, rows)
    chips = [row.chip or "" for row in answer.results]
    return Table(
        [columns[0], Column("chip", text=True), *columns[1:]],
        [[cells[0], chip, *cells[1:]] for chip, cells in zip(chips, rows, strict=True)],
    )


def _training(answer: TrainingSearch) -> Table:
    goals = [name for name in answer.objective if name.rpartition(".")[2] not in _IN_TABLE]
    columns = [
        Column(""),
        Column("layout", text=True),
        Column("devices", drop=4),
        Column("step"),
        Column("up to"),
        Column("throughput", drop=2),
        Column("MFU", drop=3),
        Column("memory", drop=1),
        *map(Column, goals),
    ]
    rows = [
        [
            f"{place(row, i)}{_MARK if row.extrapolations else ''}",
            layout(row.layout) or "1 device",
            f"{row.layout.devices:,}",
            text(row.time_s, "time_s"),
            text(row.interval_s[1], "time_s"),
            rate(row.tokens_per_s),
            percent(row.mfu),
            text(row.memory.total_bytes, "total_bytes"),
            *(text(row.score[name], name) for name in goals),
        ]
        for i, row in enumerate(answer.results, 1)
    ]
    return _with_chip(answer, columns, rows)


def _serving(answer: ServingSearch) -> Table:
    columns = [
        Column(""),
        Column("layout", text=True),
        Column("instances"),
        Column("devices", drop=5),
        Column("TTFT (to)", drop=6),
        Column("ITL (to)"),
        Column("req/s", drop=4),
        Column("$/M tokens", drop=1),
    ]
    rows = []
    for i, row in enumerate(answer.results, 1):
        s = row.serve
        rows.append(
            [
                place(row, i),
                layout(row.layout) or "1 device",
                f"{s['instances']:g} x {row.layout.batch:g}",
                f"{s['devices']:g}",
                _to_bound(s, "ttft"),
                _to_bound(s, "itl"),
                f"{s['requests_per_s']:.3g}",
                text(s.get("usd_per_million_tokens"), "usd_per_million_tokens"),
            ]
        )
    return _with_chip(answer, columns, rows)


def _within_uncertainty(answer: TrainingSearch) -> list[list[Block]]:
    found = answer.within_uncertainty
    if found is None:
        return []
    return [
        [
            Prose(
                f"{found.layouts:,} layouts, each the best of its split, are within model uncertainty of the best; the simplest is "
                f"{devices(found.simplest)}: {found.command}. {found.separates[0].upper()}{found.separates[1:]}."
            )
        ]
    ]


def _pools(answer: ServingSearch) -> list[list[Block]]:
    """Disaggregated pools, the best first, and the commands of the best."""
    if answer.pools is None:
        return []
    several = answer.chips is not None
    columns = [
        Column("disaggregated", text=True),
        Column("prefill workers", text=True),
        Column("decode workers", text=True),
        Column("devices"),
        Column("TTFT", drop=3),
        Column("ITL", drop=4),
        Column("req/s", drop=1),
        Column("cost"),
        Column("$/M tokens", drop=2),
    ]
    rows = [
        [
            str(i),
            _pool(row.prefill, several),
            _pool(row.decode, several),
            f"{row.devices:g}",
            text(row.prefill.ttft_s, "ttft_s"),
            text(row.decode.itl_s, "itl_s"),
            f"{row.requests_per_s:.3g}",
            text(row.usd_per_hour, "usd_per_hour"),
            text(row.usd_per_million_tokens, "usd_per_million_tokens"),
        ]
        for i, row in enumerate(answer.pool_rows, 1)
    ]
    best = answer.pools
    return [
        [Table(columns, rows)],
        _command("prefill workers of 1", best.prefill.estimate),
        _command("decode workers of 1", best.decode.estimate),
    ]


def _pool(pool: Pool, several: bool) -> str:
    """'4 x 2 h100 (tp2), batch 8'."""
    sizes, on = layout(pool.layout), f" {pool.chip}" if several else ""
    return f"{pool.instances:g} x {pool.devices:g}{on}{f' ({sizes})' if sizes else ''}, batch {pool.batch:g}"


def _chips(answer: SearchAnswer, rows: list[Row]) -> list[Block]:
    """Chips without a row, each with its reason; and those without a price."""
    found: list[Block] = []
    for chip in answer.chips or ():
        if not chip.feasible:
            miss = chip.nearest_miss if isinstance(chip, ChipSearch) else None
            why = chip.why or (f"short by {miss.lacks}" if miss else "nothing fits")
            found.append(Prose(f"{chip.chip}: infeasible, {why}", indent=2))
    shown = {row.chip for row in rows}
    unpriced = [chip for chip in answer.unpriced or () if chip in shown]
    return [*found, *([Prose(remedy(unpriced), indent=2)] if unpriced else [])]


def _miss(miss: NearestMiss | None) -> list[Block]:
    if miss is None:
        return []
    return [*_command("nearest layout", miss.estimate or miss.command), Prose(f"short by {miss.lacks}")]


def _simulated(values: Numbers) -> str:
    if not values["feasible"]:
        return str(values["violation"])
    attained = f", SLO attainment {percent(values['slo_attainment'])}" if "slo_attainment" in values else ""
    return (
        f"TTFT {text(values['ttft_p50_s'], 'time_s')} at p50, {text(values['ttft_p99_s'], 'time_s')} at p99; "
        f"TPOT {text(values['tpot_p99_s'], 'time_s')} at p99{attained}"
    )


def _elasticities(answer: SearchAnswer) -> list[Block]:
    if not answer.sensitivity:
        return []
    time = "step time" if isinstance(answer, TrainingSearch) else "ITL"
    rows = [(f"{row.elasticity:+.3f}", row.figure) for row in answer.sensitivity[:_ELASTICITIES]]
    return [
        Prose(f"elasticity: % change in {time} per 1% change of each value"),
        Table([Column("elasticity"), Column("value", text=True)], rows),
    ]
