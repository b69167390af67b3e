"""The answer of `roofline rl`: parts composed to a step, memory of the roles, dollars, and what a log says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.units import count, duration
from rooflinecli.engine import evaluate
from rooflinecli.engine.residency import kv_bytes
from rooflinecli.importers.logs.rl import RlStep
from rooflinecli.layers.build import ledger
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.questions.estimate.answer import foreign
from rooflinecli.questions.rl import answer_types as types
from rooflinecli.questions.rl import parts as rl_parts
from rooflinecli.questions.rl.parts import Part, Rollout, Sample, Update
from rooflinecli.questions.rl.question import SMALLER, Rl, step_of
from rooflinecli.specs import flag_text
from rooflinecli.specs.model import load_model

LOGGED = {  # part -> field of a logged step
    "rollout": "generation_s",
    "reward": "rewards_s",
    "log-probabilities": "log_probs_s",
    "reference": "reference_s",
    "values": "values_s",
    "update": "actor_s",
    "critic update": "critic_s",
    "weight sync": "weights_s",
}


@dataclass(frozen=True)
class Constants:
    """Factors on parts by name, or by side where a name has none; seconds that no part accounts for; ends of the interval over the time."""

    rollout: float
    trainer: float
    fixed_s: float
    sync_bytes_per_s: float
    spread: tuple[float, float]
    source: str
    by_part: tuple[tuple[str, float], ...] = ()

    def of(self, part: Part) -> float:
        """The factor of a part."""
        sides = {"rollout": self.rollout, "trainer": self.trainer}
        return dict(self.by_part).get(part.name, sides.get(part.side, 1.0))


# 24 steps of NeMo RL v0.5 and v0.6 on H100 and GB200; `roofline validate rl` predicts each family of models by those of the others.
# The rate of the weights is that of checkpoint-engine, 60 to 76 GB/s over 8 to 256 devices.
PUBLISHED = Constants(2.0, 1.25, 10.0, 70e9, (0.68, 1.5), "24 published steps of NeMo RL on H100 and GB200")
# Models with recurrent mixers (linear attention): Qwen3.5 35B-A3B in three modes of verl on 32 devices and one on 24 H100, each within 12%
# by constants fitted to the other three. The trainer's factor makes its passes 33% of the synchronous step (verl's logs: 33 to 48%); it is
# of these models and not of verl, whose update of Qwen3 30B-A3B has the MFU that is estimated (0.31 to 0.40 on 8 to 32 H20).
RECURRENT = Constants(1.4, 4.8, 10.0, 70e9, (0.68, 1.5), "4 published steps of Qwen3.5 35B-A3B in verl")
BEST_SYNC = 76e9  # bytes per second of weights: the best of checkpoint-engine's published rows
LOGGED_SPREAD = (0.82, 1.22)  # of other sizes after one logged step, in published rows


def fixed_by(log: RlStep, published: Constants, raw: list[Part], parts: list[Part], step: Part) -> Constants:
    """Constants that make parts those of a logged step: `raw` before constants, `parts` and `step` under the `published` ones.

    Parts that the log leaves out have the factor of their side; of a log that states the whole alone, all work has one factor.
    """
    base = replace(published, spread=LOGGED_SPREAD, source=f"{log.tool}: {log.where}")
    factors = {p.name: t / p.time_s for p in raw if p.time_s and (t := seconds_of(log, p.name, raw))}
    if not factors:
        return scaled_by(base, parts, step, log.step_s or step.time_s)
    named = sum(seconds for p in raw if (seconds := seconds_of(log, p.name, raw)))
    whole = log.step_s or named
    trainer = factors.get("update", base.trainer)
    return replace(
        base, rollout=factors.get("rollout", base.rollout), trainer=trainer, fixed_s=max(whole - named, 0.0),
        by_part=tuple(factors.items()),
    )  # fmt: skip


def scaled_by(constants: Constants, parts: list[Part], step: Part, measured_s: float) -> Constants:
    """The work of both sides by one factor, such that the step is as long as measured: what a step says of which only the whole was.

    `parts` and `step` are those of `constants`. Fixed seconds and weights stay, since the whole does not tell them from work.
    """
    still = sum(part.time_s for part in parts if part.side == "both")
    factor = max(measured_s - still, 0.1 * measured_s) / (step.time_s - still)
    return replace(
        constants, rollout=constants.rollout * factor, trainer=constants.trainer * factor, spread=LOGGED_SPREAD
    )


def measured_parts(step: RlStep) -> dict[str, float]:
    """Seconds of every part that a log states, stages with the log's own names apart from times inside them."""
    found = {name: value for name, key in LOGGED.items() if (value := getattr(step, key)) is not None}
    outside = {name: value for name, value in step.other_s.items() if not name.endswith(("/step", "/total"))}
    return found | outside


def seconds_of(step: RlStep, part: str, parts: list[Part]) -> float | None:
    """Measured seconds of a part. A log that does not separate forward passes has them all in its log-probabilities, which are
    then divided as expected."""
    key = LOGGED.get(part)
    value = None if key is None else getattr(step, key)
    joint = ("log-probabilities", "reference")
    if part not in joint or step.log_probs_s is None or step.reference_s is not None:
        return None if value is None else float(value)
    whole = sum(p.time_s for p in parts if p.name in joint)
    own = next((p.time_s for p in parts if p.name == part), 0.0)
    return step.log_probs_s * own / whole if whole else None


DEVICES = 8  # where -n is not given
# fields of a question that its rollout does not read
NOT_OF_ROLLOUT = "log changes calibrate calibrate_question search steps fixed n weight_sync_bandwidth source".split()
OTHER_LOAD = 0.15  # relative difference in tokens beyond which a log is of another load
SIGMA = 0.6  # of the logarithm of lengths whose mean alone a log states


@dataclass(frozen=True)
class Composed:
    """A step before constants: parts as the simulator and the estimate give them, in the order of a step."""

    question: Rl
    samples: list[Sample]
    rollout: Rollout
    update: Update
    parts: list[Part]
    offloaded: bool
    memory: types.MemoryAnswer

    @property
    def overlaps(self) -> bool:
        """Whether both sides work at once."""
        return self.question.rollout_devices is not None and self.question.staleness > 0

    def step(self, constants: Constants) -> tuple[list[Part], Part]:
        """The parts with constants applied, and the step that they make."""
        own = self.question.fixed
        fixed = constants.fixed_s if own is None else own
        asked = self.question.weight_sync_bandwidth or dict(constants.by_part).get("weight sync")
        # unless one was asked for or a log states the part
        rate = PUBLISHED.sync_bytes_per_s / constants.sync_bytes_per_s
        found = [
            (part.scaled(rate) if part.name == "weight sync" and not asked else part).scaled(
                constants.of(part), constants.spread
            )
            for part in self.parts
        ]
        low, high = constants.spread
        found.append(Part("fixed", "both", 0.0, fixed, (fixed * low, fixed * high)))
        return found, self.composed(found)

    def composed(self, parts: list[Part]) -> Part:
        """One step of its parts: their sum, or the longer side where both work at once."""

        def total(read: Callable[[Part], float]) -> float:
            sides = {"rollout": 0.0, "trainer": 0.0, "both": 0.0}
            for part in parts:
                sides[part.side] += read(part)
            work = max(sides["rollout"], sides["trainer"]) if self.overlaps else sides["rollout"] + sides["trainer"]
            return work + sides["both"]

        ends = (total(lambda p: p.interval_s[0]), total(lambda p: p.interval_s[1]))
        return Part("step", "both", total(lambda p: p.floor_s), total(lambda p: p.time_s), ends)


def compose(question: Rl, floored: bool = True) -> Composed:
    """The parts of a question, without the rollout's floor unless `floored`. Raises UsageError and Infeasible as an estimate and a simulation do."""
    devices = int(question.n or DEVICES)
    rolling = question.rollout_devices or devices
    trainer_devices = devices - (question.rollout_devices or 0)
    if trainer_devices < 1:
        raise UsageError(f"--rollout-devices {rolling} leaves none of -n {devices} to the trainer", "rollout-devices")
    for name in filter(None, (question.reward_model, question.critic)):
        load_model(name)  # one that cannot be read is refused before a rollout is simulated
    rollout = rl_parts.rollout(question.replace(**dict.fromkeys(NOT_OF_ROLLOUT)), rolling, floored=floored)
    samples = rl_parts.samples_of(question)
    update = rl_parts.update(question, trainer_devices, samples)
    parts = [rollout.part]
    if question.reward_time:
        seconds = question.reward_time
        parts.append(Part("reward", "trainer", seconds, seconds, (seconds, seconds)))
    if question.reward_model:
        judge = rl_parts.update(question, trainer_devices, samples, question.reward_model)
        parts.append(judge.forward("reward model", question.epochs))
    parts.append(update.forward("log-probabilities", question.epochs))
    if question.has_reference:
        parts.append(update.forward("reference", question.epochs))
    if question.algorithm == "ppo":
        critic = rl_parts.update(question, trainer_devices, samples, question.critic) if question.critic else update
        parts += [critic.forward("values", question.epochs), critic.part("critic update")]
    parts.append(update.part("update"))
    size = rl_parts.weight_bytes(question, rollout.engine)
    rate = question.weight_sync_bandwidth or PUBLISHED.sync_bytes_per_s
    parts.append(Part("weight sync", "both", size / max(rate, BEST_SYNC), size / rate, (size / rate, size / rate)))
    memory, moved = _memory(question, rollout, update, samples)
    if moved:
        chip = rollout.engine.ctx.request.hardware
        if chip.host_link is None:
            raise UsageError(f"{chip.name} states no rate to its host; add --no-offload-state", "offload-state")
        seconds = 2 * moved / chip.host_link.si  # out before the rollout, back after it
        parts.append(
            Part("offload", "trainer" if question.rollout_devices else "both", seconds, seconds, (seconds, seconds))
        )
    return Composed(question, samples, rollout, update, parts, bool(moved), memory)


def _memory(question: Rl, rollout: Rollout, update: Update, samples: list[Sample]) -> tuple[types.MemoryAnswer, float]:
    """Memory of the roles per device, and the bytes of the trainer's state that leave the device during the rollout."""
    held, engine = update.answer.memory, rollout.engine
    capacity = float(engine.ctx.chip.capacity)
    ranks = engine.layout.tp * engine.layout.pp * max(float(engine.layout.ep) / float(engine.layout.tp), 1.0)
    weights = rl_parts.weight_bytes(question, engine) / float(ranks)
    mean = sum(sample.tokens for sample in samples) / len(samples)
    wanted = len(samples) / rollout.engines * float(kv_bytes(engine.ctx, engine.layout, 1.0, mean))
    pool = rollout.limits.pool * rollout.limits.bytes_per_token
    state = float(held.weights_bytes) + float(held.optimizer_bytes)
    copies = (
        (float(held.weights_bytes) if question.has_reference else 0.0),
        (state if question.algorithm == "ppo" else 0.0),
    )
    shared = question.rollout_devices is None
    resident = state + sum(copies)
    updating = resident + float(held.gradients_bytes) + float(held.activations_bytes)
    too_large = updating > capacity or resident + min(wanted, 0.1 * capacity) > pool  # the engine keeps its reserve
    offload = too_large if question.offload_state is None else question.offload_state
    moved = (resident if shared else sum(copies)) if offload else 0.0
    rest = resident - moved if shared else 0.0
    cache = max(min(wanted, pool - rest), 0.0)
    frozen = 0.0 if moved else copies[0]
    rows = [
        ("rollout weights", weights, 0.0),
        ("KV cache", cache, 0.0),
        ("policy weights and optimizer", state if rest else 0.0, state),
        ("gradients", 0.0, float(held.gradients_bytes)),
        ("activations", 0.0, float(held.activations_bytes)),
    ]
    if question.has_reference:
        rows.append(("reference policy", frozen if rest else 0.0, frozen))
    if question.algorithm == "ppo":
        rows.append(("critic", copies[1] if rest else 0.0, 0.0 if moved else copies[1]))
    roles = [types.RoleMemory(role=role, rollout_bytes=first, update_bytes=second) for role, first, second in rows]
    found = types.MemoryAnswer(roles=roles, capacity_bytes=capacity, fits=True, offloaded=bool(moved), host_bytes=moved)
    found.fits = found.most_bytes <= capacity and cache >= min(wanted, 1.0)
    return found, moved


def too_large(question: Rl, devices: int) -> None:
    """Raises Infeasible where the update does not fit, though it has every device: no rollout next to it will."""
    memory = rl_parts.update(question, devices, rl_parts.samples_of(question)).answer.memory
    needed, capacity = float(memory.total_bytes), float(memory.capacity_bytes)
    if needed > capacity:
        raise Infeasible(
            f"the update alone needs {needed / 1e9:.0f} GB per device of {capacity / 1e9:.0f} GB; {SMALLER}"
        )


def answered(question: Rl, done: Callable[[int, int], None]) -> types.RlAnswer:
    """The answer, with the layouts of a search and the changes where they were asked for: `done` hears of how many more out of how many. Raises UsageError, DataError
    and Infeasible."""
    for path in filter(None, (question.log, question.calibrate)):
        question = with_lengths(question, step_of(path))
    candidates, stopped, constants = None, "", constants_of(question)
    notes: list[str] = []
    if question.search:
        from rooflinecli.questions.rl.variants import search

        question, candidates, stopped = search(question, constants, done)
        notes += [stopped] if stopped else []
    elif not question.is_given(Rl.n):
        notes.append(f"-n is not given: {DEVICES} devices")
    answer = answer_of(compose(question), constants, question.logged())
    if question.changes:
        from rooflinecli.questions.rl.variants import changes

        answer.changes = changes(question, constants, answer.step.time_s, done)
    answer.candidates, answer.interrupted, answer.notes = candidates, bool(stopped), notes + answer.notes
    return answer


def with_lengths(question: Rl, log: RlStep) -> Rl:
    """The question with the mean lengths of a log, where it leaves them open."""
    own: dict[str, object] = {}
    if log.output and not question.is_given(Rl.output):
        own["output"] = f"lognormal:{max(round(log.output), 1)},{SIGMA}"
    if log.prompt and not question.is_given(Rl.prompt):
        own["prompt"] = max(round(log.prompt), 1)
    return question.replace(**own) if own else question


def constants_of(question: Rl) -> Constants:
    """Constants of published steps, or those that --calibrate fixes."""
    if question.calibrate is None:
        return published_for(question)
    try:
        written = flag_text.fields(question.calibrate_question or "", Rl.named)
        changed = {field.parameter: None if value == "none" else value for field, value in written}
    except UsageError as error:
        raise UsageError(f"--calibrate-question: {error}", "calibrate-question") from None
    given = {
        name: value
        for name, value in question.written().items()
        if name not in ("calibrate", "calibrate_question", "log", "search")
    }
    step = step_of(question.calibrate)
    reference = compose(with_lengths(Rl(**given).replace(**changed), step))
    published = published_for(reference.question)
    return fixed_by(step, published, reference.parts, *reference.step(published))


def published_for(question: Rl) -> Constants:
    """Constants of published steps of models like this one: with recurrent mixers, or without."""
    recurrent = any(isinstance(layer.mixer, Recurrent) for layer in ledger(load_model(str(question.model))).layers)
    return RECURRENT if recurrent else PUBLISHED


def answer_of(composed: Composed, constants: Constants, log: RlStep | None = None) -> types.RlAnswer:
    """The step of composed parts under constants, next to a logged one."""
    question, rollout, update = composed.question, composed.rollout, composed.update
    parts, step = composed.step(constants)
    devices, off = int(question.n or DEVICES), question.staleness
    mode = f"asynchronous, split, {off} step{'s' if off > 1 else ''} off" if off else "synchronous, split"
    if question.rollout_devices is None:
        mode = "colocated, samples carried over" if question.carries_over else "synchronous, colocated"
    sums = {side: sum(p.time_s for p in parts if p.side == side) for side in ("rollout", "trainer", "both")}
    shorter = min(("rollout", "trainer"), key=lambda side: sums[side])
    tokens = float(sum(s.tokens for s in composed.samples))
    chip, ctx = rollout.engine.ctx.request.hardware, rollout.engine.ctx
    passes = 1 + len([p for p in parts if p.name in ("log-probabilities", "reference", "values", "reward model")])
    flops = float(update.answer.flops) * update.optimizer_steps / question.epochs
    useful = flops * (question.epochs * (2 if question.algorithm == "ppo" else 1) + passes / 3)
    peak = float(ctx.chip.peak(ctx.formats.compute))
    price = ctx.price
    mfu = useful / (step.time_s * devices * peak)
    generated, updated = (next(p for p in parts if p.name == name) for name in ("rollout", "update"))
    streaming = min(generated.time_s / step.time_s, 1.0)  # of the time: decode streams memory all the while
    watts = None if ctx.chip.power is None else evaluate.mean_power(ctx, streaming, mfu, decode=False)
    usd = None if price is None else step.time_s / 3600 * devices * float(price)
    joules = None if watts is None else step.time_s * devices * float(watts)
    outputs = sum(s.output for s in composed.samples)
    mean_prompt = sum(s.prompt for s in composed.samples) / len(composed.samples)
    return types.RlAnswer(
        model=ctx.spec.name,
        hardware=chip.name,
        algorithm=question.algorithm,
        mode=mode,
        staleness=question.staleness,
        load={
            "prompts": question.sequences // question.samples_each,
            "samples": question.samples_each,
            "prompt_tokens": mean_prompt,
            "output_tokens": outputs / len(composed.samples),
            "longest_tokens": max(s.tokens for s in composed.samples),
            "turns": question.turns,
        },
        rollout=types.RolloutAnswer(
            devices=rollout.devices,
            engines=rollout.engines,
            engine=ctx.engine.name,
            tp=int(rollout.engine.layout.tp),
            ep=int(rollout.engine.layout.ep),
            dtype=ctx.dtype,
            tokens_per_s=outputs / generated.time_s,
        ),
        trainer=types.TrainerAnswer(devices=devices - (question.rollout_devices or 0), layout=update.answer.layout_of_phase, optimizer_steps=update.optimizer_steps,
            mfu=float(update.answer.mfu * update.answer.time_s) * update.optimizer_steps / updated.time_s,  # with the trainer's own time
        ),
        step=types.StepAnswer.like(
            step,
            tokens=tokens,
            tokens_per_s=tokens / step.time_s,
            tokens_per_s_per_device=tokens / step.time_s / devices,
            mfu=mfu,
            rollout_idle_fraction=1 - generated.time_s * (1 - rollout.idle_fraction) / step.time_s,
            trainer_idle_fraction=1 - sums["trainer"] / step.time_s,
            joules=joules,
            usd=usd,
            measured_s=None if log is None else log.step_s,
            named_fraction=None
            if log is None or not log.step_s
            else min(sum(measured_parts(log).values()) / log.step_s, 1.0),
        ),
        parts=_parts(composed, parts, shorter, log),
        memory=composed.memory,
        run=None if question.steps is None else types.RunAnswer(
            steps=question.steps,
            time_s=question.steps * step.time_s,
            interval_s=(question.steps * step.interval_s[0], question.steps * step.interval_s[1]),
            joules=None if joules is None else question.steps * joules,
            usd=None if usd is None else question.steps * usd,
        ),
        constants={
            "rollout": constants.rollout, "trainer": constants.trainer, "fixed_s": constants.fixed_s if question.fixed is None else question.fixed,
            "weight_sync_bytes_per_s": question.weight_sync_bandwidth or constants.sync_bytes_per_s, "source": constants.source,
        },
        notes=_notes(composed, constants, log),
    )  # fmt: skip


def _parts(composed: Composed, found: list[Part], shorter: str, log: RlStep | None) -> list[types.PartAnswer]:
    """Every part, next to what a log says of it; parts that only the log has come last, with no expectation."""
    rows = []
    for part in found:
        measured = None if log is None else seconds_of(log, part.name, found)
        rows.append(
            types.PartAnswer.like(
                part, part=part.name, hidden=composed.overlaps and part.side == shorter, measured_s=measured
            )
        )
    if log is not None:
        shown = {row.part for row in rows if row.measured_s is not None}
        left = (log.step_s or 0.0) - sum(row.measured_s or 0.0 for row in rows)
        rows[[row.part for row in rows].index("fixed")].measured_s = max(left, 0.0) if log.step_s and shown else None
    return rows


def _notes(composed: Composed, constants: Constants, log: RlStep | None) -> list[str]:
    """Remarks on the constants, the log, staleness and memory."""
    found = []
    if constants in (PUBLISHED, RECURRENT):
        found.append(f"framework overhead is fitted to {constants.source}; --calibrate LOG fits it to a step of yours")
    else:
        found.append(f"times of the parts are fitted to {constants.source}")
    tokens = sum(sample.tokens for sample in composed.samples)
    if log is not None and log.tokens and abs(tokens / log.tokens - 1) > OTHER_LOAD:
        found.append(
            f"a step of the log has {count(log.tokens)} tokens, one of this question {count(tokens)}: give its --prompts, --samples and lengths"
        )
    if log is not None:
        times = ((part, seconds_of(log, part.name, composed.parts)) for part in composed.parts)
        found += [
            f"{part.name} of the log took {duration(seconds)}, less than the floor of {duration(part.floor_s)}: the logged step is smaller than this one"
            for part, seconds in times
            if seconds and seconds < part.floor_s
        ]
    if log is not None and log.other_s:
        stages = ", ".join(
            f"{name} {duration(seconds)}" for name, seconds in sorted(log.other_s.items(), key=lambda s: -s[1])[:5]
        )
        found.append(f"stages of the log that are in fixed: {stages}")
    if composed.question.staleness:
        off = composed.question.staleness
        found.append(
            f"samples lag the policy by up to {off} step{'s' if off > 1 else ''}; the effect on reward is not estimated"
        )
    found += foreign(composed.rollout.engine.ctx)
    if composed.offloaded:
        found.append("state that the trainer does not use is in host memory while another role works")
    return found
