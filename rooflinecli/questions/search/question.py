"""`roofline search MODEL --hw HW` as a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field as key
from typing import Generic, TypeVar

from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.record import OPTIONAL, Record, former, former_keys
from rooflinecli.engine.phase_answer import Residency
from rooflinecli.questions.question import Question, Several
from rooflinecli.questions.sensitivity.answer_types import Elasticity, Tornado
from rooflinecli.questions.simulate.question import Numbers
from rooflinecli.specs.options import (
    LAYOUT,
    LOAD,
    EstimateOptions,
    Group,
    OptNumber,
    OptText,
    Switch,
    Texts,
    Whole,
    field,
)

SCHEMA = "roofline/search/3"
Scores = dict[str, float]  # quantity -> value
Rejected = dict[str, str | int]  # how many `layouts` a `constraint` rejects


class TrainingLayout(Record):
    """Parallel sizes and memory techniques of a training run. shard: replicas of a shard group (HSDP), None for all of them."""

    devices: int | None = key(default=None, metadata=OPTIONAL)
    shard: int | None
    tp: int
    pp: int
    cp: int
    dp: int
    ep: int
    micro_batch: int
    virtual_stages: int
    zero: int
    recompute: str
    sequence_parallel: bool
    placement: str | None = key(default=None, metadata=OPTIONAL)

    @property
    def ranks(self) -> int:
        """Devices, as the product of the parallel sizes."""
        return self.tp * self.pp * self.cp * self.dp


class InstanceSizes(Record):
    """Parallel sizes of a serving instance."""

    tp: int
    pp: int
    dp: int
    ep: int

    @property
    def ranks(self) -> int:
        """Devices, as the product of the parallel sizes."""
        return self.tp * self.pp * self.dp

    def at_batch(self, batch: float) -> InstanceLayout:
        """The instance with `batch` running sequences in each of its replicas."""
        return InstanceLayout(tp=self.tp, pp=self.pp, dp=self.dp, ep=self.ep, devices=self.ranks, batch=batch)

    def flags(self) -> str:
        """The `roofline estimate` options of the sizes."""
        ep = f" --ep {self.ep}" if self.ep > 1 else ""
        return f"-n {self.ranks} --tp {self.tp} --pp {self.pp} --dp {self.dp}{ep}"


class InstanceLayout(InstanceSizes):
    """A serving instance: parallel sizes, devices, and running sequences of each of its replicas."""

    devices: int
    batch: float

    @property
    def command(self) -> str:
        """The `roofline estimate` options of the instance under its load."""
        return f"{self.flags()} --concurrency {self.batch:g}"


L = TypeVar("L", TrainingLayout, InstanceLayout)


class RankedRow(Record, Generic[L]):
    """A layout, its objectives at the expected value and at the bound that ranks, and the commands that print its numbers.

    limits_at_bound: what was compared with the limits, at the same bound.
    chip and hardware: in a search over several; why: how it trails the best; best_of_chip: kept however far down it ranks.
    """

    chip: str | None = key(default=None, metadata=OPTIONAL)
    hardware: str | None = key(default=None, metadata=OPTIONAL)
    layout: L
    score: Scores
    score_at_bound: Scores = key(metadata=former("held"))
    limits_at_bound: Scores | None = key(default=None, metadata=OPTIONAL)
    command: str
    estimate: str = ""
    why: str | None = key(default=None, metadata=OPTIONAL)
    best_of_chip: bool | None = key(default=None, metadata=OPTIONAL)
    rank: int | None = key(default=None, metadata=OPTIONAL)


class TrainingRow(RankedRow[TrainingLayout]):
    """A training layout with its step."""

    time_s: float
    floor_s: float
    interval_s: tuple[float, float]
    tokens_per_s: float
    mfu: float
    hfu: float
    bubble_fraction: float
    breakdown_s: Scores
    communication_s: Scores
    memory: Residency
    bottleneck: str | None = key(metadata=former("bound"))
    extrapolations: list[str] = key(metadata=former("unsupported"))
    usd_per_million_training_tokens: float | None


class ServingRow(RankedRow[InstanceLayout]):
    """Serving instances: what all of them offer, by quantity, and the memory of a device."""

    serve: Scores = key(metadata=former_keys(2, total_batch="batch_in_all"))
    memory: Scores = key(metadata=former_keys(headroom_fraction="headroom"))
    simulate: Numbers | None = key(default=None, metadata=OPTIONAL)


class NearestMiss(Record):
    """The layout that comes closest to being feasible, and its shortfall, in requests per second where a rate is not reached."""

    layout: TrainingLayout | InstanceLayout
    command: str
    shortfall: str = key(metadata=former("lacks", 2))
    estimate: str = ""
    chip: str | None = key(default=None, metadata=OPTIONAL)
    missing_requests_per_s: float | None = key(default=None, metadata=OPTIONAL)


class ChipOutcome(Record):
    """One chip of several: whether a layout is feasible on it, and why it could not be searched, '' where it was."""

    chip: str
    feasible: bool
    infeasible_reason: str = key(metadata=former("why", 2))


class ChipSearch(ChipOutcome):
    """A chip that was searched, with its own counts."""

    hardware: str
    layouts: int
    fit: int
    meet: int
    rejected: list[Rejected]
    nearest_miss: NearestMiss | None


R = TypeVar("R", TrainingRow, ServingRow)


class LayoutSearch(Record, Generic[R]):
    """What was searched, how many layouts were legal, fit in memory and satisfy the constraints, and the best of them; `interrupted`: of
    those that were looked at until then."""

    schema: str = SCHEMA
    model: str
    hardware: str
    phase: str
    pareto: bool
    objective: list[str]
    bound: str = key(metadata=former("hold"))
    where: list[str]
    layouts: int
    fit: int
    meet: int
    rejected: list[Rejected]
    results: list[R]
    feasible: bool
    nearest_miss: NearestMiss | None
    interrupted: bool = False
    chips: list[ChipOutcome] | None = key(default=None, metadata=OPTIONAL)
    unpriced: list[str] | None = key(default=None, metadata=OPTIONAL)
    sensitivity: list[Elasticity] | None = key(default=None, metadata=OPTIONAL)
    tornado: Tornado | None = key(default=None, metadata=OPTIONAL)


class WithinUncertainty(Record):
    """Layouts within model uncertainty of the best: how many, the simplest of them, and the measurement that would resolve it."""

    layouts: int
    simplest: TrainingLayout
    command: str
    separates: str


class TrainingSearch(LayoutSearch[TrainingRow]):
    """A search over training layouts on the device counts given."""

    devices: list[int]
    within_uncertainty: WithinUncertainty | None = key(metadata=former("tied"))


class Pool(Record):
    """One of two disaggregated pools: its instance, how many of them, requests per second of each, and the latency of its phase, expected and
    at the bound. queue_s: the part of the TTFT that a prompt waits at the request rate."""

    layout: InstanceSizes
    batch: float
    devices: float
    rate: float
    rate_at_bound: float
    ttft_s: float | None = key(default=None, metadata=OPTIONAL)
    queue_s: float | None = key(default=None, metadata=OPTIONAL)
    itl_s: float | None = key(default=None, metadata=OPTIONAL)
    latency_at_bound_s: float
    instances: float
    chip: str
    estimate: str


class Pools(Record):
    """Disaggregated prefill and decode pools that together carry a rate."""

    prefill: Pool
    decode: Pool
    devices: float
    requests_per_s: float
    usd_per_hour: float | None
    usd_per_million_input_tokens: float | None = key(default=None, metadata=OPTIONAL)
    usd_per_million_output_tokens: float | None = key(default=None, metadata=OPTIONAL)
    usd_per_million_tokens: float | None = key(default=None, metadata=OPTIONAL)
    joules_per_token: float | None = key(default=None, metadata=OPTIONAL)
    summary: str = key(metadata=former("apart"))


class ServingSearch(LayoutSearch[ServingRow]):
    """A search over serving instances. devices: the most to use; qps: the rate to carry; pools: the best of `pool_rows`."""

    devices: float | None
    qps: float | None
    pools: Pools | None
    pool_rows: list[Pools]


SearchAnswer = TrainingSearch | ServingSearch


RESTRICTED = {
    "tp": "tensor parallel sizes: 8 or 4,8 or 1..8x2",
    "pp": "pipeline stages",
    "dp": "data parallel replicas",
    "cp": "context parallel sizes",
    "ep": "expert parallel sizes",
    "zero": "ZeRO stages, e.g. 1,3",
    "micro_batch_size": "micro-batch sizes",
    "virtual_stages": "interleaved stages per device",
    "recompute": "recomputation, e.g. none,selective",
    "sequence_parallel": "to yes or no",
    "placement": "orders of the axes; by default all six where hosts have tiers between them",
}
# which one layout has, and no search
FIXED = frozenset({"layers_per_stage", "recompute_modules", "recompute_num_layers"})


class Limits(Group):
    """Limits of a service and the rate it carries."""

    # fmt: off
    ttft: OptNumber = field("time", "Serving: TTFT at most, e.g. '300 ms'.", default=None, panel=LOAD)
    itl: OptNumber = field("time", "Serving: ITL at most, e.g. '40 ms'.", default=None, panel=LOAD)
    slo: OptText = field("free", "Serving: --ttft and --itl in one, such as ttft=1s,itl=40ms.", default=None, metavar="LIMITS", listed=True, panel=LOAD)
    qps: OptNumber = field("positive", "Serving: requests per second to carry; finds the fewest devices.", default=None, metavar="RATE", panel=LOAD, former=("request-rate", "rps"))
    # fmt: on


class Prices(Group):
    """Prices by chip."""

    # fmt: off
    price: Texts = field("free", "USD per device-hour, instead of the file's: 2.50, or h100=2.50,mi300x=3 for chips by name; repeat.", default=None, metavar="MONEY", panel=LOAD, several=True)
    # fmt: on


class Search(Prices, Limits, EstimateOptions, Several, Question[SearchAnswer]):  # type: ignore[misc]  # a price for each chip
    """Prices every legal layout: the best, the next ones with the reason, and what the limits reject.

    Training tries all splits over TP, PP, CP, DP, EP with every ZeRO stage, micro-batch, virtual stage, recomputation and
    sequence parallelism. Ranked by the pessimistic bound of the interval (--bound); what no published run supports widens it.
    Serving tries instance layouts and batches, together and with disaggregated prefill and decode pools.
    Exit code 1 when nothing is feasible; the nearest miss is shown.
    """

    verb = "search"
    examples = (
        "roofline search llama-3-405b --hw h100 -n 2048 --batch 2048 --top 3",
        "roofline search llama70b --hw h100 -n 16 --phase decode --qps 5 --itl '40 ms'",
        "roofline search llama70b --hw h100,h200 --phase decode --qps 50 --slo itl=40ms",
    )
    ranged = frozenset({*RESTRICTED, "n", "batch", "hw"})
    without = FIXED | {"concurrency"}
    helps = {
        "hw": "A name or alias (`roofline hardware`), or a YAML path; several with commas are searched side by side.",
        "phase": "train, or decode for serving (prefill is searched with it); omitted: decode where a serving option is given, else train.",
        "n": "Devices: one count or several (training); the most to use (serving).",
        "batch": "Global batch (4M-tokens works too); serving: batches to try (1..1024).",
        **{name: f"Restrict {what}." for name, what in RESTRICTED.items()},
    }
    # fmt: off
    objective: OptText = field("free", "throughput, latency, cost, energy, devices, any quantity, or two for a Pareto front.", default=None, metavar="LIST")
    where: Texts = field("free", "Constraint, e.g. 'train.mfu >= 0.4' or 'serve.itl_s <= 40 ms'; repeat. Memory always.", default=None, metavar="CONDITION", several=True)
    top: Whole = field("whole", "How many layouts to show, the best of each split of the devices.", default=5)
    precedent_only: Switch = field("switch", "Training: only layouts like published runs.", default=False, panel=LAYOUT, former=("practised",))
    all_layouts: Switch = field("switch", "Training: every layout a row, not the best of each split.", default=False, panel=LAYOUT, former=("all",))
    sensitivity: Switch = field("switch", "Also: elasticity of the winner's time to each hardware value and constant, which of them would change the winner, and which measurement would decide.", default=False)
    simulate_top: Whole = field("whole", "Serving at a rate: simulate this many of the best layouts.", default=0, least=0, former=("simulate",))
    # fmt: on

    @property
    def training(self) -> bool:
        """Whether training layouts are searched rather than serving instances: by --phase, else unless serving is implied."""
        if self.phase:
            return "train" in self.phase
        from rooflinecli.engine import build_request
        from rooflinecli.questions.conditions import condition
        from rooflinecli.questions.search.search_request import LIMITS

        limits = any(
            self.is_given(field) for field in (Search.ttft, Search.itl, Search.qps, Search.slo, Search.simulate_top)
        )
        goals = [f"serve.{goal}" if goal in LIMITS else goal for goal in (self.objective or "").split(",")]
        named = [condition(text).quantity for text in self.where]
        return not limits and build_request.implied(self.options(), [*named, *goals]) != "serve"

    def answer(
        self, progress: Callable[[int, int], None] | None = None, workers: Workers | None = None
    ) -> SearchAnswer:
        from rooflinecli.questions.search.answer import answer

        return answer(self, progress, workers)
