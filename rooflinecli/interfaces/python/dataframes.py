"""Answers of many rows as frames: pandas, or polars where only that is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import Record, leaves
from rooflinecli.questions.sweep.question import Sweep


def frame(rows: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """A frame of rows, or of columns. Raises UsageError where neither library is installed."""
    if find_spec("pandas") is not None:
        import pandas

        return pandas.DataFrame(rows if isinstance(rows, Mapping) else list(rows))
    if find_spec("polars") is not None:
        import polars

        if isinstance(rows, Mapping):
            return polars.DataFrame(rows, strict=False)
        return polars.DataFrame([dict(row) for row in rows], strict=False, infer_schema_length=None)
    raise UsageError("a frame needs pandas or polars; install one of them, or use to_dict()")


class Simulation(dict[str, Any]):
    """The answer of a simulation: the object that `roofline simulate --format json` prints; its numbers by their names as well.

    `times` holds every request's seconds and tokens, as arrays.
    """

    def __init__(self, answer: Mapping[str, Any], times: Any):
        super().__init__(answer)
        self.times = times

    def requests(self) -> Any:
        """A row for each request, as `--requests-out` writes them: a pandas frame, or a polars one where only that is installed."""
        from rooflinecli.render.formats.request_log import table

        return frame(table(self.times))

    def __missing__(self, name: str) -> Any:
        """A number of the run, such as ttft_p99_s."""
        return self["simulate"][name]

    def to_frame(self) -> Any:
        """A row for each number with the ends of its 80% interval, None where it has none: a pandas frame, or a polars one."""
        ends = self["interval"]
        return frame(
            {
                "quantity": name,
                "value": value,
                "low": (ends.get(name) or [None])[0],
                "high": (ends.get(name) or [None])[-1],
            }
            for name, value in self["simulate"].items()
        )


class Calibration(dict[str, Any]):
    """The answer of a calibration: the object that `roofline calibrate --format json` prints, and the hardware file that it makes."""

    def __init__(self, answer: Mapping[str, Any], hardware: str | None):
        super().__init__(answer)
        self.hardware = hardware

    def to_frame(self, title: str = "error") -> Any:
        """Return the rows of a table by a word of its title: error, determine, contradict, read or next.

        Raises UsageError where no title has it.
        """
        found = next((table["rows"] for table in self["tables"] if title in table["title"]), None)
        if found is None:
            raise UsageError(f"no table is about {title!r}; there are: {'; '.join(t['title'] for t in self['tables'])}")
        return frame(found)


def sweep(question: Sweep) -> Any:
    """The whole of a sweep as a frame, its chunks joined."""
    import numpy as np

    from rooflinecli.questions.sweep import axes
    from rooflinecli.questions.sweep import run as swept
    from rooflinecli.questions.sweep.run import Filter

    space = axes.space(question.options(), list(question.figures) or None)
    shown = swept.layout(space, question.wanted)
    keep = Filter(space, list(question.where), question.feasible_only)
    found: dict[str, list[Any]] = {name: [] for name in shown.names}
    for choice, answer in swept.answers(space, 0, space.points):
        table = keep(answer, swept.table(shown, choice, answer))
        count = len(table["feasible"])
        for name in shown.names:
            value = table[name]
            found[name].append(value if isinstance(value, np.ndarray) and value.ndim else np.full(count, value))
    return frame({name: np.concatenate(parts) for name, parts in found.items()})


def rows(answer: Record, name: str) -> Any:
    """A list of an answer as a frame, a column for each number; empty where nothing is feasible."""
    return frame([dict(leaves(row)) for row in getattr(answer, name)])
