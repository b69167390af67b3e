"""What shares a batch in serving: static and continuous batching, beams, prefixes, pools, break-even, quantization."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_BOOK = "Austin et al. 2025, How to Scale Your Model (JAX Scaling Book)"
_DEFINITION = "definition"


@formula("u", "1", "slots stay occupied until the longest sequence ends; " + _BOOK + ", chapter 7")
def static_batching_utilization(mean_output: Number, max_output: Number) -> Number:
    """Share of decode slots doing useful work when a batch runs until its longest answer ends."""
    return mean_output / max_output


@formula("x", "1", "the batch refills as sequences end: Yu et al. 2022, Orca")
def continuous_gain(utilization: Number) -> Number:
    """Throughput of continuous over static batching at the same batch."""
    return 1 / utilization


@formula(
    "n_evict", "tokens/step", _BOOK + ", chapter 8: each of B sequences leaves after G steps with its P + G tokens"
)
def evicted_tokens_per_step(batch: Number, prompt: Number, output: Number) -> Number:
    """KV-cache tokens freed per decode step in a steady continuous batch."""
    return batch * (prompt + output) / output


@formula("r", "1", _BOOK + ", chapter 8: prefill time per sequence over decode time per sequence of a full batch")
def prefill_decode_ratio(prefill_s: Number, step_s: Number, output: Number, batch: Number) -> Number:
    """Prefill servers per decode server that keep both pools busy."""
    return prefill_s / (step_s * output / batch)


@formula("QPS", "requests/s", _BOOK + ", chapter 8")
def queries_per_second(batch: Number, step_s: Number, output: Number) -> Number:
    """Requests per second a decode batch completes."""
    return batch / (step_s * output)


@formula("T_k", "tokens", "each beam keeps a cache of its own")
def beam_cache_tokens(batch: Number, beams: Number, prompt: Number, output: Number) -> Number:
    """Cached tokens under beam search when nothing is shared."""
    return batch * beams * (prompt + output)


@formula("T_k", "tokens", "beams share the prompt's pages: Kwon et al. 2023, PagedAttention, section 4.4")
def beam_cache_tokens_shared(batch: Number, beams: Number, prompt: Number, output: Number) -> Number:
    """Cached tokens under beam search when the beams of a sequence share its prompt."""
    return batch * (prompt + beams * output)


@formula(
    "n",
    "tokens",
    "a prefix is computed once, the rest of each prompt every time: Zheng et al. 2024, SGLang (RadixAttention)",
)
def prefilled_tokens(requests: Number, prompt: Number, shared: Number, hit_rate: Number) -> Number:
    """Prompt tokens computed when a shared prefix is cached; the first request always computes it."""
    return prompt + (requests - 1) * (prompt - hit_rate * shared)


@formula(
    "b*",
    "sequences",
    "revenue per token covers the price of the hardware; throughput proportional to batch while memory-bound",
)
def break_even_batch(
    usd_per_hour: Number, usd_per_million: Number, utilization: Number, tokens_per_s_each: Number
) -> Number:
    """Concurrent sequences at which a price per million tokens pays for the hardware."""
    return num.ceil(break_even_rate(usd_per_hour, usd_per_million, utilization) / tokens_per_s_each)


@formula("R*", "tokens/s", "usd_per_million_tokens solved for throughput")
def break_even_rate(usd_per_hour: Number, usd_per_million: Number, utilization: Number) -> Number:
    """Throughput at which a price per million tokens pays for the hardware."""
    return usd_per_hour / (3600 * usd_per_million * utilization) * 1_000_000


@formula("x", "1", "bytes streamed per decode step before over after; the matmuls stay memory-bound")
def quantization_speedup(
    weights_before: Number, weights_after: Number, cache_before: Number, cache_after: Number
) -> Number:
    """Decode speedup when weights and KV cache shrink and the step is bound by memory bandwidth."""
    return (weights_before + cache_before) / (weights_after + cache_after)


@formula("n", "devices", _DEFINITION)
def devices_for_bytes(size: Number, capacity: Number) -> Number:
    """Devices whose memory adds up to a size, before rounding up."""
    return size / capacity


@formula("n", "tokens", "the cached prefix is skipped; Zheng et al. 2024, SGLang (RadixAttention)")
def prompt_after_hit(prompt: Number, shared: Number) -> Number:
    """Prompt tokens left to compute when the prefix is in the cache."""
    return prompt - shared


@formula("QPS/chip", "requests/s", _BOOK + ", chapter 8")
def rate_per_device(rate: Number, devices: Number) -> Number:
    """A server's rate shared over its devices."""
    return rate / devices
