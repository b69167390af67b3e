"""What `roofline sweep` does once its options are read: streams chunks to a writer, a file and a plot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.progress import Progress


@dataclass
class SweepRunOptions:
    """The options of a sweep that do not span its space."""

    options: dict[str, Any]
    figures: list[str] | None
    columns: list[str] | None
    where: list[str]
    feasible_only: bool
    shard: str | None
    plot: str | None
    plot_kind: str
    format: str
    out: Path | None
    width: int
    jobs: int = 1
    cluster: str | None = None


def run(ask: SweepRunOptions) -> bool:
    """Sweep; True when at least one point was feasible."""
    from rooflinecli.questions.sweep import axes, grid
    from rooflinecli.questions.sweep import run as sweep
    from rooflinecli.questions.sweep.filters import Filter
    from rooflinecli.questions.sweep.plot_points import Gathered
    from rooflinecli.render.formats.plot import check

    if ask.plot:
        check(ask.plot)
    space = axes.space(ask.options, ask.figures)
    shown = sweep.layout(space, ask.columns)
    keep = Filter(space, ask.where, ask.feasible_only)
    start, stop = grid.shard(space.points, ask.shard)
    plot = Gathered(ask.plot_kind, space) if ask.plot else None
    progress, feasible = Progress(stop - start), False
    quiet = ask.plot == "-" and ask.out is None and ask.format == "table"
    with writer(ask.format, ask.out, shown.names, _about(space, shown.names, start, stop), quiet, ask.width) as out:
        for table, points in _tables(ask, space, shown, keep, start, stop, plot):
            feasible = feasible or bool(table["feasible"].any())
            out.add(table)
            progress.add(points)
    progress.close()
    if plot:
        _draw(plot.picture, str(ask.plot))
    return feasible


def _tables(
    ask: SweepRunOptions, space: Any, shown: Any, keep: Any, start: int, stop: int, plot: Any
) -> Iterator[tuple[dict[str, Any], int]]:
    """(rows that pass, points they were chosen from) box by box, made here or by many hands. Raises UsageError for a plot by many."""
    from rooflinecli.questions.sweep import run as sweep

    if ask.jobs > 1 or ask.cluster:
        from rooflinecli.core.parallel_map import spread_over

        if plot:
            raise UsageError("--plot draws while the sweep goes by; leave out --jobs and --cluster", "plot")
        yield from sweep.spread(space, shown, keep, start, stop, spread_over(ask.jobs, ask.cluster))
        return
    for choice, answer in sweep.answers(space, start, stop):
        yield keep(answer, sweep.table(shown, choice, answer)), answer.points
        if plot:
            plot.add(choice, answer)


def _about(space: Any, columns: list[str], start: int, stop: int) -> dict[str, Any]:
    """What a file says about itself."""
    return {
        "axes": {a.name: _values(a.values) for a in (*space.structure, *space.sizes)},
        "phases": list(space.phases),
        "columns": columns,
        "first": start,
        "stop": stop,
        "of": space.points,
    }


def _draw(picture: Any, target: str) -> None:
    from rooflinecli.render.formats.plot import draw

    text = draw(picture, target)
    if text:
        print(text)


def _values(values: tuple[Any, ...]) -> list[Any]:
    """An axis for the header: all of it, or its ends when it is long."""
    whole = [int(v) if isinstance(v, float) and v == int(v) else v for v in values]
    return whole if len(whole) <= 64 else [*whole[:3], f"… {len(whole) - 4} more …", whole[-1]]


class _Silent:
    def add(self, chunk: dict[str, Any]) -> None:
        pass


@contextmanager
def writer(
    format: str, out: Path | None, names: list[str], about: dict[str, Any], quiet: bool = False, width: int = 120
) -> Iterator[Any]:
    """A writer to standard output, or to a file written whole or not at all. Raises UsageError when it cannot be written."""
    if quiet:
        yield _Silent()
        return
    if out is None:
        if format == "parquet":
            raise UsageError("--format parquet needs --out FILE")
        made = _writer(format, sys.stdout, names, about, width)
        yield made
        made.close()
        sys.stdout.flush()
        return
    with files.replacing(out) as partial, _target(format, partial) as target:
        made = _writer(format, target, names, about, width)
        yield made
        made.close()


@contextmanager
def _target(format: str, path: Path) -> Iterator[Any]:
    if format == "parquet":
        yield path
        return
    with path.open("w", encoding="utf-8", errors="replace") as stream:
        yield stream


def _writer(format: str, target: Any, names: list[str], about: dict[str, Any], width: int) -> Any:
    if format == "parquet":
        from rooflinecli.render.formats.parquet import Parquet

        return Parquet(target, names, about)
    if format == "jsonl":
        from rooflinecli.render.formats.jsonl import Jsonl

        return Jsonl(target, names, about)
    from rooflinecli.render.views.sweep import WRITERS, Table

    return Table(target, names, about, width) if format == "table" else WRITERS[format](target, names, about)


def sensitivity(options: dict[str, Any], figures: list[str] | None, format: str, out: Path | None, width: int) -> None:
    """Elasticities of a single point."""
    from rooflinecli.interfaces.cli.output import write
    from rooflinecli.questions.sensitivity.elasticities import of_point
    from rooflinecli.render.views.sensitivity import text

    write(text(of_point(options, figures), format, width), out)
