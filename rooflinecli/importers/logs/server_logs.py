"""Logs of serving engines (vLLM, SGLang), which report their requests and rates every few seconds: steps of decoding while nothing else ran."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.logs import step_logs
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive
from rooflinecli.specs.snapshots import table

FEWEST = 3  # reports of one number of requests of which a median is taken


@dataclass(frozen=True)
class ServerLog:
    """Reader of one engine's log: a row of the table."""

    TOOL: str
    row: Json

    def claims(self, source: Source) -> bool:
        return re.search(self.row["line"], source.plain) is not None

    def read(self, source: Source) -> list[MeasuredRow]:
        """A row of each number of requests that ran between two reports and after the first, without a prompt: every one got a token in each step."""
        steady: dict[float, list[tuple[float, int, float]]] = {}  # requests -> seconds of a step, line, tokens of each
        before: dict[str, float] = {}
        cache = re.findall(self.row.get("cache", "(?!)"), source.plain)
        for line, text in enumerate(source.lines, start=1):
            if "prompts" in self.row and re.search(self.row["prompts"], text):
                before.clear()
            if (match := re.search(self.row["line"], text)) is None:
                continue
            said = {name: value or "" for name, value in match.groupdict().items()}
            running, rate = positive(said["running"]), positive(said["rate"])
            if running and rate and before.get(said["replica"]) == running and not positive(said.get("prompts")):
                share = (positive(said.get("share")) or 0.0) / 100 * (positive(cache[-1]) or 0.0) if cache else 0.0
                held = (positive(said.get("held")) or share) / running
                steady.setdefault(running, []).append((running / rate, line, held))
            before[said["replica"]] = running or 0.0
        options: Options = {"engine": self.row["engine"]}
        for name, patterns in self.row["options"].items():
            found = next((each[-1] for pattern in patterns if (each := re.findall(pattern, source.plain))), None)
            if found:
                options[name] = found if name == "model" else positive(found)
        drafts = [size for text in re.findall(self.row["drafted"], source.plain) if (size := positive(text))]
        probe: Json = {"drafted": median(drafts)} if drafts else {}
        apart = (
            "its reports are of one rank of several that share a model"
            if re.search(self.row["apart"], source.plain)
            else ""
        )
        rows = []
        for running, reports in sorted(steady.items()):
            if len(reports) < FEWEST:
                continue
            seconds, held = median(time for time, *_ in reports), median(tokens for *_, tokens in reports)
            where = source.at(min(reports, key=lambda report: abs(report[0] - seconds))[1])
            given = {**options, "batch": running} | ({"prompt": round(held), "output": 1} if held >= 1 else {})
            notes = [f"median of {len(reports)} reports of {running:g} requests"]
            notes += step_logs.rounded(f"{running / seconds:.2f}".rstrip("0"))
            rows.append(
                MeasuredRow(
                    where, self.TOOL, "itl", seconds, options=given, probe=probe, notes=tuple(notes), unread=apart
                )
            )
        if not rows:
            first = re.search(self.row["line"], source.plain)
            why = f"{source.at(source.line_of(first.start() if first else 0))}: {self.TOOL}: nowhere {FEWEST} reports of as many requests with no prompt between them; give the result of the client that sent them"
            raise DataError(why)
        return rows


READERS = tuple(ServerLog(tool, row) for tool, row in table(Path(__file__).with_suffix(".yaml")).items())
