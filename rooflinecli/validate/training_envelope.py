"""How far published training runs go (specs/precedent): what a layout beyond them is told, and how much wider its interval grows.

`python -m rooflinecli.validate.training_envelope` rewrites published_runs/precedent.yaml; a test compares it with the rows. The errors of
WIDENING are set by `roofline validate search`: what the searches of tuned runs would else prefer is what these runs passed over.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Any

import numpy as np
import yaml

from rooflinecli.engine.extrapolation import FURTHER, parallel_techniques, scale_up_domain_sizes
from rooflinecli.parallel import data
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.published_runs import FOLDER
from rooflinecli.specs.training_envelope import pairs
from rooflinecli.validate.published_training import Compared, compared, ctx, family, plan, round_of, timed

FILE = FOLDER / "precedent.yaml"
LEAST = 2  # runs that make a precedent of techniques joined; one may be an ablation
SHARE = 0.9  # of the rows keep to what is said of hidden communication and memory
# Families that were run to show something else than the fastest step: what they did counts as done, not as what people choose.
OTHER = {
    "megatron_sc21_t1": "2021: neither sharded weights nor sequence parallelism nor selective recomputation",
    "megatron_sc21_t2": "2021, the same; the ZeRO-3 half was run to be compared with",
    "korthikanti_t5": "2022: data parallelism left out on purpose",
    "bloom": "sweeps over shapes of a model on a fixed tp 8",
    "mcore_h100_weak": "weak scaling; its microbatch is not stated",
    "moezoo": "ablations of one model",
    "torchtitan_asynctp": "tp 8 in order to show what asynchronous tensor parallelism hides",
    "internevo": "sweeps over sizes of groups",
    "whole_runs": "hours of whole runs, restarts included",
}
_HEAD = """# What published training runs (published_runs/training*.yaml) did, by kind of chip (python -m rooflinecli.validate.training_envelope):
# pairs of techniques that two runs or more join, the largest groups and smallest shares, what nine of ten runs hide and fill and where all of
# it is new; and the relative error of a layout that has nothing like it among them, set by `roofline validate search`.
"""
# What tuned runs ask for (`roofline validate search`, its table of novelty): the error at which nine of ten of them no longer trail
# a layout of the kind, since the upper end of an 80 % interval is passed by one in ten. Mixtures ask for more than dense models: their
# activations swell with the tokens that routers send one way, and their exchange hides behind kernels that differ between hosts.
WIDENING = {
    "combination": (0.22, 0.69, "pairs of techniques that no published run joins"),
    "tensor": (0.22, 0.69, "tensor parallelism beyond the fast domain; no run tells, taken as that of combinations"),
    "stages": (0.25, 0.50, "more virtual stages"),
    "context": (0.21, 0.46, "fewer tokens of a sequence on a context rank"),
    "experts": (0.46, 0.51, "more experts of a layer on a device"),
    "sharding": (0.31, 0.31, "weights sharded over more fast domains than runs of the framework"),
    "hidden": (0.34, 0.67, "more communication hidden"),
    "memory": (0.36, 0.96, "memory fuller than counted for nine of ten published runs"),
    "chip": (
        0.15,
        0.15,
        "a chip without a fit: the error of frameworks without one (0.20) over that of others (0.13), in quadrature",
    ),
}


@lru_cache(maxsize=1)
def seen() -> tuple[dict[str, Any], ...]:
    """Every timed row with what its layout does."""
    return tuple(_seen(row) for row in timed())


def _seen(row: dict[str, Any]) -> dict[str, Any]:
    asked, laid, held = ctx(row), plan(row), compared(row)
    domain, fast = scale_up_domain_sizes(asked.chip)
    group = data.group(laid, False)
    return {
        "row": row,
        "kind": asked.chip.spec.kind,
        "chip": asked.chip.spec.id,
        "software": laid.software,
        "moe": held.moe,
        "uses": {name for name, does in parallel_techniques(asked.chip, laid).items() if does},
        "tensor": laid.tp / fast if laid.tp > 1 else 0.0,
        "stages": laid.virtual_stages,
        "context": asked.seq / laid.cp if laid.cp > 1 else np.inf,
        "experts": max(asked.ledger.experts) / laid.ep if held.moe else 0.0,
        "sharding": group.part * group.stride / domain if laid.zero == 3 else 0.0,
        **_shares(held),
    }


def _shares(held: Compared) -> dict[str, float]:
    answer = held.answer
    return {
        "hidden": float(sum(answer.hidden_s.values()) / answer.time_s),
        "memory": float(answer.memory.total_bytes / answer.memory.capacity_bytes),
    }


def precedent(rows: tuple[dict[str, Any], ...] | None = None) -> dict[str, Any]:
    """The document, from these rows (all of them by default)."""
    rows = seen() if rows is None else rows
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    frameworks: dict[str, float] = {}
    for row in rows:
        kinds[row["kind"]].append(row)
        if row["software"] != Layout.software and row["sharding"]:
            frameworks[row["software"]] = max(frameworks.get(row["software"], 0.0), row["sharding"])
    return {
        "kinds": {kind: _envelope(members) for kind, members in sorted(kinds.items())},
        "frameworks": {name: float(f"{domains:.6g}") for name, domains in sorted(frameworks.items())},
        "chips": sorted({row["chip"] for row in rows if round_of(row["row"]) < 3}),
        "widening": {
            kind: {"dense": dense, "mixture": mixture, "of": of} for kind, (dense, mixture, of) in WIDENING.items()
        },
    }


def _envelope(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs on one kind of chip did."""
    done = [f"{a} + {b}" for a, b in pairs() if sum({a, b} <= row["uses"] for row in rows) >= LEAST]
    most = {name: float(max(row[name] for row in rows)) for name in ("tensor", "stages", "experts", "sharding")}
    return {
        "runs": len(rows),
        "together": done,
        **{name: float(f"{limit:.6g}") for name, limit in most.items()},
        "context": float(min(row["context"] for row in rows)),
        **{name: _usual(rows, name) for name in ("hidden", "memory")},
    }


def _usual(rows: list[dict[str, Any]], name: str) -> dict[str, list[float]]:
    """What nine of ten runs keep to and where all is new, dense models and mixtures apart."""
    found = {}
    for model, moe in (("dense", False), ("mixture", True)):
        alike = [row for row in rows if row["moe"] == moe] or rows
        limit = float(np.quantile([row[name] for row in alike], SHARE))
        found[model] = [round(limit, 3), round(_end(alike, limit, name), 3)]
    return found


def _end(alike: list[dict[str, Any]], limit: float, name: str) -> float:
    """Where all is new: a full memory; more hidden than in tuned runs of LEAST models, and a quarter beyond the limit at least."""
    if name == "memory" and limit < 1:
        return 1.0
    most: dict[str, float] = {}
    for row in [row for row in alike if family(row["row"]) not in OTHER] or alike:
        model = str(row["row"]["model"].get("name", row["row"]["id"]))
        most[model] = max(most.get(model, 0.0), row[name])
    return max(sorted(most.values())[-LEAST:][0], limit * FURTHER)


def text() -> str:
    return _HEAD + yaml.safe_dump(precedent(), sort_keys=False, width=140, default_flow_style=None)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
