"""The tables of `roofline validate`: one builder per subject."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rooflinecli.specs.published import excluded
from rooflinecli.validate import (
    collectives,
    deployments,
    desk,
    exchange,
    experts,
    harness,
    inference,
    rate_tables,
    searches,
    wheel,
    whole_runs,
)
from rooflinecli.validate import kernels as measured
from rooflinecli.validate.stats import Points, Table, joined, summary

MISSING = f"Measured kernels and collected serving runs need the wheel: {wheel.PIP}."
KERNEL_NOTES = {
    "matmul": "Half of the shapes (a hash) that the constants were not fitted to; n, k >= 512; `model_like` is the mean error on shapes within 20 % "
    "of common models' at TP 1 to 8.",
    "prefill attention": "bf16, causal, head up to 128, 64 tokens and more; `model_like`: head 128, no window, from 256 tokens.",
    "decode attention": "Caches beyond 1.5 of L2: the collector replays one cache, so smaller ones are read warm, which no decode step does. "
    "TensorRT-LLM 1.0.0 on A100 is left out: a fifth of its rows is faster than memory.",
    "latent attention": "DeepSeek's multi-head latent attention in bf16. TensorRT-LLM on A100, L40S and RTX PRO is left out: no form explains it (39 %).",
    "latent attention of prompts": "DeepSeek's multi-head latent attention over whole prompts, expanded: heads 192 wide, values 128, in bf16. SGLang's kernel on "
    "Hopper runs at a third of the rate of its other heads.",
}
EXPERT_NOTE = (
    "Both products of a layer of experts and what lies between them, every expert-parallel size and routing: half of the shapes (a hash) that the "
    "constants were not fitted to, a line per library, format and generation, whose chips share one set. Rows that name no gate have two matrices. "
    "Suspect rows are those whose busiest rank got less than an even share. Rows of cards with GDDR whose weights fit into L2 are "
    "shown apart and are not in the sum: the collector replays one layer, so it reads them from there, which no model does."
)
WARM = "weights in L2 beside GDDR"


def kernels() -> list[Table]:
    """A table per operation class: rows not fitted, by chip and library."""
    found = []
    for name in measured.CLASSES:
        rows, everything = [], []
        for k in measured.every((name,)):
            held_out = ~k.fitted & k.scored
            points = k.points(f"{wheel.CHIPS[k.chip]} {k.library} {k.version}", held_out)
            row = summary(points)
            if (k.core & held_out).any() and not (k.core & held_out)[held_out].all():
                row["model_like"] = summary(k.points("", held_out & k.core))["mean"]
            rows.append(row)
            everything.append(points)
        rows.append(summary(joined("all", everything)))
        found.append(
            Table(
                f"kernels: {name}",
                rows,
                [KERNEL_NOTES[name.split()[0] if name.startswith("matmul") else name]],
                everything,
            )
        )
    return [*found, *expert_tables()]


def expert_tables() -> list[Table]:
    """A table per family of expert kernels: rows not fitted, by generation, format and library."""
    families: dict[str, dict[str, list[Points]]] = defaultdict(lambda: defaultdict(list))
    for k in experts.every():
        group = f"{experts.generation(k.chip)} {k.ops[0].variant}"
        families[k.name][group].append(k.points(group, ~k.fitted & k.scored))
        if (~k.scored).any():
            families[k.name][WARM].append(k.points(WARM, ~k.fitted & ~k.scored))
    found = []
    for name, groups in families.items():
        warm = [summary(joined(WARM, groups.pop(WARM)))] if WARM in groups else []
        points = [joined(group, parts) for group, parts in sorted(groups.items())]
        rows = [*(summary(p) for p in points), *warm, summary(joined("all", points))]
        found.append(Table(f"kernels: {name}", rows, [EXPERT_NOTE], points))
    return found


def inference_tables() -> list[Table]:
    """Serving: published rows by source, and the collected runs of the wheel by model kind, engine and model."""
    tables = _serving(
        "inference: published",
        inference.published_runs(),
        lambda run: [run.group, f"{inference.kind(run)}, {run.seen}", *_arrivals(run)],
        [SEEN, ALONE, *excluded("inference")],
        {},
    )
    tables += _serving(
        "inference: published, other releases and machines",
        rate_tables.runs(),
        lambda run: [run.group, f"{inference.kind(run)}, {run.seen}", *(["never seen"] if run.seen == "never seen" else [])],
        [OTHERS, *excluded("inference_2")],
        {},
    )
    tables += _serving(
        UNLAID,
        layouts(),
        lambda run: [run.group],
        [LAYOUTS],
        {},
    )
    tables.append(_deployments())
    if not wheel.installed():
        return [*tables, Table("inference: collected runs", [], [MISSING])]
    known: dict[int, Any] = {}
    runs, out = inference.collected_runs()
    notes = [f"{count} rows left out: {reason}." for reason, count in out.items()]
    notes.append(UNSTATED)
    found = _serving(
        "inference: collected",
        runs,
        lambda run: [*_kinds(run), run.group],
        [*notes, FLAGS],
        known,
    )
    found += _serving(UNTOLD, inference.without_flags(runs), _kinds, [FLAGS], {})
    found += _serving(READINGS, readings(runs), lambda run: [run.group], [UNSTATED], known)
    return [*tables, *found, *_serving(DRAFTING, drafting(), lambda run: [run.group], [UNDRAFTED], {})[:1]]


def _kinds(run: inference.Run) -> list[str]:
    """Groups of a collected run beside its model: its kind, that with its engine, and whether compilers could have met its prompts."""
    both = f"{inference.kind(run)}, {run.engine}"
    warmed = [f"{both}, {harness.warmed(run)}"] if run.engine == "sglang" and harness.public(run) else []
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
    "lockstep, SGLang's Qwen3-32B runs agree in both of their times. TensorRT-LLM's quantised checkpoints are taken with an fp8 cache."
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
        if run.group == "trtllm_v10" and run.plan.ep == 8:
            for name, plan in (("attention DP", run.plan), ("tensor parallel", run.plan.but(tp=8.0, dp=1.0, ep=1.0))):
                read = f"{run.options['model']} as {name}"
                found += [replace(run, group=read, plan=plan, options=dict(run.options))]
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


def collective_tables() -> list[Table]:
    """NCCL inside a node, and published timings."""
    rows = collectives.published_rows() + (collectives.wheel_rows() if wheel.installed() else [])
    tables: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        tables[row.table][row.group].append(row)
    found = []
    for name, groups in sorted(tables.items()):
        points = [collectives.points(members, group) for group, members in groups.items()]
        notes = (
            excluded("collectives")
            if name == "published"
            else [
                "Sizes from 512 B to 1 GB, 2 to 8 devices. L40S and RTX PRO exchange over PCIe: fitted to every second size, shown apart, since the L40S "
                "server's rate falls with the number of cards as no form here says."
            ]
        )
        wired = [p for p in points if p.group not in ("l40s", "rtx_pro_6000_server")]
        found.append(
            Table(
                f"collectives: {name}",
                [*(summary(p) for p in points), summary(joined("all but PCIe", wired))],
                notes,
                wired,
            )
        )
    return [*found, *exchange_tables()] if wheel.installed() else [*found, Table("collectives: NCCL", [], [MISSING])]


def exchange_tables() -> list[Table]:
    """Tokens to experts and back, and all-reduces by kernels of engines."""
    sent, reduced = list(exchange.exchanges()), list(exchange.all_reduces())
    said = "Half of the shapes (a hash) that the constants were not fitted to; a generation's chips share one set"
    return [
        Table(
            "collectives: exchange of tokens",
            [
                *(summary(p) for p in sent),
                *(summary(joined(name, parts)) for name, parts in _apart(sent)),
                summary(joined("all", sent)),
            ],
            [f"{said}. Several nodes were timed on H100 alone; DeepEP's normal kernels on 20 SMs, up to 4 nodes."],
            sent,
        ),
        Table(
            "collectives: custom all-reduce",
            [*(summary(p) for p in reduced), summary(joined("all", reduced))],
            [f"{said}. 256 B to 1 GB, 2 to 8 devices, CUDA graphs."],
            reduced,
        ),
    ]


def _apart(sent: list[Points]) -> list[tuple[str, list[Points]]]:
    """Across nodes, and inside one."""
    across = [p for p in sent if "nodes" in p.group]
    return [("all over several nodes", across), ("all inside a node", [p for p in sent if p not in across])]


def training() -> list[Table]:
    """Published training steps: the runs of each round, by family and by kind of model."""
    from rooflinecli.validate import published as steps

    by: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
    kinds: dict[tuple[int, str], list[tuple[float, ...]]] = defaultdict(list)
    for row in steps.timed():
        held = steps.compared(row)
        answer, round_ = held.answer, steps.round_of(row)
        found = (row["step_s"], answer.time_s, answer.floor_s, *answer.interval_s)
        by[round_, steps.family(row)].append(found)
        kind = "MoE" if held.moe else "dense"
        kinds[round_, kind].append(found)
        if round_ < 3:
            kinds[0, kind].append(found)
    return [*(_round(title, by, kinds, which, notes) for which, title, notes in _rounds()), whole_runs.table()]


def _rounds() -> list[tuple[int, str, list[str]]]:
    """Number, title and notes of the tables of training steps; 0 is the first two together."""
    first = [
        "The rows that constants of frameworks, experts and attention kernels were first fitted to, matmul rates to the same families; "
        "Korthikanti et al. Table 5 (korthikanti_t5) was in no fit.",
        *excluded("training"),
    ]
    second = [
        "200 runs that the first fit had not seen; the terms of the second round (docs/accuracy.md) were chosen with them in view.",
    ]
    others = [
        "Other frameworks. internevo and xtuner: constants of their own, fitted to these rows; torchtune: constants of torchtitan, no row of it in a fit, "
        "and chips that no training run was fitted to. "
        "whole_runs: GPU-hours of a whole run over its tokens, in no fit; restarts and what else the hours hold are in them.",
        *excluded("training_3"),
    ]
    both = ["The first and the second round together."]
    return [
        (1, "training: seconds per step", first),
        (2, "training: second round", second),
        (3, "training: other frameworks", others),
        (0, "training: both", both),
    ]


def _round(
    title: str,
    by: dict[tuple[int, str], list[tuple[float, ...]]],
    kinds: dict[tuple[int, str], list[tuple[float, ...]]],
    which: int,
    notes: list[str],
) -> Table:
    """One table: the families of a round, then its dense models and its mixtures of experts, then all."""
    points = [
        _steps(name, rows) for (round_, name), rows in by.items() if which == round_ or (not which and round_ < 3)
    ]
    shown = points if which else []
    lines = [_steps(kind, kinds[which, kind]) for kind in ("dense", "MoE") if (which, kind) in kinds]
    rows = [summary(p) for p in (*shown, *lines, joined("all", points))]
    return Table(title, [*rows, _alike([summary(p) for p in points])], notes, shown)


def _alike(families: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors and coverage with the same weight for every family, however many rows it has."""
    scored = [row for row in families if "mean" in row]
    means = {key: float(np.mean([row[key] for row in scored])) for key in ("mean", "median", "coverage")}
    return {"group": "every family alike", "rows": len(scored), **means}


def _steps(name: str, rows: list[tuple[float, ...]]) -> Points:
    """Measured, expected, floor and interval of some steps, a column each."""
    measured, expected, floor, low, high = np.array(rows, dtype=np.float64).T
    return Points(name, measured, expected, floor, low, high)


SUBJECTS: dict[str, Callable[..., list[Table]]] = {
    "kernels": kernels,
    "training": training,
    "search": searches.tables,
    "inference": inference_tables,
    "collectives": collective_tables,
    "desk": desk.tables,
}
