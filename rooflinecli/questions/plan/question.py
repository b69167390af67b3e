"""`roofline plan MODEL --tokens 15T --deadline 30d --hw h100,b200` as a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field as key

from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.record import OPTIONAL, SPREAD, Record, former
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.search.question import FIXED, RESTRICTED, InstanceLayout, Prices, TrainingLayout
from rooflinecli.specs.options import LOAD, EstimateOptions, OptNumber, OptText, Texts, field

SCHEMA = "roofline/plan/2"


class PlannedChip(Record):
    """A chip of a plan: its rank, or why it is infeasible. tried: device counts with the `legal` layouts that were searched (None: the
    layout that an estimate chooses decided), `run_s` and `training_usd` of the run at the bound, None where nothing fits."""

    rank: int | None = None
    chip: str
    feasible: bool = True
    hardware: str
    infeasible_reason: str = key(default="", metadata=former("why"))
    tried: list[dict[str, float | None]] | None = key(default=None, metadata=OPTIONAL)

    @property
    def order(self) -> tuple[float, ...]:
        """What is better smaller among feasible chips."""
        return ()


class SizedChip(PlannedChip):
    """A chip with its device count. time_at_bound_s, cost_at_bound_usd: with failures and checkpoints in training; price: where the price comes from."""

    devices: int
    time_at_bound_s: float = key(metadata=former("held_s"))
    cost_at_bound_usd: float | None = key(metadata=former("held_usd"))
    usd_per_device_hour: float | None
    price: str | None
    command: str

    @property
    def order(self) -> tuple[float, ...]:
        if not self.feasible:
            return ()
        usd, seconds = self.cost_at_bound_usd, self.time_at_bound_s
        return (1.0, seconds) if usd is None else (0.0, usd, seconds)


class RunOffer(Record):
    """An offer by which a run could be paid: goodput (preemptions count for spot), time and cost, and whether it meets the deadline."""

    hardware: str
    provider: str
    kind: str
    date: str
    usd_per_device_hour: float
    goodput: float
    elapsed_s: float
    elapsed_usd: float
    meets_deadline: bool = key(metadata=former("in_time"))
    source: str


class TrainingChip(SizedChip):
    """The training run on one chip. run_s, training_usd: as `estimate` prints them, without failures; elapsed_s, elapsed_usd: with failures,
    restarts and checkpoints, whose fraction of the time is 1 - goodput."""

    layout: TrainingLayout
    time_s: float
    interval_s: list[float]
    mfu: float
    run_s: float
    run_interval_s: list[float]
    goodput: float
    goodput_interval: list[float]
    elapsed_s: float
    elapsed_interval_s: list[float]
    elapsed_usd: float | None
    elapsed_usd_interval: list[float] | None
    device_hours: float
    device_hours_interval: list[float]
    training_usd: float | None
    training_usd_interval: list[float] | None
    energy_j: float | None
    offers: list[RunOffer] | None = key(default=None, metadata=OPTIONAL)


class ServiceNumbers(Record):
    """Instances of one layout: latencies are those of one, rates those of all, with 80% intervals. Latencies and prices of tokens are those at
    capacity, but for `..._at_qps`: latencies under the requests that come, and what the devices cost over the tokens of those."""

    instances: int
    layout: InstanceLayout
    total_batch: float = key(metadata=former("batch_in_all"))
    ttft_s: float
    interval_ttft_s: list[float]
    itl_s: float | None
    interval_itl_s: list[float] | None
    ttft_at_qps_s: float | None = None
    itl_at_qps_s: float | None = None
    requests_per_s: float
    requests_per_s_interval: list[float]
    usd_per_million_input_tokens: float | None = None
    usd_per_million_output_tokens: float | None
    usd_per_million_output_tokens_interval: list[float] | None
    usd_per_million_tokens: float | None = None
    usd_per_million_tokens_at_qps: float | None = None


class ServingChip(SizedChip):
    """The service on one chip: `numbers` are keys of the row itself. period_cost_usd: cost over the time that it is paid for."""

    numbers: ServiceNumbers = key(metadata=SPREAD)
    usd_per_hour: float | None
    period_cost_usd: float | None = key(metadata=former("bill_usd"))


class PlanAnswer(Record):
    """The chips, best first, and what was asked of them. interrupted: whether chips are missing that were not planned yet."""

    schema: str = SCHEMA
    model: str
    phase: str
    budget_usd: float | None
    bound: str = key(metadata=former("hold"))
    criterion: str = key(metadata=former("way"))
    where: list[str]
    layouts: int
    rows: list[PlannedChip]
    unpriced: list[str]
    feasible: bool
    interrupted: bool = False

    @property
    def sized(self) -> list[SizedChip]:
        """The feasible rows, best first."""
        return [row for row in self.rows if isinstance(row, SizedChip) and row.feasible]


class TrainingPlan(PlanAnswer):
    """A training run to plan for."""

    tokens: float | None
    deadline_s: float | None


class ServingPlan(PlanAnswer):
    """A service to plan for. period_s: how long it is paid for."""

    qps: float
    limits_s: dict[str, float]
    period_s: float | None


class Plan(Prices, EstimateOptions, Several, Question[PlanAnswer]):  # type: ignore[misc]  # a price for each chip
    """How many devices, of which chip, for how long, at what cost: every chip's answer side by side, the cheapest first.

    Training: the fewest devices of each chip that process --tokens by --deadline, or the shortest run that --budget pays for, each with
    the best layout by search; failures and checkpoints count (goodput). Serving: the smallest number that carries --qps inside --slo. All at the pessimistic bound of the interval (--bound).
    Exit code 1 when no chip can.
    """

    verb = "plan"
    examples = (
        "roofline plan llama-3-70b --tokens 15T --deadline 30d --hw h100,b200,tpu-v6e",
        "roofline plan llama-3-70b --tokens 15T --budget '10 M USD' --hw h100,mi300x --price mi300x=2.50",
        "roofline plan llama-3-70b --phase decode --qps 50 --slo ttft=1s,itl=40ms --hw h100,b200",
    )
    ranged = frozenset({*RESTRICTED, "batch"})
    without = FIXED | {"concurrency"}
    helps = {
        "phase": "train, or decode for a service at --qps; omitted: decode where --qps, --slo or another serving option is given, else train.",
        "n": "Largest number of devices of a chip.",
        "batch": "Global batch (4M-tokens (4 x 2^20) works too); serving: batches to try (1..1024).",
        **dict.fromkeys(RESTRICTED, "Restrict the layouts that are searched, e.g. to 8 or 4,8."),
        "recompute": "Restrict recomputation, e.g. to none,selective.",
        "sequence_parallel": "Restrict whether activations outside TP are split too.",
    }
    # fmt: off
    hw: Texts = field("free", "Chips, with commas or repeated.", panel=LOAD, metavar="NAMES", several=True, also=("hardware",), kw_only=False)  # type: ignore[assignment]
    deadline: OptNumber = field("time", "Training: time by which the run must end, such as 30d; serving: period that is paid for.", default=None, panel=LOAD)
    budget: OptText = field("free", "Largest total cost, such as '2 M USD'; alone: the shortest run within it.", default=None, metavar="MONEY", panel=LOAD)
    power: OptNumber = field("watts", "Power of the data center to stay within, such as 200kW: each device at its limit, with --host-factor and --pue.", default=None, panel=LOAD)
    preempted: OptNumber = field("time", "Training: mean time until a spot instance is taken away, such as 12h; spot offers count with what that leaves of them.", default=None, panel=LOAD)
    qps: OptNumber = field("positive", "Serving: requests per second to carry.", default=None, metavar="RATE", panel=LOAD, former=("request-rate", "rps"))
    slo: OptText = field("free", "Serving: TTFT and ITL limits, such as ttft=1s,itl=40ms.", default=None, metavar="LIMITS", listed=True, panel=LOAD)
    where: Texts = field("free", "Further constraint, e.g. 'train.memory.headroom >= 10 %'; repeat.", default=None, metavar="CONDITION", several=True)
    # fmt: on

    @property
    def serves(self) -> bool:
        """Whether a service is planned: by --phase, else where a rate, limits, or options or quantities of serving are named."""
        from rooflinecli.engine import build_request
        from rooflinecli.questions.conditions import condition

        options, named = self.options(), [condition(text).quantity for text in self.where]
        served = self.qps is not None or self.slo is not None or build_request.implied(options, named) == "serve"
        return "train" not in str(options.get("phase") or ("decode" if served else "train"))

    def answer(self, progress: Callable[[int, int], None] | None = None, workers: Workers | None = None) -> PlanAnswer:
        from rooflinecli.questions.plan.answer import plan

        return plan(self, workers, progress or (lambda layouts, chips: None))
