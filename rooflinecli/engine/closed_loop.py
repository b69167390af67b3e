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
from rooflinecli.engine.context import Scene
from rooflinecli.engine.forward_step import as_read, engine_constant, forward_step, prompt_starts, token_budget
from rooflinecli.engine.serving_load import Load
from rooflinecli.formulas import closed_loop, serving
from rooflinecli.specs.layout import Plan


def first_token(scene: Scene, plan: Plan, busy: Load, alone: Number, itl: Number, step: Number) -> Number:
    """Seconds to the first token of a prompt whose pass takes `alone` on an idle replica; `step` is a decode step under this load."""
    batch = pipelined_decode.sequences_per_stage(plan, busy.batch)
    before = front(scene, closed_loop.others_beside(busy.batch))
    if lockstep(scene):
        per_stream = engine_constant(scene, "per_stream", "s")
        found = closed_loop.lockstep_ttft(alone, batch, busy.prompt_cost, before, per_stream)
    else:
        found = in_turn(scene, meets(scene, plan, busy, alone, itl, step), batch, itl, before)
    own = pipelined_decode.token_step(scene, plan, plan.pp, serving.mean_context(scene.prompt, scene.output)).seconds
    one = in_turn(scene, Loop(alone, alone, 0.0), 1.0, own, before)
    request = serving.answer_time(one, own, scene.output)
    # Served as many at once as there are stages, and these one after another: no request waits longer than that.
    return num.minimum(found, closed_loop.serial_ttft(batch, request, scene.output, itl))


def lockstep(scene: Scene) -> bool:
    """Whether the slots of a closed loop begin together each time: equal lengths, under an engine that reads prompts first."""
    return scene.request.equal_lengths and scene.engine.prompts_first


def front(scene: Scene, meets: Number) -> Number:
    """Seconds in front of a request: its front end, and what the runs of this engine took beside its rules where it meets others.

    `meets` is the chance that others are under way: polls, intervals between messages and waits for a fuller batch hold nobody who is alone.
    """
    own = engine_constant(scene, "front", "s")
    if scene.engine.per_token:
        own = closed_loop.front_time(own, engine_constant(scene, "per_token", "s"), scene.prompt)
    return (
        closed_loop.beside_others(own, meets, engine_constant(scene, "unexplained", "s")) if scene.engine.unexplained else own
    )


@dataclass(slots=True)
class Loop:
    """What a request meets: the burst at the start, a step that holds its prompt, the share of time prompts take, steps it is held back."""

    burst: Number
    mixed: Number
    share: Number
    held: Number = 0.0


def meets(scene: Scene, plan: Plan, busy: Load, alone: Number, itl: Number, step: Number) -> Loop:
    """What a request of a closed loop meets; `alone` is the pass of one prompt on an idle replica, `step` a decode step."""
    batch = pipelined_decode.sequences_per_stage(plan, busy.batch)
    arrivals = closed_loop.arrivals_per_step(batch, scene.output)
    held = _held(scene, batch, arrivals)
    budget = token_budget(scene)
    per_pass = serving.prompts_per_pass(budget, scene.read)
    together, first = num.minimum(per_pass, batch), alone
    if not (num.plain(together) and num.value(together) <= 1):
        whole = forward_step(scene, plan, together, *as_read(scene), decode=False).seconds
        first = num.where(together > 1, whole, alone)
    decode = 0.0 * batch if scene.engine.prompts_first else speculation.round_time(scene, step)  # else they stand still
    factor = engine_constant(scene, "prompt_factor_moe" if scene.book.moe_layers else "prompt_factor", "1")
    passes = serving.prompt_passes(budget, scene.read)
    with_it = alone
    if num.present(held) or scene.engine.skipped_looks:
        others = closed_loop.read_with(arrivals, held, engine_constant(scene, "skipped_looks", "1"))
        with_it = alone + others * busy.prompt_cost
    mixed = _mixed(scene, decode, with_it, factor, passes)
    mixed = _replayed(scene, plan, batch, decode, factor, mixed)
    share = num.minimum(serving.prefill_load(arrivals / itl, factor * busy.prompt_cost), 1)
    burst = closed_loop.burst_ttft(batch, per_pass, first, _mixed(scene, decode / 2, first, factor, passes))
    return Loop(burst, mixed, share, closed_loop.mean_hold(held, arrivals))


def in_turn(scene: Scene, met: Loop, batch: Number, itl: Number, front: Number) -> Number:
    """Time to first token in the mean of a slot's requests, `front` seconds in front of each: the one in the burst, and those that follow another."""
    gather, poll, late, ahead = (
        engine_constant(scene, name, "1") for name in ("gather_steps", "skipped_looks", "late_tokens", "look_ahead")
    )
    step = speculation.round_time(scene, itl)
    turn = closed_loop.turn_ttft(gather + met.held, poll, ahead, step, met.mixed, met.share)
    turn = num.where(batch > 1, turn, met.mixed)  # nobody else is under way: nothing to wait for
    per_stream = engine_constant(scene, "per_stream", "s")
    return closed_loop.closed_loop_ttft(met.burst, turn, scene.per_slot, late * step, front, per_stream, batch)


def _held(scene: Scene, batch: Number, arrivals: Number) -> Number:
    """Steps from the first prompt held back to the pass that reads it, nought where none is."""
    if not scene.engine.hold_steps:
        return 0.0
    most, share = (engine_constant(scene, name, "1") for name in ("hold_steps", "hold_share"))
    return closed_loop.held_steps(most, share, token_budget(scene), batch, scene.read, arrivals)


def _mixed(scene: Scene, decode: Number, prompts: Number, factor: Number, passes: Number) -> Number:
    """A step with prompts and decodes that no graph replays: launches of its own kernels replace what an engine adds to the start."""
    launches: Number = 0.0
    if scene.engine.launch and not scene.chip.ideal:
        launches = closed_loop.launch_time(scene.book.operations, engine_constant(scene, "launch", "s"))
        prompts = prompts - prompt_starts(scene)
    return label(closed_loop.mixed_step(decode, prompts, factor, launches, passes), "t_mixed")


def _replayed(scene: Scene, plan: Plan, batch: Number, decode: Number, factor: Number, mixed: Number) -> Number:
    """The same where a captured graph holds the step: one pass whose weights prompts and decodes share."""
    fits = scene.read + batch <= scene.engine.graph_tokens
    if not scene.engine.graph_tokens or (num.plain(fits) and not num.value(fits)):
        return mixed
    whole = forward_step(scene, plan, 1.0, scene.read + batch, scene.prompt, decode=False).seconds
    beside = forward_step(scene, plan, 1.0, batch, 1.0, decode=False).seconds
    return num.where(fits, label(closed_loop.mixed_step(decode, whole - beside, factor, 0.0, 1.0), "t_mixed"), mixed)
