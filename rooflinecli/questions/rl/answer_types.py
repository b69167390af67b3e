"""The answer of `roofline rl`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.record import OPTIONAL, Record
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


class RoleMemory(Record):
    """Bytes of a role on each device while samples are made, and while the policy is updated."""

    role: str
    rollout_bytes: float
    update_bytes: float


class MemoryAnswer(Record):
    """Memory per device of each role. What the weights leave goes to the KV cache, up to the longest load."""

    roles: list[RoleMemory]
    capacity_bytes: float
    fits: bool
    offloaded: bool
    host_bytes: float

    def total(self, side: str) -> float:
        """Bytes of all roles on one side, `rollout_bytes` or `update_bytes`."""
        return float(sum(role[side] for role in self.roles))

    @property
    def most_bytes(self) -> float:
        """What the roles need together, in the fuller of both."""
        return float(max(self.total("rollout_bytes"), self.total("update_bytes")))


class RunAnswer(Record):
    """All steps of a run."""

    steps: int
    time_s: float
    interval_s: tuple[float, float]
    joules: float | None
    usd: float | None


class LayoutCandidate(Record):
    """A layout of a search with its step; rollout_devices: None where the sides share all; tie: within model uncertainty of the best."""

    rollout_devices: int | None
    trainer_devices: int
    rollout_tp: int
    tp: int
    pp: int
    cp: int
    ep: int
    staleness: int
    time_s: float
    interval_s: tuple[float, float]
    usd: float | None
    tie: bool = False


class TriedOptions(Record):
    """What options would make of the step, and the part of it that they save."""

    options: str
    time_s: float
    saved_fraction: float


class RlAnswer(Record):
    """A step of RL post-training. `load` is what it is of, in tokens; `constants` are what the parts were multiplied by, and where they are
    from; interrupted: whether the search was stopped before its last layout."""

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
    run: RunAnswer | None
    constants: dict[str, float | str]
    candidates: list[LayoutCandidate] | None = field(default=None, metadata=OPTIONAL)
    changes: list[TriedOptions] | None = field(default=None, metadata=OPTIONAL)
    interrupted: bool = False
    notes: list[str]

    @property
    def rows(self) -> list[LayoutCandidate] | list[PartAnswer]:
        """What CSV has as rows: the layouts of a search, else the parts of the step."""
        return self.candidates or self.parts
