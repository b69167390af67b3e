"""The roofline itself, and how measured kernels fall short of it."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_WILLIAMS = "Williams, Waterman, Patterson 2009, Roofline: an insightful visual performance model"
_FIT = "form fitted to measured kernels, half of the shapes held out; see docs/accuracy.md"


@formula("I", "FLOP/B", _WILLIAMS)
def arithmetic_intensity(flops: Number, bytes_moved: Number) -> Number:
    """FLOPs per byte moved."""
    return flops / bytes_moved


@formula("I*", "FLOP/B", _WILLIAMS)
def ridge_point(peak: Number, bandwidth: Number) -> Number:
    """Intensity at which compute and memory take equally long."""
    return peak / bandwidth


@formula("t_c", "s", _WILLIAMS)
def compute_time(flops: Number, peak: Number) -> Number:
    """Time at peak FLOP/s."""
    return flops / peak


@formula("t_m", "s", _WILLIAMS)
def memory_time(bytes_moved: Number, bandwidth: Number) -> Number:
    """Time at full memory bandwidth."""
    return bytes_moved / bandwidth


@formula("t_floor", "s", _WILLIAMS)
def floor_time(t_compute: Number, t_memory: Number) -> Number:
    """The roofline: the slower of the two, perfectly overlapped."""
    return num.maximum(t_compute, t_memory)


@formula("t", "s", "copy and math overlap fully: the slower one counts; " + _FIT)
def joined_max(t_compute: Number, t_memory: Number, overhead: Number) -> Number:
    """max(compute, memory) + overhead."""
    return num.maximum(t_compute, t_memory) + overhead


@formula("t", "s", "copy and math overlap in part: p-norm of the two; " + _FIT)
def joined_norm(t_compute: Number, t_memory: Number, p: Number, overhead: Number) -> Number:
    """(compute^p + memory^p)^(1/p) + overhead, never below either."""
    slow, fast = num.maximum(t_compute, t_memory), num.minimum(t_compute, t_memory)
    return slow * (1 + (fast / slow) ** p) ** (1 / p) + overhead


@formula("t", "s", "copy and math do not overlap; " + _FIT)
def joined_sum(t_compute: Number, t_memory: Number, overhead: Number) -> Number:
    """compute + memory + overhead."""
    return t_compute + t_memory + overhead


@formula("t_c", "s", _FIT)
def effective_compute_time(flops: Number, peak: Number, efficiency: Number) -> Number:
    """Time at the fraction of peak this kind of kernel reaches."""
    return flops / (efficiency * peak)


@formula("t_m", "s", _FIT)
def effective_memory_time(bytes_moved: Number, bandwidth: Number, efficiency: Number) -> Number:
    """Time at the fraction of bandwidth this kind of kernel reaches."""
    return bytes_moved / (efficiency * bandwidth)


@formula(
    "t_c",
    "s",
    "filling a pipeline costs k0 units more per ramp: a matmul's k loop is k0 elements longer, a query sees k0 keys more; "
    + _FIT,
)
def filled_compute_time(flops: Number, ramp: Number, k0: Number, peak: Number, efficiency: Number) -> Number:
    """F (1 + k0 ramp) / (e P)."""
    return flops * (1 + k0 * ramp) / (efficiency * peak)


@formula("F'", "FLOP", "exponentials run concurrently with the matrix unit, as if the head were h0 columns wider; " + _FIT)  # fmt: skip
def softmax_flops(flops: Number, width: Number, softmax_width: Number) -> Number:
    """F (1 + h0 / h)."""
    return flops * (1 + softmax_width / width)


@formula("t_tail", "s", "the longest run of keys is worked off by one unit while the others are done; " + _FIT)
def longest_tile_time(tail_rows: Number, width: Number, span: Number, peak: Number, efficiency: Number) -> Number:
    """4 rows h span / (e P)."""
    return 4 * tail_rows * width * span / (efficiency * peak)


@formula(
    "B'",
    "B",
    "decode attention without a shared read: a block of threads per query head loads its own keys and values "
    "(NVIDIA/TensorRT-LLM docs/source/blogs/XQA-kernel.md: what its XQA kernel of v0.8 does away with); caches of fixed "
    "shapes are read to the end of their shape",
)
def cache_read(moved: Number, unshared: Number, sharing: Number, padded: Number) -> Number:
    """B (1 + x_T) (1 + u_kv (g - 1)): bytes that g query heads over a cached head read in all."""
    return moved * (1 + padded) * (1 + unshared * (sharing - 1))


@formula("o", "s", "launch and tail, plus the serial latency of the k loop; " + _FIT)
def matmul_overhead(overhead: Number, tau: Number, k: Number) -> Number:
    """Time of a matmul that no amount of parallel hardware removes."""
    return overhead + tau * k


@formula("t_q", "s", "one more pass over the input: quantizing it, appending it to the cache, permuting it; " + _FIT)
def quantize_time(elements: Number, bytes_per_element: Number, bandwidth: Number, efficiency: Number) -> Number:
    """Time of a further pass over the input."""
    return elements * bytes_per_element / (efficiency * bandwidth)


@formula(
    "t_v",
    "s",
    "kernels of llama.cpp made for one row take a few at a time, and unpack the weights again for each; matrix kernels take over "
    "bit by bit. Form and constants: RTX 3090, 8B in Q4_0, 1 to 8 rows (ggml-org/llama.cpp pull request 15802), GB10, 7B in Q8_0, 1 to 32",
)
def further_rows_time(flops: Number, rows: Number, together: Number, peak: Number, efficiency: Number) -> Number:
    """F/m (m - 1) / (1 + (m - 1)/b_v) / (e_v P): seconds on top of the loads that rows beyond the first take."""
    return flops / rows * (rows - 1) / (1 + (rows - 1) / together) / (efficiency * peak)


@formula("e", "1", "attention over short sequences reaches less of the peak; fitted to published steps, docs/accuracy.md")  # fmt: skip
def long_efficiency(efficiency: Number, length: Number, half_length: Number) -> Number:
    """efficiency / (1 + S0/S)."""
    return efficiency / (1 + half_length / length)


@formula(
    "e_b",
    "1",
    "the gradient of attention holds more tiles on a unit at once and adds up into shared sums; Dao 2023, FlashAttention-2, section 4.1: "
    "forward up to 73 %, backward up to 63 % of an A100's peak; the excess of the Triton kernel fitted, docs/accuracy.md",
)
def backward_efficiency(efficiency: Number, gradient: Number) -> Number:
    """efficiency / (1 + x_b)."""
    return efficiency / (1 + gradient)


@formula("P_cap", "FLOP/s", "power of CMOS logic grows with the cube of its clock (f V^2, V with f); torchtitan's 500 W H100")  # fmt: skip
def power_capped_rate(peak: Number, power: Number, rated: Number) -> Number:
    """Peak rate at a power limit below the rated one, in W."""
    return peak * num.minimum(power / rated, 1.0) ** (1 / 3)


@formula("lo", "s", "80% interval from validation residuals, never below the floor")
def interval_low(expected: Number, relative_error: Number, floor: Number) -> Number:
    """Optimistic end of the interval."""
    return num.maximum(floor, expected / (1 + relative_error))


@formula("hi", "s", "80% interval from validation residuals")
def interval_high(expected: Number, relative_error: Number) -> Number:
    """Pessimistic end of the interval."""
    return expected * (1 + relative_error)


@formula("hi", "tokens/s", "80% interval of a rate, never above what the floor of its time allows")
def rate_high(expected: Number, relative_error: Number, most: Number) -> Number:
    """Optimistic end of the interval of a rate."""
    return num.minimum(expected * (1 + relative_error), most)


@formula("t_u", "s", "a kernel whose units each have a number of loads in flight; fitted to llama.cpp on V100, A100 and H100 boards")  # fmt: skip
def unit_streaming_time(moved: Number, bytes_per_clock: Number, unit_clocks: Number) -> Number:
    """Seconds that units take to draw their bytes, `unit_clocks` cycles of all of them together a second."""
    return moved / (bytes_per_clock * unit_clocks)


@formula("t_W", "s", "board power decides the clock under load: FLOP over joules per second; fitted to llama.cpp prefill on 28 boards")  # fmt: skip
def power_bound_time(flops: Number, flops_per_joule: Number, watts: Number) -> Number:
    """Seconds that FLOPs take at a power limit."""
    return flops / (flops_per_joule * watts)


@formula("m", "1", "F = 2 m k n solved for m")
def matmul_rows(flops: Number, k: Number, n: Number) -> Number:
    """Rows of a matrix product from its FLOPs."""
    return flops / (2 * k * n)
