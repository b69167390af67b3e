"""MLPerf training (:::MLLOG): tracked_stats with seconds per step or a throughput, the batch and the length."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.logs import step_logs
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive
from rooflinecli.specs.snapshots import packaged

TOOL = "MLPerf training :::MLLOG"
_TIMING = re.compile(r"train_step_timing in s[\"']?[:=]\s*([\d.]+)(?=[\s,|}\]]|$)")
_TABLE = packaged(__file__)
# whose configuration most submissions print
_NEMO = next(reader for reader in step_logs.READERS if reader.TOOL == "NeMo")


def claims(source: Source) -> bool:
    return re.search(r":::MLLOG +\{", source.plain) is not None


def read(source: Source) -> list[MeasuredRow]:
    events = list(_events(source))
    if any(event["key"].startswith("loadgen_") for _, event in events):
        raise DataError(f"{source.at(1)}: LoadGen's detail log; give mlperf_log_summary.txt of the same run")
    said = {event["key"]: event.get("value") for _, event in events if event.get("key") != "tracked_stats"}
    benchmark = str(said.get("submission_benchmark", ""))
    named = {"batch": "global_batch_size", "seq": "max_sequence_length"}
    options: Options = _NEMO.sizes(source) | {o: v for o, name in named.items() if (v := positive(said.get(name)))}
    options |= {"model": _TABLE["models"].get(benchmark), "recipe": "lora" if benchmark.endswith("_lora") else None}
    timed = [(i, v) for i, text in enumerate(source.lines, 1) if (m := _TIMING.search(text)) and (v := positive(m[1]))]
    rate = "tokens/s" if benchmark == "gpt3" else "samples/s"
    if benchmark in _TABLE["no_text"]:
        raise DataError(f"{source.at(1)}: MLPerf's {benchmark} is no language model; give a log of one")
    stated = [steps for name in ("train_step_time", "train_step_timing") if (steps := _stats(events, name))]
    for steps, unit in (*((steps, "s") for steps in stated), (timed, "s"), (_stats(events, "throughput"), rate)):
        if steps:
            return step_logs.settled(source, TOOL, steps, unit, options)
    if all("power" in event["key"] or event["key"] == "conversion_eff" for _, event in events):
        return []  # which importers/logs/power reads
    if benchmark in _TABLE["models"] and options.get("batch"):
        steps, note = _counted(events, options["batch"], options.get("seq"))
        rows = step_logs.settled(source, TOOL, steps, "s", options)
        if rows:
            return [replace(row, notes=(*row.notes, note)) for row in rows]
    whole = "a whole run" if "run_stop" in said else "a run without its end"
    why = f"{benchmark or TOOL}: {whole}, which states neither the time of a step nor a throughput, and at no two times its samples"
    raise DataError(f"{source.at(len(source.lines))}: {why}")


def _counted(events: list[tuple[int, Json]], batch: float, seq: float | None) -> tuple[list[tuple[int, float]], str]:
    """(line, seconds) of the steps between events that count the samples or tokens so far, without the time between the start and the end of
    an evaluation; and a note. Where evaluation has no start, what ends with one is left out, unless there is nothing else."""
    apart = any(event["key"] == "eval_start" for _, event in events)
    clock, since, last = 0.0, None, (0.0, 0.0)
    found: list[tuple[int, float, float, bool]] = []
    for line, event in events:
        key, now, more = event["key"], (positive(event.get("time_ms")) or 0.0) / 1000, event.get("metadata") or {}
        clock += now - since if since is not None else 0.0
        runs = key in _TABLE["starts"] or (since is not None and key not in _TABLE["stops"])
        since = now if runs else None
        count = next((size for name in _TABLE["counts"] if (size := positive(more.get(name)))), 0.0)
        if key in _TABLE["counted"] and count > last[1] and clock > last[0]:
            found.append((line, clock - last[0], count - last[1], apart or key == "train_loss"))
            last = clock, count
    clean = [each for each in found if each[3]] or found
    tokens = batch * (seq or 1.0)
    unit = tokens if all(count % tokens == 0 for _, _, count, _ in clean) else batch
    note = (
        f"from counts of its samples and their times{'' if all(each[3] for each in clean) else ', evaluation included'}"
    )
    return [(line, time / (count / unit)) for line, time, count, _ in clean], note


def _events(source: Source) -> Any:
    """(line, event); a gpt3 throughput counts tokens, since its steps do, the others samples."""
    last = max((i for i, text in enumerate(source.lines) if text.strip()), default=0)
    for i, text in enumerate(source.lines):
        _, mark, body = text.partition(":::MLLOG")
        if mark:
            try:
                event = json.loads(body)
            except ValueError:
                if i == last:
                    why = f"{source.at(i + 1)}: the last line is no whole event; was the file cut short?"
                    raise DataError(why) from None
                continue
            if isinstance(event, dict) and "key" in event:
                yield i + 1, event


def _stats(events: list[tuple[int, Json]], name: str) -> list[tuple[int, float]]:
    tracked = [(line, event.get("value")) for line, event in events if event["key"] == "tracked_stats"]
    return [(line, v) for line, value in tracked if isinstance(value, dict) and (v := positive(value.get(name)))]
