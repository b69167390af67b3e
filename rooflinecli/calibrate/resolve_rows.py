"""Measured rows and the user's options -> predicted rows: what a log leaves out comes from the options, or an error names its flag; and
implausible rows, faster than the floor, at odds with a repeat, or outliers of the fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rooflinecli.calibrate.posterior import Array, Posterior, weights
from rooflinecli.calibrate.predicted_row import PHASE, PredictedRow, microbenchmark_rows, seconds
from rooflinecli.core.errors import DataError, Infeasible, UsageError
from rooflinecli.core.text import one_line
from rooflinecli.core.units import duration
from rooflinecli.engine import build_request
from rooflinecli.importers.source import MeasuredRow, Options
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.questions.estimate.answer import choose_layouts, context_of
from rooflinecli.specs.engine import engines
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import files, find
from rooflinecli.specs.options import OPTIONS

_NEEDED = {"train": ("model", "batch", "seq", "n"), "serving": ("model", "prompt", "n")}
_SIZES = ("tp", "pp", "dp", "cp")
_SAID = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([BM])\b")
_TOLERANCE = 0.3  # how far a size in a name may lie from the parameters of the model it is taken for
_APART = 1.5  # TFLOP/s that a log states, over those that the options imply: ways of counting differ by less


@dataclass
class ResolvedRows:
    """Rows that can be fitted, and excluded ones, each with the reason."""

    rows: list[PredictedRow] = field(default_factory=list)
    aside: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def resolve(readings: Sequence[MeasuredRow], given: Options) -> ResolvedRows:
    """Every measured row as a predicted one on the chip `given["hw"]`.

    Raises UsageError for what neither the file nor the options state, DataError for a log of another model or that contradicts the options.
    """
    found, chip = ResolvedRows(), load_hardware(str(given["hw"]))
    others = dict[str, OtherModelError]()
    for reading in readings:
        if reading.doubt:
            found.doubts.append((reading.where, reading.doubt))
            continue
        why = reading.unread
        if not why and (drafted := reading.probe.get("drafted")) and given.get("speculate") is None:
            why = f"speculative decoding, {drafted:g} tokens a step; --speculative-method and --acceptance-rate price it"  # fmt: skip
        if not why and (other := _elsewhere(reading, chip)) is not None:
            why = f"measured on {other}, not on {chip.name}"
        if why:
            found.aside.append((reading.where, why))
            continue
        if reading.quantity in ("collective", "matmul"):
            found.rows += microbenchmark_rows(reading, given, chip)
            continue
        try:
            row = _predicted(reading, given, found)
            if (stated := reading.probe.get("tflops")) and not 1 / _APART < row.tflops / stated < _APART:
                devices = max(float(row.layout.devices) * row.tflops / stated, 1)
                count = "" if "tokens_per_device" in reading.probe else f"-n {devices:.0f} or "
                implied = (
                    f"these options imply {row.tflops:.0f}; {count}another model, length or batch would explain it"
                )
                why = f"the log states {stated:g} TFLOP/s per device, {implied}"
                if row.tflops > stated:
                    found.doubts.append((row.where, why))
                    continue
                found.note(f"{row.where}: {why}")  # it may count recomputation and all of attention
            if math.isfinite(float(seconds(row.ctx, row.layout, row.quantity))):
                found.rows.append(row)
            else:
                found.aside.append((row.where, "cannot be priced"))
        except OtherModelError as error:
            others.setdefault(reading.where.rpartition(":")[0], error)
            found.aside.append((reading.where, str(error).partition(": ")[2]))
        except Infeasible as error:
            found.aside.append((reading.where, str(error)))
    files_read = {row.where.rpartition(":")[0] for row in found.rows}
    for name in others.keys() - files_read:  # of rows of several models, those of another one are set aside
        raise others[name]
    return found


class OtherModelError(DataError):
    """A row of another model than the one that is asked for."""


def _elsewhere(reading: MeasuredRow, chip: HardwareSpec) -> str | None:
    """The chip on which a row was measured, where that is neither this one nor the one that this file extends. A driver's name
    that no file has says nothing, nor does any about a chip that is described by a file of the user's own."""
    if reading.probe.get("cpu") and chip.kind != "cpu":
        return f"a CPU ({', '.join(reading.probe.get('device', ())) or reading.tool})"
    stated, column = reading.options.get("hw"), str(reading.probe.get("hardware", ""))
    if (
        column
        and not _chip_named(column)
        and not any(name.partition("-")[0] in column.lower() for name in chip.lineage)
    ):
        return column  # which a person wrote, not a driver
    names = [str(stated)] if stated is not None else [n for n in reading.probe.get("device", ()) if _chip_named(n)]
    if stated is None and not set(chip.lineage) & files("hardware").keys():
        return None
    return next((name for name in names if _chip_named(name) not in chip.lineage), None)


def _chip_named(stated: str) -> str | None:
    """The file of a chip by its name, or by the part before a dash where the rest is a provider's (h200-cw)."""
    for name in (stated, stated.partition("-")[0]):
        try:
            return find("hardware", name).stem
        except (UsageError, DataError):
            continue
    return None


def _predicted(reading: MeasuredRow, given: Options, found: ResolvedRows) -> PredictedRow:
    phase = PHASE[reading.quantity]
    kind = "prefill" if phase == "ttft" else phase if phase in ("train", "prefill") else "decode"
    options = {**_joined(reading, given), "phase": [kind]}
    name = options.get("engine")  # one that has no file is taken as the one asked for, or the default
    known = {each for stem, engine in engines().items() for each in (stem, *engine.aliases)}
    if name is not None and str(name).lower() not in known:
        options["engine"], taken = given.get("engine"), given.get("engine") or "the default"
        found.note(f"engine {one_line(str(name))} is unknown; assumed {taken} (--engine)")
    if reading.quantity == "static":
        options["concurrency"] = None
    _complete(reading, options)
    ctx = context_of(build_request.request(options))
    choice = next(iter(choose_layouts(ctx)[0].values()))
    if reading.quantity == "throughput" and not choice.fits and options["concurrency"] != "max":
        options["concurrency"] = "max"  # of requests sent at once, as many run as memory holds
        ctx = context_of(build_request.request(options))
        choice = next(iter(choose_layouts(ctx)[0].values()))
    if not choice.fits:
        found.note(f"{reading.where}: exceeds memory by this estimate, though it ran")
    if phase == "train" and choice.reason.startswith(("the fastest", "the only one")):
        p = choice.layout
        found.note(
            f"{reading.where}: the layout is not fully stated; assumed tp {p.tp:g} pp {p.pp:g} dp {p.dp:g}, zero {p.zero}, "
            f"recompute {p.recompute}, micro-batch {p.micro_batch:g}"
        )
    for note in reading.notes:
        found.note(f"{reading.where}: {note}")
    quantity = "prefill" if reading.quantity == "ttft" and not _loaded(options) else reading.quantity
    return PredictedRow(ctx, choice.layout, quantity, _measured(reading, options), reading.where, reading.tool, options)


def _loaded(options: Options) -> bool:
    return options.get("concurrency") is not None or options.get("qps") is not None


def _joined(reading: MeasuredRow, given: Options) -> Options:
    """The file's options and the user's. Raises DataError where they contradict each other."""
    stated = {k: v for k, v in reading.options.items() if k not in ("hw", "said-model") and v is not None}
    joined = {**stated, **{k: v for k, v in given.items() if v is not None}}
    spec = _model(reading, stated.get("model"), given.get("model"))
    if spec is not None:
        joined["model"] = spec
        _sized(reading, spec)
    for name in (stated.keys() & given.keys()) - {"model", "engine", "software"}:
        own, asked, option = stated[name], given[name], OPTIONS[name]
        written = own if isinstance(own, bool) else str(own)
        if asked is not None and build_request.value(option, written) != build_request.value(option, asked):
            raise DataError(
                f"{reading.where}: {reading.tool} states {name} {own}, not {option.flag} {asked}; leave the option out"
            )
    return joined


def _model(reading: MeasuredRow, stated: object, given: object) -> str | None:
    """The model of a row. Raises DataError for a log of another one, UsageError for an unknown one without --model."""
    mine = str(given) if given is not None else None
    if stated is None:
        return mine
    name = one_line(str(stated))
    try:
        theirs = load_model(str(stated))
    except (UsageError, DataError):
        unknown = f"{reading.where}: a log of '{name}', which is no known model"
        if mine is None:
            raise UsageError(f"{unknown}; give --model", "model") from None
        if _overlap(str(stated), mine, load_model(mine)):
            return mine
        raise OtherModelError(
            f"{unknown} and does not resemble --model {mine}; leave the file out, or give the config.json of its model"
        ) from None
    if mine is not None and load_model(mine).id != theirs.id:
        raise OtherModelError(
            f"{reading.where}: a log of '{name}' ({theirs.name}), not of --model {mine}; leave the file or the option out"
        )
    return str(stated)


def _overlap(name: str, mine: str, spec: ModelSpec) -> bool:
    """Whether a checkpoint's name may be a quantized or fine-tuned copy of a model: its words are among those of the name."""
    words, wanted = (set(re.findall(r"[a-z]+|\d+(?:\.\d+)?", t.lower())) for t in (name.rpartition("/")[2], spec.id))
    return len(wanted & words) >= 0.7 * len(wanted) or mine.lower() in name.lower()


def _sized(reading: MeasuredRow, spec: str) -> None:
    """Raises DataError where a size in the row's own description is not that of the model."""
    match = _SAID.search(str(reading.options.get("said-model", "")))
    if match is None:
        return
    stated = float(match[1]) * (1e9 if match[2] == "B" else 1e6)
    whole = float(parameters(load_model(spec)).total)
    if abs(stated / whole - 1) > _TOLERANCE:
        raise OtherModelError(
            f"{reading.where}: a log of '{reading.options['said-model']}', not of {spec} with {whole / 1e9:.3g}B parameters"
        )


def _complete(reading: MeasuredRow, options: Options) -> None:
    """Raises UsageError that names the flags of what is missing."""
    train = reading.quantity == "train"
    each, tokens = (reading.probe.get(name) for name in ("tokens_per_device", "tokens"))  # of a step
    tokens = each * _number("n", options) if each and options.get("n") else tokens
    if train and options.get("batch") is None and tokens and options.get("seq"):
        options["batch"] = max(round(tokens / _number("seq", options)), 1)
    whole = all(options.get(size) is not None for size in _SIZES[:3])
    if options.get("n") is None and (whole or (not train and options.get("tp") is not None)):
        sizes = _SIZES if whole else _SIZES[:3]
        options["n"] = math.prod(_number(size, options) for size in sizes if options.get(size))
    needed = [*_NEEDED["train" if train else "serving"]]
    needed += ["output"] if not train and reading.quantity not in ("prefill", "ttft") else []
    if not train and not _loaded(options) and reading.quantity != "prefill":
        needed.append("batch" if reading.quantity == "static" else "concurrency")
    if options.get("batch") is not None and "concurrency" in needed:
        needed.remove("concurrency")
    missing = [OPTIONS[name].flag if name != "model" else "--model" for name in needed if options.get(name) is None]
    if missing:
        raise UsageError(
            f"{reading.where}: {reading.tool} leaves options open; give {', '.join(missing)}", missing[0].lstrip("-")
        )


def _number(name: str, options: Options) -> float:
    return float(build_request.value(OPTIONS[name], str(options[name])))


def _measured(reading: MeasuredRow, options: Options) -> float:
    """Seconds of the step or token that a stated value means."""
    value, unit = reading.value, reading.unit
    names = [name for name in ("batch", "seq", "n", "prompt", "output") if options.get(name) is not None]
    sizes = {name: _number(name, options) for name in names}
    if unit == "s":
        return value
    if unit == "s/batch":
        return value / (sizes["batch"] * sizes["output"])
    if unit == "tokens/s/device":
        return sizes["batch"] * sizes["seq"] / (value * sizes["n"])
    if unit == "samples/s":
        return sizes["batch"] / value
    if unit == "tokens/s":
        return sizes["batch"] * sizes["seq"] / value if reading.quantity == "train" else 1 / value
    assert unit == "total tokens/s"
    return (sizes["prompt"] + sizes["output"]) / (value * sizes["output"])


ROUNDING = 0.995  # of a floor: what rounding in a log may take off
SIGMAS = 4.0  # from which a row is an outlier
REPEATED = 0.15  # of the logarithm: how far two rows of one question may differ


@dataclass(frozen=True)
class RowContradiction:
    """A row, what is wrong with it, and whether it was left out."""

    where: str
    reason: str
    left_out: bool


def impossible(rows: Sequence[PredictedRow]) -> tuple[list[PredictedRow], list[RowContradiction]]:
    """The rows that physics allows, and those below their floor."""
    possible, wrong = [], []
    for row in rows:
        if row.measured >= ROUNDING * row.floor:
            possible.append(row)
            continue
        reason = (
            f"{duration(row.measured)} is below the floor of {duration(row.floor)}: faster than the hardware's peak. "
            "Check unit, device count, number format, and whether the rate is per device or counts prompts"
        )
        wrong.append(RowContradiction(row.where, reason, True))
    return possible, wrong


def repeats(rows: Sequence[PredictedRow]) -> list[RowContradiction]:
    """Rows of one question that differ."""
    found, first = list[RowContradiction](), dict[Hashable, PredictedRow]()
    for row in rows:
        other = first.setdefault(row.key, row)
        gap = abs(np.log(row.measured / other.measured))
        if row.key is not None and gap > REPEATED:
            found.append(RowContradiction(row.where, f"repeats {other.where}, {np.expm1(gap):.0%} apart", False))
    return found


def one_per_question(rows: Sequence[PredictedRow]) -> tuple[list[PredictedRow], list[str]]:
    """The rows with one for each question, the median of those that repeat it, and a note on each that was chosen so.

    Repeats share the estimate's error, so a fit that counted each would take it for certain, and one held out would not be new.
    """
    groups: dict[Hashable, list[PredictedRow]] = {}
    for row in rows:
        groups.setdefault((row.phase, row.key if row.key is not None else id(row)), []).append(row)
    middle = [sorted(members, key=lambda row: row.measured)[(len(members) - 1) // 2] for members in groups.values()]
    notes = {
        f"{row.where}: the median of {len(members)} rows of one question, which count as one"
        for row, members in zip(middle, groups.values(), strict=True)
        if len(members) > 1
    }
    return middle, sorted(notes)


def outliers(rows: Sequence[PredictedRow], fit: Posterior) -> list[RowContradiction]:
    """Rows more than SIGMAS standard deviations from the fit to the others."""
    reason = "{:.1f} standard deviations {} {}; kept with low weight"
    others = "the fit to the other rows" if len(rows) > 1 else "the shipped constants"
    return [
        RowContradiction(row.where, reason.format(abs(z), "above" if z > 0 else "below", others), False)
        for row, z in zip(rows, outlier_z(fit), strict=True)
        if abs(z) > SIGMAS
    ]


def outlier_z(fit: Posterior) -> Array:
    """Residual of each row over its scale, by leave-one-out of the linearized fit [rows]."""
    sigma = fit.setting.sigma
    w = weights(fit.residuals, sigma) / sigma**2
    variance = np.einsum("rb,bc,rc->r", fit.slopes, fit.covariance, fit.slopes)
    kept = np.maximum(1 - w * variance, 1e-6)
    return np.asarray(fit.residuals / kept / np.sqrt(fit.setting.spread**2 + variance / kept))
