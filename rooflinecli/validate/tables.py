"""The tables of `roofline validate`: one builder per subject."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rooflinecli.specs.published import excluded
from rooflinecli.validate import collectives, deployments, exchange, experts, inference, wheel
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
    "Suspect rows read weights that fit into L2 (L40S), or whose busiest rank got less than an even share."
)


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
        families[k.name][group].append(k.points(group, ~k.fitted))
    found = []
    for name, groups in families.items():
        points = [joined(group, parts) for group, parts in sorted(groups.items())]
        rows = [*(summary(p) for p in points), summary(joined("all", points))]
        found.append(Table(f"kernels: {name}", rows, [EXPERT_NOTE], points))
    return found


def inference_tables() -> list[Table]:
    """Serving: published rows by source, and the collected runs of the wheel by model kind, engine and model."""
    tables = _serving(
        "inference: published", inference.published_runs(), lambda run: [run.group], excluded("inference")
    )
    tables.append(_deployments())
    if not wheel.installed():
        return [*tables, Table("inference: collected runs", [], [MISSING])]
    runs, out = inference.collected_runs()
    notes = [f"{count} rows left out: {reason}." for reason, count in out.items()]
    notes.append(
        "Where the precision is not stated it is taken as fp8, but for vLLM as the checkpoint's own bf16: the whole time of a request (first token and "
        "all others) of its Qwen3-32B runs then agrees within 2 % in the median, and is 26 % short with fp8. SGLang's Qwen3-32B runs point the same way "
        "(6 % against 23 %) but their inter-token latencies do not. TensorRT-LLM's quantised checkpoints are taken with an fp8 cache."
    )
    return tables + _serving(
        "inference: collected",
        runs,
        lambda run: [inference.kind(run), f"{inference.kind(run)}, {run.engine}", run.group],
        notes,
    )


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


def _serving(title: str, runs: list[Any], groups: Callable[[Any], list[str]], notes: list[str]) -> list[Table]:
    """One table per measured quantity."""
    names = {
        "itl": "inter-token latency",
        "ttft": "time to first token",
        "throughput": "throughput at the batch that memory allows",
    }
    tables = []
    for quantity, name in names.items():
        having = [run for run in runs if quantity in run.measured]
        if not having:
            continue
        predicted = {id(run): inference.points([run], quantity, "") for run in having}
        points = [_merge(label, [predicted[id(r)] for r in members]) for label, members in _grouped(having, groups)]
        rows = [summary(p) for p in (*points, _merge("all", [predicted[id(r)] for r in having]))]
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
    """Published training steps, by source, and by kind of model."""
    from rooflinecli.validate import published as steps

    families: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    kinds: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for row in steps.timed():
        held = steps.compared(row)
        answer = held.answer
        found = (row["step_s"], answer.time_s, answer.floor_s, *answer.interval_s)
        families[steps.family(row)].append(found)
        kinds["MoE" if held.moe else "dense"].append(found)
    points = [_steps(name, rows) for name, rows in families.items()]
    notes = [
        "A dozen constants (frameworks, experts, attention kernels) were fitted to these rows, matmul rates to the same families; "
        "Korthikanti et al. Table 5 (korthikanti_t5) was in no fit.",
        *excluded("training"),
    ]
    return [
        Table(
            "training: seconds per step",
            [
                *(summary(p) for p in points),
                *(summary(_steps(name, rows)) for name, rows in kinds.items()),
                summary(joined("all", points)),
            ],
            notes,
            points,
        )
    ]


def _steps(name: str, rows: list[tuple[float, ...]]) -> Points:
    """Measured, expected, floor and interval of some steps, a column each."""
    measured, expected, floor, low, high = np.array(rows, dtype=np.float64).T
    return Points(name, measured, expected, floor, low, high)


SUBJECTS: dict[str, Callable[[], list[Table]]] = {
    "kernels": kernels,
    "training": training,
    "inference": inference_tables,
    "collectives": collective_tables,
}
