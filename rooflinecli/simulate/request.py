"""A request on its way through a deployment."""

from __future__ import annotations

INF = float("inf")


class SimRequest:
    """Lengths in tokens, instants in seconds since the start; `prompt` is what was asked, `need` what must be computed now.

    `label` is the class of requests it belongs to, for what is said of each; `last` is when its newest token came, of a sequence that stands still.
    `hashes` name the prompt's blocks of `span` tokens, first to last, for prefix reuse. `epoch` counts how often the job
    lost its place in the running batch, so that what was planned for it before is recognized as stale.
    """

    __slots__ = (
        "arrival", "done", "due", "entered", "epoch", "finish", "first", "hashes", "hit", "index", "label", "last", "made", "need", "output", "preempted", "prompt",
        "queued", "ready", "replica", "session", "shared", "span", "started", "swapped", "think", "turn",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        arrival: float,
        prompt: int,
        output: int,
        session: str = "",
        hashes: tuple[int | str, ...] = (),
        span: int = 0,
        think: float = 0.0,
        label: str = "",
    ):
        self.index, self.arrival, self.prompt, self.output = index, arrival, prompt, output
        self.session, self.hashes, self.span, self.think, self.label = session, hashes, span, think, label
        self.reset()

    def reset(self) -> None:
        """As it was before it arrived."""
        self.ready, self.first, self.finish, self.queued = self.arrival, INF, INF, -1.0
        self.last = INF
        self.need, self.done, self.made, self.hit, self.shared = self.prompt, 0, 0, 0, 0
        self.epoch = self.preempted = self.entered = self.due = 0
        self.replica, self.turn, self.swapped, self.started = -1, 0, False, False

    @property
    def remaining(self) -> int:
        """Tokens still to be written."""
        return self.output - self.made
