"""The tables of `roofline validate`: one builder per subject; those of kernels and collectives are here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rooflinecli.specs.published_runs import excluded
from rooflinecli.validate import (
    aiconfigurator_tables,
    collectives,
    exchange,
    experts,
    local_machines,
    search_vs_tuned,
    serving_tables,
    training_tables,
)
from rooflinecli.validate import kernels as measured
from rooflinecli.validate.stats import Points, Table, joined, summary

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
        rows: list[dict[str, Any]] = []
        everything: list[Points] = []
        for k in measured.every((name,)):
            held_out = ~k.fitted & k.scored
            points = k.points(f"{aiconfigurator_tables.CHIPS[k.chip]} {k.library} {k.version}", held_out)
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


def collective_tables() -> list[Table]:
    """NCCL inside a node, and published timings."""
    rows = collectives.published_rows() + (collectives.wheel_rows() if aiconfigurator_tables.installed() else [])
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
    return (
        [*found, *exchange_tables()]
        if aiconfigurator_tables.installed()
        else [*found, Table("collectives: NCCL", [], [aiconfigurator_tables.MISSING])]
    )


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


SUBJECTS: dict[str, Callable[..., list[Table]]] = {
    "kernels": kernels,
    "training": training_tables.tables,
    "search": search_vs_tuned.tables,
    "inference": serving_tables.tables,
    "collectives": collective_tables,
    "desk": local_machines.tables,
}
