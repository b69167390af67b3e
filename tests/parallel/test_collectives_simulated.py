"""Closed forms of collectives against chunk-level simulations that move real chunks over real links."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest

from rooflinecli.formulas import collectives as f
from rooflinecli.formulas import collectives as t

SIZE = 5040.0 * 64


def ring_all_reduce(n: int) -> tuple[list[list[set[int]]], float, int]:
    """Reduce-scatter then all-gather round a ring: who is summed into each chunk everywhere, bytes a device sends, steps."""
    held = [[{d} for _ in range(n)] for d in range(n)]
    sent, steps = 0.0, 0
    for phase in range(2):
        for step in range(n - 1):
            moves = [(d, (d - step + phase) % n, set(held[d][(d - step + phase) % n])) for d in range(n)]
            for d, chunk, content in moves:
                target = held[(d + 1) % n]
                target[chunk] = target[chunk] | content
            sent, steps = sent + SIZE / n, steps + 1
    return held, sent, steps


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 16])
def test_ring_all_reduce(n):
    held, sent, steps = ring_all_reduce(n)
    assert all(chunk == set(range(n)) for device in held for chunk in device)
    assert sent == pytest.approx(f.all_reduce_volume(SIZE, n))
    assert steps == f.ring_all_reduce_steps(n)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_ring_all_gather_and_reduce_scatter_each_send_half_of_an_all_reduce(n):
    held = [{d} for d in range(n)]
    sent = 0.0
    latest = list(range(n))
    for _ in range(n - 1):
        latest = [latest[(d - 1) % n] for d in range(n)]
        for d in range(n):
            held[d].add(latest[d])
        sent += SIZE / n
    assert all(h == set(range(n)) for h in held)
    assert sent == pytest.approx(f.gather_volume(SIZE, n)) == pytest.approx(f.all_reduce_volume(SIZE, n) / 2)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 13, 16, 64])
def test_tree_all_reduce_steps(n):
    """A binomial tree: pairs at distance 1, 2, 4 ... merge, then the sum comes back down."""
    held = [{d} for d in range(n)]
    distance, steps = 1, 0
    while distance < n:
        for d in range(0, n, 2 * distance):
            if d + distance < n:
                held[d] |= held[d + distance]
        distance, steps = distance * 2, steps + 1
    assert held[0] == set(range(n))
    assert f.tree_steps(float(n)) == 2 * steps
    assert f.all_reduce_volume(SIZE, n) <= f.tree_all_reduce_volume(SIZE, n)


def route(a: int, b: int, n: int, ring: bool) -> list[tuple[list[tuple[int, int]], float]]:
    """Links from a to b along an axis with the share of the message on each route; a tie goes half each way."""
    up = [((a + i) % n, (a + i + 1) % n) for i in range((b - a) % n)]
    down = [((a - i) % n, (a - i - 1) % n) for i in range((a - b) % n)]
    if not ring:
        return [(up if b >= a else down, 1.0)]
    if len(up) == len(down):
        return [(up, 0.5), (down, 0.5)]
    return [(min(up, down, key=len), 1.0)]


@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.parametrize("n", [3, 4, 5, 8, 16])  # two devices have one link, so no ring
def test_all_to_all_loads_the_busiest_link_as_the_formula_says(n, ring):
    load: dict[tuple[int, int], float] = defaultdict(float)
    for a in range(n):
        for b in range(n):
            for links, share in route(a, b, n, ring) if a != b else []:
                for link in links:
                    load[link] += share * SIZE / n
    assert max(load.values()) == pytest.approx(t.all_to_all_link_bytes(SIZE, float(n), 1.0, 2.0 if ring else 1.0))


@pytest.mark.parametrize("shape", [(3, 3), (4, 4), (4, 8), (3, 5)])
def test_all_to_all_on_two_axes_is_bound_by_the_longer(shape):
    rows, cols = shape
    load: dict[tuple, float] = defaultdict(float)
    for r in range(rows):
        for c in range(cols):
            for r2 in range(rows):
                for c2 in range(cols):
                    for links, share in route(r, r2, rows, True) if r != r2 else []:
                        for link in links:
                            load["row", c, link] += share * SIZE / (rows * cols)
                    for links, share in route(c, c2, cols, True) if c != c2 else []:
                        for link in links:
                            load["col", r2, link] += share * SIZE / (rows * cols)
    expected = max(t.all_to_all_link_bytes(SIZE, float(m), 1.0, 2.0) for m in shape)
    assert max(load.values()) == pytest.approx(expected)


@pytest.mark.parametrize("m", [2, 3, 4, 8])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_all_gather_on_a_closed_torus_uses_every_axis_both_ways(m, axes):
    """Each chunk is cut into `axes` parts and each part in two halves; part i starts on axis i and halves go both ways round."""
    n = m**axes
    busiest: dict[tuple[int, int], float] = defaultdict(
        float
    )  # (phase, axis) -> bytes over one link of that axis, one way
    for part in range(axes):
        held = SIZE / n / axes
        for phase in range(axes):
            axis = (part + phase) % axes
            busiest[phase, axis] += (m - 1) * held / 2
            held *= m
    seconds = sum(max(busiest[phase, axis] for axis in range(axes)) for phase in range(axes))
    links = sum(t.links(float(m), 1.0, 2.0) for _ in range(axes))
    assert f.collective_floor(f.gather_volume(SIZE, n), t.torus_bandwidth(1.0, links)) == pytest.approx(seconds)


@pytest.mark.parametrize("m", [2, 4, 7])
def test_all_gather_on_an_open_line_waits_for_its_end(m):
    """The device at the end receives everything over its only link."""
    received = sum(SIZE / m for _ in range(m - 1))
    assert f.gather_volume(SIZE, m) / t.torus_bandwidth(1.0, t.links(float(m), 1.0, 1.0)) == pytest.approx(received)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_mesh_of_pairs_gathers_directly(n):
    """xGMI: a device sends its shard to every other member at once, 64 GB/s a pair."""
    pair = 448e9 / 7
    assert f.gather_volume(SIZE, n) / f.mesh_bandwidth(448e9, 8, n) == pytest.approx(SIZE / n / pair)


@pytest.mark.parametrize(("inner", "outer"), [(8, 2), (8, 16), (4, 3)])
def test_levels_of_an_all_reduce_send_what_one_ring_would(inner, outer):
    """Reduce inside, exchange outside, gather inside: together the bytes of a flat ring over all."""
    whole = f.all_reduce_volume(SIZE, inner) + f.all_reduce_volume(SIZE / inner, outer)
    assert whole == pytest.approx(f.all_reduce_volume(SIZE, inner * outer))


@pytest.mark.parametrize(("n", "host"), [(16, 8), (64, 8), (12, 4)])
def test_levels_of_an_all_to_all_carry_every_message_once(n, host):
    inside = f.all_to_all_level_volume(SIZE, n, host, 1)
    outside = f.all_to_all_level_volume(SIZE, n, n, host)
    assert inside + outside == pytest.approx(f.all_to_all_volume(SIZE, n))
    assert outside == pytest.approx(SIZE * sum(1 for d in range(n) if d // host) / n)


@pytest.mark.parametrize("log2", range(1, 13))
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_slices_multiply_to_their_devices(log2, axes):
    lengths = [t.axis_length(2.0**log2, float(axes), float(i)) for i in range(axes)]
    assert math.prod(lengths) == 2**log2
    assert lengths == sorted(lengths) and lengths[-1] <= 2 * lengths[0]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 16, 64])
def test_broadcast_and_scatter_by_a_binomial_tree(n):
    """The root hands the upper half of its range to the first device there, and so on: everything at each step, or only that half."""
    ranges, steps, copies, parts = [(0, n)], 0, 0.0, 0.0
    while any(last - first > 1 for first, last in ranges):
        following = []
        for first, last in ranges:
            middle = first + (last - first + 1) // 2
            following += [(first, middle), (middle, last)] if last - first > 1 else [(first, last)]
            if first == 0 and last > 1:
                copies, parts = copies + SIZE, parts + SIZE / n * (last - middle)
        ranges, steps = following, steps + 1
    assert ranges == [(d, d + 1) for d in range(n)]  # everybody was reached
    assert steps == f.broadcast_tree_steps(n)
    assert copies == pytest.approx(f.broadcast_tree_volume(SIZE, n))
    assert parts == pytest.approx(f.gather_volume(SIZE, n))


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_broadcast_down_a_chain(n):
    """Chunk after chunk to the next device: all but the last send everything, the last has its first chunk after n - 1 steps."""
    chunks, held, sent, first = 16, [16] + [0] * (n - 1), [0.0] * n, 0
    for step in range(chunks + n):
        moves = [d for d in range(n - 1) if held[d] > held[d + 1]]
        for d in moves:
            held[d + 1], sent[d] = held[d + 1] + 1, sent[d] + SIZE / chunks
        first = first or (step + 1 if held[-1] else 0)
    assert held == [16] * n and first == f.ring_steps(n)
    assert sent == pytest.approx([f.broadcast_volume(SIZE, n)] * (n - 1) + [0.0])
