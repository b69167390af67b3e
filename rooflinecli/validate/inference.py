"""Serving runs, published and collected: the request of each, its prediction, and the tables of errors by source, model kind, engine
and model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np

from rooflinecli import memory
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.phase_answer import DecodeAnswer, PrefillAnswer
from rooflinecli.engine.serving_load import load
from rooflinecli.formulas import roofline, serving
from rooflinecli.layers.build import ledger
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.scheduler import MEANS
from rooflinecli.specs.snapshots import excluded, published
from rooflinecli.validate import aiconfigurator_tables as aiconfigurator
from rooflinecli.validate.stats import Points, Row, Table, error_table, notes, score, twin

CAPTURED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192)
BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "nvfp4": 0.5}  # of an element, in the bench
PACKED = 1 / 2 + 1 / 16  # elements of a checkpoint for each nvfp4 weight: two in a byte, a scale for sixteen
SHARE, MOST, LEAST = 0.95, 4096, 64  # of memory that becomes cache; of sequences
WARMED_UP_SINCE = "2026-01-21"  # d053ae24: warm-up requests
SGLANG_056 = "2025-12"  # from then on its runs are of v0.5.6 and later
COMPILED_TTFT_S = 5.0  # seconds of a mean first token, ten times as long as those of the same page without a compiler in its first wave
NO_WAITS = {"poll_steps": 1, "stream_steps": 1}


def graph_batches(row: Row) -> tuple[int, ...]:
    """Graph batch sizes of a published row; none where the largest is unknown: MLA, formats unknown to the bench, other engines."""
    if row["engine"] != "trtllm" or row["dtype"] not in BYTES:
        return ()
    attention = load_model(row["model"]).layers[0].attention
    if attention is None or attention.kind == "mla":
        return ()
    largest = max_batch(row)
    return (*(size for size in CAPTURED if size < largest), largest)


def max_batch(row: Row) -> int:
    """The largest batch that the bench sets for a row of a model with softmax attention over cached heads."""
    model, ranks = load_model(row["model"]), row["tp"] * row.get("dp", 1)
    a = model.layers[0].attention
    assert a is not None
    width = a.head_dim or model.d_model // a.n_heads
    one = 2 * model.n_layers * max(ranks, a.n_kv_heads or a.n_heads) * width * (1 if row.get("kv") == "fp8" else 2)
    parameters = memory.device_parameters(ledger(model), Layout(), PLAIN)
    inner = (parameters.inner + parameters.experts) * (PACKED if row["dtype"] == "nvfp4" else 1.0)
    taken = (inner + parameters.outer) * BYTES[row["dtype"]]
    free = load_hardware(row["hw"]).memory.capacity.si * ranks * row["pp"] - taken
    return rounded(free * SHARE / (one * (row["prompt"] + row["output"])), row["pp"])


def rounded(requests: float, stages: int) -> int:
    """The batch that the bench sets for the requests that fit by its estimate: capped, divided over stages, rounded up."""
    each = min(requests, MOST) / stages
    step = 32 if each < 256 else 128 if each < 1024 else 256
    return max(LEAST, step * ceil(each / step))


Prediction = tuple[float, float, float, float]  # expected, floor, low, high

# DeepSeek-R1 of InferenceX with and without drafts of its multi-token prediction in one file (see notes.yaml)
MAY_DRAFT, DRAFTS, ACCEPTANCE = "deepseek-ai/DeepSeek-R1", 3, 0.7
DRAWN = 0.9  # InferenceX draws lengths uniformly in [0.8, 1] of the nominal ones


@dataclass
class Run:
    """A measured run: options of the estimate, its layout, and the measured quantities (seconds, or tokens per second)."""

    group: str
    options: Row
    layout: Layout
    measured: dict[str, float]
    engine: str
    static: bool = False
    row: dict[str, str] | None = None  # row of aiconfigurator
    seen: str = "collected"  # whether the serving constants were fitted to its group, read off it, or never saw it
    requests: float | None = None  # total, where the source states it
    without_flags: Row | None = None  # the options without the flags of its script, where that is public
    other: Row | None = None  # the options under the other reading of a precision that no source states
    override: Row | None = None  # constants of the engine that its build replaced


def published_runs() -> list[Run]:
    """The rows of published_runs/inference.yaml."""
    found = published("inference")
    return [published_run(row, found["fit"]) for row in found["rows"]]


def published_run(row: Row, fit: dict[str, str]) -> Run:
    """A published row as a run; `fit`: whether the serving constants saw a group."""
    options = {name: row.get(name) for name in ("model", "hw", "dtype", "engine", "prompt", "output", "equal_lengths")}
    options |= {"kv_dtype": row.get("kv"), "weight_dtype": row.get("weights")}
    sizes: Row = {axis: float(row.get(axis, 1)) for axis in ("tp", "pp", "dp", "ep")}
    load = row["load"]
    if load in ("batch", "static"):
        options["batch"] = row["batch"]
    elif load == "max":
        options["concurrency"] = "max"
    else:
        options |= {"concurrency": row["batch"]} if load == "concurrency" else {"qps": row["qps"]}
        options |= {"token_budget": row["budget"]} if "budget" in row else {}
    if load == "max" and (batches := graph_batches(row)):
        options["scheduler"] = f"graph_batches={'/'.join(map(str, batches))}"
    if "scheduler" in row:
        options["scheduler"] = row["scheduler"]
    if load == "concurrency" and "requests" in row:
        options["prompts_per_slot"] = row["requests"] / row["batch"]
    measured = {key: row[f"{key}_ms"] / 1e3 for key in ("itl", "ttft") if f"{key}_ms" in row}
    if "output_tokens_per_s" in row:
        measured["throughput"] = row["output_tokens_per_s"]
    return Run(
        row["group"],
        options,
        Layout(**sizes, zero=0),
        measured,
        row["engine"],
        load == "static",
        seen=fit.get(row["group"], "never seen"),
        requests=row.get("requests"),
        override={"engine.max_sequences": row["most"]} if "most" in row else None,
    )


def later_runs() -> list[Run]:
    """The rows and cells of published_runs/inference_2.yaml, which came after the constants, and the medians with their means."""
    found = published("inference_2")
    runs = [published_run(row, found["fit"]) for row in (*found["rows"], *cells())]
    for row in found["rows"]:
        if "ttft_median_ms" in row:  # which no stall of the first wave moves: that of a request in the steady state
            run = published_run({**row, "group": f"median_{row['hw']}_{row['engine']}"}, found["fit"])
            options = {**run.options, "prompts_per_slot": "inf"}
            runs.append(replace(run, options=options, measured={"ttft": row["ttft_median_ms"] / 1e3}))
    return runs


def cells() -> list[Row]:
    """Every cell of the tables (a column at one prompt x output, in output tokens per second) as a row of published_runs/inference.yaml."""
    data, rows = published("inference_2"), []
    for table in data["tables"]:
        axes = [f"{axis}{table[axis]}" for axis in ("tp", "pp", "dp") if table.get(axis, 1) > 1]
        layout = "-".join(axes) or "tp1"
        for lengths, rate in table["rates"].items():
            prompt, output = (int(length) for length in lengths.split("x"))
            name = f"{table['group']}-{table['hw']}-{table['model']}-{table['dtype']}-{layout}-{lengths}"
            cell = {"load": "max", "prompt": prompt, "output": output, "requests": data["requests"].get(lengths)}
            built = data["limits"].get(table["group"], {}).get(f"{table['model']}-tp{table['tp']}")
            if built is not None:
                slots, tokens = built.get(str(prompt + output), built["any"])
                cell["most"] = round(min(slots, tokens / (1 + prompt / output)))
            shared = {key: value for key, value in table.items() if key != "rates"}
            rows.append({**shared, "id": name, **cell, "output_tokens_per_s": rate})
    return rows


def collected_runs() -> tuple[list[Run], Counter[str]]:
    """Usable runs of aiconfigurator, and the number left out by reason."""
    runs, out = [], Counter[str]()
    for row, copied in _rows():
        reason = "exact copy" if copied else _unusable(row) or "speculation not stated" * _may_draft(row)
        if reason:
            out[reason] += 1
        else:
            runs.append(_collected(row))
    return runs, out


def without_flags(runs: list[Run]) -> list[Run]:
    """The runs whose flags are known, without them: TTFT, the one time that flags change."""
    return [replace(r, options=r.without_flags, measured={"ttft": r.measured["ttft"]}) for r in runs if r.without_flags]


def _rows() -> Iterator[tuple[dict[str, str], bool]]:
    """Rows of aiconfigurator, and whether an earlier row has the same times."""
    seen = set()
    for row in aiconfigurator.serving_runs():
        copy = (row["silicon_ttft_ms"], row["silicon_tpot_ms"], row["system"])
        yield row, copy in seen
        seen.add(copy)


def _may_draft(row: dict[str, str]) -> bool:
    return row["model_path"] == MAY_DRAFT and "source_file=20" in row["silicon_data_source"]


def _size(row: dict[str, str], key: str) -> int:
    return max(int(row[key] or 1), 1)


def _replicas(row: dict[str, str]) -> int:
    """Replicas of attention: as stated, else devices of the experts over those of the tensor group."""
    if row["attention_dp_size"]:
        return _size(row, "attention_dp_size")
    return max(_size(row, "moe_tp_size") * _size(row, "moe_ep_size") // _size(row, "tp_size"), 1)


def _unusable(row: dict[str, str]) -> str:
    """Why a collected row cannot be used; empty where it can."""
    tp, dp = _size(row, "tp_size"), _replicas(row)
    experts = _size(row, "moe_tp_size") * _size(row, "moe_ep_size")
    if row["model_path"] not in aiconfigurator.DATA["models"]:
        return "model not described here"
    if tp not in (1, 2, 4, 8) or tp * dp > 8 or (dp > 1 and experts != tp * dp):
        return "sizes multiplied or a fleet filed as one"
    bad_labels = aiconfigurator.DATA["bad_labels"]
    return "known bad label" if any(aiconfigurator.matches(row, bad) for bad in bad_labels) else ""


def _collected(row: dict[str, str]) -> Run:
    source = row["silicon_data_source"]
    tp, dp = _size(row, "tp_size"), _replicas(row)
    found = source.partition("silicon_concurrency=")[2].partition(";")[0]
    concurrency = float(found) if found else float(row["batch_size"]) * dp
    drawn = DRAWN if "db-dump" in source or "source_file=20" in source else 1.0
    options: Row = {
        "model": aiconfigurator.DATA["models"][row["model_path"]],
        "hw": aiconfigurator.CHIPS[row["system"]],
        "engine": row["backend"],
        "prompt": round(float(row["isl"]) * drawn),
        "output": round(float(row["osl"]) * drawn),
        "concurrency": max(round(concurrency / dp), 1),
        **_format(row),
    }
    if row["backend"] == "sglang" and not row["precision"]:
        options["equal_lengths"] = True  # the vendor's Qwen3-32B: in lockstep both times agree with bf16
    measured = {"itl": float(row["silicon_tpot_ms"]) / 1e3, "ttft": float(row["silicon_ttft_ms"]) / 1e3}
    other = None if row["precision"] else {**options, **_format(row, other=True)}
    run = Run(
        row["model_path"].split("/")[-1], options, Layout(tp=float(tp), dp=float(dp), ep=float(dp), zero=0), measured,
        row["backend"], row=row, other=other,
    )  # fmt: skip
    if run.engine == "sglang" and "" < measured_on(run) < SGLANG_056:
        options["engine"] = "sglang-2025"
    if is_inferencex(run):
        run.without_flags, run.options = options, {**options, "scheduler": flags(run)}
    return run


def _format(row: dict[str, str], other: bool = False) -> dict[str, str]:
    """Number formats of a collected run. TensorRT-LLM's quantized checkpoints quantize the cache.

    Where the precision is missing: bf16, the checkpoint's own; `other` is the other reading, fp8 (see the note of the table).
    """
    precision = row["precision"] or ("fp8" if other else "bf16")
    if precision == "int4" or (precision == "fp4" and row["system"].startswith("h")):
        return {"dtype": "bf16", "weight_dtype": "mxfp4" if precision == "fp4" else "int4"}
    dtype = {"fp4": "nvfp4"}.get(precision, precision)
    return {"dtype": dtype} | ({"kv_dtype": "fp8"} if row["backend"] == "trtllm" and dtype != "bf16" else {})


# Flags of the servers of collected runs, as far as known, by the rules of aiconfigurator.yaml. InferenceX starts all requests of a slot count C at once, 10 C of
# them, with lengths uniform in [0.8, 1] of the nominal ones. The vendor's runs state no harness; fixed lengths and 10 prompts a slot fit them best, for vLLM lengths
# within a fifth of the nominal ones. SGLang's vendor runs of Qwen3-32B state no precision and are simulated as bf16: with prompts first and equal lengths the slots run
# in lockstep, and then both times agree with bf16, neither with fp8 (the formula, which knows no lockstep, has it the other way round).
def is_inferencex(run: Run) -> bool:
    """Whether it is one of InferenceX, whose scripts are public."""
    source = run.row["silicon_data_source"] if run.row is not None else ""
    return "db-dump" in source or "source_file=20" in source


def is_warmed_up(run: Run) -> bool:
    """Whether requests preceded the timed ones of a public run."""
    return measured_on(run) >= WARMED_UP_SINCE


def exclusion(run: Run) -> str:
    """Why a public run does not time the engine, by its own figures; empty where it does."""
    if not is_warmed_up(run) and run.measured["ttft"] > COMPILED_TTFT_S:
        return "first wave compiled (at fault)"
    # the same script has B200, a slower chip, read prompts four to eight times as fast three weeks before
    return (
        "fp8 prompts on B300 (at fault)" if (run.options["hw"], run.options.get("dtype")) == ("b300-sxm", "fp8") else ""
    )


def measured_on(run: Run) -> str:
    """The day of a run, empty where the source does not state it."""
    return source_row(run)["silicon_data_source"].partition("measured=")[2][:10]


def rule_inputs(run: Run) -> Row:
    """What the rules of the scripts ask about a run, and the values that they compute; `tuned`: whether a script of vLLM sets a budget of
    two prompts, graphs that hold them, and an fp8 cache."""
    given, concurrency = source_row(run), run.options["concurrency"]
    prompt, output = int(float(given["isl"])), int(float(given["osl"]))
    wave = ceil((round(concurrency * run.layout.dp) + prompt + 64) / 64) * 64
    found = {
        "public": is_inferencex(run), "group": run.group, "system": given["system"], "precision": given["precision"], "hw": run.options["hw"],
        "day": measured_on(run), "version": given["backend_version"], "prompt": prompt, "output": output, "two_prompts": 2 * prompt,
        "one_wave": wave, "roomy_wave": max(wave, 8192), "round_prompt": float(given["isl"]) % 1000 == 0,
        "few": run.layout.tp < 8, "ranks": run.layout.dp > 1, "busy": concurrency >= 16,
    }  # fmt: skip
    return {**found, "tuned": any(aiconfigurator.matches(found, patterns) for patterns in aiconfigurator.DATA["tuned"])}


def server_settings(run: Run) -> Row:
    """The settings of a run's server."""
    known, settings = rule_inputs(run), Row()
    for rule in aiconfigurator.DATA["scripts"][run.engine]:
        excepted = "unless" in rule and aiconfigurator.matches(known, rule["unless"])
        if aiconfigurator.matches(known, rule.get("when", {})) and not excepted:
            settings |= {name: known.get(value, value) for name, value in rule["set"].items()}
    return settings


def flags(run: Run) -> str:
    """The flags of a run's script as --scheduler takes them; no delays where it sets none."""
    found = {**NO_WAITS, **{name: value for name, value in server_settings(run).items() if name in MEANS}}
    return ",".join(f"{name}={value}" for name, value in found.items())


def source_row(run: Run) -> dict[str, str]:
    """The row of aiconfigurator that it was."""
    assert run.row is not None  # collected runs have one
    return run.row


def kind(run: Run) -> str:
    """dense or MoE."""
    layers = load_model(run.options["model"]).layers
    return "MoE" if any(layer.feedforward.kind == "moe" for layer in layers) else "dense"


def arrivals(run: Run) -> str:
    """Load of a run: one sequence on an idle server, an open or a closed loop, the memory limit, a static batch."""
    if run.static or run.options.get("batch", 1) > 1:
        return "static batch"
    if "batch" in run.options:
        return "one sequence"
    if "qps" in run.options:
        return "open loop"
    return "memory's limit" if run.options["concurrency"] == "max" else "closed loop"


def predict(run: Run) -> dict[str, Prediction]:
    """Expected, floor, low and high of everything measured in the run."""
    ctx = EstimateContext(build_request.request(run.options), override=run.override)
    result = {}
    # all are sent at once: no client follows its own answer, so none move in bunches
    if run.options.get("concurrency") == "max":
        ctx.memoized(run.layout, "counted", lambda: None)
    if run.static:
        return {"throughput": _static(ctx, run)}
    if "itl" in run.measured or "throughput" in run.measured:
        answer = inference.decode(ctx, run.layout)
        result["itl"] = (answer.time_s, answer.floor_s, *answer.interval_s)
        if "throughput" in run.measured:
            result["throughput"] = _rate(answer, float(finite(run, answer)), _ceiling(run))
    if "ttft" in run.measured:
        first = inference.prefill(ctx, run.layout)
        result["ttft"] = (first.time_s, first.floor_s, *first.interval_s)
    return result


def finite(run: Run, answer: DecodeAnswer, override: Row | None = None) -> Number:
    """Throughput of a finite run: waves of the largest batch, and a last one of the remaining requests; `override` as in the answer."""
    rate, batch = answer.tokens_per_s, float(np.max(answer.batch * run.layout.dp))
    # all requests are sent at once, so that a place in the batch is never empty
    if run.options.get("concurrency") == "max":
        rate = serving.decode_throughput(answer.batch, answer.time_s, run.layout.dp)
    if run.requests is None:
        return rate
    waves, left = divmod(run.requests, batch)
    seconds = waves * batch / rate
    if left:
        last = {**run.options, "concurrency": max(round(left / run.layout.dp), 1)}
        ctx = EstimateContext(
            build_request.request(last), override={**(run.override or {}), **(override or {})} or None
        )
        seconds += left / inference.decode(ctx, run.layout).tokens_per_s
    return run.requests / seconds


def _rate(answer: DecodeAnswer, rate: float, ceiling: float) -> Prediction:
    """A throughput with an interval as wide as the answer's; its floor is the rate at the floor of the time."""
    width = answer.tokens_per_s / answer.tokens_per_s_interval[0]
    return rate, ceiling, rate / width, min(rate * width, ceiling)


def _ceiling(run: Run) -> float:
    """Throughput at the floor: all memory but the weights is cache, sequences are half way, every step is at its floor."""
    ctx = EstimateContext(
        build_request.request({key: value for key, value in run.options.items() if key != "concurrency"})
    )
    plan, context = run.layout, serving.mean_context(ctx.prompt, ctx.output)
    free = ctx.chip.capacity - memory.weights(memory.device_parameters(ctx.ledger, plan, PLAIN), ctx.formats, 1.0)
    least = replace(ctx.formats, ignores_sliding_window=False)
    batch = max(free / memory.kv_cache(ctx.ledger, plan, least, 1.0, context, PLAIN), 1.0)
    costs = forward_step(ctx, plan, batch / plan.pp, 1.0, context, decode=True, engine=False).costs
    return float(batch * plan.dp / roofline.floor_time(costs.t_compute, costs.t_memory))


def _static(ctx: EstimateContext, run: Run) -> Prediction:
    """Throughput of a batch prefilled and decoded together: its tokens over prefill and all steps."""
    busy = load(ctx, run.layout)
    step = inference.decode(ctx, run.layout)
    whole = forward_step(ctx, run.layout, busy.batch, ctx.prompt, ctx.prompt, decode=False)
    seconds = serving.e2e_latency(whole.seconds, step.time_s, ctx.output)
    floor = roofline.floor_time(whole.costs.t_compute, whole.costs.t_memory) + (ctx.output - 1) * step.floor_s
    return _rate(step, busy.batch * ctx.output / seconds, busy.batch * ctx.output / floor)


def deployment_points(row: Row) -> Points:
    """Measured and expected tokens per second of one deployment; the floor of the time is a ceiling of the rate."""
    quantity, phase = next(
        pair for pair in (("output_tokens_per_s", "decode"), ("input_tokens_per_s", "prefill")) if pair[0] in row
    )
    options = {"model": row["model"], "hw": row["hw"], "engine": "sglang", "phase": phase, **row["plan"], **row["load"]}
    answer = estimate(build_request.request(options)).phases[phase]
    assert isinstance(answer, (DecodeAnswer, PrefillAnswer))
    # the rate of a static load is proportional to 1 / time, so the bounds of the interval follow
    low, high = answer.interval_s
    ceiling, least, most = (answer.tokens_per_s * answer.time_s / t for t in (answer.floor_s, high, low))
    return Points.of(row["id"], [(row[quantity], answer.tokens_per_s, ceiling, least, most)], higher=True)


QUANTITIES = {
    "itl": "inter-token latency",
    "ttft": "time to first token",
    "throughput": "throughput at the batch that memory allows",
}
Predictions = dict[int, dict[str, Prediction]]  # by the identity of a run's options
Lines = Callable[[Run], list[str]]  # the lines of a table that a run counts in


def tables() -> list[Table]:
    """Serving: published rows by source, and the collected runs of aiconfigurator by model kind, engine and model."""
    deployed = [deployment_points(row) for row in published("deployments")["rows"]]
    later, earlier = notes("other serving") + excluded("inference_2"), {setup(run) for run in published_runs()}
    found = [
        *_scored("published", published_runs(), notes("published serving") + excluded("inference"), published_lines),
        *_scored(
            "published, other releases and machines", later_runs(), later, partial(published_lines, earlier=earlier)
        ),
        *_scored("published, layout not stated", layouts(), notes("layout not stated")),
        error_table(
            "inference: published deployments of experts, tokens per second",
            deployed,
            notes("deployments") + excluded("deployments"),
            {},
        ),
    ]
    if not aiconfigurator.installed():
        return [*found, Table("inference: collected runs", [], [aiconfigurator.MISSING])]
    runs, out = collected_runs()
    left_out = [f"{count} rows excluded: {reason}." for reason, count in out.items()]
    unstated, flags = notes("precision not stated"), notes("flags")
    known: Predictions = {}
    return [
        *found,
        *_scored("collected", runs, [*left_out, *unstated, *flags], lambda run: [*_kinds(run), run.group], known),
        *_scored("collected, flags not given", without_flags(runs), flags, _kinds),
        *_scored("collected, precision not stated", readings(runs), unstated, known=known),
        *_scored("collected, speculation not stated", drafting(), notes("speculation not stated"))[:1],
    ]


def _scored(
    title: str, runs: list[Run], notes: list[str], lines: Lines | None = None, known: Predictions | None = None
) -> list[Table]:
    """One table per measured quantity, by the lines of a run and over all of them; without `lines` by its group alone.

    `known` holds predictions already made, and takes the others."""
    known = {} if known is None else known
    scored: dict[str, list[tuple[list[str], tuple[float, ...]]]] = defaultdict(list)
    for run in runs:
        if id(run.options) not in known:
            known[id(run.options)] = predict(run)
        for quantity, measured in run.measured.items():
            where = lines(run) if lines else [run.group]
            scored[quantity].append((where, (measured, *known[id(run.options)][quantity])))
    return [
        score(
            f"inference: {title}, {name}",
            found,
            notes,
            with_all=lines is not None,
            ranked=True,
            higher=q == "throughput",
        )
        for q, name in QUANTITIES.items()
        if (found := scored[q])
    ]


def setup(run: Run) -> tuple[object, ...]:
    """Chip, model, engine and format of a run: a later run that shares all of them has a twin."""
    return run.options["hw"], run.options["model"], run.options.get("dtype"), run.engine


def published_lines(run: Run, earlier: Container[object] = ()) -> list[str]:
    """Lines of a published run: its group, its kind, its arrival process where that is scored separately, and of a later page (`earlier`:
    setups before it), for those never seen, whether an earlier run is its twin."""
    lines, how, new = [run.group, f"{kind(run)}, {run.seen}"], arrivals(run), run.seen == "never seen"
    if how in ("one sequence", "open loop"):
        lines += [how, f"{how}, never seen"] if new else [how]
    return [*lines, "never seen", f"{kind(run)}, never seen, {twin(setup(run), earlier)}"] if new and earlier else lines


def _kinds(run: Run) -> list[str]:
    """Groups of a collected run other than its model: its kind, that with its engine, and whether its server was warmed up."""
    both = f"{kind(run)}, {run.engine}"
    groups = [kind(run), both]
    if run.engine == "sglang" and is_inferencex(run):
        fault = exclusion(run)
        warm = "warmed up" if is_warmed_up(run) else "no warm-up"
        groups.append(f"{both}, {fault or warm}")
    return groups


def drafting() -> list[Run]:
    """Runs whose rows do not state whether drafts were verified, once without and once with them."""
    drafts = {"speculate": "mtp", "draft_tokens": DRAFTS, "acceptance": ACCEPTANCE}
    runs = [_collected(row) for row, copied in _rows() if not copied and not _unusable(row) and _may_draft(row)]
    return [
        replace(run, group=f"{run.engine} {run.group} {how} drafts", options=options, other=None)
        for run in runs
        for how, options in (("without", run.options), ("with", {**run.options, **drafts}))
    ]


def readings(runs: list[Run]) -> list[Run]:
    """Runs without a stated precision, once as bf16 and once as fp8; and all dense runs with those under either reading."""
    found = []
    for run in runs:
        for name, options in (("bf16", run.options), ("fp8", run.other or run.options)):
            if run.other is not None:
                found.append(replace(run, group=f"{run.engine} {run.group} as {name}", options=options, other=None))
            if kind(run) == "dense":
                found.append(replace(run, group=f"all dense, unstated as {name}", options=options, other=None))
    return found


def layouts() -> list[Run]:
    """TensorRT-LLM v1.0's runs of experts on 8 devices under either reading of the TP 8 that its page gives."""
    return [
        replace(run, group=f"{run.options['model']} as {name}", layout=layout, options=dict(run.options))
        for run in published_runs()
        if run.group == "trtllm_v10" and run.layout.ep == 8
        for name, layout in (
            ("attention DP", run.layout),
            ("tensor parallel", run.layout.with_changes(tp=8.0, dp=1.0, ep=1.0)),
        )
    ]
