"""What a framework adds to the parts of a step: fitted to published steps, or fixed by a log of one's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rooflinecli.importers.logs.rl import RlStep
from rooflinecli.questions.rl.parts import Part

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


# 24 steps of NeMo RL v0.5 and v0.6 on H100 and GB200; `roofline validate rl` fits them again with each family of models left out.
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
        base,
        rollout=factors.get("rollout", base.rollout),
        trainer=trainer,
        fixed_s=max(whole - named, 0.0),
        by_part=tuple(factors.items()),
    )


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
