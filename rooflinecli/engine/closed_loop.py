"""Mean time to first token of a closed loop, in closed form: the same rules and constants that a simulation steps through.

What a scheduler's settings say (budget, polls, messages, prompts held back) stands in the engine's file or after --scheduler.
`gather_steps` and `unexplained` are what settings of the fitted runs cost that nobody told: where they are told, both are nought.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine import pipelined_decode, speculation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import (
    computed_tokens,
    engine_constant,
    forward_step,
    token_budget,
    uncaptured_launch_s,
)
from rooflinecli.engine.serving_load import ReplicaLoad
from rooflinecli.formulas import closed_loop, serving
from rooflinecli.specs.layout import Layout


def mean_closed_loop_ttft(
    ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, alone: Number, itl: Number, step: Number
) -> Number:
    """Seconds to the first token of a prompt whose pass takes `alone` on an idle replica; `step` is a decode step under this load."""
    batch = pipelined_decode.sequences_per_stage(layout, busy.batch)
    before = frontend_latency(ctx, closed_loop.others_beside(busy.batch))
    if is_lockstep(ctx):
        per_stream = engine_constant(ctx, "per_stream", "s")
        found = closed_loop.lockstep_ttft(alone, batch, busy.prefill_interference_s, before, per_stream)
    else:
        found = mean_ttft_over_requests(ctx, client_state(ctx, layout, busy, alone, itl, step), batch, itl, before)
    own = pipelined_decode.token_step(ctx, layout, layout.pp, serving.mean_context(ctx.prompt, ctx.output)).seconds
    one = mean_ttft_over_requests(ctx, ClosedLoopState(alone, alone, 0.0), 1.0, own, before)
    request = serving.answer_time(one, own, ctx.output)
    # Served as many at once as there are stages, and these one after another: no request waits longer than that.
    return num.minimum(found, closed_loop.serial_ttft(batch, request, ctx.output, itl))


def is_lockstep(ctx: EstimateContext) -> bool:
    """Whether the slots of a closed loop begin together each time: equal lengths, under an engine that reads prompts first."""
    return ctx.request.equal_lengths and ctx.engine.prompts_first


def frontend_latency(ctx: EstimateContext, meets: Number) -> Number:
    """Seconds in front of a request: its front end, and what the runs of this engine took beside its rules where it meets others.

    `meets` is the chance that others are under way: polls, intervals between messages and waits for a fuller batch hold nobody who is alone.
    """
    own = engine_constant(ctx, "front", "s")
    if ctx.engine.per_token:
        own = closed_loop.front_time(own, engine_constant(ctx, "per_token", "s"), ctx.prompt)
    return (
        closed_loop.beside_others(own, meets, engine_constant(ctx, "unexplained", "s"))
        if ctx.engine.unexplained
        else own
    )


@dataclass(slots=True)
class ClosedLoopState:
    """What a request meets: the burst at the start, a step that holds its prompt, the share of time prompts take, steps it is held back."""

    burst: Number
    mixed: Number
    share: Number
    held: Number = 0.0


def client_state(
    ctx: EstimateContext, layout: Layout, busy: ReplicaLoad, alone: Number, itl: Number, step: Number
) -> ClosedLoopState:
    """What a request of a closed loop meets; `alone` is the pass of one prompt on an idle replica, `step` a decode step."""
    batch = pipelined_decode.sequences_per_stage(layout, busy.batch)
    arrivals = closed_loop.arrivals_per_step(batch, ctx.output)
    held = _held(ctx, batch, arrivals)
    budget = token_budget(ctx)
    per_pass = serving.prompts_per_pass(budget, ctx.read)
    together, first = num.minimum(per_pass, batch), alone
    if not (num.plain(together) and num.value(together) <= 1):
        whole = forward_step(ctx, layout, together, *computed_tokens(ctx), decode=False).seconds
        first = num.where(together > 1, whole, alone)
    decode = (
        0.0 * batch if ctx.engine.prompts_first else speculation.engine_step_time(ctx, step)
    )  # else they stand still
    factor = engine_constant(ctx, "prompt_factor_moe" if ctx.ledger.moe_layers else "prompt_factor", "1")
    passes = serving.prompt_passes(budget, ctx.read)
    with_it = alone
    if num.present(held) or ctx.engine.skipped_looks:
        others = closed_loop.read_with(arrivals, held, engine_constant(ctx, "skipped_looks", "1"))
        with_it = alone + others * busy.prefill_interference_s
    mixed = _mixed(ctx, decode, with_it, factor, passes)
    mixed = _replayed(ctx, layout, batch, decode, factor, mixed)
    share = num.minimum(serving.prefill_load(arrivals / itl, factor * busy.prefill_interference_s), 1)
    burst = closed_loop.burst_ttft(batch, per_pass, first, _mixed(ctx, decode / 2, first, factor, passes))
    return ClosedLoopState(burst, mixed, share, closed_loop.mean_hold(held, arrivals))


def mean_ttft_over_requests(
    ctx: EstimateContext, met: ClosedLoopState, batch: Number, itl: Number, front: Number
) -> Number:
    """Time to first token in the mean of a slot's requests, `front` seconds in front of each: the one in the burst, and those that follow another."""
    gather, poll, late, ahead = (
        engine_constant(ctx, name, "1") for name in ("gather_steps", "skipped_looks", "late_tokens", "look_ahead")
    )
    step = speculation.engine_step_time(ctx, itl)
    turn = closed_loop.turn_ttft(gather + met.held, poll, ahead, step, met.mixed, met.share)
    turn = num.where(batch > 1, turn, met.mixed)  # nobody else is under way: nothing to wait for
    per_stream = engine_constant(ctx, "per_stream", "s")
    return closed_loop.closed_loop_ttft(met.burst, turn, ctx.per_slot, late * step, front, per_stream, batch)


def _held(ctx: EstimateContext, batch: Number, arrivals: Number) -> Number:
    """Steps from the first prompt held back to the pass that reads it, nought where none is."""
    if not ctx.engine.hold_steps:
        return 0.0
    most, share = (engine_constant(ctx, name, "1") for name in ("hold_steps", "hold_share"))
    return closed_loop.held_steps(most, share, token_budget(ctx), batch, ctx.read, arrivals)


def _mixed(ctx: EstimateContext, decode: Number, prompts: Number, factor: Number, passes: Number) -> Number:
    """A step with prompts and decodes that no graph replays: launches of its own kernels replace what an engine adds to the start."""
    launches: Number = 0.0
    if ctx.engine.launch and not ctx.chip.ideal:
        launches = closed_loop.launch_time(ctx.ledger.operations, engine_constant(ctx, "launch", "s"))
        prompts = prompts - uncaptured_launch_s(ctx)
    return label(closed_loop.mixed_step(decode, prompts, factor, launches, passes), "t_mixed")


def _replayed(
    ctx: EstimateContext, layout: Layout, batch: Number, decode: Number, factor: Number, mixed: Number
) -> Number:
    """The same where a captured graph holds the step: one pass whose weights prompts and decodes share."""
    fits = ctx.read + batch <= ctx.engine.graph_tokens
    if not ctx.engine.graph_tokens or (num.plain(fits) and not num.value(fits)):
        return mixed
    whole = forward_step(ctx, layout, 1.0, ctx.read + batch, ctx.prompt, decode=False).seconds
    beside = forward_step(ctx, layout, 1.0, batch, 1.0, decode=False).seconds
    return num.where(fits, label(closed_loop.mixed_step(decode, whole - beside, factor, 0.0, 1.0), "t_mixed"), mixed)
