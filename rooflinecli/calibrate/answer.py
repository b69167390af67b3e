"""Answer of `roofline calibrate`: rows from files, a fit per phase and software, which run to measure next, and what is written of it.

Written are a report, schema roofline/calibrate/2, and a hardware file that extends the one that was calibrated. Measured rows are also set
against the estimate alone: the gap of each, and the single changes that would explain it, the likeliest first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from rooflinecli.calibrate.phase_fit import PHASES, PhaseFit, fit_phase, own_rows, software
from rooflinecli.calibrate.posterior import BLOCKS, Array, Posterior, merged
from rooflinecli.calibrate.predicted_row import PHASE, MicrobenchmarkRow, PredictedRow, RowPredictor, seconds
from rooflinecli.calibrate.resolve_rows import RowContradiction, impossible, one_per_question, repeats, resolve
from rooflinecli.core.errors import DataError, RooflineError
from rooflinecli.core.record import HIDDEN, Json, Record, ReportTable
from rooflinecli.core.text import plural
from rooflinecli.engine import build_request
from rooflinecli.engine.evaluate import PHASES as CALIBRATED
from rooflinecli.importers.logs import power, read, read_source
from rooflinecli.importers.source import MeasuredRow, Options, load
from rooflinecli.price import overrides
from rooflinecli.questions.compare.question import INSIDE, GapExplanation, MeasuredGap
from rooflinecli.questions.estimate.answer import choose_layouts, context_of, estimate
from rooflinecli.questions.estimate.explain import explain as assumptions
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.name_lookup import files
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import MOST as MEMORY_LIMIT

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
    interrupted: bool = False

    @property
    def moved(self) -> list[PhaseFit]:
        return [g for g in self.groups if g.moved]

    def written(self, force: bool = False) -> list[PhaseFit]:
        """The fits that a file takes: those that did not increase the error on the held-out rows, or with `force` all that moved."""
        return [g for g in self.moved if force or not g.refused]

    def headline(self, out: str = "", force: bool = False) -> str:
        """What moved, from which error to which, and whether the file is written."""
        said = []
        for g in self.moved:
            score = next((s for s in g.scores if s.on == "held out"), g.scores[0] if g.scores else None)
            errors = (
                f": error on the {score.on} rows {score.error_before:.1%} to {score.error_after:.1%}" if score else ""
            )
            said.append(f"{g.phase} ({g.software}){errors}{', worse' if g.refused else ''}")
        head = f"Moved: {'; '.join(said)}." if said else "Nothing moved: these rows favor the shipped constants."
        if not out:
            return head
        names = ", ".join(g.phase for g in self.written(force))
        left = ", ".join(g.phase for g in self.moved if g.refused)
        worse = f" without {left}, which got worse (--force writes it)" if left and not force else ""
        return f"{head} {out} is written with {names}{worse}." if names else f"{head} {out} is not written."


def calibrate(
    paths: Sequence[Path], given: Options, hold_out: float = HOLD_OUT, target: Options | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CalibrationAnswer:  # fmt: skip
    """Read files, compare their rows with the estimate, and fit. `given` are options of an estimate, --hw among them; `progress` is called
    with (1, all) as each fit is done. An interruption keeps the fits before it.

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
    count, doubtful = len({row.where for row in once}), wrong + repeats(own_rows(possible))
    notes = [*resolved.notes, *merged]
    result = CalibrationAnswer(chip, count, contradictions=doubtful, aside=resolved.aside, notes=notes)
    parts = _split(once, given)
    try:
        for (phase, name), rows in parts.items():
            one = fit_phase(phase, name, rows, hold_out, SEED)
            result.groups.append(one)
            result.contradictions += one.contradictions
            suits = target is not None and (phase == "train") == ("seq" in target or target.get("phase") == ["train"])
            try:
                result.next[phase, name] = suggestions(one, target if suits else None)
            except RooflineError as error:
                result.notes.append(f"no next measurement for {phase}: {error}")
            progress(1, len(parts))
    except KeyboardInterrupt:
        if not result.groups:
            raise
        result.interrupted = True
        result.notes.append(f"interrupted: {len(result.groups)} of {len(parts)} fits were done")
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
    text["phase"] = [PHASES.get(PHASE[quantity], "train")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ctx = context_of(build_request.request(text))
        layout = next(iter(choose_layouts(ctx)[0].values())).layout
    return PredictedRow(ctx, layout, quantity, 1.0, options=options)


Rows = list[dict[str, float | str | None]]
# contraction from which rows determine a group of constants, or do so in part: fits to half of the rows agree from there on
DETERMINED, PARTLY = 0.75, 0.3
_SAYS = {DETERMINED: "your rows determine it", PARTLY: "your rows in part", 0.0: "the shipped value"}
NAMED = 0.01  # contraction from which a group has a line
LEAST = 5e-4  # of a factor: a smaller move is not written
FAR = 2.0  # shipped errors (standard deviations): a larger move points to the file, not to the constants


class CalibrationReport(Record):
    """Everything that is printed of a calibration."""

    schema: str = "roofline/calibrate/2"
    hardware: str
    rows: int
    tables: list[ReportTable]
    notes: list[str]
    headline: str = field(default="", metadata=HIDDEN)


def report(result: CalibrationAnswer) -> CalibrationReport:
    """The tables and sentences of a calibration."""
    lines: Rows = [
        {
            "phase": g.phase, "software": g.software, "block": block.name, "contraction": float(c),
            "move": float(np.expm1(x)) if c >= PARTLY and g.posterior.supported else None,
            "says": next(says for least, says in _SAYS.items() if c >= least),
        }
        for g in result.groups
        for block, x, c in zip(g.posterior.blocks, g.posterior.x, g.posterior.contraction, strict=True)
        if c > NAMED
    ]  # fmt: skip
    tables: dict[str, Rows] = {
        "error on your rows (median), and share inside the 80% interval": [
            {"phase": g.phase, "software": g.software, **vars(score), "interval": float(g.posterior.error)}
            for g in result.groups
            for score in g.scores
        ],
        "what your rows determine: seconds of each block against the shipped constants": lines,
        "rows that contradict physics, each other or the rest": [
            {"row": row.where, "left_out": "yes" if row.left_out else "no", "reason": row.reason}
            for row in result.contradictions
        ],
        "not read": aside(result.aside),
        "next measurement: standard deviation of the target, now and then": [
            {"phase": phase, "software": name, "measure": s["what"], "sd_before": s["before"], "sd_after": s["after"]}
            for (phase, name), found in result.next.items()
            for s in found
        ],
    }
    return CalibrationReport(
        hardware=result.hardware.id, rows=result.rows, tables=[ReportTable(title=title, rows=rows) for title, rows in tables.items()],
        notes=[*result.notes, *(note for g in result.groups for note in _notes(g))], headline=result.headline(),
    )  # fmt: skip


def aside(rows: list[tuple[str, str]]) -> Rows:
    """Excluded rows, a line for each reason with the first of them."""
    places: dict[str, list[str]] = {}
    for where, reason in rows:
        places.setdefault(reason, []).append(where)
    return [{"row": each[0], "rows": len(dict.fromkeys(each)), "reason": reason} for reason, each in places.items()]


def _notes(g: PhaseFit) -> list[str]:
    """Caveats of one fit."""
    posterior, notes = g.posterior, []
    if not posterior.supported:
        near = ", but near these rows answers follow them" if g.moved else ""
        odds = f"{np.exp(posterior.evidence):.2g} to 1"
        notes.append(f"the rows do not favor moved constants over the shipped ones (odds {odds}), which stay{near}")
    elif len({row.where for row in g.rows}) == 1:
        x, block = max(zip(posterior.x, posterior.blocks, strict=True), key=lambda pair: abs(pair[0]))
        notes.append(
            f"one row alone moved {block.name} by {np.expm1(x):+.0%}, and would as far if it were wrong; add a second, measured elsewhere"
        )
    held_out = [score for score in g.scores if score.on == "held out"]
    if g.moved and not held_out:
        notes.append("too few rows to hold some out; the error on the fitted rows is no proof")
    if g.refused:
        notes.append(
            f"worse on the held-out rows ({held_out[0].error_before:.1%} before, {held_out[0].error_after:.1%} after)"
        )
    for block, x, prior in zip(posterior.blocks, posterior.x, posterior.prior / posterior.setting.width, strict=True):
        if posterior.supported and abs(x) > FAR * prior:
            notes.append(
                f"{block.name} moved by {np.expm1(x):+.0%}, more than {FAR:g} shipped errors: check the chip file, the layout and the formats first"
            )
    return [f"{g.phase} ({g.software}): {note}" for note in notes]


def hardware_yaml(result: CalibrationAnswer, today: date | None = None, force: bool = True) -> str:
    """The text of the file: `extends`, and for each phase its factors, errors, rows, sources and range."""
    day = (today or date.today()).isoformat()
    data: dict[str, object] = {
        "extends": base(result.hardware),
        "calibration": {
            phase: {g.software: _entry(g, result.hardware, day) for g in result.written(force) if g.phase == phase}
            for phase in dict.fromkeys(g.phase for g in result.written(force))
        },
    }
    if any(g.refused for g in result.written(force)):
        data["measured"] = {"forced": "held-out rows got worse by this calibration"}
    head = f"# Written by `roofline calibrate` on {day} from {plural(result.rows, 'row')}; factors multiply the constants of the file below.\n"
    return head + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=150)


def base(hardware: HardwareSpec) -> str:
    """The file to extend: a registered one by its name, another by its path."""
    path = hardware.document.path
    known = files("hardware").get(path.stem)
    return path.stem if known is not None and known.resolve() == path.resolve() else str(Path(path).resolve())


def _entry(g: PhaseFit, hardware: HardwareSpec, day: str) -> dict[str, object]:
    near, known = _near(g), overrides.classes(hardware)
    factors = {
        path: round(float(f), 4)
        for path, f in merged(g.phase, g.posterior.taken).items()
        if abs(float(f) - 1) > LEAST or (near and (path.startswith(overrides.ENGINE) or path.split(".")[1] in known))
    }  # the local residual moves every constant, also those that stay elsewhere
    tables = {str(phase): table for phase, table in hardware.calibration.items()}
    earlier = tables.get(g.phase, {}).get(g.software)
    stale = {path: 1.0 for path in (earlier.factors if earlier else {}) if path not in factors}
    shown = next((p for p in g.scores if p.on == "held out"), g.scores[0] if g.scores else None)
    return {
        "factors": {**factors, **stale}, "error": round(g.posterior.error, 4), "date": day, "rows": len(g.rows),
        "sources": list(dict.fromkeys(row.where.rpartition(":")[0] for row in g.rows)), "before": round(shown.error_before, 4) if shown else 0.0,
        "after": round(shown.error_after, 4) if shown else 0.0, "range": {name: [low, high] for name, (low, high) in g.range.items()},
        **({"near": near} if near else {}), **({"note": "micro-benchmarks alone"} if not own_rows(g.rows) else {}),
    }  # fmt: skip


def _near(g: PhaseFit) -> list[dict[str, object]]:
    """Rows with a local residual."""
    names = sorted(g.range)
    return [
        {"at": {n: float(f"{np.exp(v):.6g}") for n, v in zip(names, place, strict=True)}, "move": round(float(move), 4)}
        for place, move in zip(g.local.places, g.local.moves, strict=True)
        if abs(move) > LEAST
    ]


WIDEST, STEPS = 2.0, 81  # range and number of the logarithms of a group's factor that are tried
EXPLAINED = 4  # explanations of a row
_LOAD, _LENGTHS = ("batch", "concurrency", "qps"), ("prompt", "output", "seq", "tokens")


def against(rows: Sequence[PredictedRow]) -> list[MeasuredGap]:
    """Every row with its estimate: seconds, floor, interval, gap and what would explain it."""
    return [_gap(row) for row in rows if not isinstance(row, MicrobenchmarkRow)]


def _gap(row: PredictedRow) -> MeasuredGap:
    low = high = None
    if row.quantity in ("static", "throughput"):
        expected = float(seconds(row.ctx, row.layout, row.quantity))
    else:  # with the chip file's own calibration
        answer = CALIBRATED[PHASES[row.phase]](row.ctx, row.layout)
        expected, (low, high) = float(answer.time_s), (float(bound) for bound in answer.interval_s)
    floor, measured, verdict = row.floor, row.measured, ""
    if measured < floor:
        verdict = "impossible: below the floor"
    elif low is not None and high is not None:
        verdict = INSIDE if low <= measured <= high else "slower" if measured > high else "faster"
    return MeasuredGap(
        row=row.where, quantity=row.quantity, software=software(row), measured_s=measured, floor_s=floor, expected_s=expected,
        interval_s=None if low is None or high is None else (low, high), gap=measured / expected - 1, verdict=verdict,
        explained_by=explanations(row) if measured >= floor else [],
    )  # fmt: skip


def explanations(row: PredictedRow) -> list[GapExplanation]:
    """Changes that would each close the gap alone.

    Factors on groups of constants, by how many shipped errors (80%) they take; for training also assumptions about the run, by the
    share of a rate or setting.
    """
    wanted, grid, groups = float(np.log(row.measured)), np.linspace(-WIDEST, WIDEST, STEPS), BLOCKS[row.phase]
    x = np.kron(np.eye(len(groups)), grid)  # one group moved at a time
    times = RowPredictor([row]).log_seconds(x)[0].reshape(len(groups), STEPS)
    factors = list[GapExplanation]()
    for group, line in zip(groups, times, strict=True):
        if line[0] <= wanted <= line[-1] and line[-1] - line[0] > 1e-6:
            move = float(np.interp(wanted, line, grid))
            asks = abs(move) / float(np.log1p(group.error))
            factors.append(GapExplanation(what=f"{group.name} {np.expm1(move):+.0%}", asks=asks))
    found = sorted(factors, key=lambda explanation: explanation.asks)[:EXPLAINED]
    if row.phase == "train":
        result = estimate(row.ctx.request)
        gaps = assumptions("train", row.ctx.request, result, row.layout, row.measured)[:EXPLAINED]
        found += [GapExplanation(what=gap.assumption, asks=gap.change) for gap in gaps]
    return found


def rows_of_plan(files: Sequence[Path], options: Options) -> list[MeasuredGap]:
    """The rows of the files that have the plan's load, each with its estimate and its `phase`.

    Raises DataError for a file that cannot be read as measurements, and where no row matches the plan.
    """
    measured = [row for file in files for row in read(file)]
    matching = [row for row in measured if _matches(row, options)]
    if not matching:
        values = {
            name: sorted({f"{_value(row.options, name):g}" for row in measured if row.options.get(name) is not None})
            for name in (*_LOAD, *_LENGTHS)
        }
        loads = ", ".join(f"{name} {' or '.join(v[:6])}" for name, v in values.items() if v)
        raise DataError(f"{measured[0].where}: no row matches this plan; the file has {loads}")
    train = any(PHASE.get(row.quantity) == "train" for row in matching)
    stated = any(name in row.options for row in matching for name in _LOAD)  # else the plan's load is taken
    given = {k: v for k, v in options.items() if k != "phase" and (train or k not in _LOAD or not stated)}
    resolved = resolve(matching, given)
    if not resolved.rows:
        why = "; ".join(dict.fromkeys(reason for _, reason in [*resolved.aside, *resolved.doubts]))
        raise DataError(f"{matching[0].where}: no row can be compared with this plan: {why}")
    phases = {name: "prefill" if phase == "ttft" else phase for name, phase in PHASE.items()}
    gaps = against(resolved.rows)
    for gap in gaps:
        gap.phase = phases[gap.quantity]
    return gaps


def _matches(row: MeasuredRow, options: Options) -> bool:
    """Whether the load and the lengths that a row states are those of the plan."""
    plan = [_value(options, k) for k in ("batch", "concurrency") if k in options]
    own = [_value(row.options, k) for k in ("batch", "concurrency") if row.options.get(k) is not None]
    if plan and own and plan[0] != own[0] and MEMORY_LIMIT not in plan:
        return False
    return all(
        _value(row.options, k) == _value(options, k)
        for k in (*_LENGTHS, "qps")
        if k in options and row.options.get(k) is not None
    )


def _value(options: Options, name: str) -> object:
    return build_request.value(OPTIONS[name], options[name])
