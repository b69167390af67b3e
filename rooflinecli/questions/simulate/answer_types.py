"""The answer of `roofline simulate`, `roofline/simulate/2`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import Record, former, former_keys

SCHEMA, STUDY_SCHEMA = "roofline/simulate/2", "roofline/simulate-study/2"
# keys of the numbers of a run, and those of version 1
FORMER = former_keys(
    slo_attainment="slo_share", slo_attainment_ttft="slo_ttft_share", slo_attainment_itl="slo_itl_share", slo_attainment_e2e="slo_e2e_share",
    slo_attainment_queue="slo_queue_share", slo_attainment_margin="slo_margin_share", engine_utilization="busy_share",
    kv_cache_usage_mean="kv_use_mean_share", kv_cache_usage_max="kv_use_max_share", prefix_cache_hit_rate="hit_share",
    running_requests_mean="batch_mean", decode_batch_max="batch_max", goodput_requests_per_s="goodput_per_s",
    goodput_requests_per_s_per_device="goodput_per_s_per_device", requests_restarted="restarts",
)  # fmt: skip
Numbers = dict[str, Number]  # quantities of specs/quantities by name: float, or int where it counts


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
    invalid_rows: int = field(metadata=former("skipped_rows"))
    failed_requests: int = field(metadata=former("failed_rows"))
    qps: float | None
    concurrency: int | None
    length_range: list[float] | None = None
    warmup_s: float | None
    failures: str | None = field(metadata=former("lose"))
    autoscale: str | None
    seed: int


class SloTarget(Record):
    """One target of the SLO: its limits in seconds, the fraction of requests that must meet all of them and that did."""

    text: str = field(metadata=former("promise"))
    label: str | None = field(metadata=former("class"))
    limits: dict[str, float]
    requests: int
    target: float = field(metadata=former("asked_share"))
    attainment: float = field(metadata=former("inside_share"))
    met: bool = field(metadata=former("kept"))


class SloAnswer(Record):
    """The SLO: limits and target of its strictest part, whether all are met, and what one replica fewer would do."""

    limits: dict[str, float]
    target: float = field(metadata=former("share"))
    met: bool = field(metadata=former("kept"))
    targets: list[SloTarget] = field(metadata=former("promises"))
    attainment_with_one_fewer_replica: float | None = field(metadata=former("one_fewer_share"))
    margin_with_one_fewer_replica: float | None = field(metadata=former("one_fewer_margin_share"))


class SimulateAnswer(Record):
    """The workload, every number of the run, and its 80% interval over seeds and step times."""

    schema: str
    model: str
    hardware: str
    engine: str
    policy: str
    max_context: int | None
    dtype: str
    layout: SimulatedLayout = field(metadata=former("plan"))
    kv_cache_tokens: int = field(metadata=former("pool_tokens"))
    kv_cache: str = field(metadata=former("pool"))
    load: LoadAnswer
    simulate: Numbers = field(metadata=FORMER)
    interval: dict[str, list[float]] = field(metadata=FORMER)
    slo: SloAnswer | None
    classes: list[Numbers] = field(metadata=FORMER)
    sustained: bool = True
    interrupted: bool
    search_interrupted: bool
    notes: list[str]

    @property
    def met(self) -> bool:
        """Whether the SLO is met, where there is one."""
        return self.slo is None or self.slo.met


class StudyAnswer(Record):
    """A row of numbers for each combination of the values given, with the values that set it apart."""

    schema: str
    axes: list[str]
    slo: str | None
    rows: list[Numbers] = field(metadata=FORMER)
    met: bool = field(metadata=former("kept"))
