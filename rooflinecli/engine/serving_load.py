"""A replica under load: how many sequences it decodes at once, and the time that other requests' prefills add.

Three kinds of load. `--batch b`: b sequences decode and no prompt arrives (static). `--concurrency b`: a closed loop, in which each
request that ends is followed by a new one. `--qps r`: an open loop, requests arrive at a rate over the whole deployment.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core import num
from rooflinecli.core.derivation import label, solved_value
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine import speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    REGIME,
    PricedPass,
    computed_tokens,
    engine_constant,
    forward_step,
    host_time,
    length_spread,
    lone_prefill_s,
    token_budget,
    uncaptured_launch_s,
)
from rooflinecli.engine.residency import cached_sequences, max_batch, max_sequences
from rooflinecli.formulas import closed_loop as f
from rooflinecli.formulas import schedule, serving
from rooflinecli.phases.axis_sizes import pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST

MANY = 1048576.0  # prompts in one pass, among which weights and kernel launches are shared until they vanish
ROUNDS = 8
UNSOLVED, BISECTIONS = 1e-2, 48  # of the sequences in flight; halvings of their range where secants do not end
FILLED = 0.5  # of what a replica runs at once: where more are in flight in the mean, arrivals may find all taken
LEAST = 1e-12  # sequences in flight: a request rate may be arbitrarily low


@dataclass(slots=True, eq=False, repr=False)
class ReplicaLoad:
    """Sequences that a replica runs at once, and in seconds what one more prompt adds (0 when none arrives); `share`: fraction of time
    that prefills take in an open loop; `requests_per_slot`: requests in flight for each that runs, in a closed loop of more than the engine runs;
    `evicted`: sequences that lost their cache and wait for each that runs."""

    kind: str
    batch: Number
    max_batch: Number
    prefill_interference_s: Number = 0.0
    share: Number = 0.0
    requests_per_slot: Number = 1.0
    evicted: Number = 0.0


def load(ctx: EstimateContext, layout: Layout) -> ReplicaLoad:
    """The load asked for, on one replica. Raises Infeasible for a request rate that it cannot sustain."""
    return ctx.memoized(layout, "load", lambda: _load(ctx, layout), arrays=True)


def _load(ctx: EstimateContext, layout: Layout) -> ReplicaLoad:
    r, largest = ctx.request, max_batch(ctx, layout)
    if r.qps is not None:
        return _open_loop(ctx, layout, largest)
    if r.concurrency is None:
        return ReplicaLoad("static", ctx.batch, largest)
    batch, per_slot = ctx.batch, 1.0
    most = slots(ctx, layout)
    if r.concurrency is MOST:
        batch = num.maximum(largest, 1)
    elif num.present(batch > most):
        batch, per_slot = num.minimum(batch, most), label(f.requests_per_slot(batch, most), "x_q")
    prompt_s, evicted = prefill_interference_s(ctx, layout), 0.0
    running, reserve = num.minimum(batch * per_slot, max_sequences(ctx)), engine_constant(ctx, "reserve_share", "1")
    pressure = serving.eviction_pressure(running, cached_sequences(ctx, layout), reserve)
    if num.present(pressure):
        prompt_s = prompt_s * serving.prompts_computed(pressure, ctx.prompt, ctx.output)
        evicted = serving.evicted_sequences(pressure, ctx.prompt, ctx.output)
    return ReplicaLoad("closed", batch, largest, prompt_s, requests_per_slot=per_slot, evicted=evicted)


def slots(ctx: EstimateContext, layout: Layout) -> Number:
    """Sequences that a replica runs at once under a load, while others queue; what does not hold one is priced as if it held all."""
    largest = max_batch(ctx, layout)
    return num.where(largest >= 1, largest, max_sequences(ctx))


def may_queue(ctx: EstimateContext, layout: Layout, load: ReplicaLoad) -> Number:
    """Whether arrivals of an open loop may find all slots taken: more than FILLED of them are, or --max-num-seqs leaves few."""
    return (load.batch > FILLED * slots(ctx, layout)) | (ctx.request.max_sequences is not None)


def waits_for_cache(ctx: EstimateContext, layout: Layout) -> Number:
    """Whether some of a closed loop wait since the cache holds no more, rather than by --max-num-seqs."""
    if ctx.request.concurrency is None or ctx.request.concurrency is MOST:
        return False
    largest = max_batch(ctx, layout)
    return (ctx.batch > largest) & (largest >= 1) & (largest < max_sequences(ctx))


def queue_for_cache(holds: float, clients: float) -> str:
    """What an answer says where a closed loop has more clients than the cache holds."""
    return f"the KV cache holds {holds:,.0f} of the {clients:,.0f} requests in flight: the others queue"


def sequences(ctx: EstimateContext, layout: Layout) -> Number:
    """Sequences that a replica decodes at once."""
    r = ctx.request
    return ctx.batch if r.qps is None and r.concurrency is None else load(ctx, layout).batch


def prefill_interference_s(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds that one more prompt adds to a busy replica: its prefill without weights to stream or kernels to launch."""

    def seconds() -> Number:
        read, keys = computed_tokens(ctx)
        step = forward_step(ctx, layout, MANY, read, keys, decode=False, engine=False)
        return label(step.seconds / MANY, "t_pre")

    return ctx.memoized(layout, "prefill interference", seconds, arrays=True)


def arrivals(ctx: EstimateContext, layout: Layout) -> tuple[Number, Number, Number]:
    """Requests per second on a replica, seconds that a prompt takes, and the fraction of time that they take together."""
    rate = ctx.from_flag("qps", ctx.request.qps, "1/s", "--qps") / layout.dp
    factor = num.where(ctx.output > 1, prompt_factor(ctx), 1.0)  # with answers of one token no sequence decodes
    cost = factor * prefill_interference_s(ctx, layout)
    return rate, cost, rate * cost


def prompt_factor(ctx: EstimateContext) -> Number:
    """How much longer a prefill takes where others decode."""
    return engine_constant(ctx, "prompt_factor_moe" if ctx.ledger.moe_layers else "prompt_factor", "1")


def _open_loop(ctx: EstimateContext, layout: Layout, largest: Number) -> ReplicaLoad:
    """Sequences in flight follow from the request rate and the ITL that they cause: a fixed point, by secants."""
    rate, cost, share = arrivals(ctx, layout)
    if num.plain(share) and num.value(share) >= 1:
        from rooflinecli.engine.inference import (
            full_slots,
        )  # which prices the closed loop that keeps them full, and refuses

        full_slots(ctx, layout)
    plain, bare = ctx.without_trace(layout)
    context = serving.mean_context(plain.prompt, plain.output)
    left, per_second, most = 1 - num.value(share), num.value(rate), num.value(slots(ctx, layout))

    def excess(batch: Number) -> Number:
        itl = open_itl(plain, bare, token_step(plain, bare, num.minimum(batch + 1, most), context).seconds, 1 - left)
        return serving.sequences_in_flight(per_second, plain.output, itl) - batch

    batch = _root(excess, num.value(largest))
    if num.plain(batch) and num.value(largest) >= 1 and batch > FILLED * most:
        from rooflinecli.engine.inference import full_slots  # which prices the closed loop that keeps them full

        full_slots(ctx, layout)
    beyond = most if num.plain(batch) else 4 * num.maximum(num.value(largest), 1.0)  # which no memory holds
    batch = num.where(batch > most, beyond, batch)
    return ReplicaLoad("open", solved_value(batch, rate, "b", "sequences", "b = qps S_o ITL(b)"), largest, cost, share)


def open_itl(ctx: EstimateContext, layout: Layout, step: Number, share: Number) -> Number:
    """Inter-token latency of an open loop: the decode step with the prompts that arrive while it runs."""
    return serving.open_loop_itl(step, share, arrivals(ctx, layout)[0], mixed_overhead(ctx, layout, step))


def mixed_overhead(ctx: EstimateContext, layout: Layout, step: Number, others: Number = 0.0) -> Number:
    """Seconds by which a step with one prompt is longer than its decodes and that prompt's share of a full pass."""
    if ctx.engine.scheduler.one_pass:
        return uncaptured_launch_s(ctx)
    alone = lone_prefill_s(ctx, layout)
    decode = 0.0 * step if ctx.engine.prompts_first else step  # else they stall
    passes = serving.prompt_passes(token_budget(ctx), ctx.uncached_prompt)
    mixed = mixed_in_graph(ctx, layout, 1.0, decode, mixed_step_s(ctx, layout, decode, alone), others)
    return num.maximum(mixed - passes * decode - prompt_factor(ctx) * prefill_interference_s(ctx, layout), 0.0)


def restart_fraction(ctx: EstimateContext, layout: Layout, load: ReplicaLoad, step: Number) -> Number:
    """Fraction of a closed loop's decode time for kernels and weights of steps with a prompt, were each to start its own, and for prompts that
    take longer among decodes: a simulation has both in its steps, means leave them out."""
    a = f.arrivals_per_step(num.maximum(load.batch - 1, 0), ctx.output)
    prompts, factor = a * load.prefill_interference_s, prompt_factor(ctx)
    inside = factor if ctx.engine.prompts_first else 1.0
    left_out = (1 - num.E ** (-a)) * mixed_overhead(ctx, layout, step, a) + (factor - inside) * prompts
    return left_out / (step + inside * prompts + left_out)


def mixed_step_s(ctx: EstimateContext, layout: Layout, decode: Number, prefill: Number) -> Number:
    """A mixed step outside CUDA graphs: kernel launches replace what the engine adds to the start of a prefill; or one pass, for which a prompt is
    one of many."""
    launches: Number = 0.0
    if ctx.engine.scheduler.one_pass:
        shared = prefill_interference_s(ctx, layout) + uncaptured_launch_s(ctx)
        prefill = prefill + num.minimum(shared - lone_prefill_s(ctx, layout), 0)
    elif ctx.engine.scheduler.launch and not ctx.chip.ideal:
        launches = ctx.ledger.operations * engine_constant(ctx, "launch", "s")
        prefill = prefill - uncaptured_launch_s(ctx)
    passes = serving.prompt_passes(token_budget(ctx), ctx.uncached_prompt)
    return label(f.mixed_step(decode, prefill, prompt_factor(ctx), launches, passes), "t_mixed")


def mixed_in_graph(
    ctx: EstimateContext, layout: Layout, batch: Number, decode: Number, mixed: Number, others: Number = 0.0
) -> Number:
    """A mixed step that a captured graph has room for is one pass, in which prefill and decodes share the weights; else `mixed`. `others`:
    prompts that come with one in the mean."""
    room = ctx.engine.scheduler.graph_tokens
    if not room:
        return mixed
    share = f.share_that_fits(ctx.uncached_prompt, room - batch, length_spread(ctx), others)
    if num.plain(share) and not num.value(share):
        return mixed
    both = forward_step(ctx, layout, 1.0, ctx.uncached_prompt + batch, ctx.prompt, decode=False).seconds
    decodes = forward_step(ctx, layout, 1.0, batch, 1.0, decode=False).seconds
    in_graph = label(f.mixed_step(decode, both - decodes, prompt_factor(ctx), 0.0, 1.0), "t_mixed")
    whole = num.one(share)
    return in_graph if whole else share * in_graph + (1 - share) * mixed


def _root(excess: Callable[[Number], Number], most: Number) -> Number:
    """Where a convex, falling function of the batch crosses zero; four times `most` when it does not before."""
    before, farthest = 0.0 * most + 1.0, 4 * num.maximum(most, 1.0)
    now = num.maximum(before + excess(before), LEAST)
    f_before = excess(before)
    for _ in range(ROUNDS):
        f_now = excess(now)
        slope = (f_now - f_before) / num.where(now == before, 1.0, now - before)
        flat = num.where(f_now > 0, farthest, now)  # more in flight only adds to what is asked for
        following = num.where(slope < 0, now - f_now / num.where(slope < 0, slope, -1.0), flat)
        before, f_before, now = now, f_now, num.minimum(num.maximum(following, LEAST), farthest)
    unsolved = abs(excess(now)) > UNSOLVED * num.maximum(now, 1.0)
    if not num.present(unsolved):
        return now
    low, high = 0.0 * most + LEAST, farthest  # steps of a graph, or of experts, make it neither convex nor smooth
    for _ in range(BISECTIONS):
        middle = (low * high) ** 0.5
        beyond = excess(middle) > 0
        low, high = num.where(beyond, middle, low), num.where(beyond, high, middle)
    return num.where(unsolved, high, now)


# --- mean TTFT, in closed form: the same scheduler rules and constants that a simulation steps through --------------------------
#
# Settings of a scheduler (token budget, poll and stream intervals, batch wait) are in the engine's file or after --scheduler-config.


def mean_closed_loop_ttft(ctx: EstimateContext, layout: Layout, load: ReplicaLoad, itl: Number, step: Number) -> Number:
    """TTFT averaged over a client's requests: the one in the initial burst, and those that follow another; `step` is a decode step under this load."""
    alone = lone_prefill_s(ctx, layout)
    batch, frontend, each = sequences_per_stage(layout, load.batch), frontend_latency(ctx), ctx.requests_per_client
    late, per_stream = engine_constant(ctx, "late_tokens", "1"), engine_constant(ctx, "per_stream", "s")
    burst = burst_ttft(ctx, layout, batch, alone, decoding_s(ctx, step))
    following = turn(ctx, layout, load, itl, step)
    late_s = late * speculation.engine_step_time(ctx, itl)
    ttft = f.closed_loop_ttft(burst, following, each, late_s, frontend, per_stream, batch)
    # Served one after another, as many at once as there are stages: no request waits longer than that.
    single_itl = lone_token_s(ctx, layout)
    single_late = late * speculation.engine_step_time(ctx, single_itl)
    single_ttft = f.closed_loop_ttft(alone, alone, each, single_late, frontend, per_stream, 1.0)
    request = serving.e2e_latency(single_ttft, single_itl, ctx.output)
    return num.where(batch > 1, num.minimum(ttft, f.serial_ttft(batch, request, ctx.output, itl)), single_ttft)


def turn(
    ctx: EstimateContext, layout: Layout, load: ReplicaLoad, itl: Number, step: Number, queued: bool = False
) -> Number:
    """Seconds from the scheduler's view of a request that follows another to its first token; of one that is `queued`, from the end of another."""
    alone, busy_step = lone_prefill_s(ctx, layout), speculation.engine_step_time(ctx, itl)
    arrivals, held, mixed = step_with_prompt(ctx, layout, load, alone, step)
    share = num.minimum(arrivals / itl * (prompt_factor(ctx) * load.prefill_interference_s), 1)
    if queued:
        return num.where(load.batch > layout.pp, f.turn_ttft(held, 0.0, 0.0, busy_step, mixed, share), alone)
    poll, ahead = engine_constant(ctx, "skipped_looks", "1"), engine_constant(ctx, "look_ahead", "1")
    # fitted front ends have that part of the step under way, but where a graph is replayed
    under_way = ctx.uncached_prompt <= ctx.engine.scheduler.graph_tokens
    return f.turn_ttft(held, poll + under_way, ahead, busy_step, mixed, share)


def burst_ttft(ctx: EstimateContext, layout: Layout, batch: Number, alone: Number, decode: Number) -> Number:
    """Mean TTFT where `batch` prompts come at once; `decode` is a decode step of all of them."""
    per_pass = serving.prompts_per_pass(token_budget(ctx), ctx.uncached_prompt)
    together, first = num.minimum(per_pass, batch), alone
    if not (num.plain(together) and num.value(together) <= 1):
        several = forward_step(ctx, layout, together, *computed_tokens(ctx), decode=False).seconds
        first = num.where(together > 1, several, alone)
    return f.burst_ttft(batch, per_pass, first, mixed_step_s(ctx, layout, decode / 2, first))


def mean_open_loop_ttft(
    ctx: EstimateContext, layout: Layout, load: ReplicaLoad, alone: Number, itl: Number, step: Number, taken: Number, entered: Number
) -> Number:  # fmt: skip
    """TTFT of an arrival that finds the system empty, or others with whose steps its prompt shares, as a client of a closed loop does; or all slots
    `taken`, with what is `entered` from the end of another on."""
    others = serving.busy_probability(load.batch, ctx.output)
    _, held, mixed = step_with_prompt(ctx, layout, load, alone, step)
    poll, late, ahead = (engine_constant(ctx, name, "1") for name in ("skipped_looks", "late_tokens", "look_ahead"))
    engine_step = speculation.engine_step_time(ctx, itl)
    if ctx.engine.scheduler.one_pass:
        mixed = engine_step + load.prefill_interference_s + uncaptured_launch_s(ctx)
    queue = f.queue_for_prefill(load.share, load.prefill_interference_s)
    turn = f.turn_ttft(held, poll + 1.0, ahead, engine_step, mixed, 0.0) + queue
    further = num.minimum(prefill_interference_s(ctx, layout), alone)
    rate, *_ = arrivals(ctx, layout)
    idle = f.wait_for_passes(rate, alone, further)
    stream, front = engine_constant(ctx, "per_stream", "s"), frontend_latency(ctx)
    ttft = f.open_loop_ttft(alone, others, turn, idle, late * step, front, taken, entered)
    return ttft + f.stream_time(stream, rate, ttft + num.maximum(ctx.output - 1, 0) * itl)


def slot_wait(ctx: EstimateContext, layout: Layout, request: Number, share: Number) -> tuple[Number, Number]:
    """Chance that an arrival of an open loop finds all slots taken, and seconds that arrivals wait for one in the mean."""
    rate, most = arrivals(ctx, layout)[0], slots(ctx, layout)
    lone = serving.e2e_latency(lone_prefill_s(ctx, layout), lone_token_s(ctx, layout), ctx.output)
    taken = f.all_slots_taken(rate, most, lone, request)
    return taken, f.wait_for_slot(taken, most, request, share, length_spread(ctx))


def frontend_latency(ctx: EstimateContext) -> Number:
    """Seconds before the scheduler sees a request."""
    seconds = engine_constant(ctx, "front", "s")
    if ctx.engine.scheduler.per_token:
        seconds = f.front_time(seconds, engine_constant(ctx, "per_token", "s"), ctx.prompt)
    return seconds


def step_with_prompt(
    ctx: EstimateContext, layout: Layout, load: ReplicaLoad, alone: Number, step: Number
) -> tuple[Number, Number, Number]:
    """Prompts that come during a step, steps of the mean batch wait, and seconds of a step with a prompt."""
    batch = sequences_per_stage(layout, load.batch)
    arrivals = f.arrivals_per_step(batch, ctx.output)
    held: Number = 0.0  # steps from the first prompt that waits to the pass that prefills it
    if ctx.engine.scheduler.hold_steps:
        most, share = (engine_constant(ctx, name, "1") for name in ("hold_steps", "hold_share"))
        held = f.held_steps(most, share, token_budget(ctx), batch, ctx.uncached_prompt, arrivals)
    decode, prefill = decoding_s(ctx, step), alone
    if num.present(held) or ctx.engine.constant("skipped_looks"):
        others = f.prompts_per_mixed_step(arrivals, held, engine_constant(ctx, "skipped_looks", "1"))
        prefill = alone + others * load.prefill_interference_s
    mixed = mixed_in_graph(ctx, layout, batch, decode, mixed_step_s(ctx, layout, decode, prefill), arrivals)
    return arrivals, f.mean_hold(held, arrivals), mixed


def decoding_s(ctx: EstimateContext, step: Number) -> Number:
    """Seconds of the decodes in a step with a prompt: none where they stall."""
    return 0.0 * step if ctx.engine.prompts_first else speculation.engine_step_time(ctx, step)


# --- a decode step: per token written, through a pipeline of stages, padded to a captured CUDA graph -----------------------------


def token_step(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> PricedPass:
    """A decode step per token written, of `batch` sequences on the whole replica."""
    step = speculation.token_step(ctx, layout, sequences_per_stage(layout, batch), context)
    return pipeline_wait(ctx, layout, step, batch, context)


def lone_token_s(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds of a token where each stage has one sequence."""
    context = serving.mean_context(ctx.prompt, ctx.output)
    return ctx.memoized(layout, "lone token", lambda: token_step(ctx, layout, layout.pp, context).seconds)


def sequences_per_stage(layout: Layout, batch: Number) -> Number:
    """Sequences in one pass of a pipeline stage: the batch of the replica over its stages, at least one."""
    return num.maximum(batch / layout.pp, 1)


def pipeline_wait(ctx: EstimateContext, layout: Layout, step: PricedPass, batch: Number, context: Number) -> PricedPass:
    """Add what a microbatch waits for the slowest stage; `batch` sequences on the whole replica.

    As many microbatches are in flight as the pipeline has stages, or as there are sequences. To form a step of one of them the
    engine visits all sequences, whichever it then works on.
    """
    if ctx.engine.splits_layers or num.one(layout.pp):
        return step
    per_stage, microbatches = sequences_per_stage(layout, batch), num.minimum(num.maximum(batch, 1), layout.pp)
    seconds = step.seconds
    if not ctx.chip.ideal:
        added = microbatches * host_time(ctx, num.maximum(batch, 1)) - host_time(ctx, per_stage)
        added = added / speculation.engine_step_time(ctx, 1.0)
        step.costs.add_time("engine", added, "step", ctx.chip.constants(REGIME, "step").error)
        seconds = seconds + added
    head = _head(ctx, layout, per_stage, context)
    inner = seconds - head - step.costs.groups.get("communication", 0.0)
    # Engines split layers evenly; the last stage has the fewest, and the head.
    layers = float(ctx.ledger.n_layers)
    fullest = schedule.stage_time(schedule.layers_per_stage(layers, layout.pp), layers, inner, 0.0)
    last = schedule.stage_time(num.floor(layers / layout.pp), layers, inner, head)
    cycle = num.maximum(seconds, microbatches * num.maximum(fullest, last))
    step.costs.add_time("bubble", cycle - seconds, "step", 0.0)
    return PricedPass(step.costs, label(cycle, "t_decode"))


def _head(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> Number:
    """Seconds of the LM head."""
    forward = ForwardPass(ctx.formats, decode=True, flash=ctx.request.flash, library=ctx.engine.library)
    costs = ctx.accumulator(REGIME, layout.devices)
    work = pass_axis_sizes(batch, 1.0, context, 1.0, layout)
    sizes = stem_head_axis_sizes(ctx.ledger, work, layout, ctx.ledger.document, ctx.lift)
    costs.add(forward.ops(ctx.ledger.head, sizes, outer=True), 1.0)
    return label(costs.total, "t_head")


def padded_to_graph(
    ctx: EstimateContext, layout: Layout, step: PricedPass, batch: Number, context: Number, prompts: bool
) -> PricedPass:
    """Add what padding to the next captured batch size costs, averaged over steps with and without a prefill chunk.

    `batch` sequences on a stage; `prompts`: whether prompts arrive at all. Host time and attention see real sequences only.
    A step of speculative decoding is not padded.
    """
    sizes = ctx.engine.scheduler.graph_batches
    if not sizes or ctx.chip.ideal or ctx.request.speculate is not None:
        return step
    padded = batch
    for size in reversed(sizes):
        padded = f.padded_batch(batch, float(size), padded)
    same = context * batch / padded  # what pads a batch has no cache to read
    full = forward_step(ctx, layout, padded, 1.0, same, decode=True, engine=False).seconds
    real = forward_step(ctx, layout, batch, 1.0, context, decode=True, engine=False).seconds
    mixed: Number = 0.0
    if prompts:
        mixed = f.mixed_step_fraction(batch, ctx.uncached_prompt, ctx.output, token_budget(ctx))
    added = f.padding_time(full, real, mixed, layout.expert_replicas)
    step.costs.add_time("padding", added, "step", 0.0)
    return PricedPass(step.costs, label(step.seconds + added, "t_decode"))
