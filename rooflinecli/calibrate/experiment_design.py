"""Suggestions of further measurements: of a menu of runs, those that reduce the uncertainty of the target most (A-optimal design)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rooflinecli.calibrate.phase_fit import PHASES, PhaseFit, own_rows
from rooflinecli.calibrate.posterior import Array, Posterior
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor
from rooflinecli.core.errors import RooflineError
from rooflinecli.engine import build_request
from rooflinecli.importers.source import Options
from rooflinecli.questions.estimate.answer import choose_plans, scene_of
from rooflinecli.specs.options import OPTIONS

MOST = 3  # suggestions


@dataclass(frozen=True)
class Suggestion:
    """A measurement, and the standard deviation of the target's logarithm before and after it."""

    what: str
    before: float
    after: float


def suggestions(fit: PhaseFit, target: Options | None) -> list[Suggestion]:
    """The best of the menu for a target (options of an estimate), or for the whole menu alike."""
    menu = list(_menu(fit))
    if not menu:
        return []
    aims = [q for _, q in menu] if target is None else [_unmeasured(target, own_rows(fit.rows)[0].quantity)]
    slopes = RowPredictor([*(q for _, q in menu), *aims]).linear(fit.x[:, None])[1][:, 0]
    candidates, goals = slopes[: len(menu)], slopes[len(menu) :]
    before, after = reduced_variance(fit.posterior, candidates, goals)
    best = np.argsort(after)[:MOST]
    return [Suggestion(menu[i][0], before, float(after[i])) for i in best]


def reduced_variance(posterior: Posterior, candidates: Array, goals: Array) -> tuple[float, Array]:
    """Standard deviation of the goals (root mean square) now, and after each candidate [candidates]."""
    s, sigma = posterior.covariance, posterior.setting.spread
    now = np.einsum("gb,bc,gc->g", goals, s, goals)
    shared = goals @ s @ candidates.T
    taken = shared**2 / (sigma**2 + np.einsum("cb,bd,cd->c", candidates, s, candidates))
    return float(np.sqrt(now.mean())), np.sqrt(np.maximum(now.mean() - taken.mean(axis=0), 0))


def _menu(fit: PhaseFit) -> Iterator[tuple[str, PredictedRow]]:
    """Runs like the slowest row with one or two sizes changed, without those that fit no layout."""
    own = own_rows(fit.rows)
    if not own:
        return
    base = max(own, key=lambda q: q.measured)
    quantity, seen = base.quantity, set()
    for changes in _changes(fit.phase, base):
        flags = " ".join(f"{OPTIONS[name].flag} {value:g}" for name, value in changes.items())
        try:
            row = _unmeasured({**base.options, **changes}, quantity)
        except RooflineError:
            continue
        if flags not in seen:
            seen.add(flags)
            yield flags, row


def _changes(phase: str, base: PredictedRow) -> Iterator[dict[str, float]]:
    request = base.ctx.request
    if phase == "train":
        devices, batch, seq = (float(v) for v in (base.layout.devices, base.ctx.train_batch, base.ctx.seq))
        for more in (0.25, 0.5, 1.0, 2.0, 4.0):
            for longer in (1.0, 4.0):
                n = devices * more
                if n >= 1 and n == int(n):
                    yield {"n": n, "batch": max(round(batch * more / longer), 1), "seq": seq * longer}
        return
    load = "concurrency" if request.concurrency is not None else "batch"
    for sequences in (1.0, 4.0, 16.0, 64.0, 256.0):
        for prompt in (256.0, 2048.0, 16384.0):
            yield {"prompt": prompt} if phase == "prefill" else {load: sequences, "prompt": prompt}


def _unmeasured(options: Options, quantity: str) -> PredictedRow:
    """A row without a measurement."""
    text = {
        name: value if isinstance(value, str | list | bool) else f"{value:g}"
        for name, value in options.items()
        if value is not None
    }
    if "n" in text and "dp" in text:
        del text["dp"]  # it follows from the others
    if quantity == "train":
        text["phase"] = ["train"]
    else:
        text["phase"] = [PHASES[{"prefill": "prefill", "ttft": "ttft"}.get(quantity, "decode")]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ctx = scene_of(build_request.request(text))
        layout = next(iter(choose_plans(ctx)[0].values())).layout
    return PredictedRow(ctx, layout, quantity, 1.0, options=options)
