"""`roofline simulate MODEL --hw HW --qps 4` as a record: a load, the replicas that serve it, and one configuration of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import field as key
from typing import TYPE_CHECKING, Literal

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Record, former, former_keys
from rooflinecli.questions.question import Question
from rooflinecli.specs import options as o

if TYPE_CHECKING:
    from rooflinecli.simulate.changing_clusters import AutoscalePolicy, ReplicaFailure
    from rooflinecli.simulate.slo import SloSet


SCHEMA, STUDY_SCHEMA = "roofline/simulate/2", "roofline/simulate-study/2"
# keys of the numbers of a run, and those of version 1
FORMER = former_keys(
    slo_attainment="slo_share", slo_attainment_ttft="slo_ttft_share", slo_attainment_itl="slo_itl_share", slo_attainment_e2e="slo_e2e_share",
    slo_attainment_queue="slo_queue_share", slo_attainment_margin="slo_margin_share", engine_utilization="busy_share",
    kv_cache_usage_mean="kv_use_mean_share", kv_cache_usage_max="kv_use_max_share", prefix_cache_hit_rate="hit_share",
    running_requests_mean="batch_mean", decode_batch_max="batch_max", goodput_requests_per_s="goodput_per_s",
    goodput_requests_per_s_per_device="goodput_per_s_per_device", requests_restarted="restarts",
)  # fmt: skip
Numbers = dict[str, Quantity]  # quantities of specs/quantities by name: float, or int where it counts


class SimulatedLayout(Record):
    """Devices and parallel sizes of one replica."""

    devices: int
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int


class LoadAnswer(Record):
    """The load as it was asked for, and rows of its trace that were left out."""

    kind: str
    trace: str | None
    format: str | None
    invalid_rows: int = key(metadata=former("skipped_rows"))
    failed_requests: int = key(metadata=former("failed_rows"))
    qps: float | None
    concurrency: int | None
    length_range: list[float] | None = None
    warmup_s: float | None
    failures: str | None = key(metadata=former("lose"))
    autoscale: str | None
    seed: int


class SloTarget(Record):
    """One target of the SLO: its limits in seconds, the fraction of requests that must meet all of them and that did."""

    text: str = key(metadata=former("promise"))
    label: str | None = key(metadata=former("class"))
    limits: dict[str, float]
    requests: int
    target: float = key(metadata=former("asked_share"))
    attainment: float = key(metadata=former("inside_share"))
    met: bool = key(metadata=former("kept"))


class SloAnswer(Record):
    """The SLO: limits and target of its strictest part, whether all are met at a bound of the interval, and what one replica fewer would do."""

    limits: dict[str, float]
    target: float = key(metadata=former("share"))
    met: bool = key(metadata=former("kept"))
    bound: str
    targets: list[SloTarget] = key(metadata=former("promises"))
    expected_attainment_with_one_fewer_replica: float | None
    attainment_with_one_fewer_replica: float | None = key(metadata=former("one_fewer_share"))
    margin_with_one_fewer_replica: float | None = key(metadata=former("one_fewer_margin_share"))


class SimulateAnswer(Record):
    """The workload, every number of the run, and its 80% interval over seeds and step times."""

    schema: str
    model: str
    hardware: str
    engine: str
    policy: str
    max_context: int | None
    dtype: str
    layout: SimulatedLayout = key(metadata=former("plan"))
    kv_cache_tokens: int = key(metadata=former("pool_tokens"))
    kv_cache: str = key(metadata=former("pool"))
    load: LoadAnswer
    simulate: Numbers = key(metadata=FORMER)
    interval: dict[str, list[float]] = key(metadata=FORMER)
    slo: SloAnswer | None
    classes: list[Numbers] = key(metadata=FORMER)
    sustained: bool = True
    interrupted: bool
    search_interrupted: bool
    notes: list[str]

    @property
    def met(self) -> bool:
        """Whether the load is sustained and the SLO met, where there is one."""
        return self.sustained and (self.slo is None or self.slo.met)


class StudyAnswer(Record):
    """A row of numbers for each combination of the values given, with the values that set it apart."""

    schema: str
    axes: list[str]
    slo: str | None
    rows: list[Numbers] = key(metadata=FORMER)
    met: bool = key(metadata=former("kept"))


REQUESTS, PER_CLIENT = 1000, 10
MAX_CELLS = 10_000
Replicas = o.Field[int | str, int | Literal["min"]]


class RequestLoad(o.Group):
    """Requests of a simulation: recorded, at a rate, or of a number of clients; their lengths; the SLO."""

    # fmt: off
    trace: o.OptText = o.field("file", "Recorded load: Azure, BurstGPT, Mooncake, Bailian, ShareGPT, inputs and results of benchmark clients, or time,prompt,output.", default=None, panel=o.LOAD)
    qps: o.OptNumber = o.field("positive", "Open loop: requests per second over all replicas; several make a study.", default=None, metavar="RATE", panel=o.LOAD, former=("request-rate", "rps"))
    arrivals: o.Text = o.field("free", "poisson, gamma:CV or constant.", default="poisson", metavar="KIND", panel=o.LOAD)
    concurrency: o.OptWhole = o.field("whole", "Closed loop: requests in flight per replica, each followed by the next; several make a study.", default=None, panel=o.LOAD, former=("max-concurrency", "users"))
    requests_per_client: o.Whole = o.field("whole", "Closed loop: requests of each client, the first of them in a burst.", default=PER_CLIENT, panel=o.LOAD, former=("prompts-per-slot",))
    prompt: o.OptText = o.field("distribution", "Prompt tokens: 2k, uniform:LOW,HIGH, lognormal:MEAN,SIGMA or exponential:MEAN (2048, or what the model takes).", default=None, panel=o.LOAD, former=("isl", "input-len", "random-input-len"))
    output: o.OptText = o.field("distribution", "Output tokens, as --prompt (256, or what the model takes).", default=None, panel=o.LOAD, former=("osl", "output-len", "random-output-len"))
    length_range: o.OptText = o.field("free", "Draw every length between these fractions of it, such as 0.8:1.", default=None, metavar="LOW:HIGH", panel=o.LOAD, former=("lengths",))
    fixed_lengths: o.Switch = o.field("switch", "All requests have one length, so that those of a closed loop run in lockstep; else lengths vary by 20% around it.", default=False, panel=o.LOAD, former=("equal-lengths",))
    num_requests: o.OptWhole = o.field("whole", "Requests (1000; in a closed loop per replica, and of a trace its first).", default=None, panel=o.LOAD, former=("requests", "num-prompts"))
    trace_speed: o.Number = o.field("positive", "Factor by which a trace is replayed faster.", default=1.0, metavar="FACTOR", panel=o.LOAD, least=1e-6, former=("speed",))
    trace_window: o.OptText = o.field("free", "Part of a trace by time since its start, such as 10min:20min.", default=None, metavar="FROM:TO", panel=o.LOAD, former=("window",))
    skip_invalid: o.Switch = o.field("switch", "Leave malformed rows of a trace out, and report how many.", default=False, panel=o.LOAD, former=("skip-bad",))
    warmup: o.OptNumber = o.field("time", "Exclude requests that arrive earlier from all metrics, such as 30s.", default=None, panel=o.LOAD, least=0)
    slo: o.OptText = o.field("free", "Limits and the percentage of requests that meet all: ttft=2s,itl=50ms,e2e=30s@99; several, and by class: ttft=500ms@50,ttft=2s@99,batch:e2e=10min@95.", default=None, metavar="LIMITS", listed=True)
    # fmt: on

    @property
    def limits(self) -> SloSet | None:
        from rooflinecli.simulate.slo import limits

        return limits(self.slo) if self.slo else None

    @property
    def load_kind(self) -> str:
        """closed, open or trace."""
        return "closed" if self.concurrency else "open" if self.qps else "trace"

    @property
    def count(self) -> int:
        """Requests to make of a load that is not recorded; per replica in a closed loop."""
        if self.num_requests:
            return int(self.num_requests)
        return int(self.requests_per_client * self.concurrency) if self.concurrency else REQUESTS


class Cluster(RequestLoad):
    """Replicas that serve the load, together or as prefill and decode pools; their router, failures and scaling."""

    # fmt: off
    replicas: Replicas = o.field("whole", "Replicas of the layout; min: the smallest number that meets --slo; several make a study.", default=1, panel=o.LAYOUT, choices=("min",))
    router: o.Text = o.field("free", "round-robin, least-loaded or prefix.", default="round-robin", metavar="NAME", panel=o.LAYOUT)
    failures: o.OptText = o.field("free", "Replicas that fail, and for how long: 1@2min:10min; their requests restart on the others.", default=None, metavar="FAILURES", panel=o.LAYOUT, former=("lose",))
    autoscale: o.OptText = o.field("free", "Replicas between MIN and MAX, by requests in flight on each: 1:8@32.", default=None, metavar="MIN:MAX@TARGET", panel=o.LAYOUT)
    startup_time: o.OptText = o.field("free", "With --autoscale: time until a new replica serves, such as 3min.", default=None, metavar="TIME", panel=o.LAYOUT, former=("start-up",))
    prefill_replicas: o.Whole = o.field("whole", "Replicas that only prefill.", default=0, least=0, panel=o.LAYOUT, former=("prefill-pool", "prefill-workers"))
    decode_replicas: o.Whole = o.field("whole", "Replicas that only decode.", default=0, least=0, panel=o.LAYOUT, former=("decode-pool", "decode-workers"))
    kv_transfer_bandwidth: o.OptNumber = o.field("bytes_per_s", "Bytes per second and device between the pools; else the chip's outermost network.", default=None, panel=o.LAYOUT, former=("kv-link",))
    prefix_caching: o.Switch = o.field("switch", "Keep prompts for later requests that share a prefix.", default=False, panel=o.ENGINE, former=("prefix-cache", "enable-prefix-caching"))
    scheduler_config: o.Texts = o.field("free", "Override the engine's scheduler: policy=sglang, token_budget=2048, look_ahead=0; repeat.", default=None, metavar="NAME=VALUE", panel=o.ENGINE, several=True, former=("scheduler",))
    seed: o.Whole = o.field("whole", "Seed of everything drawn: equal seeds give equal answers.", default=0, least=0)
    num_seeds: o.OptWhole = o.field("whole", "Runs with further seeds for the interval (3; 1 beyond 20,000 requests).", default=None, former=("seeds",))
    interval: o.OptSwitch = o.field("switch", "Repeat with other seeds and step times for an 80% interval (up to 20,000 requests).", default=None)
    # fmt: on

    @property
    def replica_failures(self) -> tuple[ReplicaFailure, ...]:
        from rooflinecli.simulate.changing_clusters import losses

        return losses(self.failures) if self.failures else ()

    @property
    def scaling(self) -> AutoscalePolicy | None:
        from rooflinecli.simulate.changing_clusters import autoscale_policy

        return autoscale_policy(self.autoscale, self.startup_time or "") if self.autoscale else None

    @property
    def copies(self) -> int:
        """Replicas of the layout, the most there may be under autoscaling."""
        if self.scaling:
            return int(self.scaling.most)
        return 1 if self.replicas == "min" else int(self.replicas)


class Simulate(Cluster, RequestLoad, o.Serving, Question["SimulateAnswer"]):
    """Percentiles, SLO attainment and the fewest replicas for a load: every request simulated under an engine's scheduler.

    Exit code 1 when --slo is not met, the load cannot be sustained, or nothing fits.
    """

    verb = "simulate"
    examples = (
        "roofline simulate llama70b --hw h100 --tp 4 --dtype fp8 --engine vllm --qps 4 --slo ttft=2s,itl=50ms@99",
        "roofline simulate llama70b --hw h100 --tp 4 --engine vllm --trace trace.csv --replicas min --slo ttft=2s@99",
    )
    helps = {
        "hw": "A name or alias (`roofline hardware`), or a YAML path; several make a study.",
        "tp": "Tensor parallel size; several make a study.",
    }
    # which no step time has
    without = frozenset({"electricity", "host_factor", "pue", "lora_rank", "lora_target_modules"})
    studied = tuple("model hw engine dtype kv_dtype tp pp dp ep n qps concurrency replicas".split())

    def check(self) -> None:
        super().check()
        _ = self.limits, self.replica_failures, self.scaling  # which raise for what cannot be read

    def answer(self) -> SimulateAnswer:
        from rooflinecli.questions.simulate.answer import answer_and_run

        return answer_and_run(self)[0]

    @property
    def load_per_replica(self) -> tuple[tuple[str, float], ...]:
        """The load by which an estimate of one replica chooses a layout; none where it is a trace's or replicas come and go."""
        lengths = (("equal_lengths", True),) if self.fixed_lengths else ()
        if self.concurrency:
            return (("concurrency", self.concurrency), *lengths)
        if self.qps is None or self.trace or self.autoscale or self.prefill_replicas or self.replicas == "min":
            return ()
        return (("qps", self.qps / self.copies), *lengths)

    @classmethod
    def read(cls, written: Mapping[str, object]) -> Simulate:
        """As any question is read. Raises UsageError for several values of an option too, which only a command line may give."""
        for name, value in written.items():
            if isinstance(value, str) and "," in value and cls.named(name).parameter in cls.studied:
                raise UsageError(f"{cls.named(name).flag} {value}: this is one simulation; give one value", name)
        return super().read(written)

    @property
    def estimate_options(self) -> tuple[tuple[str, str], ...]:
        """The options of an estimate, as text: what decides the layout and the step times of a replica."""
        found = self.options().items()
        return tuple(sorted((k, ("yes" if v else "no") if isinstance(v, bool) else str(v)) for k, v in found))

    @property
    def expected(self) -> int:
        """Requests that a progress bar counts to."""
        return self.count * (self.copies if self.concurrency else 1)

    @classmethod
    def cells(cls, written: Mapping[str, object]) -> list[tuple[Simulate, dict[str, str]]]:
        """One question for every combination of values given with commas, the last option fastest, each with what sets it apart.

        Raises UsageError for what cannot be read and for more than 10,000 combinations.
        """
        given = {name: str(written[name]) for name in cls.studied if name in written}
        parts = {name: [item.strip() for item in text.split(",") if item.strip()] for name, text in given.items()}
        lists = {name: list(dict.fromkeys(items)) or [given[name]] for name, items in parts.items()}
        if len(combinations := list(itertools.islice(itertools.product(*lists.values()), MAX_CELLS + 1))) > MAX_CELLS:
            raise UsageError(f"more than {MAX_CELLS:,} simulations; give fewer values")
        several = [name for name, values in lists.items() if len(values) > 1]
        rows = [dict(zip(lists, values, strict=True)) for values in combinations]
        fields = cls.fields()
        return [(cls.read({**written, **row}), {fields[name].long: row[name] for name in several}) for row in rows]
