"""`estimate`: one model, one chip, one plan per phase -> the contract's object."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, unknown
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.core.units import duration, si
from rooflinecli.engine import apply_calibration, build_request, option_conflicts
from rooflinecli.engine.choose import (
    ChosenLayout,
    choose,
    in_narrower_weights,
    layers_that_fit,
    nearest_feasible,
    reach,
    smaller_work,
)
from rooflinecli.engine.context import UNNAMED, EstimateContext, whole_model
from rooflinecli.engine.counted_loop import counted
from rooflinecli.engine.evaluate import answer, derive, prefill_share_under_load, priced, token_prices
from rooflinecli.engine.forward_step import length_spread, token_budget
from rooflinecli.engine.inference import decode_seconds, full_slots
from rooflinecli.engine.phase_answer import (
    DecodeAnswer,
    PhaseAnswer,
    PrefillAnswer,
    Resources,
    TrainAnswer,
    layout_answer,
)
from rooflinecli.engine.residency import max_sequences
from rooflinecli.engine.serving_load import (
    ReplicaLoad,
    load,
    open_itl,
    queue_for_cache,
    restart_fraction,
    waits_for_cache,
)
from rooflinecli.formulas import cost as money
from rooflinecli.formulas import energy, roofline, serving, training
from rooflinecli.formulas.counted_loop import SIZES
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.quantization.formats import size_of
from rooflinecli.questions.estimate import answer_types as types
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import BLENDED, COST
from rooflinecli.specs.request import MOST, PHASES, Request


def estimate(request: Request, lift: PlainLift = PLAIN) -> types.EstimateAnswer:
    """Everything `roofline estimate` prints, SI, the unit in the key. Numbers are Traced when `lift` is.

    Raises UsageError for a request that cannot be laid out, Infeasible when no device count holds any phase of it. A plan
    that does not fit is answered, with `feasible` false, and a request rate that no layout sustains with what one does that has all it runs at once.
    """
    ctx = context_of(request)
    request = ctx.request
    try:
        choices, infeasible = choose_layouts(ctx)
    except Infeasible as error:
        if request.qps is None:
            raise
        full = estimate(replace(request, qps=None, concurrency=MOST), lift)
        over = [
            types.Violation(constraint=f"{phase}{types.OVERLOADED}", message=str(error))
            for phase in full.phases
            if phase != "train"
        ]
        full.feasible, full.violations = False, [*over, *full.violations]
        return full
    lifted = ctx if lift is PLAIN else EstimateContext(request, lift)
    phases = {phase: _answered(lifted, phase, choice) for phase, choice in choices.items()}
    layouts = {phase: choice.layout for phase, choice in choices.items()}
    costs = cost(lifted, phases, layouts)
    if isinstance(train := phases.get("train"), TrainAnswer) and train.run_s is not None:
        from rooflinecli.questions.goodput.question import with_failures

        devices = num.value(layouts["train"].devices)
        with_failures(train, costs, devices, float(parameters(request.model).total), lift)
    violations = [*_violations(ctx, phases, layouts), *infeasible]
    return types.EstimateAnswer(
        model=_model(ctx),
        hardware=_hardware(ctx),
        layout=next(iter(phases.values())).layout_of_phase,
        workload=_workload(ctx, phases),
        phases=phases,
        cost=costs,
        price=_price(ctx),
        feasible=not violations,
        violations=violations,
        notes=[
            *_missing(ctx),
            *filter(
                None, dict.fromkeys(ctx.request.hardware.not_rented(float(c.layout.devices)) for c in choices.values())
            ),
            *unsupported(ctx, phases, {phase: choice.layout for phase, choice in choices.items()}),
            *(
                note
                for phase, found in (phases if ctx.request.hardware.calibration else {}).items()
                for note in apply_calibration.notes(ctx, choices[phase].layout, phase, found)
            ),
        ]
        or None,
    )


def warn_of_idle(written: Collection[str], *asked: tuple[EstimateContext, types.EstimateAnswer]) -> None:
    """Warn of the options `written` that change nothing in any of the estimates."""
    option_conflicts.warn_of_idle(
        option_conflicts.idle(ctx, written, {phase: found.layout_of_phase for phase, found in result.phases.items()})
        for ctx, result in asked
    )


def _missing(ctx: EstimateContext) -> list[str]:
    """A file that holds fewer parameters than the model that it names, or more; of packed safetensors the elements say nothing."""
    spec = ctx.request.model
    if spec.checkpoint is None or (spec.checkpoint.format == "safetensors" and spec.quantization is not None):
        return []
    less = parameters(spec).total - spec.checkpoint.elements
    if not less:
        return []
    why = (
        "tensors are missing (a part of a split file?)"
        if less > 0
        else "tensors that it does not read (layers that draft ahead?), or shapes that its keys contradict"
    )
    return [
        f"{spec.checkpoint.file} holds {abs(less):,} parameters {'fewer' if less > 0 else 'more'} than its model: {why}, and what "
        "follows is of the whole model."
    ]


def context_of(request: Request) -> EstimateContext:
    """The context of a request whose options agree, with the phases that its model has. Raises UsageError."""
    ctx = EstimateContext(request)
    for phase in request.phases:
        if phase not in PHASES:
            raise unknown("phase", phase, PHASES)
    phases = option_conflicts.supported_phases(ctx)  # an encoder has no decode, and asking for that alone is an error
    if phases != request.phases:
        ctx.request = replace(request, phases=phases)
    option_conflicts.check(ctx)
    return ctx


def choose_layouts(ctx: EstimateContext) -> tuple[dict[str, ChosenLayout], list[types.Violation]]:
    """A plan per phase, prefill and decode sharing one; and a violation for each kind of work that no count of devices holds.

    Raises Infeasible when that is all of it.
    """
    found, infeasible = dict[str, ChosenLayout](), list[types.Violation]()
    serving = tuple(phase for phase in ctx.request.phases if phase != "train")
    training = tuple(phase for phase in ctx.request.phases if phase == "train")
    for phases in filter(None, (serving, training)):
        try:
            found |= dict.fromkeys(phases, choose(ctx, phases))
        except Infeasible as error:
            if not (serving and training) or infeasible:
                raise
            infeasible.append(types.Violation(constraint=f"{phases[-1]}.layout", message=str(error)))
    return {phase: found[phase] for phase in ctx.request.phases if phase in found}, infeasible


def _answered(ctx: EstimateContext, phase: str, choice: ChosenLayout) -> PhaseAnswer:
    """A phase under the plan chosen for it, with what bounds it."""
    found = answer(ctx, ctx.lifted(choice.layout), phase)
    found.bottleneck, found.bound_ratio = bound(found.resources_s)
    found.layout = choice.shown
    if isinstance(found, TrainAnswer):
        from rooflinecli.engine import extrapolation

        found.extrapolations = extrapolation.extrapolation_notes(ctx, choice.layout, found) or None
    return found


def bound(resources: Resources) -> tuple[str, float]:
    """Which resource sets the floor, and how many times longer it takes than the next."""
    ranked = sorted(((float(num.value(t)), name) for name, t in resources.entries()), reverse=True)
    (first, name), (second, _) = ranked[:2]
    return name, first / second if second else float("inf")


def _model(ctx: EstimateContext) -> types.ModelAnswer:
    p = parameters(ctx.spec)
    return types.ModelAnswer(
        name=ctx.spec.name, id=ctx.spec.id, layers=ctx.ledger.n_layers, parameters=types.ParameterCounts.like(p),
        weights_bytes=memory.weights(whole_model(ctx.ledger), ctx.formats, 1.0),
    )  # fmt: skip


def _hardware(ctx: EstimateContext) -> types.HardwareAnswer:
    spec, peak = ctx.request.hardware, ctx.chip.peak(ctx.formats.compute)
    return types.HardwareAnswer(
        name=spec.name, id=spec.id, peak_flops_per_s=peak, bandwidth_bytes_per_s=ctx.chip.bandwidth, capacity_bytes=ctx.chip.capacity,
        ridge_flops_per_byte=roofline.ridge_point(peak, ctx.chip.bandwidth), power_basis=None if ctx.chip.power is None else ctx.chip.draw.basis,
    )  # fmt: skip


def _price(ctx: EstimateContext) -> types.PriceAnswer | None:
    """The offer that the dollars come from; None for a price given in numbers, and without one."""
    chosen = ctx.offer
    if chosen is None:
        return None
    one, age = chosen.offer, chosen.offer.age_days
    return types.PriceAnswer.like(
        one, usd_per_device_hour=one.usd, usd_per_device_hour_interval=(chosen.low, chosen.high), offers=chosen.count,
        age_s=None if age is None else age * 86400.0, file=one.where,
    )  # fmt: skip


def _workload(ctx: EstimateContext, phases: dict[str, PhaseAnswer]) -> types.Workload:
    r = ctx.request
    work = types.Workload(
        dtype=ctx.dtype, weight_dtype=_weight_dtype(ctx), matmul_dtype=ctx.formats.compute,
        kv_dtype=r.kv_dtype or (ctx.dtype if ctx.formats.kv == size_of(ctx.dtype) else ctx.formats.outer_compute),
        attention_flops="full" if ctx.spec.both_ways else r.attention_flops, efficiency=r.efficiency,
    )  # fmt: skip
    if "prefill" in r.phases or "decode" in r.phases:
        decode = phases.get("decode")
        alone = ctx.batch if ctx.is_autoregressive else ctx.requests_per_pass
        work.batch = decode.batch if isinstance(decode, DecodeAnswer) else alone
        work.prompt, work.output, work.qps = ctx.request_tokens, ctx.output, r.qps
        if ctx.image_input is not None:
            work.images, work.image_size, work.image_tokens = ctx.image_input
        if ctx.spec.denoising is not None:
            work.diffusion_steps, work.guidance = ctx.steps, ctx.uses_guidance
            if ctx.spec.images is not None and ctx.spec.images.frames > 1:
                work.video_frames = ctx.spec.images.frames
        work.concurrency = "max" if r.concurrency is MOST else r.concurrency
        if r.concurrency is not None or r.qps is not None:
            work.request_lengths = "equal" if r.equal_lengths else "varied"
            if isinstance(decode, DecodeAnswer) and num.value(decode.max_batch) >= num.value(max_sequences(ctx)):
                work.max_num_seqs = max_sequences(ctx)
    if "train" in r.phases:
        work.train_batch, work.seq, work.tokens = ctx.train_batch, ctx.seq, r.tokens
        work.doc_lengths = r.lengths
        work.gradient_bytes, work.optimizer_bytes = ctx.gradient_bytes, ctx.optimizer_bytes
    return work


def _weight_dtype(ctx: EstimateContext) -> str:
    """Format of the stored weights: as asked, else the checkpoint's where the run keeps it, else --dtype. Training keeps experts as its other weights."""
    stored, formats, size = ctx.spec.quantization, ctx.formats, size_of(ctx.dtype)
    if ctx.weight_dtype is not None or stored is None:
        return ctx.weight_dtype or ctx.dtype
    if stored.applies_to == "experts":
        kept = ctx.request.phases != ("train",) and 0 < formats.expert_weight < size
        return f"{ctx.dtype}, {stored.dtype} experts" if kept else ctx.dtype
    return stored.dtype if formats.weight != size else ctx.dtype


def _violations(
    ctx: EstimateContext, phases: dict[str, PhaseAnswer], layouts: Mapping[str, Layout]
) -> list[types.Violation]:
    """Return the violated limits, by how much, and the nearest feasible layout."""
    found = []
    for phase, answered in phases.items():
        held = answered.memory
        needed, available = (float(num.value(n)) for n in (held.total_bytes, held.capacity_bytes))
        if needed <= available:
            continue
        kind = ("train",) if phase == "train" else tuple(p for p in phases if p != "train")
        layers = None if ctx.request.gpu_layers is None else layers_that_fit(ctx, layouts[phase], kind)
        option = nearest_feasible(ctx, kind) if layers is None else None
        most = max(reach(ctx), float(ctx.request.devices or 1))
        layout, remedy = None, f"no layout holds it; {smaller_work(ctx, kind, most, 'use chips with more memory')}"
        if layers is not None:
            remedy = f"nearest that works: --gpu-layers {layers}"
        elif option is not None:
            layout = layout_answer(option.layout, option.batch is None, option.reason)
            remedy = f"nearest that works: {_flags(option, phase, ctx.request)}"
        if kind != ("train",) and (narrower := in_narrower_weights(ctx, {p: layouts[p] for p in kind})):
            remedy = f"{remedy}; or {narrower} on the same devices, check accuracy"
        message = (
            f"{phase} needs {si(needed, 'B')} per device, {si(needed - available, 'B')} more than the {si(available, 'B')} of "
            f"{ctx.request.hardware.name}; {remedy}"
        )
        found.append(
            types.Violation(
                constraint=f"{phase}.memory", needed=needed, available=available, nearest=layout, message=message
            )
        )
    return found


def _flags(remedy: ChosenLayout, phase: str, request: Request) -> str:
    """The options that say a remedy."""
    layout = layout_answer(remedy.layout, False, "")
    text = f"-n {layout.devices} --tp {layout.tp} --pp {layout.pp} --dp {layout.dp}"
    if remedy.batch is not None:
        experts = f" --ep {layout.ep}" if layout.ep > 1 else ""
        return f"{text}{experts} --batch {remedy.batch:g}, {remedy.reason}"
    seldom = {"ep": layout.ep, "cp": layout.cp, "virtual-stages": layout.virtual_stages}
    asked = {"ep": request.ep, "cp": request.cp, "virtual-stages": request.virtual_stages}
    text += "".join(f" --{name} {size}" for name, size in seldom.items() if size > 1 or (asked[name] or 1) > 1)
    trained = f" --zero {layout.zero} --recompute {layout.recompute} --micro-batch-size {layout.micro_batch}"
    text += trained if phase == "train" else ""
    return text if request.stages is None or phase != "train" else f"{text} without --layers-per-stage"


def cost(ctx: EstimateContext, phases: dict[str, PhaseAnswer], layouts: dict[str, Layout]) -> types.Cost:
    """Return the cost of the phases under their layouts at the context's price; sets the steps and time of a run on the training answer."""
    train, price = phases.get("train"), ctx.price
    if isinstance(train, TrainAnswer) and ctx.request.tokens is not None:
        tokens = ctx.from_flag("T", ctx.request.tokens, "tokens", "--tokens")
        train.steps = training.training_steps(tokens, ctx.train_batch, ctx.seq)
        train.run_s = train.steps * train.time_s
        derive(ctx, ctx.lifted(layouts["train"]), "train", train)
    prefill, decode = phases.get("prefill"), phases.get("decode")
    if prefill is not None and decode is not None and "joules_per_request" not in decode.derived:
        first, each = (phase.derived.get("joules_per_token") for phase in (prefill, decode))
        if first is not None and each is not None:  # as a batch, prompt and output tokens run apart
            prompt = first * ctx.request_tokens
            decode.derived["joules_per_request"] = energy.joules_per_request(prompt, each, ctx.output)
    if price is None:
        return types.Cost()
    usd: dict[str, Number] = {}
    for phase, found in phases.items():
        layout = ctx.lifted(layouts[phase])
        hourly = money.fleet_price(layout.devices, price)
        if phase != "train" and (ctx.request.concurrency is not None or ctx.request.qps is not None):
            output_rate = priced(ctx, layout, "decode").tokens_per_s  # one server prefills and decodes
            input_rate = serving.request_rate(output_rate, ctx.output) * ctx.request_tokens
            share = prefill_share_under_load(ctx, layout)
            prices = token_prices(hourly, input_rate, output_rate, share, ctx.utilization)
            usd |= {COST[phase]: prices[COST[phase]], BLENDED: prices[BLENDED]}
        else:
            usd[COST[phase]] = money.usd_per_million_tokens(hourly, found.tokens_per_s, ctx.utilization)
        if isinstance(found, TrainAnswer) and found.run_s is not None:
            usd["training_usd"] = money.run_cost(found.run_s, hourly)
    if BLENDED not in usd and {"prefill", "decode"} <= set(phases):
        usd[BLENDED] = money.blended_price(usd[COST["prefill"]], usd[COST["decode"]], ctx.request_tokens, ctx.output)
    return types.Cost(**usd, usd_per_device_hour=price)


RESTARTED = 0.09  # of the time between tokens, in a closed loop: a simulation's ITL is longer than the mean's by this much, within 2 %
FLOODED = 0.5  # taken by prompts of others: below it means of random open loops are those of a simulation
NOTABLE = 0.07  # of the times of a loop that was counted
SLOWER = 1.15  # times the bound of the ITL: by less, what slower steps add to the load is not named
CROWDED = 0.45  # of what slots answer that --max-num-seqs limits: beyond it the wait for one shows
FULL = 0.9  # of the sequences that an engine runs at once, or whose caches fit: beyond it arrivals wait for room


def unsupported(ctx: EstimateContext, phases: dict[str, PhaseAnswer], layouts: Mapping[str, Layout]) -> list[str]:
    """One sentence for every answer beyond published runs, or beyond what a formula of means follows."""
    train = phases.get("train")
    if ctx.chip.ideal:
        return []
    found, prefill = foreign(ctx), phases.get("prefill")
    if isinstance(train, TrainAnswer):
        from rooflinecli.engine.extrapolation import size_notes

        if train.extrapolations:
            found.append(f"train: {'; '.join(train.extrapolations)}, so the interval is wider")
        size = size_notes(ctx.chip.spec.kind, float(num.value(layouts["train"].devices)))
        found += [f"train: {note}, so no run supports its interval" for note in size]
        if train.layout is not None and ctx.request.software is None:
            stack = ctx.training_stack(Layout(zero=train.layout.zero))
            named = [f"train: no --framework: priced as {stack}; naming it narrows the interval"]
            found += named if stack != UNNAMED else []
        launched = train.launched_batch
        if train.layout is not None and launched != ctx.train_batch:
            replicas = f"dp {train.layout.dp} x micro-batch {train.layout.micro_batch}"
            found.append(
                f"train: global batch {num.value(ctx.train_batch):.10g} is no multiple of {replicas}; launchers take {launched}, in the same step time"
            )
        found += _beyond(ctx, train)
    found += _loaded(ctx, phases.get("decode"), layouts.get("decode"))
    if ctx.request.kv_tier is not None and isinstance(prefill, PrefillAnswer):
        from rooflinecli.engine import kv_tiers

        found += kv_tiers.eviction_note(ctx, prefill.sessions)
    return found


def foreign(ctx: EstimateContext) -> list[str]:
    """An engine asked for on a chip of a maker or kind that it is not known on: ExLlamaV2 on a Mac, TensorRT-LLM on an MI300X."""
    engine, chip = ctx.engine, ctx.chip.spec
    if ctx.request.engine is None or not engine.known_on or f"{chip.vendor} {chip.kind}" in engine.known_on:
        return []
    return [
        f"no run of {engine.name} is known here but on {', '.join(engine.known_on)}: nothing shows that it runs on "
        f"{chip.name}, and the times are those of kernels carried over"
    ]


def warn_of_foreign(ctx: EstimateContext) -> None:
    """Warn of an engine on a chip that it is not known on, where the answer has no notes."""
    for note in foreign(ctx):
        build_request.warn(note)


def _loaded(ctx: EstimateContext, decode: PhaseAnswer | None, layout: Layout | None) -> list[str]:
    """Loads in which requests meet each other: slots that begin together, and caches so full that an engine queues."""
    if not isinstance(decode, DecodeAnswer) or layout is None or decode.load_kind == "static":
        return []
    found, busy = [], load(ctx, layout)
    loop = counted(ctx, layout, busy)
    if loop is None:
        found = _rough_means(ctx, layout, busy, decode)
    elif num.value(layout.pp) > 1:
        found = [
            "serving: with short outputs a pipeline overlaps the prompts of consecutive requests, which this mean approximates; `roofline simulate` "
            "follows it step by step"
        ]
    elif loop.error >= NOTABLE:
        why = (
            f"prompts take {float(busy.share):.0%} of the time, and means of a few thousand requests differ by as much as {loop.error:.0%}"
            if busy.kind == "open"
            else f"clients meet so that fewer would make as many tokens: their ITL and TTFT are up to {loop.error:.0%} longer"
        )
        found = [f"serving: {why}; `roofline simulate` follows them step by step"]
    elif busy.kind == "closed" and num.value(busy.batch) > SIZES[-1]:
        found = [
            f"serving: a loop of short answers or equal lengths is counted step by step up to {SIZES[-1]} clients, and longer in proportion "
            "beyond; `roofline simulate` follows as many as there are"
        ]
    held, most, slots = (float(num.value(n)) for n in (decode.batch, decode.max_batch, max_sequences(ctx)))
    if waits_for_cache(ctx, layout):
        return [
            *found,
            f"decode: {queue_for_cache(most, float(ctx.batch))}; `roofline simulate` follows what is preempted",
        ]
    found += _slower(ctx, decode, layout) if busy.kind == "open" and not decode.single_token else []
    limited = busy.kind == "open" and ctx.request.max_sequences is not None
    if most < 1 or (num.value(full_slots(ctx, layout)[1]) < CROWDED if limited else held < FULL * most):
        return found
    if busy.kind == "open":
        fit = "caches fit" if most < slots else "the engine runs"
        found.append(
            f"decode: {held:,.3g} sequences run on average, of at most {most:,.0f} that {fit}: arrivals queue at times, which this mean approximates; "
            "`roofline simulate` follows them step by step"
        )
    elif most < slots and (num.present(length_spread(ctx)) or num.present(busy.evicted)):
        found.append(
            f"decode: on average the KV caches of {most:,.0f} requests fit; lengths vary, so some queue or are evicted at times, which this mean "
            "approximates; `roofline simulate` follows them step by step"
        )
    return found


def _slower(ctx: EstimateContext, decode: DecodeAnswer, layout: Layout) -> list[str]:
    """The ITL of an open loop whose steps are all as slow as the bound, in which more are in flight, where that is notably longer than the bound:
    steps k times as long at a rate are those at k times the rate, on a clock that is k times as slow."""
    end, factor = float(decode.interval_s[1]), float(num.value(decode.interval_s[1] / decode.time_s))
    try:
        loaded = EstimateContext(replace(ctx.request, qps=num.value(ctx.request.qps or 0.0) * factor))
        slow = factor * float(priced(loaded, layout, "decode").time_s)
    except Infeasible:
        return [
            f"decode: at the pessimistic bound steps take {factor:.3g} times as long and the rate cannot be sustained: add --dp"
        ]
    if slow < SLOWER * end:
        return []
    return [
        f"decode: at the pessimistic bound steps take {factor:.3g} times as long, more requests are in flight and the ITL is {duration(slow)}: "
        "compare an SLO with that, as `roofline simulate` does"
    ]


def _rough_means(ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, decode: DecodeAnswer) -> list[str]:
    """Where prompts take so much of the time between tokens that a mean is not what a simulation has."""
    alone, restarted = decode_seconds(ctx, layout, busy), 0.0
    taken, budget = decode.breakdown_s["prefill_interference"] / decode.time_s, token_budget(ctx)
    if busy.kind == "open":
        if not ctx.engine.scheduler.look_ahead and num.value(ctx.prompt * (1 + length_spread(ctx))) > num.value(budget):
            return [
                f"serving: longer prompts take several steps of {num.value(budget):,g} tokens, in each of which others decode, which this mean "
                "approximates; `roofline simulate` follows every step"
            ]
        taken = (1 - alone / open_itl(ctx, layout, alone, busy.share)) * (ctx.output > 1)
    elif num.value(busy.batch) > 1:
        restarted = float(num.value(restart_fraction(ctx, layout, busy, alone)))
    if restarted >= RESTARTED:
        return [
            f"serving: steps with a prompt launch kernels and read weights again. That would add {restarted:.0%} to the ITL; measured saturated "
            "servers do not show it, and this mean excludes it; `roofline simulate` includes it"
        ]
    if num.value(taken) < FLOODED:
        return []
    return [
        f"serving: prefills of other requests take {float(num.value(taken)):.0%} of the ITL, so requests bunch up and means are approximate; "
        "`roofline simulate` follows them step by step"
    ]


def _beyond(ctx: EstimateContext, train: TrainAnswer) -> list[str]:
    """An MFU that no published run reached on this chip in this format, else on this chip, else on any of its kind."""
    from rooflinecli.specs.snapshots import published

    mfu, spec, rows = float(num.value(train.mfu)), ctx.chip.spec, published("highest_mfu")["rows"]
    same = [row for row in rows if row["chip"] == spec.id]
    alike = [row for row in same if row["dtype"] == ctx.dtype] or same or [r for r in rows if r["kind"] == spec.kind]
    best = max(alike, key=lambda row: row["mfu"], default=None)
    if best is None or mfu <= best["mfu"]:
        return []
    return [
        f"train: an MFU of {mfu:.1%} is above every published run known here ({best['mfu']:.1%}, {best['row']}, {best['chip']} in "
        f"{best['dtype']}), so no run supports its interval; take the time as a lower bound"
    ]
