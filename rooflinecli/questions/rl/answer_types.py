"""The answer of `roofline rl`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Json, Record
from rooflinecli.engine.phase_answer import LayoutAnswer

SCHEMA = "roofline/rl/1"


class PartAnswer(Record):
    """Seconds of a part of a step. hidden: it runs while the other side works, and the step does not wait for it."""

    part: str
    side: str
    floor_s: float
    time_s: float
    interval_s: tuple[float, float]
    hidden: bool
    measured_s: float | None = field(default=None, metadata=OPTIONAL)


class StepAnswer(Record):
    """A step, its rates over all devices, and the fraction of it in which each side waits for the other or for its last sample."""

    time_s: float
    floor_s: float
    interval_s: tuple[float, float]
    tokens: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    mfu: float
    rollout_idle_fraction: float
    trainer_idle_fraction: float
    joules: float | None
    usd: float | None
    measured_s: float | None = field(default=None, metadata=OPTIONAL)
    named_fraction: float | None = field(default=None, metadata=OPTIONAL)


class RolloutAnswer(Record):
    """The rollout side: engines, tokens per second of them all while they work."""

    devices: int
    engines: int
    engine: str
    tp: int
    ep: int
    dtype: str
    tokens_per_s: float


class TrainerAnswer(Record):
    """The trainer's side: its layout, optimizer steps of a step, MFU of an optimizer step."""

    devices: int
    layout: LayoutAnswer
    optimizer_steps: int
    mfu: float


class MemoryAnswer(Record):
    """Memory per device of each role, while samples are made and while the policy is updated. What the weights leave goes to the KV cache,
    up to the longest load."""

    roles: list[Json]
    capacity_bytes: float
    fits: bool
    offloaded: bool
    host_bytes: float

    @property
    def most_bytes(self) -> float:
        """What the roles need together, in the fuller of both."""
        return float(max(sum(role[key] for role in self.roles) for key in ("rollout_bytes", "update_bytes")))


class RlAnswer(Record):
    """A step of RL post-training. `load` is what it is of, in tokens; `run` are all steps of a run; `constants` are what the parts were
    multiplied by, and where they are from; `candidates` are layouts of a search, `tie`: within model uncertainty of the best; `changes` is what options would make of the step, and the part of it that they save."""

    schema: str = SCHEMA
    model: str
    hardware: str
    algorithm: str
    mode: str
    staleness: int
    load: dict[str, float]
    rollout: RolloutAnswer
    trainer: TrainerAnswer
    step: StepAnswer
    parts: list[PartAnswer]
    memory: MemoryAnswer
    run: Json | None
    constants: dict[str, float | str]
    candidates: list[Json] | None = field(default=None, metadata=OPTIONAL)
    changes: list[Json] | None = field(default=None, metadata=OPTIONAL)
    notes: list[str]
