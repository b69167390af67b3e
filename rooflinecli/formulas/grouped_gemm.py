"""Routed experts: how many have work, how far the busiest rank is from an even share, what its two products cost.

T tokens enter a layer over the whole expert group of `ep` ranks, each takes top_k of E experts; D is the model's width, F an
expert's on this rank. The form was fitted to the expert tables of vLLM, SGLang and TensorRT-LLM, half of the shapes held out.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_FIT = "fitted to the expert tables of aiconfigurator-core 0.12.0, half of the shapes held out; docs/accuracy.md"
SKEW = 1.5  # r of the routing that was measured (power law); any r from 0.8 up fits as well
LEAST_SKEW = 0.45  # r at which no measured row reads more experts than had work: for floors
SPREAD = 2.0  # s: how far the busiest rank is from an even share, in standard deviations of a power law
SERVED_SPREAD = (
    1.0  # the same under a router that was trained to balance: serving runs fit 0.5 to 1.5 better than the tables' 2
)
FILLED = (
    256.0  # slots of a group at which the kernels around the products are half way from their least to their full start
)
CROWDED_FROM = 300.0  # sequences in a decode step: an engine then runs at the limit of its memory
OVER_ALL = 0.1  # a kernel that permutes its own slots still looks at every slot of the group once


@formula("A", "experts", "negative binomial visits, whose shape r says how uneven routing is; " + _FIT)
def expected_active_experts(held: Number, per_expert: Number, skew: Number) -> Number:
    """held (1 - (1 + mu / r)^-r): experts of a rank with any token."""
    return held * (1 - (1 + per_expert / skew) ** (-skew))


@formula("I", "1", "largest of ep sums over E/ep unevenly visited experts: mean + s sqrt(2 ln ep) deviations; " + _FIT)
def busiest_rank_load(ep: Number, experts: Number, spread: Number) -> Number:
    """min(ep, 1 + s sqrt(2 ln(ep) ep / E)): slots of the busiest rank over an even share."""
    return num.minimum(ep, 1 + spread * num.sqrt(2 * num.log(ep) * ep / experts))


@formula("I", "1", "Raab, Steger 1998, Balls into Bins: ep bins, T k balls, where experts are placed so that none is hotter")  # fmt: skip
def busiest_rank_balanced(ep: Number, slots: Number) -> Number:
    """min(ep, 1 + sqrt(2 ln(ep) ep / (T k))): what chance alone leaves of imbalance once experts are balanced."""
    return num.minimum(ep, 1 + num.sqrt(2 * num.log(ep) * ep / slots))


@formula("n", "rows", "definition")
def expert_rows(slots: Number, ep: Number, busiest: Number) -> Number:
    """I T k / ep: rows that the busiest rank multiplies, on average."""
    return busiest * slots / ep


@formula("n", "rows", "where there is a slot, the busiest of all ranks has one")
def rows_of_busiest(average: Number, slots: Number) -> Number:
    """max(I T k / ep, min(T k, 1)): rows that the busiest rank multiplies."""
    return num.maximum(average, num.minimum(slots, 1.0))


@formula("F", "FLOP", "two FLOPs per weight and row; three matrices where the activation is gated, two where it is not")
def expert_flops(rows: Number, matrices: Number, d_model: Number, width: Number) -> Number:
    """2 c n D F."""
    return 2 * matrices * rows * d_model * width


@formula("B", "B", "the weights of every expert that has work, once")
def expert_weight_bytes(active: Number, matrices: Number, d_model: Number, width: Number, x_bytes: Number) -> Number:
    """c A D F b_w."""
    return active * matrices * d_model * width * x_bytes


@formula("B", "B", "at least one read and one write of each token that has an expert here; its copies may stay on the chip")  # fmt: skip
def expert_token_bytes(rows: Number, top_k: Number, d_model: Number, read: Number, written: Number) -> Number:
    """n / k D (b_x + b_y)."""
    return rows / top_k * d_model * (read + written)


@formula("n_z", "slots", "own slots and a look at all, or a pass over every slot of the group; " + _FIT)
def slots_passed(rows: Number, slots: Number, whole_group: Number) -> Number:
    """Slots that sorting, quantizing, activating and combining pass over; whole_group is 1 where a kernel masks, else 0."""
    return (1 - whole_group) * rows + (OVER_ALL + (1 - OVER_ALL) * whole_group) * slots


@formula("t_z", "s", "z passes in 16 bits over slots as wide as the model and as an expert, which sort, quantize, activate and combine; " + _FIT)  # fmt: skip
def slot_passes_time(passes: Number, d_model: Number, width: Number, slots: Number, bandwidth: Number) -> Number:
    """z 2 (D + F) n_z / W."""
    return passes * 2 * (d_model + width) * slots / bandwidth


@formula(
    "t_o",
    "s",
    "kernels around the products start faster while slots are few; a grouped kernel walks over every expert of a rank, visited or not; "
    "tiles of both products run through their contracted widths in turn; " + _FIT,
)
def expert_starts(
    overhead: Number, slots: Number, per_expert: Number, held: Number, tau: Number, d_model: Number, width: Number
) -> Number:
    """o/2 (1 + T k / (T k + 256)) + o_e E / ep + tau (D + F)."""
    return overhead / 2 * (1 + slots / (slots + FILLED)) + per_expert * held + tau * (d_model + width)


@formula("e", "1", "a constant of kernel tables as serving runs see it, never above what the class may reach; " + _FIT)
def as_served(constant: Number, factor: Number, most: Number) -> Number:
    """min(constant x factor, most)."""
    return num.minimum(constant * factor, most)


@formula("c", "1", "definition")
def uses(reach: Number, above: Number, most: Number) -> Number:
    """1 where a group of devices is larger than one bound and no larger than another, else 0."""
    return num.where((reach > above) & (reach <= most), 1.0, 0.0)


@formula("c", "1", "sequences that one step decodes, from which runs at the limit of memory were fitted; " + _FIT)
def crowded(sequences: Number) -> Number:
    """1 from CROWDED_FROM sequences on, else 0."""
    return num.where(sequences >= CROWDED_FROM, 1.0, 0.0)


@formula("e", "1", "runs at the limit of memory use experts less well than others; no cause confirmed; " + _FIT)
def as_crowded(constant: Number, factor: Number, crowded: Number) -> Number:
    """constant (1 + (factor - 1) c)."""
    return constant * (1 + (factor - 1) * crowded)


@formula("n", "ranks", "definition")
def exchanging(replicas: Number, inside: Number) -> Number:
    """Ranks that send each other tokens: all replicas, or none where there is one."""
    return num.where(replicas > 1, replicas * inside, 1.0)


@formula("A", "experts", "a token visits top_k different experts, somewhere in the group")
def of_one_token(tokens: Number, top_k: Number, ep: Number) -> Number:
    """min(T, 1) k / ep: experts of a rank that a single token gives work, on average."""
    return num.minimum(tokens, 1.0) * top_k / ep


@formula("A", "experts", "a token visits top_k different experts, and no rank has more experts with work than rows")
def experts_of_busiest(spread: Number, of_one: Number, rows: Number) -> Number:
    """min(max(A, T_1 k / ep, 1), n): experts with work on the busiest rank."""
    return num.minimum(num.maximum(num.maximum(spread, of_one), 1.0), rows)
