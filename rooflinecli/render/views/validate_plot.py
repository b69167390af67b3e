"""Pictures of a validation: predicted against measured, and residuals by group; PNG, with the extra `plot` (matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install

_SHOWN = 2000  # points per group; more only blur


def pictures(tables: list[Any], folder: Path) -> dict[str, Path]:
    """One picture per table that has points, in `folder`, by title. Raises UsageError without matplotlib or a writable folder."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise UsageError(f"--plot needs matplotlib: {install('plot')}") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--plot {folder}: cannot be written ({error.strerror}); give a writable folder") from None
    written = {}
    for table in tables:
        if table.points:
            figure = _picture(plt, table)
            path = folder / f"{_name(table.title)}.png"
            with files.replacing(path, "--plot") as partial:
                figure.savefig(partial, dpi=80, format="png")
            plt.close(figure)
            written[table.title] = path
    return written


def _name(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def _picture(plt: Any, table: Any) -> Any:
    """Left: predicted over measured, log-log, the floor in gray. Right: the middle half and 80% of expected / measured per group."""
    import numpy as np

    groups = [(p, p.possible()) for p in table.points if p.possible().any()]
    height = max(4.2, 1.2 + 0.22 * len(groups))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, height), layout="constrained")
    for p, keep in groups:
        some = np.flatnonzero(keep)[:: max(1, int(keep.sum()) // _SHOWN)]
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
