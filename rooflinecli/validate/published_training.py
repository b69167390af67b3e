"""Published training runs (published_runs/training*.yaml), their predictions, and the tables of errors: each round by family and by
kind of model, and GPU-hours of whole runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

from rooflinecli.core import units
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.engine.training import train
from rooflinecli.specs.document import Document
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import SIZES, Layout
from rooflinecli.specs.model import ModelSpec, load_model, model_from
from rooflinecli.specs.request import Request
from rooflinecli.specs.snapshots import PUBLISHED, excluded, published
from rooflinecli.validate.stats import AT_FAULT, Row, Table, joined, notes, score, summary, twin

FILE = PUBLISHED / "training.yaml"
_hardware = lru_cache(maxsize=64)(load_hardware)
# runs of the first fit, runs that came after it, other frameworks, and releases, hybrids and stacks that no constant was fitted to
ROUNDS = {1: "training", 2: "training_2", 3: "training_3", 4: "training_4"}


@dataclass(frozen=True)
class Compared:
    """One row and the answer to it; `error` is signed, None where the row gives no time."""

    row: Row
    answer: TrainAnswer
    error: float | None
    fits: bool
    moe: bool


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """All rows of all rounds, each with the number of its file."""
    return tuple({"round": number, **row} for number, name in ROUNDS.items() for row in published(name)["rows"])


def timed() -> tuple[Row, ...]:
    """The rows that give the time of a step."""
    return tuple(row for row in rows() if "step_s" in row)


def round_of(row: Row) -> int:
    """The number of the file a row is in, of ROUNDS."""
    return int(row["round"])


def family(row: Row) -> str:
    """The line of an error table that a row counts in: its group, or its source; rows whose source leaves out what decides the time
    (`at_fault` says what) have a line of their own."""
    return str(row.get("group", row["source"])) + (AT_FAULT if "at_fault" in row else "")


_MODELS: dict[str, ModelSpec] = {}


def model(row: Row) -> ModelSpec:
    """The model of a row, built once: one of models/ by name, a GPT (layer norms, biases, learned positions, tied embedding), or a gated
    one with rotary positions."""
    m, key = row["model"], f"{row['id']} {row['model']}"
    if "name" in m:
        return load_model(m["name"])
    if key in _MODELS:
        return _MODELS[key]
    plain = not m["gated"]
    attention = {
        "kind": "gqa",
        "n_heads": m["heads"],
        "n_kv_heads": m["kv_heads"],
        "head_dim": m.get("head_dim", m["d_model"] // m["heads"]),
        "qkv_bias": plain,
        "out_bias": plain,
        "rotary": not plain,
    }
    data = {
        "name": row["id"],
        "source": row["source"],
        "family": "gpt3" if plain else "llama",
        "d_model": m["d_model"],
        "vocab_size": m["vocab"],
        "tied_embeddings": plain,
        "norm": "layernorm" if plain else "rmsnorm",
        "layers": m["layers"],
        "attention": attention,
        "positions": {"kind": "learned", "length": m["seq"]} if plain else {"kind": "rotary"},
        "feedforward": {"kind": "dense" if plain else "gated", "d_ff": m["d_ff"], "bias": plain},
    }
    return _MODELS.setdefault(key, model_from(Document(data, FILE)))


def plan(row: Row, **changes: object) -> Layout:
    """The layout of a row, with some fields replaced."""
    given: Row = {k: float(v) if k in SIZES else v for k, v in {**row["plan"], **changes}.items()}
    if "recompute_modules" in given:
        given["recompute_modules"] = tuple(given["recompute_modules"])
    return Layout(**given)


def ctx(row: Row, replaced: Row | None = None, asked: Row | None = None) -> EstimateContext:
    """The context of a row, with the links, memory and power of its machine; `replaced` overrides more figures.

    asked: further fields of the request.
    """
    hardware = _hardware(row["hardware"])  # read once: a fit prices the same rows many thousand times
    state: Row = {name: float(row[name]) for name in ("gradient_bytes", "optimizer_bytes") if name in row}
    state["software"] = row["plan"].get("software")  # whose recipes say what is kept where the row does not
    request = Request(
        model(row),
        hardware,
        batch=float(row["batch"]),
        seq=float(row["model"]["seq"]),
        dtype=row["dtype"],
        **{**state, **(asked or {})},
    )
    override = {f"network.{level}.bandwidth": rate for level, rate in row.get("network", {}).items()}
    override |= row.get("override", {})
    if "power" in row and hardware.power is not None:
        override["power"] = units.parse(row["power"], "W")
    return EstimateContext(request, override={**override, **(replaced or {})} or None)


def compared(row: Row) -> Compared:
    """Answer a row and compare it with its measurement."""
    context = ctx(row)
    answer = train(context, plan(row))
    error = answer.time_s / row["step_s"] - 1 if "step_s" in row else None
    fits = bool(answer.memory.fits)
    return Compared(row, answer, error, fits, any(group.moe for group in context.ledger.layers))


def setup(row: Row) -> tuple[object, ...]:
    """Model without its sequence length, and format: a later run of the same, on whichever chip, has a twin."""
    shape = {name: value for name, value in row["model"].items() if name != "seq"}
    return *sorted(shape.items()), row["dtype"]


KINDS = [f"{kind}{twin}" for kind in ("dense", "MoE") for twin in ("", ", with a twin", ", without a twin")]
BOTH = 0  # the first two rounds together
TITLES = {
    1: "training: seconds per step",
    2: "training: second round",
    3: "training: other frameworks",
    4: "training: other releases and hybrids",
    BOTH: "training: both",
}


def tables() -> list[Table]:
    """Published training steps: the runs of each round, by family and by kind of model; then whole runs."""
    scored: dict[int, list[tuple[list[str], tuple[float, ...]]]] = defaultdict(list)
    earlier: set[tuple[object, ...]] = set()
    for number, rows in groupby(timed(), round_of):
        of_round = list(rows)
        for row in of_round:
            priced = compared(row)
            answer, kind = priced.answer, "MoE" if priced.moe else "dense"
            values = (row["step_s"], answer.time_s, answer.floor_s, *answer.interval_s)
            lines = [family(row)]
            if "at_fault" not in row:
                lines += [kind, f"{kind}, {twin(setup(row), earlier)}"] if number > 1 else [kind]
            scored[number].append((lines, values))
            if number < 3:
                scored[BOTH].append(([f"{family(row)} of round {number}", kind], values))
        earlier |= {setup(row) for row in of_round}
    made = []
    for which, title in TITLES.items():
        left_out = excluded({1: "training", 3: "training_3"}[which]) if which in (1, 3) else []
        table = score(title, scored[which], notes(f"training {which}") + left_out, subtotals=KINDS, with_all=False)
        families = [p for p in table.points if not p.group.endswith(AT_FAULT)]
        alike = [line for p in families if "mean" in (line := summary(p))]  # the same weight for every family
        mean = {key: float(np.mean([line[key] for line in alike])) for key in ("mean", "median", "coverage")}
        table.rows += [summary(joined("all", families)), {"group": "mean over families", "rows": len(alike), **mean}]
        if which == BOTH:  # its families are in the tables of the rounds
            table.rows, table.points = table.rows[len(table.points) :], []
        made.append(table)
    return [*made, gpu_hours()]


def gpu_hours() -> Table:
    """Published GPU-hours of whole runs: hours expected and published, and the MFU that the published ones imply."""
    runs = published("whole_runs")["runs"]
    by_name, by_id = {run["run"]: run for run in runs}, {row["id"]: row for row in rows()}
    lines = []
    for run in runs:
        same = by_name[run["as"]] if "as" in run else run  # the run whose steps it shares
        row = by_id[same["row"]] if "row" in same else {"id": same["run"], **same}
        answer, layout = compared(row).answer, plan(row)
        num_steps = run["tokens"] / (row["batch"] * row["model"]["seq"])
        hours = num_steps * float(answer.time_s) * layout.devices / 3600
        lines.append(
            {
                "group": run["run"],
                "expected_hours": f"{hours / 1e6:.2f} M",
                "published_hours": f"{run['hours'] / 1e6:.2f} M",
                "off": hours / run["hours"] - 1,
                "mfu": float(answer.mfu),
                "implied_mfu": float(answer.mfu) * hours / run["hours"],
                "layout": run["layout"],
            }
        )
    return Table("training: GPU-hours of whole runs", lines, notes("GPU-hours"))
