"""A picture of points in the terminal, or PNG/SVG with the extra `plot` (matplotlib); pictures of a validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.render.report.charts import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rooflinecli.render.blocks import Picture
    from rooflinecli.validate.stats import Table

MARKS = "o+x*#@%&ABCD"
WIDTH, HEIGHT = 80, 20  # with the numbers on the left


def draw(picture: Picture, target: str) -> str | None:
    """Write FILE.png or FILE.svg; or return text for target `-`. Raises UsageError when there is nothing to show or no way to."""
    if not any(picture.series.values()) and not picture.boxes:
        raise UsageError("--plot: no point to show; nothing is feasible")
    check(target)
    if target == "-":
        return text(picture)
    _file(picture, Path(target))
    return None


def check(target: str) -> None:
    """Raises UsageError for a target that nothing can be drawn to, before the answer is computed."""
    if target != "-":
        files.check_target(Path(target), "--plot", "FILE.png, FILE.svg or -")


def _curves(picture: Picture) -> dict[str, list[tuple[float, float]]]:
    """Roofs as dense lines across the range of the points."""
    xs = [x for x, _ in picture.points()]
    curves = {}
    for name, (peak, bandwidth) in picture.roofs.items():
        low, high = min([*xs, peak / bandwidth]) / 2, max([*xs, peak / bandwidth]) * 2
        steps = [low * (high / low) ** (i / 200) for i in range(201)]
        curves[name] = [(x, min(peak, x * bandwidth)) for x in steps]
    for name, y in picture.limits.items():
        low, high = min(xs), max(xs)
        curves[name] = [(low + (high - low) * i / 200, y) for i in range(201)]
    return curves


def _scale(values: list[float], cells: int, log: bool) -> Scale:
    """Data onto the places of cells: from zero where values are far apart and none is negative."""
    low, high = min(values), max(values)
    if not log and 0 < low < high / 3:
        low = 0.0
    if low == high:
        low, high = (low / 2, high * 2) if low else (0.0, 1.0)
    return Scale(low, high, 0, cells - 1, log)


def text(picture: Picture) -> str:
    """The picture in characters, with a legend."""
    curves = _curves(picture)
    points = [*picture.points(), *(p for line in curves.values() for p in line)]
    up = _scale([y for _, y in points], HEIGHT, picture.log or picture.log_up)
    top, bottom = (f"{end:.{0 if picture.boxes else 3}{'f' if picture.boxes else 'g'}}" for end in (up.high, up.low))
    pad = max(len(top), len(bottom))
    width = WIDTH - pad - 2
    across = _scale([x for x, _ in points], width, picture.log)
    cells = [[" "] * width for _ in range(HEIGHT)]
    for line in curves.values():
        for x, y in line:
            cells[HEIGHT - 1 - round(up(y))][round(across(x))] = "·"
    for i, line in enumerate(picture.series.values()):
        for x, y in line:
            cells[HEIGHT - 1 - round(up(y))][round(across(x))] = MARKS[i % len(MARKS)]
    for mark, boxes in zip(MARKS, picture.boxes.values(), strict=False):
        for left, right, low, high in boxes:
            start, stop = round(across(left)), round(across(right))
            for row in cells[HEIGHT - 1 - round(up(high)) : HEIGHT - round(up(low))]:
                row[start:stop] = mark * (stop - start)
    rows = [
        f"{(top if r == 0 else bottom if r == HEIGHT - 1 else '').rjust(pad)} ┤{''.join(row).rstrip()}"
        for r, row in enumerate(cells)
    ]
    ends = f"{across.low:.3g}".ljust(width - 10) + f"{across.high:.3g}".rjust(10)
    legend = [
        f"  {MARKS[i % len(MARKS)]} {name or 'points'}" for i, name in enumerate(picture.series or picture.boxes)
    ] + [f"  · {name}" for name in curves]
    return "\n".join(
        [
            picture.title,
            picture.y + (" (logarithmic)" if picture.log_up else ""),
            *rows,
            " " * pad + " └" + "─" * width,
            " " * (pad + 2) + ends,
            " " * (pad + 2) + picture.x + (" (logarithmic)" if picture.log else ""),
            *legend,
        ]
    )


def _file(picture: Picture, path: Path) -> None:
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, line in _curves(picture).items():
        axes.plot(*zip(*line, strict=True), color="grey", linewidth=1)
        axes.annotate(name, line[-1], ha="right", va="bottom", fontsize=8, color="grey")
    for name, points in picture.series.items():
        axes.plot(*zip(*points, strict=True), "-" if picture.curves else "o", markersize=3, label=name or None)
    for name, boxes in picture.boxes.items():
        sizes = zip(*((left, high - low, right - left, low) for left, right, low, high in boxes), strict=True)
        axes.bar(*sizes, align="edge", label=name, edgecolor="white", linewidth=0.4)
    for axis in (axes.xaxis, axes.yaxis) if picture.boxes else ():
        axis.get_major_locator().set_params(integer=True)
    left, right = axes.get_xlim()
    for (x, y), name in picture.names.items():  # toward the middle, so that they end inside
        side, gap = ("right", -5) if x > (left + right) / 2 else ("left", 5)
        axes.annotate(name, (x, y), (gap, 5), textcoords="offset points", fontsize=7, ha=side)
    if picture.log:
        axes.set_xscale("log")
    if picture.log or picture.log_up:
        axes.set_yscale("log")
    if picture.boxes:
        figure.legend(fontsize=8, loc="outside lower center", ncols=len(picture.boxes))
    elif any(picture.series):
        axes.legend(fontsize=8)
    axes.set(title=picture.title, xlabel=picture.x, ylabel=picture.y)
    axes.grid(alpha=0.3)
    try:
        with files.replacing(path, "--plot") as partial:
            figure.savefig(partial, dpi=150, format=path.suffix[1:])
    finally:
        pyplot.close(figure)


def _pyplot() -> ModuleType:
    """matplotlib without a window. Raises UsageError without the extra `plot`."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError(
            f"--plot needs matplotlib for files; `{install('plot')}`, or --plot - for the terminal"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


_MOST = 2000  # points per group; more only blur


def validation(tables: Sequence[Table], folder: Path) -> dict[str, Path]:
    """One picture per table that has points, in `folder`, by title. Raises UsageError without matplotlib or a writable folder."""
    plt = _pyplot()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--plot {folder}: cannot be written ({error.strerror}); give a writable folder") from None
    written = {}
    for table in tables:
        if table.points:
            figure = _residuals(plt, table)
            words = "".join(c if c.isalnum() else " " for c in table.title.lower()).split()
            path = folder / f"{'-'.join(words)}.png"
            with files.replacing(path, "--plot") as partial:
                figure.savefig(partial, dpi=80, format="png")
            plt.close(figure)
            written[table.title] = path
    return written


def _residuals(plt: ModuleType, table: Table) -> Figure:
    """Left: predicted over measured, log-log, the floor in gray. Right: the middle half and 80% of expected / measured per group."""
    import numpy as np

    groups = [(p, p.possible()) for p in table.points if p.possible().any()]
    height = max(4.2, 1.2 + 0.22 * len(groups))
    figure: Figure
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, height), layout="constrained")
    for p, keep in groups:
        some = np.flatnonzero(keep)[:: max(1, int(keep.sum()) // _MOST)]
        left.plot(p.measured[some], p.floor[some], ".", color="0.85", markersize=3, zorder=1)
        left.plot(p.measured[some], p.expected[some], ".", markersize=4, zorder=2)
    measured = np.concatenate([p.measured[keep] for p, keep in groups])
    ends = [measured.min() / 1.3, measured.max() * 1.3]
    left.plot(ends, ends, color="black", linewidth=0.8, zorder=3)
    left.set(xscale="log", yscale="log", xlabel="measured", ylabel="expected (gray: floor)", title=table.title)
    residuals = [p.expected[keep] / p.measured[keep] for p, keep in groups]
    rows = range(len(groups))
    right.boxplot(
        residuals, orientation="horizontal", positions=list(rows), whis=(10, 90), showfliers=False, widths=0.6
    )
    right.axvline(1.0, color="black", linewidth=0.8)
    right.set(xscale="log", xlabel="expected / measured (box: middle half, whiskers: 80%)", yticks=list(rows))
    right.set_yticklabels([f"{p.group} ({int(keep.sum())})" for p, keep in groups], fontsize=7)
    ticks = [0.5, 0.7, 0.85, 1, 1.2, 1.5, 2]
    right.set_xticks(ticks, [f"{t:g}" for t in ticks])
    right.minorticks_off()
    return figure
