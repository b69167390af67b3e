"""The nearest change of an estimate's question that helps: each is estimated with everything else, the layout too, as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rooflinecli.core.errors import RooflineError
from rooflinecli.engine import build_request
from rooflinecli.engine.choose import narrower_weights
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import LayoutAnswer, PhaseAnswer
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.answer_types import EstimateAnswer, TriedChange
from rooflinecli.specs.flag_text import estimate_options
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import Request

WORTH = 0.03  # of the time: a smaller gain is none
AS_GOOD = 1.02  # times the upper end of the interval: another layout that is no worse


def changes(options: Mapping[str, object], answer: EstimateAnswer, more_devices: bool = True) -> list[TriedChange]:
    """The change that gains most in each kind of work, of those that fit; nothing for work that does not fit itself."""
    given = build_request.named(dict(options))
    request = build_request.request(given)
    found = [_best(given, request, answer, kind, more_devices) for kind in ("serve", "train")]
    return [change for change in found if change is not None]


def of_command(command: str, more_devices: bool) -> EstimateAnswer | None:
    """The estimate that a command of another answer prints, with the changes, and a note of what the framework's launches cannot say;
    None for a command that is no estimate."""
    words = command.removeprefix("roofline estimate ")
    if words == command:
        return None
    found = answered(options := estimate_options("command", words), more_devices)
    if "software" in build_request.named(dict(options)):
        from rooflinecli.questions.estimate.emit import left_out  # all launches, which few answers need

        if sentence := left_out(options, found):
            found.notes = [*(found.notes or ()), f"train: {sentence}, so --emit refuses it without --partial"]
    return found


def answered(options: Mapping[str, object], more_devices: bool = True) -> EstimateAnswer:
    """The estimate of options, with the changes; without `more_devices` for an answer that has chosen among their counts."""
    found = estimate(build_request.request(dict(options)))
    found.changes_to_try = changes(options, found, more_devices)
    return found


def _best(
    given: dict[str, object], request: Request, answer: EstimateAnswer, kind: str, more_devices: bool
) -> TriedChange | None:
    phases = [name for name in answer.phases if (name == "train") == (kind == "train")]
    if not phases or any(v.constraint.partition(".")[0] in phases for v in answer.violations):
        return None
    name = next(name for name in reversed(phases) if name in answer.timed)
    now = answer.phases[name]
    again, tried = now.layout_of_phase.options(kind == "train"), []
    for change in _candidates(given, request, answer, kind, now.layout_of_phase):
        if "n" in change and not more_devices:
            continue
        fields = {OPTIONS[n].field: build_request.value(OPTIONS[n], v) for n, v in {**again, **change}.items()}
        try:
            other = estimate(replace(request, phases=tuple(phases), **fields))
        except RooflineError:
            continue
        if other.feasible and name in other.phases:
            tried.append((change, other.phases[name]))
    if not tried:
        return None
    change, best = min(tried, key=lambda pair: _at_bound(pair[1], kind))
    if kind == "serve":
        change, best = _as_typed(given, replace(request, phases=tuple(phases)), name, change, best, again)
    saved, rate = 1 - best.time_s / now.time_s, best.tokens_per_s / now.tokens_per_s - 1
    if (rate if kind == "train" else saved) < WORTH:
        return None
    flags = " ".join(OPTIONS[option].flag + ("" if value is True else f" {value}") for option, value in change.items())
    return TriedChange(phase=name, flags=flags, time_s=best.time_s, saved_fraction=saved, rate_gain_fraction=rate)


def _as_typed(
    given: Mapping[str, object],
    request: Request,
    phase: str,
    change: dict[str, object],
    best: PhaseAnswer,
    again: Mapping[str, object],
) -> tuple[dict[str, object], PhaseAnswer]:
    """The change and its phase as the question answers it with these options alone, where that is as good; else with the sizes that it
    leaves open, which would be chosen otherwise."""
    fields = {OPTIONS[n].field: build_request.value(OPTIONS[n], v) for n, v in change.items()}
    try:
        alone = estimate(replace(request, **fields))
    except RooflineError:
        alone = None
    if alone is not None and alone.feasible and alone.phases[phase].interval_s[1] <= AS_GOOD * best.interval_s[1]:
        return change, alone.phases[phase]
    sizes = {name: size for name, size in again.items() if name not in given and (size != 1 or name in ("pp", "dp"))}
    return {"n": best.layout_of_phase.devices, **sizes, **change}, best


def _at_bound(phase: PhaseAnswer, kind: str) -> float:
    """Its time, in training for each token, whose number a change of the batch changes."""
    return phase.interval_s[1] / (phase.tokens_per_s * phase.time_s if kind == "train" else 1.0)


def _candidates(
    given: Mapping[str, object], request: Request, answer: EstimateAnswer, kind: str, layout: LayoutAnswer
) -> Iterator[dict[str, object]]:
    """Narrower formats where none was asked for; in training an overlapped expert all-to-all and twice the batch, which has fewer
    bubbles; in serving twice the tensor ranks, unless the engine splits layers over its devices."""
    ctx, work, trains = EstimateContext(request), answer.workload, kind == "train"
    engine = ctx.engine
    if not trains:
        for option, narrow in narrower_weights(ctx).items():
            yield {option: narrow}
    if trains:
        # QLoRA multiplies in 16 bits (bitsandbytes), and a quantized checkpoint stays as it is
        wide = work.dtype in ("bf16", "fp16") and request.recipe != "qlora"
        if wide and not {"dtype", "weight-dtype"} & set(given) and "fp8" in request.hardware.peak:
            yield {"dtype": "fp8"}
        if layout.ep > 1 and "ep-overlap" not in given:
            yield {"ep-overlap": True}
        if set(answer.phases) == {"train"} and work.train_batch:
            yield {"batch": 2 * round(work.train_batch)}
        return
    if (
        engine.narrower.get("kv-dtype")
        and "kv-dtype" not in given
        and work.kv_dtype in ("bf16", "fp16")
        and "decode" in answer.phases
    ):
        yield {"kv-dtype": engine.narrower["kv-dtype"]}
    if not engine.splits_layers:
        yield {"n": 2 * layout.devices, "tp": 2 * layout.tp}
