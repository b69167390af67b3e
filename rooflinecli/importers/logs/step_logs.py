"""Training logs with a line per step: a row of step_logs.yaml has the pattern that matches it, and the printed arguments that become options."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive
from rooflinecli.specs.snapshots import table

WARM_UP = 2  # steps in which kernels are compiled, or that return before they ran
STEADY = 5  # steps of a run from which on it is not called short
ROUNDED = 3  # digits of a figure with a fraction: fewer are noted
_MEAN = "the mean of the run's steps so far, as its last line states it"
SPREAD = 0.15  # of the median: a larger spread is noted
UNITS = {"ms": 1e-3, "s": 1.0, "": 1e-3, "K": 1.0, "M": 1e3}  # in seconds; nanotron shortens milliseconds
_NUMBER = re.compile(r"\bglobal_step[=:] ?(\d+)|(?:\biter(?:ation)?[:=\s]+|\bstep:? |\[batch=|\bsteps?[ =]+)(\d+)")


def settled(
    source: Source,
    tool: str,
    steps: list[tuple[int, float]],
    unit: str = "s",
    options: Options | None = None,
    probe: Options | None = None,
) -> list[MeasuredRow]:
    """One reading for (line, value) of a run's steps: their median after warm-up, cited at the line that states it."""
    if not steps:
        return []
    kept = steps[min(WARM_UP, len(steps) // 2) :]
    middle = median(value for _, value in kept)
    line, value = min(kept, key=lambda step: abs(step[1] - middle))
    quarter = sorted(v for _, v in kept)
    apart = (quarter[3 * len(kept) // 4] - quarter[len(kept) // 4]) / middle
    notes = [f"median of {len(kept)} steps"] if len(kept) > 1 else ["a single step; warm-up may be in it"]
    notes += [f"a run of {len(steps)} steps, too short to be steady"] * (1 < len(steps) < STEADY)
    if apart > SPREAD:
        notes.append(f"half of the steps lie {apart:.0%} apart")
    given = {key: v for key, v in (options or {}).items() if v is not None}
    return [MeasuredRow(source.at(line), tool, "train", value, unit, given, probe or {}, tuple(notes))]


@dataclass(frozen=True)
class StepLog:
    """Reader of one framework's log: a row of the table."""

    TOOL: str
    row: Json

    @cached_property
    def step(self) -> re.Pattern[str]:
        return re.compile(self.row["step"])

    def claims(self, source: Source) -> bool:
        other = "without" in self.row and re.search(self.row["without"], source.plain)
        return re.search(self.row["marker"], source.plain) is not None and not other

    def read(self, source: Source) -> list[MeasuredRow]:
        """A row of each run in the log. A run that prints no arguments of its own has those of the run before, unless a document has it in
        another listing."""
        found: list[MeasuredRow] = []
        options: Options = {}
        before = 0
        batch = re.compile(self.row["batch"]) if "batch" in self.row else None
        for steps, text in _runs(source, self._steps(source)):
            given, apart = self.sizes(text), 0
            if before and any(each.lstrip().startswith("```") for each in source.lines[before : steps[0][0]]):
                options = {}
            before = steps[-1][0]
            near = [(source.lines[at - 1 : at + 2], source.lines[at - 2 : at - 1]) for at, _ in steps]
            sizes = [batch and (batch.search("\n".join(own)) or batch.search("".join(above))) for own, above in near]
            if sizes[-1]:
                given["batch"] = int(sizes[-1][1])
                kept = [s for s, size in zip(steps, sizes, strict=True) if size and int(size[1]) == given["batch"]]
                apart, steps = len(steps) - len(kept), kept
            steps = self._summed(source, steps)[-1 if self.row.get("mean") else 0 :]
            options = {**options, **given, "software": self.row.get("software")}
            probe = self._tokens(source, steps, text)
            lines = ["".join(source.lines[at - 1 : at + 1]) for at, _ in steps if "tflops" in self.row]
            stated = [re.search(self.row["tflops"], line) for line in lines]
            if rates := [rate for match in stated if match and (rate := positive(match[1]))]:
                probe["tflops"] = median(rates)
            rows = settled(source, self.TOOL, steps, self.row.get("unit", "s"), options, probe)
            if self.row.get("mean"):
                rows = [replace(row, notes=(_MEAN,)) for row in rows]
            note = (f"{apart} steps of other batches are left out",) if apart else ()
            found += [self._rounded(replace(row, notes=(*row.notes, *note)), source, steps) for row in rows]
        return found

    def _summed(self, source: Source, lines: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Steps of lines that are iterations: the sum of those that end with a marked one, or a multiple where not every one is printed."""
        if "micro" not in self.row:
            return lines
        ends = [(i, m) for i, (at, _) in enumerate(lines) if (m := re.search(self.row["micro"], source.lines[at - 1]))]
        (i, n), (j, k) = ([(0, 0)] * 2 + [(int(end[1]), int(end[2])) for _, end in ends])[-2:]
        share = max((j - i) // (k - n), 1) if k > n else 1
        if any(b - a != share for (a, _), (b, _) in pairwise(ends)):
            return [(line, value * share) for line, value in lines]
        whole = [i for i, _ in ends if i + 1 >= share]
        return [(lines[i][0], sum(value for _, value in lines[i + 1 - share : i + 1])) for i in whole] or lines

    def _steps(self, source: Source) -> list[tuple[int, float]]:
        """(line, value) of every line that matches. Raises DataError where the last line begins as one and is cut short."""
        found = []
        for line, text in enumerate(source.lines, start=1):
            match = self.step.search(text)
            if match is None and self.row.get("begins", "\n") in text:
                match = self.step.search(self._line(source, line))
            if match and (value := positive(match["value"])):
                value *= UNITS[match["unit"]] if "unit" in self.step.groupindex else 1.0
                found.append((line, 1 / value if self.row.get("inverse") else value))
        end, last = max(((i, text) for i, text in enumerate(source.lines, start=1) if text.strip()), default=(1, ""))
        if "begins" in self.row and self.row["begins"] in last and not self.step.search(last):
            raise DataError(f"{source.at(end)}: a step's line ends before its time; was the file cut short?")
        return found

    def _line(self, source: Source, line: int) -> str:
        """A step's line, with the next one where a page has broken it."""
        text = source.lines[line - 1]
        return text if self.step.search(text) else "".join(source.lines[line - 1 : line + 1])

    def sizes(self, text: Source) -> Options:
        """Options that the log prints."""
        found: Options = {}
        for pattern in self.row.get("sizes", ()):
            if match := re.search(pattern, text.plain):
                found |= {name: int(size) for name, size in match.groupdict().items()}
        for name, meanings in self.row.get("words", {}).items():
            found |= meanings.get(_printed(text, name), {})
        for name, option in self.row.get("arguments", {}).items():
            size = positive(_printed(text, name))
            found |= {option: int(size)} if size is not None and size == int(size) else {}
        return found

    def _tokens(self, source: Source, steps: list[tuple[int, float]], text: Source) -> Json:
        """The median of a step's tokens, on one device or on all, which gives the batch."""
        matches = [(value, self.step.search(self._line(source, line))) for line, value in steps]
        for group, name in (("each", "tokens_per_device"), ("rate", "tokens")):
            if group in self.step.groupindex:
                found = [value * rate for value, match in matches if match and (rate := positive(match[group]))]
                return {name: median(found)} if found else {}
        if "tokens" in self.row:
            stated = [m.groupdict() for m in re.finditer(self.row["tokens"], text.plain)]
            counts = [(positive(m["tokens"]) or 0.0) / (positive(m.get("step", 1)) or 1.0) for m in stated]
            return {"tokens": median(counts)} if counts else {}
        return {}

    def _rounded(self, row: MeasuredRow, source: Source, steps: list[tuple[int, float]]) -> MeasuredRow:
        """The row, with a note where its line has fewer than three digits of it."""
        line = next(line for line, _ in steps if source.at(line) == row.where)
        match = self.step.search(self._line(source, line))
        return replace(row, notes=(*row.notes, *rounded(match["value"] if match else "")))


def rounded(text: str) -> list[str]:
    """A note on a figure with a fraction and fewer than three digits."""
    figures = text.replace(".", "").lstrip("0")
    if "." not in text or len(figures) >= ROUNDED or not figures.isdigit():
        return []
    return [f"{text} has {len(figures)} digits, which leave it uncertain by {0.5 / int(figures):.1%}"]


def _printed(source: Source, name: str) -> str:
    """The first value of an argument printed as `name ..... value` (Megatron; DeepSpeed, behind its time and place) or `name: value` /
    `name = value` (YAML dumps)."""
    start = r"^(?:\[?\w+\]?:?\s|(?:\S+:\s+)?(?:\[[^]\n]*\]\s*)*|.*\bConfig param\s|.*\"cfg/)?\s*"
    match = re.search(rf"{start}{name}\"?\s*(?:\.{{3,}}|:|=|  )\s*([^\s,#}}]+)", source.plain, re.MULTILINE)
    return match[1] if match else ""


def _runs(source: Source, steps: list[tuple[int, float]]) -> list[tuple[list[tuple[int, float]], Source]]:
    """Steps of each run with the part of the log up to its last one: a run begins where the numbers of steps fall back to the first ones,
    and in another listing of a document.

    A run of no more steps than a warm-up is left out where there is another.
    """
    runs: list[list[tuple[int, float]]] = []
    first = last = 0
    fences = [line for line, text in enumerate(source.lines, start=1) if text.lstrip().startswith("```")]
    for line, value in steps:
        found = _NUMBER.findall(source.lines[line - 1])
        number = next((int(whole) for pair in sorted(found, reverse=True) for whole in pair if whole), last + 1)
        apart = bool(runs) and bisect(fences, line) != bisect(fences, runs[-1][-1][0])
        if not runs or apart or number < first or (number == first and last > first + 1):
            runs.append([])
            first = number
        runs[-1].append((line, value))
        last = number
    ends = [0, *(run[-1][0] for run in runs)]
    parts = [
        (run, Source(source.name, "\n".join(source.lines[start:end])))
        for run, start, end in zip(runs, ends, [*ends[1:-1], len(source.lines)], strict=False)
    ]
    return [part for part in parts if len(part[0]) > WARM_UP] or parts


READERS = tuple(StepLog(tool, row) for tool, row in table(Path(__file__).with_suffix(".yaml")).items())
