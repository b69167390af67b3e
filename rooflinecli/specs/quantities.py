"""Quantities of answers: name, label and unit of every number, one row each, read by tables, explanations, checks, sweeps and searches.

A row with a `formula` is computed from others: its arguments are named in `of` (fields of the phase's answer, rows above it, or
`engine/evaluate`'s). To add such a quantity is to add its row: it is then in every format and every question.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from rooflinecli.core.num import Number
from rooflinecli.formulas import energy, serving

LESS, MORE = "less", "more"


class Quantity(NamedTuple):
    """One number of an answer.

    unit: SI, `fraction` or `count`. better: `less`, `more` or neither. time: 1 where it grows in proportion to its phase's
    time, -1 where it falls, 0 where it does not follow. rate: whether it follows the tokens per second, whose interval is
    then its own. phase: the only phase it speaks of. group: whether it stands for
    everything under its name. distance: a fraction that may be above one, since it is no part of a whole. detail: not
    printed by an estimate. errors: arguments that are 80% relative errors of its own, joined with that of its time.
    """

    name: str
    unit: str
    label: str
    better: str = ""
    time: int = 0
    phase: str = ""
    group: bool = False
    rate: bool = False
    distance: bool = False
    detail: bool = False
    errors: tuple[str, ...] = ()
    formula: Callable[..., Number] | None = None
    of: tuple[str, ...] = ()


_ROWS = (
    Quantity("time_s", "s", "time", LESS, 1),
    Quantity("floor_s", "s", "floor", LESS),
    Quantity("interval_s", "s", "80% interval", LESS),
    Quantity("tokens_per_s", "tokens/s", "tokens per second", MORE, -1, rate=True),
    Quantity("tokens_per_s_interval", "tokens/s", "80% interval of the tokens per second", MORE),
    Quantity("tokens_per_s_per_user", "tokens/s", "tokens per second and user", MORE, -1),
    Quantity("tokens_per_s_per_device", "tokens/s", "tokens per second and device", MORE, -1, rate=True),
    Quantity("gap", "fraction", "largest distance from the estimate", LESS, distance=True),
    Quantity("inside_share", "fraction", "share of rows inside the interval", MORE),
    Quantity("within_of_best", "fraction", "how far behind the best layout", LESS, distance=True),
    Quantity("requests_per_s", "count", "requests per second", MORE, -1, rate=True),
    Quantity("prefill_requests_per_s", "count", "requests per second of prefill", MORE, -1),
    Quantity("decode_requests_per_s", "count", "requests per second of decode", MORE, -1),
    Quantity("instance_tokens_per_s", "tokens/s", "tokens per second of one instance", MORE, -1),
    Quantity("ttft_s", "s", "time to first token", LESS),
    Quantity("itl_s", "s", "inter-token latency", LESS),
    Quantity("flops", "FLOP", "model FLOPs of a step, over all devices"),
    Quantity("hardware_flops", "FLOP", "FLOPs with recomputation"),
    Quantity("mfu", "fraction", "MFU", MORE, -1),
    Quantity("hfu", "fraction", "HFU", MORE, -1),
    Quantity("mbu", "fraction", "MBU", MORE, -1),
    Quantity("measured_mfu", "fraction", "measured MFU", MORE),
    Quantity("measured_time_s", "s", "measured time", LESS),
    Quantity("bytes_per_device", "B", "bytes moved per device"),
    Quantity("resources_s", "s", "time at peak", LESS, group=True),
    Quantity("breakdown_s", "s", "time", LESS, group=True),
    Quantity("communication_s", "s", "exposed communication", LESS, group=True),
    Quantity("hidden_s", "s", "hidden communication", LESS, group=True),
    Quantity("communication_bytes", "B", "bytes sent", LESS, group=True),
    Quantity("bound_ratio", "count", "time over that of the next resource"),
    Quantity("batch", "count", "sequences"),
    Quantity("mean_accepted_length", "count", "tokens per step of speculation", MORE),
    Quantity("draft_s", "s", "draft of a step", LESS),
    Quantity("verify_s", "s", "verification of a step", LESS),
    Quantity("speedup", "count", "gain over plain decoding", MORE),
    Quantity("break_even_batch", "count", "sequences up to which speculation pays", MORE),
    Quantity("idle_sessions", "count", "sessions between two turns", MORE),
    Quantity("device_sessions", "count", "idle sessions whose cache stays on the device", MORE),
    Quantity("on_device_fraction", "fraction", "idle sessions whose cache stays on the device", MORE),
    Quantity("in_tier_fraction", "fraction", "idle sessions whose cache is in the tier"),
    Quantity("evicted_fraction", "fraction", "idle sessions whose cache is nowhere", LESS),
    Quantity("sessions", "count", "sessions that the tier keeps", MORE),
    Quantity("reload_s", "s", "bringing a cache back", LESS),
    Quantity("max_batch", "count", "most sequences", MORE),
    Quantity("microbatches", "count", "microbatches"),
    Quantity("bubble_fraction", "fraction", "pipeline bubble", LESS),
    Quantity("communication_error_fraction", "fraction", "error of its communication", LESS),
    Quantity("steps", "count", "steps", LESS),
    Quantity("run_s", "s", "time of the run", LESS, 1),
    Quantity("weights_bytes", "B", "weights", LESS),
    Quantity("gradients_bytes", "B", "gradients", LESS),
    Quantity("optimizer_bytes", "B", "optimizer", LESS),
    Quantity("activations_bytes", "B", "activations", LESS),
    Quantity("kv_cache_bytes", "B", "KV cache", LESS),
    Quantity("total_bytes", "B", "memory", LESS),
    Quantity("reserved_bytes", "B", "kept free by the engine", LESS),
    Quantity("slack_bytes", "B", "allocator slack", LESS),
    Quantity("capacity_bytes", "B", "capacity", MORE),
    Quantity("headroom_fraction", "fraction", "memory left", MORE),
    Quantity("usd_per_million_input_tokens", "USD", "per million input tokens", LESS, 1, phase="prefill", rate=True),
    Quantity("usd_per_million_output_tokens", "USD", "per million output tokens", LESS, 1, phase="decode", rate=True),
    Quantity(
        "usd_per_million_tokens", "USD", "per million tokens, input and output", LESS, 1, phase="decode", rate=True
    ),
    Quantity("usd_per_million_tokens_at_qps", "USD", "per million tokens at the offered rate", LESS),
    Quantity("usd_per_million_training_tokens", "USD", "per million trained tokens", LESS, 1, phase="train", rate=True),
    Quantity("training_usd", "USD", "the run", LESS, 1, phase="train"),
    Quantity("power_error", "fraction", "80% error of the power"),
    Quantity("host_error", "fraction", "80% error of the host factor"),
    Quantity("usd_per_device_hour", "USD/h", "per device and hour", LESS),
    Quantity("usd_per_device_hour_interval", "USD/h", "10 to 90% of the offers", LESS),
    Quantity("age_s", "s", "age of the price", LESS),
    Quantity("break_even_s_interval", "s", "break-even, over the offers", LESS),
    Quantity("utilization", "fraction", "fraction of paid time that is busy"),
)
_P, _S = ("power_error",), ("power_error", "host_error")
# fmt: off
_FOLLOWING = (
    Quantity("images_per_s", "count", "images per second", MORE, -1, phase="prefill", rate=True, formula=serving.images_per_second, of=("tokens_per_s", "image_tokens")),
    Quantity("power_fraction", "fraction", "power over TDP", detail=True, formula=energy.power_fraction, of=("static_draw", "memory_draw", "compute_draw", "memory_use", "compute_use")),
    Quantity("power_w", "W", "per device", LESS, formula=energy.power_draw, of=("power_fraction", "rated_power", "power"), errors=_P),
    Quantity("joules_per_token", "J", "per token", LESS, 1, rate=True, formula=energy.joules_per_token, of=("devices", "power_w", "tokens_per_s"), errors=_P),
    Quantity("tokens_per_joule", "count", "tokens per joule", MORE, -1, rate=True, detail=True, formula=energy.tokens_per_joule, of=("joules_per_token",), errors=_P),
    Quantity("energy_j", "J", "per pass", LESS, 1, formula=energy.energy, of=("devices", "power_w", "busy_s"), errors=_P),
    Quantity("run_energy_j", "J", "for the run", LESS, 1, phase="train", formula=energy.energy, of=("devices", "power_w", "run_s"), errors=_P),
    Quantity("joules_per_image", "J", "per image", LESS, 1, phase="prefill", rate=True, formula=energy.joules_per_token, of=("devices", "power_w", "images_per_s"), errors=_P),
    Quantity("joules_per_request", "J", "per request", LESS, 1, phase="decode", rate=True, formula=energy.joules_per_request, of=("prompt_joules", "joules_per_token", "output"), errors=_P),
    Quantity("server_joules_per_token", "J", "per token, servers", LESS, 1, rate=True, formula=energy.server_energy, of=("joules_per_token", "host_factor"), errors=_S),
    Quantity("facility_joules_per_token", "J", "per token, data center", LESS, 1, rate=True, formula=energy.facility_energy, of=("server_joules_per_token", "pue"), errors=_S),
    Quantity("server_run_energy_j", "J", "for the run, servers", LESS, 1, phase="train", formula=energy.server_energy, of=("run_energy_j", "host_factor"), errors=_S),
    Quantity("facility_run_energy_j", "J", "for the run, data center", LESS, 1, phase="train", formula=energy.facility_energy, of=("server_run_energy_j", "pue"), errors=_S),
    Quantity("tokens_per_s_per_megawatt", "tokens/s", "per MW of the data center", MORE, -1, rate=True, detail=True, formula=energy.tokens_per_s_per_megawatt, of=("facility_joules_per_token",), errors=_S),
    Quantity("grams_co2e_per_million_tokens", "g", "CO2e per million tokens", LESS, 1, rate=True, formula=energy.grams_co2e_per_million, of=("facility_joules_per_token", "grams_per_kwh"), errors=_S),
    Quantity("embodied_grams_co2e_per_million_tokens", "g", "embodied CO2e per million tokens", LESS, 1, rate=True, formula=energy.embodied_grams_per_million, of=("devices", "embodied_grams", "tokens_per_s")),
    Quantity("liters_per_million_tokens", "L", "of water per million tokens", LESS, 1, rate=True, formula=energy.liters_per_million, of=("facility_joules_per_token", "liters_per_kwh"), errors=_S),
    Quantity("facility_joules_per_request", "J", "per request, data center", LESS, 1, phase="decode", rate=True, detail=True, formula=energy.facility_energy, of=("joules_per_request", "wall_factor"), errors=_S),
    Quantity("grams_co2e_per_request", "g", "CO2e per request", LESS, 1, phase="decode", rate=True, formula=energy.grams_co2e, of=("facility_joules_per_request", "grams_per_kwh"), errors=_S),
    Quantity("run_grams_co2e", "g", "CO2e for the run", LESS, 1, phase="train", formula=energy.grams_co2e, of=("facility_run_energy_j", "grams_per_kwh"), errors=_S),
    Quantity("electricity_usd_per_million_tokens", "USD", "of electricity per million tokens", LESS, 1, rate=True, formula=energy.electricity_usd_per_million, of=("facility_joules_per_token", "electricity"), errors=_S),
    Quantity("run_electricity_usd", "USD", "of electricity for the run", LESS, 1, phase="train", formula=energy.electricity_usd, of=("facility_run_energy_j", "electricity"), errors=_S),
)
# fmt: on
_LATENCIES = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E latency", "queue": "queueing time"}
_SIMULATED = (
    *(
        Quantity(f"{name}_{point}_s", "s", f"{label} {point}", LESS)
        for name, label in _LATENCIES.items()
        for point in ("mean", "p50", "p90", "p95", "p99", "max")
    ),
    Quantity("output_tokens_per_s", "tokens/s", "output throughput", MORE),
    Quantity("input_tokens_per_s", "tokens/s", "input throughput", MORE),
    Quantity("output_tokens_per_s_per_device", "tokens/s", "output throughput per device", MORE),
    Quantity("goodput_requests_per_s", "count", "goodput, requests/s", MORE),
    Quantity("goodput_requests_per_s_per_device", "count", "goodput per device, requests/s", MORE),
    Quantity("slo_attainment", "fraction", "SLO attainment", MORE),
    Quantity("slo_attainment_ttft", "fraction", "SLO attainment, TTFT", MORE),
    Quantity("slo_attainment_itl", "fraction", "SLO attainment, TPOT", MORE),
    Quantity("slo_attainment_e2e", "fraction", "SLO attainment, E2E latency", MORE),
    Quantity("slo_attainment_queue", "fraction", "SLO attainment, queueing time", MORE),
    Quantity("slo_attainment_margin", "fraction", "SLO attainment above target", MORE, distance=True),
    Quantity("running_requests_mean", "count", "running requests, mean"),
    Quantity("decode_batch_max", "count", "decode batch, max"),
    Quantity("engine_utilization", "fraction", "engine utilization"),
    Quantity("kv_cache_usage_mean", "fraction", "KV cache usage, mean"),
    Quantity("kv_cache_usage_max", "fraction", "KV cache usage, max"),
    Quantity("prefix_cache_hit_rate", "fraction", "prefix cache hit rate", MORE),
    Quantity("preemptions", "count", "preemptions", LESS),
    Quantity("replicas_mean", "count", "replicas paid for, mean", LESS),
    Quantity("replicas_started", "count", "replicas started"),
    Quantity("requests_restarted", "count", "requests restarted after a failure", LESS),
    Quantity("joules_per_output_token", "J", "energy per output token", LESS),
    Quantity("duration_s", "s", "simulated time"),
    Quantity("steady_s", "s", "steady state, for rates and cost"),
)
_INTERVALS = (
    Quantity(f"{row.name}_interval", row.unit, f"80% interval, {row.label}", row.better)
    for row in _FOLLOWING
    if row.errors and not row.detail
)
QUANTITIES: dict[str, Quantity] = {row.name: row for row in (*_ROWS, *_FOLLOWING, *_INTERVALS, *_SIMULATED)}
DERIVED = _FOLLOWING
# of a served token or request
PER_TOKEN = tuple(row.name for row in DERIVED if row.rate and row.phase in ("", "decode"))
COST = {  # phase -> the price of its tokens
    "prefill": "usd_per_million_input_tokens",
    "decode": "usd_per_million_output_tokens",
    "train": "usd_per_million_training_tokens",
}
AT_QPS = "usd_per_million_tokens_at_qps"  # of the requests that come, not of those that the instances could carry
BLENDED = "usd_per_million_tokens"  # of input and output: in proportion to what a request costs

_SUFFIXES = {
    r"(^|_)(fraction|share|utili[sz]ation|occupancy|acceptance|mfu|saving)$": "fraction",
    r"flops_per_byte$": "count",
    r"(^|_)flops_per_s$": "FLOP/s",
    r"(^|_)bytes_per_s$": "B/s",
    r"(^|_)tokens_per_s(_per_\w+)?$": "tokens/s",
    r"_per_s$": "count",
    r"usd_per_(device_)?hour$": "USD/h",
    r"(^|_)usd(_per_\w+)?$": "USD",
    r"(^|_)flops(_per_\w+)?$": "FLOP",
    r"(^|_)bytes(_per_\w+)?$": "B",
    r"_s$": "s",
}


# names of earlier schema versions -> those of today; conditions, requirements and columns may have either
FORMER = {
    "plan": "layout", "bound": "bottleneck", "bound_by": "bound_ratio", "tokens_per_step": "mean_accepted_length",
    "pays_up_to_batch": "break_even_batch", "resident_share": "on_device_fraction", "found_share": "in_tier_fraction",
    "lost_share": "evicted_fraction", "largest_batch": "max_batch", "own_error": "communication_error_fraction",
    "headroom": "headroom_fraction", "unsupported": "extrapolations", "load": "load_kind", "utilisation": "utilization",
    "explained_by": "gap_explanations", "age": "age_s", "batch_in_all": "total_batch", "carried_qps": "served_qps",
    "held_requests_per_s": "requests_per_s_at_bound", "hold": "bound",
}  # fmt: skip


def canonical(path: str) -> str:
    """A dotted path in the names of today, without `phases.`."""
    return ".".join(FORMER.get(part, part) for part in path.removeprefix("phases.").split("."))


def first_release(path: str) -> str:
    """A dotted path in the names of the first release."""
    old = {new: name for name, new in FORMER.items()}
    return ".".join(old.get(part, part) for part in path.split("."))


def find(path: str) -> Quantity | None:
    """The row of a dotted path (`decode.breakdown_s.matmul`), None for a name that has none."""
    parts = _named(canonical(path))
    for name in reversed(parts[:-1]):
        if name in QUANTITIES and QUANTITIES[name].group:
            return QUANTITIES[name]
    return QUANTITIES.get(parts[-1]) if parts else None


def describe_path(path: str) -> str:
    """A dotted path in words: `prefill.interval_s.1` is 'the high end of the prefill time', `serve.itl_s` ITL."""
    row, parts = find(path), path.split(".")
    if parts[0] == "serve" and row is not None:
        return {"ttft_s": "TTFT", "itl_s": "ITL"}.get(row.name, row.label)
    if not parts[-1].isdigit() or row is None or row.name != "interval_s":
        return path
    return " ".join(["the", "low" if parts[-1] == "0" else "high", "end of the", *_named(path)[:-1], "time"])


def unit_of(path: str) -> str:
    """The unit of a quantity: its row's, else what its name or its group's ends in, else `count`."""
    row = find(path)
    if row is not None:
        return row.unit
    for part in reversed(_named(path)[-2:]):
        for pattern, unit in _SUFFIXES.items():
            if re.search(pattern, part):
                return unit
    return "count"


def higher_is_better(path: str) -> bool:
    """Whether a larger value is the better one; less is, of what no row knows."""
    row = find(path)
    return row is not None and row.better == MORE


def scales_with_time(path: str) -> int:
    """1 where a quantity grows with its phase's time, -1 where it falls, 0 where it does not follow."""
    row = find(path)
    return row.time if row is not None else 0


def _named(path: str) -> list[str]:
    """The parts of a path without places in lists."""
    return [part for part in path.split(".") if not part.isdigit()]
