"""Searches against tuned layouts: the gain that the winner claims over a published run, and the rank of that run.

For every tuned run (of those that answer one question the fastest measured; the others were its trials) the same model, devices,
batch, sequence, precision, recomputation and framework are searched. The gain is by the expected price of both, and by the
measured time of the run; the rank is among all layouts that fit, by the pessimistic bound.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rooflinecli.engine import extrapolation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import TrainAnswer, time_at_bound
from rooflinecli.questions.search.training import plan_of, priced
from rooflinecli.questions.search.training_question import TrainingSearchQuestion
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.published_runs import published
from rooflinecli.specs.request import HOLDS
from rooflinecli.specs.training_envelope import KINDS, overridden_envelope, widening
from rooflinecli.validate import pareto_front, published_training, training_envelope
from rooflinecli.validate import unseen_training as unseen
from rooflinecli.validate.stats import Table

ENOUGH = 0.4  # of the way beyond published runs tells what the whole way asks for: no memory is more than full
SAMPLE = 5  # tuned runs of a family, unless all are asked for
# What a run had that a search does not choose; `stages` and `shard` stay with the published layout alone.
_GIVEN = ("schedule", "ring", "dropout", "loss_chunks", "recipe", "lora_rank", "lora_targets", "software", "flash")
_NAMED = {
    "llama-3.1-405b": "Llama 3.1 405B",
    "deepseek-v3": "DeepSeek-V3",
    "nemotron": "Nemotron",
    "mixtral": "Mixtral",
}


@dataclass(frozen=True)
class Searched:
    """A tuned run and the winner of its search; needed: by kind of novelty that some layout has alone, the error
    at which the run no longer trails any of them."""

    row: dict[str, Any]
    moe: bool
    layouts: int
    gain: float
    left_out: float
    measured: float
    place: float
    needed: dict[str, float]


def tuned() -> list[dict[str, Any]]:
    """Of the rows with the same model, chip, links, devices, batch and formats, the fastest measured."""
    best: dict[str, dict[str, Any]] = {}
    for row in published_training.timed():
        laid = published_training.plan(row)
        what = (row["model"], row["hardware"], row.get("network"), row.get("power"), laid.devices, row["batch"])
        question = repr((*what, row["dtype"], laid.recipe))
        if question not in best or row["step_s"] < best[question]["step_s"]:
            best[question] = row
    return list(best.values())


def sampled(full: bool) -> list[dict[str, Any]]:
    """All tuned runs, or the first few of each family by a hash of their names."""
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(tuned(), key=lambda row: hashlib.sha256(row["id"].encode()).hexdigest()):
        families[published_training.family(row)].append(row)
    return [row for members in families.values() for row in (members if full else members[:SAMPLE])]


def asked(row: dict[str, Any]) -> EstimateContext:
    """The context of a row whose layout is open, all else as the run had it."""
    plan, ctx = row["plan"], published_training.ctx(row)
    given = {name: plan[name] for name in _GIVEN if name in plan}
    if "recompute_modules" in plan:
        given["recompute_modules"] = ",".join(plan["recompute_modules"])
    if "recompute_layers" in plan:
        given["recompute_layers"] = float(plan["recompute_layers"])
    if "offload" in plan:
        given["offload"] = plan["offload"] + (f":{plan['offload_layers']}" if "offload_layers" in plan else "")
    return published_training.ctx(row, asked={"phases": ("train",), **given}) if given else ctx


def searched(row: dict[str, Any], hold: str = HOLDS[0]) -> Searched | None:
    """A run against the search of its question, ranked by the bound that `hold` names; None where no layout fits by our count."""
    ctx, laid = asked(row), published_training.plan(row)
    held = published_training.compared(row)
    question = TrainingSearchQuestion(
        ctx.request, "train", (int(laid.devices),), (), (), {"recompute": (laid.recompute,)}
    )
    times, ends, blind, needed = [], [], [], dict[str, float]()
    bound = float(time_at_bound(held.answer, hold))
    for layouts, structure, answer in priced(ctx, question, int(laid.devices)):
        found = answer.phases["train"]
        assert isinstance(found, TrainAnswer)
        with np.errstate(all="ignore"):
            own, far = _claims(ctx, plan_of(layouts, structure, ctx.request), found, published_training.family(row))
            time, end = (answer.flat(value) for value in (found.time_s, time_at_bound(found, hold)))
            plain = np.sqrt(np.maximum((end / time - 1) ** 2 - answer.flat(extrapolation.error(ctx, own)) ** 2, 0.0))
            _asks(needed, far, time, plain, bound)
        times.append(time)
        ends.append(end)
        blind.append(time * (1 + np.sqrt(plain**2 + answer.flat(extrapolation.error(ctx, far)) ** 2)))
    if not times:
        return None
    time, end, unseen = (np.concatenate(parts) for parts in (times, ends, blind))
    price, better = float(held.answer.time_s), int((end < bound * (1 - 1e-9)).sum())
    winner, left_out = (float(time[int(np.argmin(ranks))]) for ranks in (end, unseen))
    return Searched(
        row, held.moe, len(time), price / winner, price / left_out, row["step_s"] / winner, better / len(time), needed
    )


def _claims(
    ctx: EstimateContext, plan: Layout, answer: TrainAnswer, family: str
) -> tuple[list[extrapolation.ExtrapolationTerm], list[extrapolation.ExtrapolationTerm]]:
    """Extrapolation terms of layouts against all published runs, and against those of other families."""
    own = extrapolation.of(ctx, plan, answer)
    with overridden_envelope(_without(family)):
        return own, extrapolation.of(ctx, plan, answer)


@cache
def _without(family: str) -> dict[str, Any]:
    """The envelope of all other families, where they leave any of the kind of chip and model; frameworks keep theirs."""
    rows = tuple(row for row in training_envelope.layouts() if published_training.family(row["row"]) != family)
    shipped = published("precedent")
    return {**shipped, **training_envelope.envelope(rows), "frameworks": shipped["frameworks"]}


def _asks(
    needed: dict[str, float],
    found: list[extrapolation.ExtrapolationTerm],
    time: np.ndarray,
    plain: np.ndarray,
    bound: float,
) -> None:
    """Raise `needed` to the error that holds back layouts whose only novelty is of one kind."""
    far = {claim.kind: np.broadcast_to(claim.beyond, time.shape) for claim in found}
    for kind, beyond in far.items():
        others = np.zeros(time.shape, dtype=bool)
        for name, value in far.items():
            others |= (value > 0) & (name != kind)
        alone = (beyond >= ENOUGH) & ~others
        if alone.any():
            most = np.maximum(bound / time[alone] - 1, plain[alone])
            least = np.sqrt(np.maximum(most**2 - plain[alone] ** 2, 0.0)) / beyond[alone]
            needed[kind] = max(needed.get(kind, 0.0), float(least.max()))


def tables(full: bool = False, tell: Callable[[int], None] | None = None) -> list[Table]:
    """Families tuned with the techniques that a search has, other families, runs people name, and what each kind of novelty asks for."""
    found = []
    for row in sampled(full):
        one = searched(row)
        found += [one] if one is not None else []
        if tell:
            tell(1)
    tuned_ones = [one for one in found if published_training.family(one.row) not in training_envelope.OTHER]
    others = [one for one in found if published_training.family(one.row) in training_envelope.OTHER]
    note = (
        "All tuned runs." if full else f"Up to {SAMPLE} runs of a family, by a hash of their names; --full takes all."
    )
    return [
        Table("search: winner against tuned runs", [*_families(tuned_ones), *_kinds(tuned_ones)], [note, _NOTE]),
        Table(
            "search: winner against other runs",
            [*_families(others)],
            [f"{name}: {why}." for name, why in training_envelope.OTHER.items()],
        ),
        Table(
            "search: rank of layouts people know",
            list(_known(found)),
            ["A rank of 1 % means that one layout in a hundred is ranked above it."],
        ),
        Table("search: novelty", [*_asked_for(tuned_ones, False), *_asked_for(tuned_ones, True)], [_ASKED]),
        unseen.table(searched),
        pareto_front.table(),
    ]


_NOTE = (
    "gain: expected time of the published layout over that of the winner, both ours; left out: with the limits of the run's own family left out; over measured: "
    "measured time over the winner's expected; "
    "rank: share of the layouts that fit ranked above the published one."
)
_ASKED = (
    "error: what nine of ten runs need so that no layout of the kind, and of no other, is ranked above the published one, their own family left out of the limits; set: what the interval uses "
    "(rows of WIDENING). Kinds no run offers a layout of are left out."
)


def _families(found: list[Searched]) -> Iterator[dict[str, Any]]:
    groups: dict[str, list[Searched]] = defaultdict(list)
    for one in found:
        groups[published_training.family(one.row)].append(one)
    for name, members in groups.items():
        yield _line(name, members)


def _kinds(found: list[Searched]) -> Iterator[dict[str, Any]]:
    for name, moe in (("all dense", False), ("all MoE", True)):
        members = [one for one in found if one.moe == moe]
        if members:
            yield _line(name, members)


def _line(name: str, members: list[Searched]) -> dict[str, Any]:
    gains, measured, places = (np.array([getattr(one, k) for one in members]) for k in ("gain", "measured", "place"))
    return {
        "group": name,
        "rows": len(members),
        "layouts": int(np.median([one.layouts for one in members])),
        "gain": float(np.median(gains) - 1),
        "gain_max": float(gains.max() - 1),
        "gain_left_out": float(np.median([one.left_out for one in members]) - 1),
        "gain_measured": float(np.median(measured) - 1),
        "rank": float(np.median(places)),
        "rank_max": float(places.max()),
    }


def _known(found: list[Searched]) -> Iterator[dict[str, Any]]:
    for one in found:
        said = str(one.row["model"].get("name", one.row["id"]))
        if any(name in said or name in one.row["id"] for name in _NAMED):
            yield {
                "group": one.row["id"],
                "layouts": one.layouts,
                "gain": one.gain - 1,
                "gain_measured": one.measured - 1,
                "rank": one.place,
            }


def _asked_for(found: list[Searched], mixture: bool) -> Iterator[dict[str, Any]]:
    set_to, model = widening(mixture), "mixtures" if mixture else "dense"
    for kind in KINDS:
        errors = [one.needed[kind] for one in found if kind in one.needed and one.moe == mixture]
        if errors and kind != "chip":
            yield {
                "group": f"{kind}, {model}",
                "rows": len(errors),
                "asked": float(np.quantile(errors, 0.9)),
                "asked_max": float(max(errors)),
                "set": float(set_to[kind]),
            }
