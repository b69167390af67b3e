"""Searches against tuned layouts: the gain that the winner claims over a published run, and the rank of that run.

For every tuned run (of those that answer one question the fastest measured; the others were its trials) the same model, devices,
batch, sequence, precision, recomputation and framework are searched. The gain is by the expected price of both, and by the
measured time of the run; the rank is among all layouts that fit, by the pessimistic bound.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from lab import training_envelope
from lab.show import show
from rooflinecli.core.errors import RooflineWarning
from rooflinecli.engine import extrapolation, layout_space
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import time_at_bound
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.search.search_request import TrainingSearchQuestion
from rooflinecli.questions.search.serving import search
from rooflinecli.questions.search.training import CHUNK, answer_of, needs
from rooflinecli.questions.sweep.run import SweepBlock
from rooflinecli.specs import training_envelope as shipped_envelope
from rooflinecli.specs.layout import Layout, OpenValues
from rooflinecli.specs.request import BOUNDS
from rooflinecli.specs.snapshots import published
from rooflinecli.specs.training_envelope import widening
from rooflinecli.validate import published_training
from rooflinecli.validate.stats import Array, Row, Table, notes

ENOUGH = (
    0.4  # least distance beyond published runs that tells the error of the full distance: no memory is more than full
)
SAMPLE = 5  # tuned runs of a family, unless all are asked for
SOFTWARE = ("megatron-2025", "nemo-2024")  # possible releases of an unseen run
# Settings of a run that a search does not choose; `stages` and `shard` stay with the published layout alone.
_GIVEN = (
    "schedule",
    "ring",
    "dropout",
    "loss_chunks",
    "recipe",
    "lora_rank",
    "lora_targets",
    "software",
    "flash",
    "ep_overlap",
    "tp_overlap",
)
# What the software of a family lacked, though its name stands for later releases too: the distributed optimizer and sequence parallelism came to
# Megatron-LM in 2022, and DeepSpeed's pipeline engine refuses ZeRO-2 and ZeRO-3.
_LACKED: dict[tuple[str, str], OpenValues] = {
    ("megatron_sc21_t1", "megatron-2022"): {"zero": (0,), "sequence-parallel": (False,)},
    ("megatron_sc21_t2", "megatron-2022"): {"zero": (0,), "sequence-parallel": (False,)},
    ("bloom", "deepspeed"): {"zero": (0, 1)},
}
KNOWN = ("llama-3.1-405b", "deepseek-v3", "nemotron", "mixtral")


@dataclass(frozen=True)
class Searched:
    """A tuned run and the winner of its search.

    gain, left_out: expected time of the run's layout over that of the winner, and of the winner without the run's own family in the
    envelope; measured: measured time over the winner's; place: fraction of the layouts ranked above the run's;
    needed: by kind of extrapolation that some layout has alone, the error at which the run no longer ranks behind any of them.
    """

    row: Row
    moe: bool
    layouts: int
    gain: float
    left_out: float
    measured: float
    place: float
    needed: dict[str, float]


def tuned() -> list[Row]:
    """Of the rows with the same model, chip, links, devices, batch and formats, the fastest measured; and none that a run with a smaller
    batch beats in sequences per second, which amortizes its step less: people had tried better."""
    best: dict[str, Row] = {}
    fastest: dict[str, list[Row]] = defaultdict(list)
    for row in published_training.timed():
        layout = published_training.plan(row)
        same = (row["model"], row["hardware"], row.get("network"), row.get("power"), layout.devices)
        formats = (row["dtype"], layout.recipe)
        fastest[repr((*same, *formats))].append(row)
        question = repr((*same, row["batch"], *formats))
        if question not in best or row["step_s"] < best[question]["step_s"]:
            best[question] = row
    tried = {row["id"]: rows for rows in fastest.values() for row in rows}
    return [
        row
        for row in best.values()
        if not any(
            other["batch"] < row["batch"] and other["batch"] / other["step_s"] > row["batch"] / row["step_s"]
            for other in tried[row["id"]]
        )
    ]


def sampled(full: bool) -> list[Row]:
    """All tuned runs, or the first few of each family by a hash of their names."""
    families: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(tuned(), key=lambda row: hashlib.sha256(row["id"].encode()).hexdigest()):
        families[published_training.family(row)].append(row)
    return [row for members in families.values() for row in (members if full else members[:SAMPLE])]


def asked(row: Row) -> EstimateContext:
    """The context of a row with its layout left open and all other settings of the run."""
    plan, ctx = row["plan"], published_training.ctx(row)
    given = {name: plan[name] for name in _GIVEN if name in plan}
    if "recompute_modules" in plan:
        given["recompute_modules"] = ",".join(plan["recompute_modules"])
    if "recompute_layers" in plan:
        given["recompute_layers"] = float(plan["recompute_layers"])
    if "offload" in plan:
        given["offload"] = plan["offload"] + (f":{plan['offload_layers']}" if "offload_layers" in plan else "")
    return published_training.ctx(row, asked={"phases": ("train",), **given}) if given else ctx


def question_of(row: Row) -> TrainingSearchQuestion:
    """The search of a run: its recomputation, and what its software had."""
    ctx, layout = asked(row), published_training.plan(row)
    lacked = _LACKED.get((published_training.family(row), layout.software), {})
    return TrainingSearchQuestion(
        ctx.request, (), (), {"recompute": (layout.recompute,), **lacked}, (int(layout.devices),)
    )


def priced(
    ctx: EstimateContext, question: TrainingSearchQuestion, n: int
) -> Iterator[tuple[layout_space.LayoutArrays, SweepBlock]]:
    """Every layout on n devices that fits, with its answer, a run at a time."""
    offered = layout_space.layouts(ctx, question, n)
    for structure in layout_space.structures(question):
        chosen = layout_space.affected_axes(ctx, offered, question, structure)
        for start in range(0, len(chosen), CHUNK):
            layouts = offered.take(chosen[start : start + CHUNK]).laid(ctx, structure)
            with np.errstate(all="ignore"):
                fitting = layouts.take(np.flatnonzero(needs(ctx, layouts) <= ctx.chip.capacity))
                if len(fitting):
                    yield fitting, answer_of(ctx, fitting)


def searched(row: Row, bound: str = BOUNDS[0]) -> Searched | None:
    """A run against the search of its question, ranked by a bound of the interval; None where no layout fits by our count."""
    question, compared = question_of(row), published_training.compared(row)
    ctx, devices = asked(row), question.devices[0]
    times, ends, blind, needed = [], [], [], dict[str, float]()
    own_end = float(time_at_bound(compared.answer, bound))
    for layouts, answer in priced(ctx, question, devices):
        found = answer.phases["train"]
        assert isinstance(found, TrainAnswer)
        with np.errstate(all="ignore"):
            own, far = _terms(ctx, layouts.plan(ctx.request), found, published_training.family(row))
            time, end = (answer.flat(value) for value in (found.time_s, time_at_bound(found, bound)))
            plain = np.sqrt(np.maximum((end / time - 1) ** 2 - answer.flat(extrapolation.error(ctx, own)) ** 2, 0.0))
            _raise_needed(needed, far, time, plain, own_end)
        times.append(time)
        ends.append(end)
        blind.append(time * (1 + np.sqrt(plain**2 + answer.flat(extrapolation.error(ctx, far)) ** 2)))
    if not times:
        return None
    time, end, unseen = (np.concatenate(parts) for parts in (times, ends, blind))
    price, better = float(compared.answer.time_s), int((end < own_end * (1 - 1e-9)).sum())
    winner, left_out = (float(time[int(np.argmin(ranks))]) for ranks in (end, unseen))
    return Searched(
        row,
        compared.moe,
        len(time),
        price / winner,
        price / left_out,
        row["step_s"] / winner,
        better / len(time),
        needed,
    )


def _terms(
    ctx: EstimateContext, plan: Layout, answer: TrainAnswer, family: str
) -> tuple[list[extrapolation.ExtrapolationTerm], list[extrapolation.ExtrapolationTerm]]:
    """Extrapolation terms of layouts against all published runs, and against those of other families."""
    own = extrapolation.of(ctx, plan, answer)
    with overridden_envelope(_without(family)):
        return own, extrapolation.of(ctx, plan, answer)


@contextmanager
def overridden_envelope(data: Row) -> Iterator[None]:
    """Another document in place of the file: the limits without the runs of a family, to see what they tell of it."""
    setattr(shipped_envelope, "published", lambda name: data)  # noqa: B010
    shipped_envelope.envelope.cache_clear()
    try:
        yield
    finally:
        setattr(shipped_envelope, "published", published)  # noqa: B010
        shipped_envelope.envelope.cache_clear()


@cache
def _without(family: str) -> Row:
    """The envelope of all other families, where they leave any of the kind of chip and model; frameworks keep theirs."""
    rows = tuple(row for row in training_envelope.layouts() if published_training.family(row["row"]) != family)
    shipped = published("precedent")
    return {**shipped, **training_envelope.envelope(rows), "frameworks": shipped["frameworks"]}


def _raise_needed(
    needed: dict[str, float],
    terms: list[extrapolation.ExtrapolationTerm],
    time: Array,
    plain: Array,
    bound: float,
) -> None:
    """Raise `needed` to the error that holds back layouts whose only extrapolation is of one kind."""
    far = {term.kind: np.broadcast_to(term.beyond, time.shape) for term in terms}
    for kind, beyond in far.items():
        others = np.zeros(time.shape, dtype=bool)
        for name, value in far.items():
            others |= (value > 0) & (name != kind)
        alone = (beyond >= ENOUGH) & ~others
        if alone.any():
            most = np.maximum(bound / time[alone] - 1, plain[alone])
            least = np.sqrt(np.maximum(most**2 - plain[alone] ** 2, 0.0)) / beyond[alone]
            needed[kind] = max(needed.get(kind, 0.0), float(least.max()))


def tables(full: bool = False) -> list[Table]:
    """Families tuned with the techniques that a search has, other families, known layouts, and the error that each kind of extrapolation needs."""
    results = [result for row in sampled(full) if (result := searched(row)) is not None]
    families = [published_training.family(result.row) for result in results]
    tuned_ones = [r for r, family in zip(results, families, strict=True) if family not in training_envelope.OTHER]
    others = [r for r, family in zip(results, families, strict=True) if family in training_envelope.OTHER]
    sample = (
        "All tuned runs." if full else f"Up to {SAMPLE} runs of a family, by a hash of their names; --full takes all."
    )
    kinds = {"all dense": [r for r in tuned_ones if not r.moe], "all MoE": [r for r in tuned_ones if r.moe]}
    return [
        Table(
            "search: winner against tuned runs",
            [*_families(tuned_ones), *(_line(name, members) for name, members in kinds.items() if members)],
            [sample, *notes("winner against tuned runs")],
        ),
        Table(
            "search: winner against other runs",
            _families(others),
            [f"{name}: {why}." for name, why in training_envelope.OTHER.items()],
        ),
        Table("search: rank of well-known layouts", _known(results), notes("known layouts")),
        Table(
            "search: layouts without precedent",
            [*_needed_errors(tuned_ones, False), *_needed_errors(tuned_ones, True)],
            notes("novelty"),
        ),
        unseen_table(),
        front_table(),
    ]


def _families(results: list[Searched]) -> list[Row]:
    groups: dict[str, list[Searched]] = defaultdict(list)
    for result in results:
        groups[published_training.family(result.row)].append(result)
    return [_line(name, members) for name, members in groups.items()]


def _line(name: str, members: list[Searched]) -> Row:
    gains, left_out, measured, places, layouts = np.array(
        [(r.gain, r.left_out, r.measured, r.place, r.layouts) for r in members]
    ).T
    return {
        "group": name,
        "rows": len(members),
        "layouts": int(np.median(layouts)),
        "gain": float(np.median(gains) - 1),
        "gain_max": float(gains.max() - 1),
        "gain_left_out": float(np.median(left_out) - 1),
        "gain_measured": float(np.median(measured) - 1),
        "rank": float(np.median(places)),
        "rank_max": float(places.max()),
    }


def _known(results: list[Searched]) -> list[Row]:
    """The runs of models that people know by name."""
    lines = []
    for r in results:
        model = str(r.row["model"].get("name", r.row["id"]))
        if any(name in model or name in r.row["id"] for name in KNOWN):
            lines.append(_single(r.row["id"], r))
    return lines


def _single(name: str, r: Searched, **columns: float) -> Row:
    """The line of one run; `columns` precede the gain."""
    gains = {"gain": r.gain - 1, "gain_measured": r.measured - 1, "rank": r.place}
    return {"group": name, "layouts": r.layouts, **columns, **gains}


def _needed_errors(results: list[Searched], moe: bool) -> list[Row]:
    """Per kind of extrapolation: the error that nine of ten runs need, the largest, and the one that is set."""
    set_to, lines = widening(moe), []
    for kind in widening(mixture=False):
        errors = [r.needed[kind] for r in results if kind in r.needed and r.moe == moe]
        if errors and kind != "chip":
            lines.append(
                {
                    "group": f"{kind}, {'mixtures' if moe else 'dense'}",
                    "rows": len(errors),
                    "asked": float(np.quantile(errors, 0.9)),
                    "asked_max": float(max(errors)),
                    "set": float(set_to[kind]),
                }
            )
    return lines


def unseen_runs() -> list[Row]:
    """Runs in no fit and in no limit of the envelope. Their pages do not state which of two software releases they had, so each is read both ways."""
    rows = published("training_unseen")["rows"]
    return [{**row, "plan": {**row["plan"], "software": name}} for row in rows for name in SOFTWARE]


def unseen_table() -> Table:
    """A line for every unseen run and reading."""
    lines = []
    for row in unseen_runs():
        result, compared = searched(row), published_training.compared(row)
        if result is not None and compared.error is not None:
            low, high = compared.answer.interval_s
            columns = {"off": float(compared.error), "coverage": float(low <= row["step_s"] <= high)}
            lines.append(_single(f"{row['id']} as {row['plan']['software']}", result, **columns))
    return Table("search: unseen runs", lines, notes("unseen runs"))


# Pareto front of serving against published ones: tokens per second per device at the published speed of one user. Published points
# (published_runs/pareto.yaml) state neither layout nor engine, and some decode speculatively or prefill on separate devices, so this
# is no error of a price: it compares the results of a search with what people have measured.
DEVICES = 8  # of an instance at most: no page prints its count
POOLED = 32  # of two pools together: room for several instances of one kind and one of the other


def reached(row: Row) -> tuple[float, float]:
    """Our rate over the published one at its speed of one user, with both phases on the same devices and in separate pools; 0 where no layout is as fast."""
    options = {"model": row["model"], "hw": row["hardware"], "bound": "expected"}
    options |= {name: str(row[name]) for name in ("dtype", "prompt", "output") if name in row}
    limits = {"itl": 1 / row["tokens_per_s_per_user"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RooflineWarning)  # published formats are as they are
        best = search({**options, "n": str(DEVICES)}, "throughput", [], limits, 1)["results"]
        pools = search({**options, "n": str(POOLED)}, "throughput", [], limits, 1)["pool_rows"]
    tokens, published_rate = row["prompt"] + row["output"], row["total_tokens_per_s_per_device"]
    together = best[0]["serve"]["requests_per_s"] / best[0]["serve"]["devices"] if best else 0.0
    apart = float(pools[0]["requests_per_s"] / pools[0]["devices"]) if pools else 0.0
    return float(together * tokens / published_rate), float(apart * tokens / published_rate)


def front_table() -> Table:
    """A line for every published front: points, those that ours reaches, and by how much it is above or below."""
    fronts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in published("pareto")["rows"]:
        name = f"{row['model']} {row['hardware']} {row.get('dtype', 'as released')} {row['prompt']}x{row['output']}"
        fronts[name].append(reached(row))
    return Table(
        "search: front of serving", [_front_line(name, points) for name, points in fronts.items()], notes("pareto")
    )


def _front_line(name: str, points: list[tuple[float, float]]) -> Row:
    together, apart = np.array(points).T
    able, other = together[together > 0], apart[apart > 0]
    line: Row = {"group": name, "points": len(points), "reached": len(able)}
    if len(able):
        over = {"over": np.median(able), "over_least": able.min(), "over_most": able.max()}
        line |= {key: float(value - 1) for key, value in over.items()}
    return line | ({"over_apart": float(np.median(other) - 1)} if len(other) else {})


if __name__ == "__main__":
    show(tables(full="--full" in sys.argv), "--full")
