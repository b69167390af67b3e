"""Small serving questions: batching, beams, prefix caches, pools, quantization, what a token costs and what pays."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import batching, cost, counts, serving


def size(elements: Number, each: Number) -> Number:
    """Bytes of so many tokens, parameters or devices."""
    return counts.bytes_of(elements, each)


def token_cost(
    usd_per_hour: Number, utilization: Number, decode_rate: Number = None, prefill_rate: Number = None
) -> dict[str, Any]:
    """Dollars per million output and input tokens."""
    if decode_rate is None and prefill_rate is None:
        raise UsageError("no throughput; give --tokens-per-s (output), --prefill-tokens-per-s (input) or both")
    answer = {"price_usd_per_hour": usd_per_hour, "utilization": utilization}
    if prefill_rate is not None:
        answer["million_input_tokens_usd"] = cost.usd_per_million_tokens(usd_per_hour, prefill_rate, utilization)
    if decode_rate is not None:
        answer["million_output_tokens_usd"] = cost.usd_per_million_tokens(usd_per_hour, decode_rate, utilization)
    return answer


def break_even(
    usd_per_hour: Number,
    sell: Number,
    utilization: Number,
    rate_each: Number,
    kv_per_sequence: Number = None,
    weights: Number = None,
    capacity: Number = None,
) -> dict[str, Any]:
    """The batch at which a price per million tokens pays, and whether memory holds it."""
    batch = batching.break_even_batch(usd_per_hour, sell, utilization, rate_each)
    answer = {"tokens_per_s": batching.break_even_rate(usd_per_hour, sell, utilization), "batch": batch}
    if kv_per_sequence is not None:
        answer["kv_cache_bytes"] = counts.bytes_of(batch, kv_per_sequence)
        if capacity is not None:
            held = 0.0 if weights is None else weights
            answer |= {
                "weights_bytes": held,
                "capacity_bytes": capacity,
                "largest_batch": serving.largest_batch(capacity, held, kv_per_sequence),
            }
            answer["feasible"] = num.value(answer["largest_batch"]) >= num.value(batch)
    return answer | {
        "notes": ["Throughput grows with the batch while decode streams mostly weights; the KV cache makes it less."]
    }


def static_batching(mean: Number, longest: Number, batch: Number = None, prompt: Number = None) -> dict[str, Any]:
    """Slots a static batch wastes on answers of unequal length, and what continuous batching gains."""
    if num.value(mean) > num.value(longest):
        raise UsageError("the mean answer is longer than the longest; swap them")
    used = batching.static_batching_utilization(mean, longest)
    answer = {
        "mean_output_tokens": mean,
        "max_output_tokens": longest,
        "static_utilization": used,
        "continuous_utilization": 1.0,
        "continuous_speedup": batching.continuous_gain(used),
    }
    if batch is not None and prompt is not None:
        answer["evicted_tokens_per_step"] = batching.evicted_tokens_per_step(batch, prompt, mean)
    return answer | {
        "notes": [
            "Continuous batching refills a slot as soon as its answer ends; 100 % assumes a queue that never empties."
        ]
    }


def beam_search(
    batch: Number, beams: Number, prompt: Number, output: Number, kv_per_token: Number = None
) -> dict[str, Any]:
    """Decode batch and KV cache of beam search, with and without a shared prompt."""
    alone = batching.beam_cache_tokens(batch, 1.0, prompt, output)
    caches = {
        "greedy": alone,
        "beams": batching.beam_cache_tokens(batch, beams, prompt, output),
        "beams_sharing_the_prompt": batching.beam_cache_tokens_shared(batch, beams, prompt, output),
    }
    rows = {
        name: {"kv_cache_tokens": held, "multiple": batching.multiple_of(held, alone)} for name, held in caches.items()
    }
    if kv_per_token is not None:
        for row in rows.values():
            row["kv_cache_bytes"] = counts.bytes_of(row["kv_cache_tokens"], kv_per_token)
    return {
        "beams": beams,
        "decode_batch": batching.beam_batch(batch, beams),
        "caches": rows,
        "notes": ["Beams multiply the decode batch; paged caches let the beams of a sequence share its prompt."],
    }


def prefix_cache(
    requests: Number,
    prompt: Number,
    shared: Number,
    hit_rate: Number = 1.0,
    prefill_rate: Number = None,
    params: Number = None,
) -> dict[str, Any]:
    """Prompt tokens, time and FLOPs saved when requests share a cached prefix."""
    if num.value(requests) < 1:
        raise UsageError("less than one request; give --requests 1 or more")
    if num.value(shared) > num.value(prompt):
        raise UsageError("the shared prefix is longer than the prompt; shorten it")
    whole = batching.prefilled_tokens(requests, prompt, shared, 0.0)
    cached = batching.prefilled_tokens(requests, prompt, shared, hit_rate)
    answer = {
        "prompt_tokens": whole,
        "prefilled_tokens": cached,
        "saving": batching.saved_share(cached, whole),
        "prefill_speedup": batching.multiple_of(whole, cached),
    }
    if prefill_rate is not None:
        hit = batching.prompt_after_hit(prompt, shared)
        answer |= {
            "ttft_miss_s": serving.ttft_from_throughput(prompt, prefill_rate),
            "ttft_hit_s": serving.ttft_from_throughput(hit, prefill_rate),
        }
    if params is not None:
        answer |= {
            "prefill_flops": counts.forward_flops_rule(params, cached),
            "prefill_without_cache_flops": counts.forward_flops_rule(params, whole),
        }
    return answer


def disaggregation(
    prefill_s: Number, step_s: Number, output: Number, batch: Number, chips: Number = None
) -> dict[str, Any]:
    """Prefill servers per decode server, and the request rate of one decode server."""
    rate = batching.queries_per_second(batch, step_s, output)
    answer = {
        "prefill_per_decode_server": batching.prefill_decode_ratio(prefill_s, step_s, output, batch),
        "requests_per_s": rate,
    }
    if chips is not None:
        answer["requests_per_s_and_chip"] = batching.rate_per_device(rate, chips)
    return answer | {"notes": ["Both pools busy: a full decode batch ends a request every step x output / batch s."]}


def quantize(
    params: Number,
    before: tuple[str, Number],
    after: tuple[str, Number],
    cache: Number = None,
    cache_after: Number = None,
    capacity: Number = None,
    devices: Number = None,
) -> dict[str, Any]:
    """Weight bytes, devices, sequences and decode speed of two number formats. `cache` is bytes per sequence."""
    rows: dict[str, dict[str, Any]] = {}
    cache_after = cache if cache_after is None else cache_after
    for (name, width), kv in ((before, cache), (after, cache_after)):
        row = rows[name] = {"bytes_per_param": width, "weights_bytes": counts.bytes_of(params, width)}
        if capacity is not None:
            row["devices_for_weights"] = batching.devices_for_bytes(row["weights_bytes"], capacity)
            if kv is not None and devices is not None:
                whole = counts.bytes_of(devices, capacity)
                row |= {
                    "free_bytes": batching.free_memory(whole, row["weights_bytes"]),
                    "largest_batch": serving.largest_batch(whole, row["weights_bytes"], kv),
                }
    first, last = rows[before[0]], rows[after[0]]
    streamed = (0.0, 0.0) if cache is None else (cache, cache_after)
    gain = batching.quantization_speedup(first["weights_bytes"], last["weights_bytes"], *streamed)
    return {
        "params": params,
        "formats": rows,
        "memory_bound_speedup": gain,
        "notes": [
            "The speedup holds at batch 1 and while decode streams weights and cache from memory; "
            "a compute-bound prefill gains only if the chip multiplies in the narrow format."
        ],
    }


def capacity(hw: str, lift: PlainLift) -> Number:
    """Memory of a device in bytes."""
    from rooflinecli.price.chip import Chip
    from rooflinecli.specs.hardware import load_hardware

    return Chip(load_hardware(hw), lift).capacity


def sequence_and_weights(model: str, tokens: float, dtype: str, lift: PlainLift) -> tuple[Number, Number]:
    """Bytes of the KV cache of one sequence of `tokens` tokens, and of the weights a token passes through."""
    from rooflinecli.core.lift import PLAIN
    from rooflinecli.layers.build import ledger
    from rooflinecli.layers.parameter_counts import parameters
    from rooflinecli.memory import kv_cache
    from rooflinecli.quantization.formats import Formats, size_of
    from rooflinecli.specs.layout import Layout
    from rooflinecli.specs.model import load_model

    width, spec = size_of(dtype), load_model(model)
    formats = Formats(2.0, 2.0, 2.0, 2.0, width, dtype, dtype, dtype)
    cache = float(kv_cache(ledger(spec), Layout(), formats, 1.0, tokens, PLAIN))
    active = lift("N", float(parameters(spec).active), "params", f"--model {model}: active parameters of {spec.name}")
    weights = size(active, lift("b", width, "B", f"bytes per element of {dtype}"))
    return lift("b_kv", cache, "B", f"KV cache of {spec.name}, {tokens:g} tokens in {dtype}"), weights
