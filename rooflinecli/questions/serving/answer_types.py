"""Answers of `roofline serving`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record, former


class TokenCostAnswer(Record):
    """Dollars per million tokens."""

    schema: str = "roofline/serving-cost/2"
    price_usd_per_hour: Number
    utilization: Number = field(metadata=former("utilisation"))
    million_input_tokens_usd: Number = field(default=None, metadata=OPTIONAL)
    million_output_tokens_usd: Number = field(default=None, metadata=OPTIONAL)


class BreakEvenAnswer(Record):
    """The batch at which a price per token pays, and what memory allows."""

    schema: str = "roofline/serving-break-even/1"
    tokens_per_s: Number
    batch: Number
    kv_cache_bytes: Number = field(default=None, metadata=OPTIONAL)
    weights_bytes: Number = field(default=None, metadata=OPTIONAL)
    capacity_bytes: Number = field(default=None, metadata=OPTIONAL)
    largest_batch: Number = field(default=None, metadata=OPTIONAL)
    feasible: bool | None = field(default=None, metadata=OPTIONAL)
    notes: list[str]


class BatchingAnswer(Record):
    """Slots that do useful work."""

    schema: str = "roofline/serving-batching/2"
    mean_output_tokens: Number
    max_output_tokens: Number
    static_utilization: Number = field(metadata=former("static_utilisation"))
    continuous_utilization: Number = field(metadata=former("continuous_utilisation"))
    continuous_speedup: Number
    evicted_tokens_per_step: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]


class CacheSize(Record):
    """The KV cache of a batch, and its multiple of greedy decoding."""

    kv_cache_tokens: Number
    multiple: Number
    kv_cache_bytes: Number = field(default=None, metadata=OPTIONAL)


class BeamSearchAnswer(Record):
    """Decode batch, and KV caches by how beams share them."""

    schema: str = "roofline/serving-beam/1"
    beams: Number
    decode_batch: Number
    caches: dict[str, CacheSize]
    notes: list[str]


class PrefixCachingAnswer(Record):
    """Prompt tokens, TTFT and FLOPs with and without the cached prefix."""

    schema: str = "roofline/serving-prefix-cache/1"
    prompt_tokens: Number
    prefilled_tokens: Number
    saving: Number
    prefill_speedup: Number
    ttft_miss_s: Number = field(default=None, metadata=OPTIONAL)
    ttft_hit_s: Number = field(default=None, metadata=OPTIONAL)
    prefill_flops: Number = field(default=None, metadata=OPTIONAL)
    prefill_without_cache_flops: Number = field(default=None, metadata=OPTIONAL)


class DisaggregationAnswer(Record):
    """Prefill servers per decode server, and requests per second."""

    schema: str = "roofline/serving-disaggregate/1"
    prefill_per_decode_server: Number
    requests_per_s: Number
    requests_per_s_and_chip: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]


class FormatSize(Record):
    """Weights in one format, and the devices and sequences that memory allows."""

    bytes_per_param: Number
    weights_bytes: Number
    devices_for_weights: Number = field(default=None, metadata=OPTIONAL)
    free_bytes: Number = field(default=None, metadata=OPTIONAL)
    largest_batch: Number = field(default=None, metadata=OPTIONAL)


class QuantizeWeightsAnswer(Record):
    """Sizes by format, and the speedup of memory-bound decode."""

    schema: str = "roofline/serving-quantize/1"
    params: Number
    formats: dict[str, FormatSize]
    memory_bound_speedup: Number
    notes: list[str]
