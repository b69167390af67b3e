"""Mean TTFT of a closed loop, in closed form: the same scheduler rules and constants that a simulation steps through.

Settings of a scheduler (token budget, poll and stream intervals, batch wait) are in the engine's file or after --scheduler-config.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine import decode_step, speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    computed_tokens,
    engine_constant,
    forward_step,
    token_budget,
    uncaptured_launch_s,
)
from rooflinecli.engine.serving_load import ReplicaLoad, mixed_in_graph, mixed_step_s, prompt_factor
from rooflinecli.formulas import closed_loop as f
from rooflinecli.formulas import serving
from rooflinecli.specs.layout import Layout


@dataclass(slots=True)
class ClosedLoopState:
    """What a request meets: the TTFT of the initial burst, a mixed step with its prompt, the fraction of time that prefills take,
    and the steps of its batch wait."""

    burst: Number
    mixed: Number
    share: Number
    held: Number = 0.0


def mean_closed_loop_ttft(
    ctx: EstimateContext, layout: Layout, load: ReplicaLoad, alone: Number, itl: Number, step: Number
) -> Number:
    """TTFT of a prompt whose prefill takes `alone` seconds on an idle replica; `step` is a decode step under this load."""
    batch = decode_step.sequences_per_stage(layout, load.batch)
    frontend = frontend_latency(ctx)
    if is_lockstep(ctx):
        per_stream = engine_constant(ctx, "per_stream", "s")
        ttft = f.lockstep_ttft(alone, batch, load.prefill_interference_s, frontend, per_stream)
    else:
        ttft = _mean_ttft(ctx, client_state(ctx, layout, load, alone, itl, step), batch, itl, frontend)
    # Served one after another, as many at once as there are stages: no request waits longer than that.
    single_itl = decode_step.token_step(ctx, layout, layout.pp, serving.mean_context(ctx.prompt, ctx.output)).seconds
    single_ttft = _mean_ttft(ctx, ClosedLoopState(alone, alone, 0.0), 1.0, single_itl, frontend)
    request = serving.e2e_latency(single_ttft, single_itl, ctx.output)
    return num.where(batch > 1, num.minimum(ttft, f.serial_ttft(batch, request, ctx.output, itl)), single_ttft)


def mean_open_loop_ttft(
    ctx: EstimateContext, layout: Layout, load: ReplicaLoad, alone: Number, itl: Number, step: Number
) -> Number:
    """TTFT of an arrival that finds the system empty, or others with whose steps its prompt shares, as a client of a closed loop does."""
    others = serving.busy_probability(load.batch)
    state = client_state(ctx, layout, load, alone, itl, step)
    poll, late, ahead = (engine_constant(ctx, name, "1") for name in ("skipped_looks", "late_tokens", "look_ahead"))
    engine_step = speculation.engine_step_time(ctx, itl)
    mixed = state.mixed
    if not ctx.engine.scheduler.look_ahead:
        # A compiled runtime reads weights once for prompts and decodes: open loops of TensorRT-LLM 0.14.
        mixed = engine_step + load.prefill_interference_s + uncaptured_launch_s(ctx)
    turn = f.turn_ttft(state.held, poll + 1.0, ahead, engine_step, mixed, 0.0)
    queue = f.queue_for_prefill(load.share, load.prefill_interference_s)
    streams = engine_constant(ctx, "per_stream", "s") * (load.batch + 1)
    return f.open_loop_ttft(alone, others, turn, queue, late * step, frontend_latency(ctx), streams)


def is_lockstep(ctx: EstimateContext) -> bool:
    """Whether all clients of a closed loop start together each time: equal lengths, and an engine that prefills first."""
    return ctx.request.equal_lengths and ctx.engine.prompts_first


def frontend_latency(ctx: EstimateContext) -> Number:
    """Seconds before the scheduler sees a request."""
    seconds = engine_constant(ctx, "front", "s")
    if ctx.engine.scheduler.per_token:
        seconds = f.front_time(seconds, engine_constant(ctx, "per_token", "s"), ctx.prompt)
    return seconds


def client_state(
    ctx: EstimateContext, layout: Layout, load: ReplicaLoad, alone: Number, itl: Number, step: Number
) -> ClosedLoopState:
    """What a request meets; `alone` is the prefill of one prompt on an idle replica, `step` a decode step."""
    batch = decode_step.sequences_per_stage(layout, load.batch)
    arrivals, budget = f.arrivals_per_step(batch, ctx.output), token_budget(ctx)
    held: Number = 0.0  # steps from the first prompt that waits to the pass that prefills it
    if ctx.engine.scheduler.hold_steps:
        most, share = (engine_constant(ctx, name, "1") for name in ("hold_steps", "hold_share"))
        held = f.held_steps(most, share, budget, batch, ctx.uncached_prompt, arrivals)
    per_pass = serving.prompts_per_pass(budget, ctx.uncached_prompt)
    together, first = num.minimum(per_pass, batch), alone
    if not (num.plain(together) and num.value(together) <= 1):
        several = forward_step(ctx, layout, together, *computed_tokens(ctx), decode=False).seconds
        first = num.where(together > 1, several, alone)
    decode = 0.0 * batch if ctx.engine.prompts_first else speculation.engine_step_time(ctx, step)  # else they stall
    factor = prompt_factor(ctx)
    passes, prefill = serving.prompt_passes(budget, ctx.uncached_prompt), alone
    if num.present(held) or ctx.engine.constant("skipped_looks"):
        others = f.prompts_per_mixed_step(arrivals, held, engine_constant(ctx, "skipped_looks", "1"))
        prefill = alone + others * load.prefill_interference_s
    mixed = mixed_in_graph(ctx, layout, batch, decode, factor, mixed_step_s(ctx, decode, prefill, factor, passes))
    share = num.minimum(arrivals / itl * (factor * load.prefill_interference_s), 1)
    burst = f.burst_ttft(batch, per_pass, first, mixed_step_s(ctx, decode / 2, first, factor, passes))
    return ClosedLoopState(burst, mixed, share, f.mean_hold(held, arrivals))


def _mean_ttft(ctx: EstimateContext, state: ClosedLoopState, batch: Number, itl: Number, frontend: Number) -> Number:
    """TTFT averaged over a client's requests: the one in the initial burst, and those that follow another."""
    poll, late, ahead = (engine_constant(ctx, name, "1") for name in ("skipped_looks", "late_tokens", "look_ahead"))
    step = speculation.engine_step_time(ctx, itl)
    turn = f.turn_ttft(state.held, poll, ahead, step, state.mixed, state.share)
    turn = num.where(batch > 1, turn, state.mixed)  # a lone client does not wait
    per_stream = engine_constant(ctx, "per_stream", "s")
    return f.closed_loop_ttft(state.burst, turn, ctx.requests_per_client, late * step, frontend, per_stream, batch)
