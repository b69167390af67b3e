"""Bytes and times of collectives: rings, direct exchange, in-network reduction, by alpha-beta with a transition term; on a torus; and of tokens
to their experts and back.

`size` is always the whole, unsharded tensor: what an all-reduce reduces, what an all-gather ends with, what a
reduce-scatter starts from, what an all-to-all redistributes (one device's send buffer).

On a torus, `m` members of a group lie along one axis of `length` devices, one every `step`; the step is also the number of
interleaved groups that share each link. Both directions work at once where an axis closes into a ring, and several axes together.

Tokens to their experts and back: what each rank sends, merged or not, and how long it takes. m tokens per rank, top_k experts each, D
values of w bytes; n ranks, g of them in one NVLink domain, N = n / g nodes.
"""

from __future__ import annotations

import math

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_THAKUR = "Thakur, Rabenseifner, Gropp 2005, Optimization of Collective Communication Operations in MPICH"
_PATARASUK = "Patarasuk, Yuan 2009, Bandwidth optimal all-reduce algorithms"

_SHARED_DEVICE = (
    "work and the sum of the communication hidden behind it, expected times, share a device; "
    "exponent fitted to published steps, docs/accuracy.md"
)


@formula("V", "B", _PATARASUK)
def all_reduce_volume(size: Number, n: Number) -> Number:
    """Bytes each device sends in a ring all-reduce."""
    return 2 * size * (n - 1) / n


@formula("V", "B", _THAKUR)
def gather_volume(size: Number, n: Number) -> Number:
    """Bytes each device sends in a ring all-gather or reduce-scatter, and the root of a scatter sends or of a gather receives."""
    return size * (n - 1) / n


@formula("V", "B", _THAKUR)
def all_to_all_volume(size: Number, n: Number) -> Number:
    """Bytes each device sends in a direct all-to-all: all of its buffer but its own share."""
    return size * (n - 1) / n


@formula("V", "B", _PATARASUK + "; chunk after chunk down a chain, a reduce in the other direction")
def broadcast_volume(size: Number, n: Number) -> Number:
    """Bytes each device but the last sends in a pipelined broadcast or reduce."""
    return size * num.minimum(n - 1, 1)


@formula("V", "B", _THAKUR + "; binomial tree, which sends everything at every step")
def broadcast_tree_volume(size: Number, n: Number) -> Number:
    """Bytes the root sends in a broadcast or receives in a reduce by tree."""
    return size * broadcast_tree_steps(n)


@formula("V", "B", "a neighbor shift sends everything once; free in a group of one")
def permute_volume(size: Number, n: Number) -> Number:
    """Bytes each device sends in a collective permute."""
    return size * num.minimum(n - 1, 1)


@formula("V", "B", "NVIDIA SHARP: each device sends its data once and the switch returns the sum; Graham et al. 2016")
def reduced_in_network_volume(size: Number, n: Number) -> Number:
    """Bytes each device must send when the switch reduces."""
    return size * num.minimum(n - 1, 1)


@formula("V", "B", "Sanders, Speck, Traff 2009, Two-tree algorithms; every device reduces upward and broadcasts downward once")  # fmt: skip
def tree_all_reduce_volume(size: Number, n: Number) -> Number:
    """Bytes each device sends in a double binary tree all-reduce."""
    return 2 * size * num.minimum(n - 1, 1)


@formula("V", "B", _THAKUR + "; what leaves the inner domain of `inner` members but not the outer of `outer`")
def all_to_all_level_volume(size: Number, n: Number, outer: Number, inner: Number) -> Number:
    """Bytes of one device's send buffer that cross one network level in a direct all-to-all over n."""
    return size * (outer - inner) / n


@formula("B", "B/s", "Dally and Towles 2004, Principles and Practices of Interconnection Networks, chapter 3; counted in one direction")  # fmt: skip
def switch_bisection(n: Number, bandwidth: Number) -> Number:
    """Bandwidth between two halves of n devices on a switch without oversubscription."""
    return n / 2 * bandwidth


def torus_bisection(shape: tuple[int, ...], bandwidth: Number, rings: bool) -> Number:
    """Bandwidth in one direction between two halves of a torus: its longest axis is cut, in two places where it closes into a ring.

    shape: chips along each axis; bandwidth: B/s of a link, one way. Source: as switch_bisection.
    """
    return math.prod(shape) / max(shape) * (2 if rings and max(shape) > 2 else 1) * bandwidth


@formula("h", "hops", _PATARASUK)
def ring_all_reduce_steps(n: Number) -> Number:
    """Steps of a ring all-reduce."""
    return 2 * (n - 1)


@formula("h", "hops", _THAKUR)
def ring_steps(n: Number) -> Number:
    """Steps of a ring all-gather, reduce-scatter or pairwise all-to-all."""
    return n - 1


@formula("h", "hops", "Sanders, Speck, Traff 2009; NCCL's trees join hosts, and chain the devices inside one")
def hierarchical_tree_steps(n: Number, host: Number) -> Number:
    """2 (min(n, host) - 1 + log2(n/host)): up and down a tree of hosts."""
    hosts = num.maximum(n / host, 1)
    return 2 * (num.minimum(n, host) - 1 + num.ceil(num.log(hosts) / 0.6931471805599453 - 1e-9))


@formula("t_port", "s", "definition: bytes pass the port at its rate, the NIC at its own, and wait as long for both")
def time_on_port(time: Number, latency: Number, network: Number, port: Number) -> Number:
    """t_lat + (t - t_lat) N/N_port: what a collective over the NIC takes of the port."""
    return latency + (time - latency) * network / port


@formula(
    "t_comm",
    "s",
    "NCCL sends chunk after chunk, so the slowest level's wires set the pace; four P6-B200 nodes, 1 MiB to 16 GiB "
    "(stas00/ml-engineering, network/README.md, Aug 2026)",
)
def pipelined_time(first: Number, first_latency: Number, second: Number, second_latency: Number) -> Number:
    """Latencies of both levels, and the longer of their wire times."""
    wires = num.maximum(first - first_latency, second - second_latency)
    return first_latency + second_latency + wires


@formula(
    "c",
    "1",
    "r x h: a domain's uplinks carry the share x of its traffic at 1/r of its bandwidth, flows on one uplink by hash wait h times as "
    "long: 1.4 without planning, 1 with (C4, arXiv 2406.04594: 30 % below ideal at 512 devices, half of it back by planning)",
)
def uplink_contention(oversubscription: Number, collisions: Number, share: Number) -> Number:
    """max(1, r h x): how much longer wires take behind oversubscribed uplinks."""
    return num.maximum(oversubscription * collisions * share, 1)


@formula("r", "1", "hash collisions of 1.0 to 1.8 where they were not measured (five published figures)")
def contention_error(error: Number, collisions: Number) -> Number:
    """r + 1.8/h - 1: relative error of a collective over uplinks of unmeasured contention."""
    return error + 1.8 / collisions - 1


@formula("m", "devices", "the domain with the fewest members carries its whole part of the tensor over as many ports")
def least_members(members: Number, n: Number) -> Number:
    """n mod m, or m where domains are full."""
    rest = n - members * num.floor(n / members)
    return num.where(rest > 0, rest, members)


@formula("h", "hops", _THAKUR + "; binomial tree: who has it doubles at every step")
def broadcast_tree_steps(n: Number) -> Number:
    """Steps of a broadcast, reduce, scatter or gather by tree."""
    return num.ceil(num.log(n) / 0.6931471805599453 - 1e-9)


@formula("h", "hops", "Sanders, Speck, Traff 2009, Two-tree algorithms; up and down a binary tree")
def tree_steps(n: Number) -> Number:
    """Steps of a tree all-reduce."""
    return 2 * broadcast_tree_steps(n)


@formula("t_comm", "s", "bandwidth alone, the speed of light of a collective; " + _PATARASUK)
def collective_floor(volume: Number, bandwidth: Number) -> Number:
    """Time at full link bandwidth without latency."""
    return volume / bandwidth


@formula("t_comm", "s", "alpha-beta (Hockney 1994) with a square-root transition between the two; fitted, docs/accuracy.md")  # fmt: skip
def collective_time(
    volume: Number, bandwidth: Number, efficiency: Number, base: Number, per_hop: Number, gamma: Number, hops: Number
) -> Number:
    """base + per_hop hops + V/(e N) + sqrt(gamma V/N); nothing at all in a group of one."""
    wire = volume / bandwidth
    latency = num.minimum(hops, 1) * base + per_hop * hops
    return latency + wire / efficiency + num.sqrt(gamma * wire)


@formula(
    "r",
    "1",
    "what was fitted is replayed from graphs; launched from streams, on other clusters, small messages take up to 2.4 times as "
    "long (nccl-tests on 8 A100, stas00/ml-engineering@744d01e), large ones as long",
)
def message_error(error: Number, latency: Number, expected: Number) -> Number:
    """min(r + 2.7 latency / t, 1.4), or r where that is more: relative error of a collective, wider where latency counts."""
    return num.maximum(error, num.minimum(error + 2.7 * latency / expected, 1.4))


@formula(
    "e_low",
    "1",
    "a message that latency decides is never much faster than the graph replays that its latency was fitted to: a fifth of them are "
    "faster by half of the error or more (aiconfigurator-core 0.12.0, NCCL in a node, chips held out)",
)
def message_gain(error: Number, latency: Number, expected: Number) -> Number:
    """r (1 - min(4 latency / t, 1) / 2): relative error of a collective toward shorter times, narrower where latency counts."""
    return error * (1 - 0.5 * num.minimum(4 * latency / expected, 1))


@formula("t_comm", "s", "the library picks the faster algorithm for the size at hand")
def faster(first: Number, second: Number) -> Number:
    """The shorter of two times."""
    return num.minimum(first, second)


@formula("N", "B/s", "a full mesh has one link per pair, so a group uses the links among its own members")
def mesh_bandwidth(aggregate: Number, domain: Number, n: Number) -> Number:
    """Bandwidth of one device of a group of n in a mesh of `domain` devices."""
    return aggregate * num.maximum(n - 1, 1) / (domain - 1)


@formula("m", "devices", "groups are placed innermost first; a level holds what its size leaves after the stride")
def members_within(level_size: Number, stride: Number, n: Number) -> Number:
    """Members of a group of n (one every `stride` devices) that share one domain of a level."""
    return num.minimum(num.maximum(num.floor(level_size / stride), 1), n)


@formula("f", "groups", "domains that a group spans at the next level")
def fan_out(outer: Number, inner: Number) -> Number:
    """Members at a level once its inner domains count as one."""
    return num.maximum(num.ceil(outer / inner), 1)


@formula(
    "t_turns",
    "s",
    "every rank sends its part of the updated weights in a broadcast of its own; InternEvo, 8 to 1,024 ranks, docs/accuracy.md",
)
def serialized_wait(per_member: Number, n: Number) -> Number:
    """u (n - 1): what n ranks wait for one another when they send one after the other."""
    return per_member * (n - 1)


@formula("t_comm", "s", "a library that drives one port of a host leaves the others idle; the latency is the same")
def multi_rail_time(time: Number, latency: Number, rails: Number) -> Number:
    """latency + (t - latency)/rails."""
    return latency + (time - latency) / rails


@formula("t_hidden", "s", "the overlapped fraction, as long as there is work to hide behind")
def hidden(time: Number, overlap: Number) -> Number:
    """Communication that hides behind other work."""
    return time * overlap


@formula("t", "s", _SHARED_DEVICE)
def p_norm_overlap_time(work: Number, hidden: Number, p: Number) -> Number:
    """(work^p + hidden^p)^(1/p), never below either."""
    slow, fast = num.maximum(work, hidden), num.minimum(work, hidden)
    return slow * (1 + (fast / slow) ** p) ** (1 / p)


@formula("t_exposed", "s", "what overlap leaves visible")
def exposed(time: Number, overlap: Number) -> Number:
    """Communication that does not hide."""
    return time * (1 - overlap)


@formula("t_exposed", "s", "communication hides behind at most this much computation")
def exposed_behind(time: Number, cover: Number) -> Number:
    """Communication exposed behind `cover` seconds of computation."""
    return num.maximum(time - cover, 0)


@formula("t_hidden", "s", "communication hides behind at most this much computation; NVIDIA Megatron-LM, --moe-shared-expert-overlap")  # fmt: skip
def covered(time: Number, cover: Number) -> Number:
    """Communication hidden behind `cover` seconds of computation."""
    return num.minimum(time, cover)


_BOOK = "Austin et al. 2025, How to Scale Your Model (JAX Scaling Book), chapters 2 and 3"
_LN2 = 0.6931471805599453


@formula("l", "devices", "slices are as close to a cube as powers of two allow; Google Cloud TPU documentation, topologies")  # fmt: skip
def axis_length(devices: Number, axes: Number, index: Number) -> Number:
    """Length of axis `index` (0 the shortest) of a slice of a number of devices."""
    return 2.0 ** num.floor((num.log(devices) / _LN2 + 1e-9 + index) / axes)


def is_power_of_two(devices: Number) -> bool:
    """Whether a slice of a number of devices has the shape that `axis_length` gives."""
    count = float(num.value(devices))
    return count >= 1 and 2.0 ** round(num.log(count) / _LN2) == count


@formula("d", "1", _BOOK + "; v5e and v6e close only an axis of 16")
def directions_axis_16(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """2 where the members close an axis of at least 16, else 1."""
    return num.where(m * step >= num.maximum(length, 16), 2, 1)


@formula("d", "1", _BOOK + "; v4 and v5p close axes when the slice is made of 4x4x4 cubes")
def directions_cubes(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """2 where the members close an axis of a slice of whole cubes, else 1."""
    cubes = (num.floor(length / 4) * 4 == length) & (slice_devices >= 64)
    return num.where((m * step >= num.maximum(length, 4)) & cubes, 2, 1)


@formula("d", "1", "an axis of three or more devices is always a ring")
def directions_always(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """2 where the members cover a whole axis, else 1."""
    return num.where(m * step >= num.maximum(length, 3), 2, 1)


@formula("d", "1", "no axis closes")
def directions_never(m: Number, step: Number, length: Number, slice_devices: Number) -> Number:
    """1: open lines only."""
    return num.minimum(m, 1)


@formula("r", "links", _BOOK)
def links(m: Number, step: Number, directions: Number) -> Number:
    """Links of one device that a group can use along an axis: none when it has one member there."""
    return num.minimum(m - 1, 1) * directions / step


@formula("h", "hops", _BOOK)
def axis_hops(m: Number, step: Number, directions: Number) -> Number:
    """Hops to the farthest member along an axis; half the way round a ring."""
    return num.ceil((m - 1) / directions) * step


@formula("V", "B", _BOOK + "; all-to-all costs a quarter of an all-gather on a ring with both directions")
def all_to_all_link_bytes(size: Number, m: Number, step: Number, directions: Number) -> Number:
    """Bytes over the busiest link of an axis when every device sends `size` evenly to the m members: floor(m^2/4)/m, halved by a ring."""
    return size * num.floor(m * m / 4) / m / directions * step


# all-to-all throughput of a twisted slice over the regular one, by its shape: Jouppi et al. 2023, TPU v4 (arXiv 2304.01433), section 2.8
TWISTED = {(1.0, 1.0, 2.0): 1.63, (1.0, 2.0, 2.0): 1.31}


@formula("N", "B/s", _BOOK + "; data is split over the axes and circles them at the same time")
def torus_bandwidth(link: Number, link_count: Number) -> Number:
    """Bandwidth of a device over a number of links, at least one."""
    return link * num.maximum(link_count, 1)


_DEEPEP = "DeepEP, github.com/deepseek-ai/DeepEP"
_FIT = "fitted to the DeepEP and NVLink tables of aiconfigurator-core 0.12.0, half of the shapes held out; docs/accuracy.md"


@formula("R", "ranks", "k experts drawn independently over n places: the places that at least one of them is in")
def destinations_visited(places: Number, top_k: Number) -> Number:
    """n (1 - (1 - 1/n)^k): ranks, or nodes, that the experts of a token are on."""
    return places * (1 - (1 - 1 / places) ** top_k)


@formula("M", "nodes", "DeepSeek-V3, arXiv 2412.19437, section 2.1.2: a router limited to a number of nodes")
def nodes_visited(nodes: Number, top_k: Number, limit: Number) -> Number:
    """min(q, N (1 - (1 - 1/N)^k))."""
    return num.minimum(limit, destinations_visited(nodes, top_k))


@formula("V_v", "B", _DEEPEP + ", low-latency kernels: a copy for every chosen expert")
def copies_inside(tokens: Number, top_k: Number, d_model: Number, x_bytes: Number, n: Number, inside: Number) -> Number:
    """m k D w (g - 1) / n: bytes that a rank sends over NVLink."""
    return tokens * top_k * d_model * x_bytes * (inside - 1) / n


@formula("V_r", "B", _DEEPEP + ", low-latency kernels: a copy for every chosen expert")
def copies_outside(
    tokens: Number, top_k: Number, d_model: Number, x_bytes: Number, n: Number, inside: Number
) -> Number:
    """m k D w (n - g) / n: bytes that a rank sends between nodes."""
    return tokens * top_k * d_model * x_bytes * (n - inside) / n


@formula("V_v", "B", _DEEPEP + ", normal kernels: one copy for each rank that a token visits")
def merged_inside(tokens: Number, d_model: Number, x_bytes: Number, visited: Number, inside: Number) -> Number:
    """m D w R (g - 1) / g."""
    return tokens * d_model * x_bytes * visited * (inside - 1) / inside


@formula("V_r", "B", _DEEPEP + ", normal kernels: one copy for each node that a token visits")
def merged_outside(tokens: Number, d_model: Number, x_bytes: Number, visited: Number, nodes: Number) -> Number:
    """m D w M (N - 1) / N."""
    return tokens * d_model * x_bytes * visited * (nodes - 1) / nodes


@formula("V", "B", "an all-gather of every rank's tokens (or a reduce-scatter of their results): experts not here are masked")  # fmt: skip
def gathered(tokens: Number, d_model: Number, x_bytes: Number, members: Number) -> Number:
    """m D w (n - 1)."""
    return tokens * d_model * x_bytes * (members - 1)


@formula("t_x", "s", _FIT)
def exchange_time(
    overhead: Number, per_node: Number, nodes: Number, inside: Number, outside: Number, present: Number
) -> Number:
    """o + h (N - 1) + |t_v, t_r|_4; nothing in a group of one, where `present` is 0."""
    slow, fast = num.maximum(inside, outside), num.minimum(inside, outside)
    joined = slow * (1 + (fast / num.maximum(slow, 1e-30)) ** 4) ** 0.25
    return present * (overhead + per_node * (nodes - 1) + joined)


@formula("1", "1", "definition")
def exchanged(n: Number) -> Number:
    """1 where there is anybody to exchange with."""
    return num.minimum(n - 1, 1)


@formula(
    "t_ar",
    "s",
    "every device reads all others' data at once; "
    + "fitted to custom all-reduces of vLLM, SGLang and TensorRT-LLM; docs/accuracy.md",
)
def one_shot_all_reduce(overhead: Number, size: Number, n: Number, efficiency: Number, bandwidth: Number) -> Number:
    """o + (n - 1) S / (e_1 N)."""
    return overhead + (n - 1) * size / (efficiency * bandwidth)


@formula("t_ar", "s", "reduce-scatter, barrier, all-gather; fitted to custom all-reduces of vLLM, SGLang and TensorRT-LLM; docs/accuracy.md")  # fmt: skip
def two_shot_all_reduce(
    overhead: Number, barrier: Number, size: Number, n: Number, efficiency: Number, bandwidth: Number
) -> Number:
    """o + o_2 + 2 (n - 1) / n S / (e_2 N)."""
    return overhead + barrier + 2 * (n - 1) / n * size / (efficiency * bandwidth)
