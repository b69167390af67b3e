"""Serving benchmarks: a row of serving.yaml says by what a format is recognized and where its figures are; here are the records that
files are cut into, and what no row can say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.logs.serving_run import ServingRun, between, engine_of, lengths, lumped, suspect
from rooflinecli.importers.source import LogReader, MeasuredRow, Options, Source, at, csv_rows, need, patterns, positive
from rooflinecli.specs.snapshots import table

_P = patterns("serving")
Records = Iterable[tuple[int, Json]]
UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
DRAWN = 0.9  # InferenceX's client draws lengths uniformly in [0.8, 1] of the nominal ones
_INFERENCEX_DTYPES = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16", "int4": "int4"}
_LATENCIES = {"ttft": "time_to_first_token", "itl": "inter_token_latency"}
_TRT_DTYPES = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "int4", "W8A16": "int8"}
_ONE_BATCH_FIELDS = ("prefill_latency", "median_decode_latency", "batch_size", "input_len", "output_len")


@dataclass(frozen=True)
class ServingFormat:
    """A row of the table."""

    TOOL: str
    row: Json

    @cached_property
    def marker(self) -> re.Pattern[str] | None:
        return re.compile(self.row["marker"], re.MULTILINE) if "marker" in self.row else None

    def claims(self, source: Source) -> bool:
        row = self.row
        if self.marker is not None and not self.marker.search(source.plain):
            return False
        names = row.get("early", ()), row.get("marks", ())  # lists of every request's times may come before the means
        if not any(names):
            return self.marker is not None
        texts = zip((source.head, source.plain), names, strict=True)
        return source.looks_like_json and all(f'"{name}"' in text for text, each in texts for name in each)

    def read(self, source: Source) -> list[MeasuredRow]:
        found: list[MeasuredRow] = []
        left_out = 0
        lines, records = self.row.get("lines", ()), RECORDS[self.row.get("records", "objects")]
        for line, record in _matches(source, lines) if lines else records(source):
            if self.row.get("run", "") in ("", *record):
                made = self.run(source, line, record)
                left_out = line if made is None else left_out
                found += made.rows(source, line, self.TOOL) if made else []
        if left_out and not found:
            raise DataError(f"{source.at(left_out)}: {self.row['apart']}")
        return found

    def run(self, source: Source, line: int, record: Json) -> ServingRun | None:
        """A record as a run; None for one that is none of the kind that is read."""
        row = self.row
        for path in row.get("need", ()):
            need(source, line, record, path)

        def number(name: str) -> float | None:
            return next((found for path in row.get(name, ()) if (found := positive(at(record, path)))), None)

        def seconds(paths: Iterable[str]) -> float | None:
            return next((found for path in paths if (found := _time(source, line, path, record, row))), None)

        requests = number("requests")
        given: Iterable[Any] = row.get("totals") or row.get("means") or ([], [])  # of each a path, or several
        asked, answered = (
            next((found for path in paths if (found := at(record, path))), None)
            for paths in ([each] if isinstance(each, str) else each for each in given)
        )
        sizes = lengths(asked, answered, requests if "totals" in row else 1)
        ttft, itl = seconds(row.get("ttft", ())), seconds(row.get("itl", ()))
        whole = [row["whole"]] if "whole" in row else []
        if itl is None:
            itl = between(seconds(whole), ttft, sizes.get("output"))
        elif lumped(*(at(record, path) for path in row.get("lumped", (None, None)))):
            itl = None
        streamed = ttft is not None or not any(at(record, path) == 0 for path in row.get("ttft", ()))
        itl = itl if streamed else None  # a client that does not stream counts the prompt into the time per token
        failed = positive(at(record, row["failed"])) if "failed" in row else None
        model, engine = (
            next((found for path in row.get(name, ()) if (found := at(record, path))), None)
            for name in ("model", "engine")
        )
        run = ServingRun(
            {"model": model, "engine": engine_of(engine), **sizes, **row.get("always", {})}, ttft, itl,
            number("throughput"), number("concurrency"), number("rate"), requests, number("duration"),
            load_stated=row.get("load_stated", True), drafted=number("drafted"), static=number("static"), both=number("both"),
        )  # fmt: skip
        if run.static and (batch := number("batch")):
            run.options["batch"] = round(batch)
        figures = {path: at(record, path) for path in (*row.get("ttft", ()), *row.get("itl", ()), *whole)}
        run.notes = (
            *((f"{failed:g} requests failed",) if failed else ()),
            *(() if streamed else ("no first token: the client did not stream, so its time per token is not read",)),
            *suspect(source, line, figures, row.get("ttft", ())[:2], ttft or itl),
        )
        adjust = row.get("adjust")
        return ADJUST[adjust](source, line, record, run) if adjust else run


def _time(source: Source, line: int, path: str, record: Json, row: Json) -> float | None:
    """Seconds of a field, above zero. Raises DataError for a metric with a unit that is none of time."""
    value = at(record, path)
    if not isinstance(value, dict):
        return None if (found := positive(value)) is None else found * float(row.get("scale", 1.0))
    found, unit = positive(value.get("avg")), str(value.get("unit") or "")
    if found is not None and unit not in UNITS:
        raise DataError(f"{source.at(line)}: {path}.unit: expected {', '.join(UNITS)}, got {unit!r}")
    return None if found is None else found * UNITS[unit]


def _matches(source: Source, patterns: list[str]) -> Records:
    """The groups of lines that match, each with the command before."""
    for line, text in enumerate(source.lines, start=1):
        if match := next((match for pattern in patterns if (match := re.match(pattern, text.strip()))), None):
            yield line, {**match.groupdict(), "asked": _arguments(source.lines[: line - 1])}


def _console_metrics(source: Source) -> Records:
    """AIPerf's printed tables as its JSON has the metrics; the load is that of the command before."""
    found, start, title = list[tuple[int, str, Any]](), 0, ""
    for line, text in enumerate(source.lines, start=1):
        if ("NVIDIA " in text and " | " in text) or text.strip() == "LLM Metrics":
            start, title, found = line, text, []
        cells = [cell.strip() for cell in _P.cells.split(text.strip().strip("│|"))]
        if start and len(cells) > 2:
            found.append((line, cells[0], cells[1]))
        elif start and text.lstrip().startswith(("└", "```")):
            asked = _arguments(source.lines[: start - 1])
            below = _P.rate_below.search("\n".join(source.lines[line : line + 3]))  # until 2024
            found += [(line + 1, "Output token throughput (per sec)", below[1])] if below else []
            for at_line, record in _metrics(found):
                yield at_line, {**record, "asked": asked, "images": "Multi-Modal" in title}
            start = 0
    if start and found:
        raise DataError(f"{source.at(len(source.lines))}: the table of metrics does not end; was the file cut short?")


def _metrics(cells: list[tuple[int, str, Any]]) -> Records:
    named = [(line, m[1].lower().replace(" ", "_"), m[2], value) for line, label, value in cells if (m := _P.metric.match(label))]  # fmt: skip
    record = {name: {"avg": value, "unit": unit} for _, name, unit, value in reversed(named)}
    lines = {what: line for line, name, *_ in reversed(named) for what, of in _LATENCIES.items() if name == of}
    first = min([line for line, *_ in named] if "output_token_throughput" in record else lines.values(), default=0)
    if first:
        yield min(lines.values(), default=first), {"output_token_throughput": {}, **record, "lines": lines}


def _guidellm_benchmarks(source: Source) -> Records:
    for line, report in source.objects:
        for bench in report.get("benchmarks") or []:
            first = str(bench.get("id_") or at(bench, "config.id_") or "")
            place = source.line_of(source.plain.find(first)) if first and first in source.plain else line
            yield place, {"report": report, **bench}


def _blocks(source: Source) -> Records:
    """Blocks of results under many other messages, each with the load that its client printed before, and its command."""
    starts = [i for i, text in enumerate(source.lines) if _P.title.search(text)]
    untitled = not starts  # as copied into a table of results
    starts = starts or [i for i, text in enumerate(source.lines) if _P.first.match(text)]
    for start, following in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        lines = source.lines[start + (not untitled) : following] + [""] * untitled
        fields, whole = _block(lines, untitled)
        if not whole:
            raise DataError(f"{source.at(start + 1)}: the block of results does not end; was the file cut short?")
        load: Json = {}
        for text in reversed(source.lines[:start]):
            if re.search(r"={20,}", text) or (untitled and _P.first.match(text)):
                break
            if match := _P.load.match(text.strip()):
                load.setdefault(match[1], match[2])
        yield start + 1, {**load, **fields, "asked": _arguments(source.lines[:start])}


def _block(lines: list[str], untitled: bool) -> tuple[Json, bool]:
    """The fields up to the line of equal signs that closes them, or to the end of a listing in a document (of an untitled block: an empty
    line); whether there is one."""
    fields: Json = {}
    for text in lines:
        latency = any(name.startswith(("Mean ITL", "Median ITL", "Median TPOT")) for name in fields)
        ends = text.lstrip().startswith("```") or (untitled and not text.strip())
        if fields and (re.search(r"={20,}", text) or (latency and ends)):
            return fields, True
        if match := _P.field.match(text.strip()):
            fields.setdefault(match[1].strip(), match[2])
    return fields, False


def _arguments(before: list[str]) -> Json:
    """The options of the last command printed before a result: its parsed arguments, or the command line, over several lines."""
    for i in range(len(before) - 1, -1, -1):
        if "Namespace(" in before[i]:
            return {name: quoted or bare for name, quoted, bare in _P.asked.findall(before[i])}
        if _P.command.search(before[i]):
            end = next((j for j in range(i, len(before)) if not before[j].rstrip().endswith("\\")), i)
            flags = _P.flag.findall(" ".join(before[i : end + 1]))
            if flags:  # else it is prose
                asked = {name.replace("-", "_"): value for name, value in flags if "$" not in value}
                return {**({"model": asked["m"]} if "m" in asked else {}), **asked}
    return {}


def _trtllm_reports(source: Source) -> Records:
    """Reports, with lengths and load that follow where one is only its overview."""
    starts = [i for i, text in enumerate(source.lines) if _P.trt_report.match(text)] or [0]
    for start, following in zip(starts, [*starts[1:], len(source.lines)], strict=True):
        block = source.lines[start:following]
        fields: Json = {m[1].strip(): m[2].rstrip("%") for m in map(_P.trt_field.match, block) if m}
        place = next((i for i, text in enumerate(block) if "PERFORMANCE OVERVIEW" in text), None)
        if place is None:
            end = source.at(start + len(block))
            raise DataError(f"{end}: the report has no PERFORMANCE OVERVIEW; was it cut short?")
        rate, itl, served, both, whole, taken = (
            positive(fields.get(name) or fields.get("Token Throughput (tokens/sec)" if "Output T" in name else ""))
            for name in (
                "Total Output Throughput (tokens/sec)", "Average time-per-output-token [TPOT] (ms)", "Request Throughput (req/sec)",
                "Total Token Throughput (tokens/sec)", "Average request latency (ms)", "Total Latency (ms)",
            )
        )  # fmt: skip
        if rate is None and itl is None:
            raise DataError(f"{source.at(start + place + 1)}: no throughput here; placeholders are no measurements")
        if served and rate and both:
            fields.setdefault("Average Input Length (tokens)", round((both - rate) / served))
            fields.setdefault("Average Output Length (tokens)", round(rate / served))
        if served and whole and taken:
            fields.setdefault("Number of concurrent requests", served * whole * 1e-3)
            fields.setdefault("Number of requests", round(served * taken * 1e-3))
        yield start + place + 1, fields


def _mlperf_summary(source: Source) -> Records:
    fields, lines = Json(), dict[str, int]()
    for line, text in enumerate(source.lines, start=1):
        if match := _P.mlperf_field.match(text):
            fields.setdefault(match[1], match[2])
            lines.setdefault(match[1], line)
    if "Test Parameters Used" not in source.plain:
        raise DataError(f"{source.at(len(source.lines))}: ends before 'Test Parameters Used'; was the file cut short?")
    if (stated := fields.get("Result is", "not stated")) != "VALID":
        raise DataError(f"{source.at(lines.get('Result is', 1))}: Result is {stated}; only valid runs are read")
    names = ("Tokens per second", "Completed tokens per second", "Tokens per second (inferred)")
    tokens = next((name for name in names if positive(fields.get(name))), None)
    served = positive(fields.get("Samples per second")) or positive(fields.get("Completed samples per second"))
    if tokens is None or not served:
        raise DataError(f"{source.at(lines.get('Scenario', 1))}: no tokens per second, so not a language model's run")
    yield lines[tokens], {**fields, "tokens": fields[tokens], "served": served}


RECORDS: dict[str, Callable[[Source], Records]] = {
    "objects": lambda source: source.objects,
    "members": lambda source: source.members,
    "csv_metrics": lambda source: _metrics(
        [(i, row["Metric"], row.get("avg", row.get("Avg"))) for i, row in csv_rows(source, "Metric,")]
    ),
    "console_metrics": _console_metrics,
    "manager_csv": lambda source: ((i, {**row, "engine": "trtllm"}) for i, row in csv_rows(source, "num_samples,")),
    "guidellm_benchmarks": _guidellm_benchmarks,
    "blocks": _blocks,
    "trtllm_reports": _trtllm_reports,
    "mlperf_summary": _mlperf_summary,
}


def _sglang(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun | None:
    """Model, layout and formats from the server's own arguments, which newer versions attach."""
    vision = positive(record.get("total_input_vision_tokens"))
    run.images = record.get("dataset_name") in ("image", "mmmu") or bool(vision)
    info = record.get("server_info")
    if not isinstance(info, dict):
        return run
    state = (info.get("internal_states") or [{}])[0]
    merged = {**(state if isinstance(state, dict) else {}), **{k: v for k, v in info.items() if k != "internal_states"}}
    if str(merged.get("disaggregation_mode", "null")) not in ("null", "None"):
        return None
    devices, replicas = positive(merged.get("tp_size")), positive(merged.get("dp_size"))
    if devices and replicas and merged.get("enable_dp_attention"):
        devices /= replicas  # its tensor-parallel size counts every device, of which attention forms replicas
    found = {"model": merged.get("model_path"), "tp": devices, "dp": replicas, "pp": positive(merged.get("pp_size"))}
    run.options |= {key: value for key, value in found.items() if value is not None}
    return run


def _aiperf(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun:
    if record.get("is_complete") is False or record.get("was_cancelled"):
        reason = record.get("incomplete_reason") or "it was canceled"
        raise DataError(f"{source.at(line)}: the run did not finish ({reason}); measure again")
    names, phases = run.options["model"], at(record, "input_config.phases")
    if isinstance(names, dict):
        names = [item.get("name") for item in names.get("items", []) if isinstance(item, dict)]
    run.options["model"] = names[0] if isinstance(names, list) and names else names if isinstance(names, str) else None
    if isinstance(phases, list) and phases and isinstance(phases[-1], dict):  # the last one counts
        run.concurrency = run.concurrency or phases[-1].get("concurrency")
        run.rate = run.rate or phases[-1].get("request_rate") or phases[-1].get("rate")
    run.images, run.lines = bool(record.get("images")), record.get("lines", {})
    return run


def _guidellm(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun:
    """Streams are a closed loop, one for a synchronous client; a rate is an open one, constant or Poisson; throughput without a cap is a
    burst."""
    strategy = at(record.get("config") or record.get("args"), "strategy") or {}
    kind = strategy.get("type_") or strategy.get("kind")
    if kind in ("concurrent", "throughput"):
        run.concurrency = strategy.get("streams") or strategy.get("max_concurrency")
    elif kind == "synchronous":
        run.concurrency = 1.0
    run.rate = strategy.get("rate") if kind in ("constant", "poisson") else None
    return run


def _inference_perf(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun | None:
    served = positive(at(record, "successes.throughput.requests_per_sec"))
    run.requests = positive(at(record, "successes.count"))
    run.duration = run.requests / served if run.requests and served else None
    return None if "request_latency" in record["successes"] else run


def _inferencex(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun | None:
    """With data-parallel attention, every device holds its own sequences; the flag is a word in some files."""
    if record.get("disagg") or record.get("spec_decoding") not in (None, "none", "off"):
        return None
    tp = positive(record.get("tp")) or 1.0
    apart = tp if str(record.get("dp_attention")).lower() == "true" else 1.0
    nominal = (DRAWN * (positive(record.get(name)) or 0.0) for name in ("isl", "osl"))
    options: Options = {
        "hw": record.get("hw"), "tp": tp / apart, "dp": apart, "n": tp, "ep": apart if apart > 1 else None,
        **lengths(*nominal), "dtype": _INFERENCEX_DTYPES.get(str(record.get("precision"))),
    }  # fmt: skip
    if options["dtype"] == "nvfp4" and str(record.get("hw", "")).startswith(("h1", "h2", "mi3")):
        options |= {"dtype": "bf16", "weight-dtype": "mxfp4"}  # these store four bits and compute in sixteen
    run.options |= options
    run.concurrency = need(source, line, record, "conc") / apart
    return run


def _trtllm(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun:
    tp, pp = (positive(record.get(name)) for name in ("TP Size", "PP Size"))
    each = next((positive(v) for name, v in record.items() if name.startswith("Per GPU Output Throughput")), None)
    plain = "bf16" if record.get("Dtype") == "bfloat16" else None
    run.options |= {
        "engine": "trtllm", "tp": tp, "pp": pp,
        "n": tp * (pp or 1.0) if tp else round(run.throughput / each) if run.throughput and each else None,
        "dtype": _TRT_DTYPES.get(record.get("Quantization", ""), plain),
        "kv-dtype": "fp8" if record.get("KV Cache Dtype") == "FP8" else None,
    }  # fmt: skip
    return run


def _block_images(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun:
    names = [str(record["asked"].get(name, "")) for name in ("dataset_name", "dataset_path")]
    run.images = bool(positive(record.get("Total input vision tokens")) or any(map(_P.images.search, names)))
    return run


def _throughput(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun:
    """vllm bench throughput: lengths follow from its rates."""
    served, both, answers = (positive(record[name]) for name in ("served", "both", "answers"))
    if served and both and answers:
        run.options |= {"prompt": round((both - answers) / served), "output": round(answers / served)}
    return run


def _session(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun | None:
    """gptSessionBenchmark and benchmark.py of TensorRT-LLM: names and values by turns; one without answers measures an encoder."""
    words = record["words"].split()
    said = dict(zip(words[::2], words[1::2], strict=False))
    mode = said.get("quantization", "QuantMode.0").removeprefix("QuantMode.")
    sizes = {"batch": "batch_size", "prompt": "input_length", "output": "output_length", "n": "world_size"}
    run.options |= {name: int(float(said[stated])) for name, stated in sizes.items() if positive(said.get(stated))}
    if "output" not in run.options:
        return None
    run.static = need(source, line, said, "latency(ms)") / 1000
    run.notes = (f"weights of its quantization mode {mode}: --weight-dtype",) if mode != "0" else ()
    return run


def _mlperf(source: Source, line: int, record: Json, run: ServingRun) -> ServingRun:
    run.requests = None
    if record.get("Scenario") == "Offline":
        run.ttft = run.itl = None
    else:
        run.rate = record["served"]
    return run


ADJUST: dict[str, Callable[[Source, int, Json, ServingRun], ServingRun | None]] = {
    "sglang": _sglang,
    "aiperf": _aiperf,
    "guidellm": _guidellm,
    "inference_perf": _inference_perf,
    "inferencex": _inferencex,
    "trtllm": _trtllm,
    "block": _block_images,
    "mlperf": _mlperf,
    "throughput": _throughput,
    "session": _session,
}


def _one_batch(source: Source, tool: str) -> list[MeasuredRow]:
    """SGLang's bench_one_batch and bench_latency, printed or as JSON lines: a batch prefilled at once, then its median step of decoding."""
    found = []
    for line, run in source.objects if source.looks_like_json else _printed_batches(source):
        first, step, *sizes = (positive(run.get(name)) for name in _ONE_BATCH_FIELDS)
        stated = {name: round(size) for name, size in zip(("batch", "prompt", "output"), sizes, strict=True) if size}
        several = "prompts of several requests at once" if sizes[0] != 1 else ""
        for what, value, unread in (("prefill", first, several), ("itl", step, "")):
            if value:
                options = {"engine": "sglang", **stated}
                found.append(MeasuredRow(source.at(line), tool, what, value, options=options, unread=unread))
    return found


def _printed_batches(source: Source) -> Records:
    """Runs as the tool's JSON has them, cited at the median step; sizes follow from the rates. What precedes `Benchmark ...` warms up."""
    tokens = taken = 0.0
    for match in _P.one_batch.finditer(source.plain, max(source.plain.find("\nBenchmark ..."), 0)):
        seconds, rate = float(match[2]), float(match[3])
        if match[1] == "Prefill.":
            tokens, taken = seconds * rate, seconds
        elif tokens:
            line, batch = source.line_of(match.start()), round(seconds * rate) or 1
            sizes = {"batch_size": batch, "input_len": round(tokens / batch), "prefill_latency": taken}
            yield line, {**_arguments(source.lines[: line - 1]), **sizes, "median_decode_latency": seconds}


_ROWS: dict[str, Json] = table(Path(__file__).with_name("serving.yaml"))
READERS = (
    *(ServingFormat(tool, {**_ROWS.get(row.get("like", ""), {}), **row}) for tool, row in _ROWS.items()),
    LogReader("sglang bench_one_batch", re.compile(rf'{_P.one_batch.pattern}|"prefill_latency": ?[\d.]'), _one_batch),
)
