"""Tables of serving: published rows by source, and the collected runs of the wheel by model kind, engine and model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from rooflinecli.specs.published_runs import excluded
from rooflinecli.validate import aiconfigurator_tables, benchmark_harness, deployments, inference
from rooflinecli.validate.stats import Points, Table, joined, summary


def tables() -> list[Table]:
    """Serving: published rows by source, and the collected runs of the wheel by model kind, engine and model."""
    found = _serving(
        "inference: published",
        inference.published_runs(),
        lambda run: [run.group, f"{inference.kind(run)}, {run.seen}", *_arrivals(run)],
        [SEEN, ALONE, *excluded("inference")],
        {},
    )
    found += _serving(
        "inference: published, other releases and machines",
        inference.later_runs(),
        lambda run: [
            run.group,
            f"{inference.kind(run)}, {run.seen}",
            *(["never seen"] if run.seen == "never seen" else []),
        ],
        [OTHERS, *excluded("inference_2")],
        {},
    )
    found += _serving(
        UNLAID,
        layouts(),
        lambda run: [run.group],
        [LAYOUTS],
        {},
    )
    found.append(_deployments())
    if not aiconfigurator_tables.installed():
        return [*found, Table("inference: collected runs", [], [aiconfigurator_tables.MISSING])]
    known: dict[int, Any] = {}
    runs, out = inference.collected_runs()
    notes = [f"{count} rows left out: {reason}." for reason, count in out.items()]
    notes.append(UNSTATED)
    found += _serving(
        "inference: collected",
        runs,
        lambda run: [*_kinds(run), run.group],
        [*notes, FLAGS],
        known,
    )
    found += _serving(UNTOLD, inference.without_flags(runs), _kinds, [FLAGS], {})
    found += _serving(READINGS, readings(runs), lambda run: [run.group], [UNSTATED], known)
    return [*found, *_serving(DRAFTING, drafting(), lambda run: [run.group], [UNDRAFTED], {})[:1]]


def _kinds(run: inference.Run) -> list[str]:
    """Groups of a collected run beside its model: its kind, that with its engine, and whether compilers could have met its prompts."""
    both = f"{inference.kind(run)}, {run.engine}"
    warmed = (
        [f"{both}, {benchmark_harness.is_warmed_up(run)}"]
        if run.engine == "sglang" and benchmark_harness.public(run)
        else []
    )
    return [inference.kind(run), both, *warmed]


SEEN = (
    "fitted: the serving constants were fitted to the group; read off: one or two were set by hand on its rows; never seen: neither. Runs whose source says "
    "how many requests they sent end with a wave of what is left of the largest batch."
)
OTHERS = (
    "Columns of the pages above that no fit saw, and TensorRT-LLM's releases before, between and after them, all under the constants of the release "
    "next to them. read off: the rate of all-reduces over PCIe (L40S v0.17, A100 PCIe and L40S v0.14). older release: v0.12, whose tensor parallelism was slower."
)
ALONE = (
    "one sequence: on an idle server; its first token is an idle prefill. open loop: requests at a rate. Both also without the groups that anything was "
    "fitted to or read off."
)
UNSTATED = (
    "Where the source states no precision the runs are scored both ways. They are taken as bf16: the whole time of a request (first token and all "
    "others) of vLLM's Qwen3-32B runs then agrees within 2 % in the median, TensorRT-LLM's Llama-3.1-8B runs and, read as requests of equal length in "
    "lockstep, SGLang's Qwen3-32B runs agree in both of their times. TensorRT-LLM's quantized checkpoints are taken with an fp8 cache."
)
FLAGS = (
    "Runs of InferenceX are told the flags of their public scripts that first tokens wait for (budgets, polls, messages, prompts held back: --scheduler); "
    "the vendor's runs state none. Without warm-up: before InferenceX sent any requests ahead of the timed ones, so that kernels compiled at first use stand in the mean."
)
UNTOLD = "inference: collected, flags not told"
READINGS = "inference: collected, precision not stated"
DRAFTING = "inference: collected, speculation not stated"
UNDRAFTED = (
    "InferenceX's files of DeepSeek-R1 hold runs with and without drafts of its multi-token prediction, and no row says which. Of 75 different runs that the "
    "table has a second time as DeepSeek-V3, the same network, 12 take the same time to a fifth of a percent and 63 take 0.43 to 0.91 of it. They are "
    "scored without drafts, with three of which seven in ten are kept; no constant was fitted to them."
)
UNLAID = "inference: published, layout not stated"
LAYOUTS = (
    "TensorRT-LLM v1.0 gives TP 8 for Qwen3-235B and Llama 4 Maverick; the pages of v1.1 and v1.2 turn attention DP on for every model with experts. Taken as "
    "attention DP, with experts over all 8 devices: the other reading misses by more than twice as much."
)


def _arrivals(run: inference.Run) -> list[str]:
    """Lines of a run by how requests come, where that is judged apart: all of them, and those of groups never seen."""
    how = inference.arrivals(run)
    if how not in ("one sequence", "open loop"):
        return []
    return [how, f"{how}, never seen"] if run.seen == "never seen" else [how]


def drafting() -> list[inference.Run]:
    """Runs that may have verified drafts, once without and once with them."""
    found = []
    for run in inference.drafting_runs():
        plain = replace(run, group=f"{run.engine} {run.group} without drafts", other=None)
        found += [
            plain,
            replace(plain, group=f"{run.engine} {run.group} with drafts", options=run.other or run.options),
        ]
    return found


def readings(runs: list[inference.Run]) -> list[inference.Run]:
    """Runs without a stated precision, once as bf16 and once as fp8; and all dense runs with those under either reading."""
    found = []
    for run in runs:
        for name, options in (("bf16", run.options), ("fp8", run.other or run.options)):
            if run.other is not None:
                found.append(replace(run, group=f"{run.engine} {run.group} as {name}", options=options, other=None))
            if inference.kind(run) == "dense":
                found.append(replace(run, group=f"all dense, unstated as {name}", options=options, other=None))
    return found


def layouts() -> list[inference.Run]:
    """TensorRT-LLM v1.0's runs of experts on 8 devices under either reading of the TP 8 that its page gives."""
    found = []
    for run in inference.published_runs():
        if run.group == "trtllm_v10" and run.layout.ep == 8:
            for name, plan in (
                ("attention DP", run.layout),
                ("tensor parallel", run.layout.with_changes(tp=8.0, dp=1.0, ep=1.0)),
            ):
                read = f"{run.options['model']} as {name}"
                found += [replace(run, group=read, layout=plan, options=dict(run.options))]
    return found


def _deployments() -> Table:
    """Experts over many devices as DeepSeek and SGLang published it."""
    points = [deployments.points(row) for row in deployments.rows()]
    notes = [
        "None was fitted: exchange, kernels and engine have constants from elsewhere, the norm of the overlap is 2.",
        *excluded("deployments"),
    ]
    return Table(
        "inference: published deployments of experts, tokens per second", [summary(p) for p in points], notes, points
    )


def _serving(
    title: str, runs: list[Any], groups: Callable[[Any], list[str]], notes: list[str], known: dict[int, Any]
) -> list[Table]:
    """One table per measured quantity; `known` holds predictions by the identity of a run's options, and takes what was missing."""
    names = {
        "itl": "inter-token latency",
        "ttft": "time to first token",
        "throughput": "throughput at the batch that memory allows",
    }
    tables: list[Table] = []
    for run in runs:
        if id(run.options) not in known:
            known[id(run.options)] = inference.predict(run)
    for quantity, name in names.items():
        having = [run for run in runs if quantity in run.measured]
        if not having:
            continue
        predicted = {id(run): inference.points([run], quantity, "", known) for run in having}
        points = [_merge(label, [predicted[id(r)] for r in members]) for label, members in _grouped(having, groups)]
        whole = [] if title in (READINGS, UNLAID, DRAFTING) else [_merge("all", [predicted[id(r)] for r in having])]
        rows = [summary(p) for p in (*points, *whole)]
        tables.append(Table(f"{title}, {name}", rows, notes, points))
    return tables


def _grouped(runs: list[Any], groups: Callable[[Any], list[str]]) -> Iterable[tuple[str, list[Any]]]:
    by: dict[str, list[Any]] = defaultdict(list)
    for run in runs:
        for label in groups(run):
            by[label].append(run)
    return sorted(by.items())


def _merge(label: str, parts: list[Points | None]) -> Points:
    return joined(label, [p for p in parts if p is not None])
