"""Tables of serving: published rows by source, and the collected runs of the wheel by model kind, engine and model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from rooflinecli.specs.published_runs import excluded
from rooflinecli.validate import aiconfigurator_tables, benchmark_harness, inference
from rooflinecli.validate.inference import Prediction, Run
from rooflinecli.validate.stats import Points, Table, error_table, joined, notes

QUANTITIES = {
    "itl": "inter-token latency",
    "ttft": "time to first token",
    "throughput": "throughput at the batch that memory allows",
}
Predictions = dict[int, dict[str, Prediction]]  # by the identity of a run's options


def tables() -> list[Table]:
    """Serving: published rows by source, and the collected runs of the wheel by model kind, engine and model."""
    found = [
        *_by_group(
            "inference: published",
            inference.published_runs(),
            lambda run: [run.group, f"{inference.kind(run)}, {run.seen}", *arrival_groups(run)],
            notes("published serving") + excluded("inference"),
        ),
        *_by_group(
            "inference: published, other releases and machines",
            inference.later_runs(),
            lambda run: [run.group, f"{inference.kind(run)}, {run.seen}", *["never seen"] * (run.seen == "never seen")],
            notes("other serving") + excluded("inference_2"),
        ),
        *_by_group("inference: published, layout not stated", layouts(), _own, notes("layout not stated"), whole=False),
        error_table(
            "inference: published deployments of experts, tokens per second",
            [inference.deployment_points(row) for row in inference.deployments()],
            notes("deployments") + excluded("deployments"),
            {},
        ),
    ]
    if not aiconfigurator_tables.installed():
        return [*found, Table("inference: collected runs", [], [aiconfigurator_tables.MISSING])]
    runs, out = inference.collected_runs()
    left_out = [f"{count} rows excluded: {reason}." for reason, count in out.items()]
    unstated, flags = notes("precision not stated"), notes("flags")
    known: Predictions = {}
    return [
        *found,
        *_by_group(
            "inference: collected",
            runs,
            lambda run: [*_kinds(run), run.group],
            [*left_out, *unstated, *flags],
            known=known,
        ),
        *_by_group("inference: collected, flags not given", inference.without_flags(runs), _kinds, flags),
        *_by_group(
            "inference: collected, precision not stated", readings(runs), _own, unstated, whole=False, known=known
        ),
        *_by_group(
            "inference: collected, speculation not stated",
            drafting(),
            _own,
            notes("speculation not stated"),
            whole=False,
        )[:1],
    ]


def _by_group(
    title: str,
    runs: list[Run],
    groups: Callable[[Run], list[str]],
    notes: list[str],
    *,
    whole: bool = True,
    known: Predictions | None = None,
) -> list[Table]:
    """One table per measured quantity; `whole` adds a line over all runs; `known` holds predictions already made, and takes the others."""
    known = {} if known is None else known
    for run in runs:
        if id(run.options) not in known:
            known[id(run.options)] = inference.predict(run)
    tables: list[Table] = []
    for quantity, name in QUANTITIES.items():
        by_label: dict[str, list[Points]] = defaultdict(list)
        every: list[Points] = []
        for run in runs:
            if (point := inference.points([run], quantity, "", known)) is not None:
                every.append(point)
                for label in groups(run):
                    by_label[label].append(point)
        if every:
            points = [joined(label, parts) for label, parts in sorted(by_label.items())]
            tables.append(error_table(f"{title}, {name}", points, notes, {"all": every} if whole else {}))
    return tables


def _own(run: Run) -> list[str]:
    return [run.group]


def _kinds(run: Run) -> list[str]:
    """Groups of a collected run other than its model: its kind, that with its engine, and whether its server was warmed up."""
    both = f"{inference.kind(run)}, {run.engine}"
    groups = [inference.kind(run), both]
    if run.engine == "sglang" and benchmark_harness.public(run):
        groups.append(f"{both}, {'warmed up' if benchmark_harness.is_warmed_up(run) else 'no warm-up'}")
    return groups


def arrival_groups(run: Run) -> list[str]:
    """Lines of a run by arrival process, where that is scored separately: all of them, and those of groups never seen."""
    how = inference.arrivals(run)
    if how not in ("one sequence", "open loop"):
        return []
    return [how, f"{how}, never seen"] if run.seen == "never seen" else [how]


def drafting() -> list[Run]:
    """Runs that may have verified drafts, once without and once with them."""
    return [
        replace(run, group=f"{run.engine} {run.group} {how} drafts", options=options, other=None)
        for run in inference.drafting_runs()
        for how, options in (("without", run.options), ("with", run.other or run.options))
    ]


def readings(runs: list[Run]) -> list[Run]:
    """Runs without a stated precision, once as bf16 and once as fp8; and all dense runs with those under either reading."""
    found = []
    for run in runs:
        for name, options in (("bf16", run.options), ("fp8", run.other or run.options)):
            if run.other is not None:
                found.append(replace(run, group=f"{run.engine} {run.group} as {name}", options=options, other=None))
            if inference.kind(run) == "dense":
                found.append(replace(run, group=f"all dense, unstated as {name}", options=options, other=None))
    return found


def layouts() -> list[Run]:
    """TensorRT-LLM v1.0's runs of experts on 8 devices under either reading of the TP 8 that its page gives."""
    return [
        replace(run, group=f"{run.options['model']} as {name}", layout=layout, options=dict(run.options))
        for run in inference.published_runs()
        if run.group == "trtllm_v10" and run.layout.ep == 8
        for name, layout in (
            ("attention DP", run.layout),
            ("tensor parallel", run.layout.with_changes(tp=8.0, dp=1.0, ep=1.0)),
        )
    ]
