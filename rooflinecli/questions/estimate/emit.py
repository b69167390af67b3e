"""The layout of an estimate as the launch command of a tool, every size explicit."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import variation
from rooflinecli.engine.legality import ENDS
from rooflinecli.engine.microbatch import best_stages
from rooflinecli.engine.phase_answer import PhaseAnswer, TrainAnswer
from rooflinecli.importers.launch import emit
from rooflinecli.importers.launch.read import read
from rooflinecli.questions.estimate.answer import choose_layouts
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.specs.model import load_model


def launch(
    tool: str, options: Mapping[str, object], result: EstimateAnswer, source: str | None = None
) -> emit.EmittedLaunch:
    """The command or config of the plan that an estimate answered with; `source`: the launch that its options were read from.

    Raises UsageError where it has no such phase.
    """
    trains, own = emit.tool(tool).TRAINS, getattr(emit.tool(tool), "ENGINE", "")
    served_by = build_request.request(build_request.named(dict(options))).engine
    if own and served_by.partition("-")[0] != own:
        build_request.warn(
            f"the launch is for {own}, the estimate for {served_by}; --engine {own} estimates what is launched"
        )
    in_flight = 1.0 if trains else float(result.workload.batch or 1)
    # an open loop is at times above its mean
    spread = 2 * math.sqrt(in_flight) if result.workload.qps is not None else 0
    work, model = result.workload, load_model(_model(options, result))
    longest = float((work.prompt or 0) + (work.output or 0))
    if work.request_lengths == "varied":
        longest *= 1 + variation(longest, model.max_context)
    resolved = resolved_options(options, result, trains)
    uneven = trains and result.model.layers % int(str(resolved["pp"])) and resolved["virtual-stages"] == 1
    if uneven and hasattr(emit.tool(tool), "stages_of"):
        ctx = EstimateContext(build_request.request(resolved))
        resolved = {"stages": ",".join(map(str, best_stages(ctx, choose_layouts(ctx)[0]["train"].layout))), **resolved}
    given = None if source is None else read(source)
    emitted = emit.emit(tool, resolved, math.ceil(in_flight + spread), math.ceil(longest - 1e-6), given)
    if emitted.dropped:
        build_request.warn(
            f"flags that set nothing of the estimate are left out of the launch, give them yourself: {emitted.dropped}"
        )
    return emitted


def left_out(options: Mapping[str, object], result: EstimateAnswer) -> str:
    """What of a training layout the launches of the framework that is named have no flag for, as `--emit` says it; empty where none are written."""
    given = build_request.named(dict(options))
    framework, train = str(given.get("software") or "").partition("+")[0], result.phases.get("train")
    if not framework or framework not in emit.tools() or not isinstance(train, TrainAnswer):
        return ""
    model, seq = _model(given, result), _whole(result.workload.seq)
    layout = {**_layout(given, train, True), "batch": train.launched_batch, "seq": seq, "phase": ["train"]}
    try:
        return emit.emit(framework, {"dtype": result.workload.dtype, **given, "model": model, **layout}).left_out
    except RooflineError:  # a model or work that no launch is written for
        return ""


def resolved_options(options: Mapping[str, object], result: EstimateAnswer, trains: bool) -> dict[str, object]:
    """The options that give this plan again, those once left to a choice or a default filled in."""
    wanted = ("train",) if trains else ("decode", "prefill")
    phase = next((p for p in wanted if p in result.phases), None)
    if phase is None:
        raise UsageError(f"this tool {'trains' if trains else 'serves'}; add --phase {wanted[0]}", "phase")
    given = {k: v for k, v in build_request.named(dict(options)).items() if v is not None}
    found = {**given, "model": _model(given, result), **_layout(given, result.phases[phase], trains)}
    found.pop("attention-dp", None)  # the sizes have it
    found["phase"] = ["train"] if trains else ["prefill", "decode"]
    work = result.workload
    if trains or "dtype" in given or load_model(_model(given, result)).quantization is None:
        found["dtype"] = work.dtype  # an explicit dtype would store a quantized checkpoint otherwise
    train = result.phases[phase]
    if isinstance(train, TrainAnswer):
        if (batch := train.launched_batch) != work.train_batch:
            build_request.warn(
                f"the launch has a global batch of {batch} instead of {work.train_batch:g}, in whole micro-batches of every replica"
            )
        return {**found, "batch": batch, "seq": _whole(work.seq)}
    found |= {
        "prompt": _whole(work.prompt),
        "output": _whole(work.output),
        "engine": build_request.request(given).engine,
    }
    if not {"qps", "concurrency"} & set(given):
        found["batch"] = _whole(work.batch)
    return found


def _layout(given: Mapping[str, object], phase: PhaseAnswer, trains: bool) -> dict[str, object]:
    """The options of its layout; ends that count as layers stay a rule, which frameworks have a flag for."""
    ends = {"stages": given["stages"]} if trains and given.get("stages") in ENDS else {}
    return {**phase.layout_of_phase.options(trains), **ends}


def _model(given: Mapping[str, object], result: EstimateAnswer) -> str:
    """Its name, or the path it was given by."""
    written = str(given["model"])
    return written if written.endswith((".yaml", ".yml", ".json")) else result.model.id


def _whole(value: Number) -> Number:
    return int(value) if value is not None and float(value) == int(value) else value
