"""published_runs/precedent.yaml: the envelope of published training layouts, and the errors of what lies beyond it.

`python -m lab.training_envelope` rewrites the file; a test compares it with the rows. The errors of WIDENING are set by
`python -m lab.search_vs_tuned`: what the searches of tuned runs would else prefer is what these runs passed over.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import numpy as np
import yaml

from rooflinecli.engine import extrapolation
from rooflinecli.engine.extrapolation import FURTHER, configuration, mixers, parallel_techniques, scale_up_domain_sizes
from rooflinecli.parallel import data
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.snapshots import PUBLISHED
from rooflinecli.specs.training_envelope import pairs
from rooflinecli.validate.published_training import compared, ctx, family, plan, round_of, timed
from rooflinecli.validate.stats import Row

FILE = PUBLISHED / "precedent.yaml"
_HEAD = """# What published training runs (published_runs/training*.yaml) did, by kind of chip (python -m lab.training_envelope):
# pairs of techniques that two runs or more join, the largest groups and smallest shares, what nine of ten runs hide and fill and where all of
# it is new; and the relative error of a layout that has nothing like it among them, set by `python -m lab.search_vs_tuned`.
"""
# What tuned runs ask for (`python -m lab.search_vs_tuned`, its table of layouts without precedent), dense models and mixtures: the error at which nine of ten of
# them no longer trail a layout of the kind, since the upper end of an 80% interval is passed by one in ten. Mixtures ask for more than
# dense models: their activations swell with the tokens that routers send one way, and their exchange hides behind kernels that differ
# between hosts.
WIDENING = {
    "combination": (0.22, 0.69, "pairs of techniques that no published run joins"),
    "tensor": (0.22, 0.69, "tensor parallelism beyond the fast domain; no run tells, taken as that of combinations"),
    "stages": (0.25, 0.50, "more virtual stages"),
    "context": (0.21, 0.46, "fewer tokens of a sequence on a context rank"),
    "experts": (0.46, 0.51, "more experts of a layer on a device"),
    "sharding": (0.31, 0.31, "weights sharded over more fast domains than runs of the framework"),
    "hidden": (0.34, 0.67, "more communication hidden"),
    "memory": (0.36, 0.96, "memory fuller than counted for nine of ten published runs"),
    "stack": (0.20, 0.20, "software that is not named: published runs asked without theirs"),
    "family": (
        0.08,
        0.2,
        "a model family whose runs in this format, with this stack, on this chip are not among the rows, beyond what other runs of the stack need",
    ),
    "mixer": (0.35, 0.1, "a sequence mixer that no constant was fitted to"),
    "format": (
        0.06,
        0.22,
        "matmuls in four bits: recipes keep attention, latent projections and the last layers in 16",
    ),
    "chip": (
        0.15,
        0.15,
        "a chip without a fit: the error of frameworks without one (0.20) over that of others (0.13), in quadrature",
    ),
}
FITTED = 4  # rounds before this one had constants fitted to them
MIN_RUNS = 2  # that make a combination of techniques a precedent; one may be an ablation
WIDTH_QUANTILE = 0.82  # of runs, chosen with the weights of `widths` by the interval score of one half of the runs on the other (docs/accuracy.md)
QUANTILE = 0.9  # of the rows lie within the limits of hidden communication and memory
# Families that were not run for the fastest step: their layouts are precedents, but not choices.
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


@lru_cache(maxsize=1)
def compared_runs() -> tuple[Row, ...]:
    """Every timed row with the techniques and sizes of its layout, but for those whose source leaves out what decides the time."""
    return tuple(_layout(row) for row in timed() if "at_fault" not in row)


def layouts() -> tuple[Row, ...]:
    """Those whose source states the layout."""
    return tuple(row for row in compared_runs() if "unstated" not in row["row"])


def _layout(row: Row) -> Row:
    context, layout, answered = ctx(row), plan(row), compared(row)
    answer, (domain, fast) = answered.answer, scale_up_domain_sizes(context.chip)
    group = data.group(layout, False)
    terms = extrapolation.own(extrapolation.of(context, layout, answer))
    added = extrapolation.error(context, terms) ** 2 + answer.communication_error_fraction**2
    return {
        "row": row,
        "kind": context.chip.spec.kind,
        "chip": context.chip.spec.id,
        "software": layout.software,
        "stack": context.training_stack(layout),
        "configuration": configuration(context, layout),
        "mixers": mixers(context),
        "moe": answered.moe,
        "uses": {name for name, used in parallel_techniques(context.chip, layout).items() if used},
        "devices": layout.devices,
        "tensor": layout.tp / fast if layout.tp > 1 else 0.0,
        "stages": layout.virtual_stages,
        "context": context.seq / layout.cp if layout.cp > 1 else np.inf,
        "experts": max(context.ledger.experts) / layout.ep if answered.moe else 0.0,
        "sharding": group.part * group.stride / domain if layout.zero == 3 else 0.0,
        "hidden": float(sum(answer.hidden_s.values()) / answer.time_s),
        "memory": float(answer.memory.total_bytes / answer.memory.capacity_bytes),
        # the half width that would reach the measured time, beyond what the layout and its communication add
        "needed": float(np.sqrt(max(np.expm1(abs(np.log(answer.time_s / row["step_s"]))) ** 2 - added, 0.0))),
    }


def widths(rows: tuple[Row, ...]) -> Row:
    """measured and stacks of published_runs/precedent.yaml: the half width that WIDTH_QUANTILE of runs need. The runs of the chip, stack,
    format and family in question count one each; all others of the stack together count as one, and so do all of other stacks."""

    def width(stack: str, moe: bool, *at: str) -> float:
        alike = [row for row in rows if row["moe"] == moe]
        near = [(row["stack"] == stack) + ((row["chip"], row["configuration"]) == at) for row in alike]
        weights = [1.0 if of == 2 else 1.0 / near.count(of) for of in near]
        needed = [row["needed"] for row in alike]
        return round(float(np.quantile(needed, WIDTH_QUANTILE, weights=weights, method="inverted_cdf")), 3)

    chips: dict[str, dict[str, float]] = {row["chip"]: {} for row in sorted(rows, key=lambda row: str(row["chip"]))}
    for row in sorted(rows, key=lambda row: str(row["configuration"])):
        at = row["chip"], row["configuration"]
        chips[at[0]].setdefault(at[1], width(row["stack"], row["moe"], *at))
    names = [*sorted({row["stack"] for row in rows}), "others"]
    stacks = {stack: {"dense": width(stack, False), "mixture": width(stack, True)} for stack in names}
    return {"measured": chips, "stacks": stacks}


def envelope(rows: tuple[Row, ...]) -> Row:
    """kinds, frameworks and chips of published_runs/precedent.yaml, from these rows."""
    kinds: dict[str, list[Row]] = defaultdict(list)
    frameworks: dict[str, float] = {}
    for row in rows:
        kinds[row["kind"]].append(row)
        if row["software"] != Layout.software and row["sharding"]:
            frameworks[row["software"]] = max(frameworks.get(row["software"], 0.0), row["sharding"])
    return {
        "kinds": {kind: _of_kind(members) for kind, members in sorted(kinds.items())},
        "frameworks": {name: float(f"{domains:.6g}") for name, domains in sorted(frameworks.items())},
        "chips": sorted({row["chip"] for row in rows if round_of(row["row"]) < 3}),
        "mixers": sorted(set().union(*(row["mixers"] for row in rows if round_of(row["row"]) < FITTED))),
    }


def _of_kind(rows: list[Row]) -> Row:
    together = [f"{a} + {b}" for a, b in pairs() if sum({a, b} <= row["uses"] for row in rows) >= MIN_RUNS]
    largest = {name: max(row[name] for row in rows) for name in ("devices", "tensor", "stages", "experts", "sharding")}
    return {
        "runs": len(rows),
        "together": together,
        **{name: float(f"{limit:.6g}") for name, limit in largest.items()},
        "context": float(min(row["context"] for row in rows)),
        **{name: _limits(rows, name) for name in ("hidden", "memory")},
    }


def _limits(rows: list[Row], name: str) -> dict[str, list[float]]:
    """The limit that nine of ten runs keep and the value beyond which nothing has precedent, for dense and MoE models."""
    limits = {}
    for model, moe in (("dense", False), ("mixture", True)):
        alike = [row for row in rows if row["moe"] == moe] or rows
        limit = float(np.quantile([row[name] for row in alike], QUANTILE))
        limits[model] = [round(limit, 3), round(_end(alike, limit, name), 3)]
    return limits


def _end(alike: list[Row], limit: float, name: str) -> float:
    """The value beyond which nothing has precedent: a full memory; more hidden than in tuned runs of MIN_RUNS models, at least a quarter beyond the limit."""
    if name == "memory" and limit < 1:
        return 1.0
    largest: dict[str, float] = {}
    for row in [row for row in alike if family(row["row"]) not in OTHER] or alike:
        model = str(row["row"]["model"].get("name", row["row"]["id"]))
        largest[model] = max(largest.get(model, 0.0), row[name])
    return max(sorted(largest.values())[-MIN_RUNS:][0], limit * FURTHER)


def text() -> str:
    """The file."""
    widening = {kind: {"dense": dense, "mixture": mixture, "of": of} for kind, (dense, mixture, of) in WIDENING.items()}
    document = {**envelope(layouts()), **widths(compared_runs()), "widening": widening}
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=140, default_flow_style=None)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
