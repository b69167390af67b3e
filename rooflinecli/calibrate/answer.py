"""Answer of `roofline calibrate`: rows from files, a fit per phase and software, the hardware it is written to, and which run to measure next."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rooflinecli.calibrate.phase_fit import PHASES, PhaseFit, fit_phase, own_rows, software
from rooflinecli.calibrate.posterior import Array, Posterior
from rooflinecli.calibrate.predicted_row import MicrobenchmarkRow, PredictedRow, RowPredictor
from rooflinecli.calibrate.resolve_rows import RowContradiction, impossible, one_per_question, repeats, resolve
from rooflinecli.core.errors import DataError, RooflineError
from rooflinecli.core.record import Json
from rooflinecli.engine import build_request
from rooflinecli.importers.logs import power, read_source
from rooflinecli.importers.source import Options, load
from rooflinecli.questions.estimate.answer import choose_layouts, context_of
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.options import OPTIONS

HOLD_OUT, SEED = 0.3, 0


@dataclass
class CalibrationAnswer:
    """Result of a calibration: fits by phase and software, rows with a reason against them, and what to measure next."""

    hardware: HardwareSpec
    rows: int
    groups: list[PhaseFit] = field(default_factory=list)
    contradictions: list[RowContradiction] = field(default_factory=list)
    aside: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next: dict[tuple[str, str], list[Json]] = field(default_factory=dict)

    @property
    def moved(self) -> list[PhaseFit]:
        return [g for g in self.groups if g.moved]

    @property
    def refused(self) -> list[PhaseFit]:
        """Fits that increased the error on the held-out rows."""
        return [g for g in self.moved if g.refused]


def calibrate(
    paths: Sequence[Path], given: Options, hold_out: float = HOLD_OUT, target: Options | None = None
) -> CalibrationAnswer:
    """Read files, compare their rows with the estimate, and fit. `given` are options of an estimate, --hw among them.

    Raises DataError for a file without measurements, cut short, or of another model; UsageError for missing options.
    """
    sources, chip = [load(path) for path in paths], load_hardware(str(given["hw"]))
    watts = {source.name: found for source in sources if (found := power.measured(source)) and len(sources) > 1}
    resolved = resolve([row for source in sources if source.name not in watts for row in read_source(source)], given)
    possible, wrong = impossible(resolved.rows)
    wrong = list(dict.fromkeys([*(RowContradiction(where, why, True) for where, why in resolved.doubts), *wrong]))
    if not possible:
        reasons = [*((row.where, row.reason) for row in wrong), *resolved.aside]
        reason = ": ".join(reasons[0]) if reasons else "no row"
        raise DataError(f"{reason}; nothing is left to fit")
    once, merged = one_per_question(possible)
    result = CalibrationAnswer(
        chip,
        len({row.where for row in once}),
        contradictions=wrong + repeats(own_rows(possible)),
        aside=resolved.aside,
        notes=[*resolved.notes, *merged],
    )
    for (phase, name), rows in _split(once, given).items():
        one = fit_phase(phase, name, rows, hold_out, SEED)
        result.groups.append(one)
        result.contradictions += one.contradictions
        suits = target is not None and (phase == "train") == ("seq" in target or target.get("phase") == ["train"])
        try:
            result.next[phase, name] = suggestions(one, target if suits else None)
        except RooflineError as error:
            result.notes.append(f"no next measurement for {phase}: {error}")
    rated = f"; {chip.name} is rated at {chip.rated_power:g} W" if chip.rated_power else ""
    result.notes += [f"{found.where}: {found}{rated}" for found in watts.values()]
    return result


def _split(rows: Sequence[PredictedRow], given: Options) -> dict[tuple[str, str], list[PredictedRow]]:
    """Rows by phase and software. Micro-benchmarks join every software of their phase; where nothing else was measured they make
    up training and decode under the software asked for."""
    groups: dict[tuple[str, str], list[PredictedRow]] = {}
    for row in own_rows(rows):
        groups.setdefault((row.phase, software(row)), []).append(row)
    microbenchmarks = [row for row in rows if isinstance(row, MicrobenchmarkRow)]
    if not groups:
        names = {"train": given.get("software") or "any", "decode": given.get("engine") or "python-server"}
        phases = dict.fromkeys(row.phase for row in microbenchmarks)
        groups = {(phase, str(names[phase])): [] for phase in phases if phase in names}
    for (phase, _), members in groups.items():
        members += [row for row in microbenchmarks if row.phase == phase]
    return groups


MOST = 3  # suggestions


def suggestions(fit: PhaseFit, target: Options | None) -> list[Json]:
    """The best of the menu for a target (options of an estimate), or for the whole menu alike."""
    menu = list(_menu(fit))
    if not menu:
        return []
    aims = [q for _, q in menu] if target is None else [_unmeasured(target, own_rows(fit.rows)[0].quantity)]
    slopes = RowPredictor([*(q for _, q in menu), *aims]).linear(fit.posterior.taken[:, None])[1][:, 0]
    candidates, goals = slopes[: len(menu)], slopes[len(menu) :]
    before, after = reduced_variance(fit.posterior, candidates, goals)
    best = np.argsort(after)[:MOST]
    return [{"what": menu[i][0], "before": before, "after": float(after[i])} for i in best]


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
        ctx = context_of(build_request.request(text))
        layout = next(iter(choose_layouts(ctx)[0].values())).layout
    return PredictedRow(ctx, layout, quantity, 1.0, options=options)
