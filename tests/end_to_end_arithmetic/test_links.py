"""Collectives of every kind of network on round figures, in plain arithmetic: `roofline collective` on small chips."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from conftest import run_cli

HEAD = """
name: {name}
vendor: nobody
kind: gpu
peak: {{bf16: {{value: 100 TFLOP/s, source: by hand}}}}
memory: {{capacity: {{value: 50 GB, source: by hand}}, bandwidth: {{value: 1 TB/s, source: by hand}}}}
measured: {{complete: 1}}
network:
"""
LEVEL = """  - name: {name}
    kind: {kind}
    bandwidth: {{value: {rate} GB/s, source: by hand}}
    latency: {{value: {latency} us, source: by hand}}
    efficiency: {{any: {{memory: {e}, overhead: {base} us, per_hop: {hop} us, gamma: {gamma} us, error: 0.3, source: by hand}}}}
"""
CONSTANTS = {"rate": 100, "latency": 0.5, "e": 0.8, "base": 5, "hop": 2, "gamma": 3}
SIZE = 10_000_000


@pytest.fixture
def priced(tmp_path: Path):
    """priced(levels, op, n, size): the answer of `roofline collective` on a chip of these levels."""

    def price(levels: str, op: str, n: int, size: float = SIZE) -> dict:
        path = tmp_path / "chip.yaml"
        path.write_text(HEAD.format(name="Links") + levels, encoding="utf-8")
        ran = run_cli("collective", op, f"{size:.0f}B", "--hw", str(path), "-n", str(n), "--format", "json")
        assert ran.code == 0, ran.err
        return ran.json

    return price


def level(kind: str, more: str = "", **constants: float) -> str:
    return LEVEL.format(**{"name": kind, "kind": kind, **CONSTANTS, **constants}) + more


def wire(volume: float, rate: float, hops: float, hop: float = 2e-6) -> float:
    """5 us, a time per hop, the wire at 0.8, and the square root between the two."""
    return 5e-6 + hop * hops + volume / rate / 0.8 + math.sqrt(3e-6 * volume / rate)


SWITCH = level("switch", "    size: 8\n")


@pytest.mark.parametrize(
    ("op", "volume"),
    [
        ("all-reduce", 2 * SIZE * 7 / 8),
        ("all-gather", SIZE * 7 / 8),
        ("reduce-scatter", SIZE * 7 / 8),
        ("all-to-all", SIZE / 8 * 7 / 8),
        ("permute", SIZE / 8),
    ],
)
def test_a_switch(priced, op, volume):
    """SIZE is the whole tensor: an all-to-all and a permute start from an eighth of it; a neighbor is one hop away."""
    answer = priced(SWITCH, op, 8)
    assert answer["floor_s"] == pytest.approx(volume / 100e9)
    assert answer["time_s"] == pytest.approx(wire(volume, 100e9, 1 if op == "permute" else 7))


def test_pcie_is_a_ring_through_the_host(priced):
    answer = priced(level("pcie", "    size: 8\n"), "all-gather", 4)
    assert answer["time_s"] == pytest.approx(wire(SIZE * 3 / 4, 100e9, 3))


SUMMING = SWITCH + "    in_network_reduction: true\n"


def test_a_switch_that_sums_lowers_the_floor(priced):
    """Each device sends its data once; what it takes is the ring's while nothing is known of the sum's rate."""
    answer = priced(SUMMING, "all-reduce", 8)
    assert answer["floor_s"] == pytest.approx(SIZE / 100e9)
    assert answer["time_s"] == pytest.approx(wire(2 * SIZE * 7 / 8, 100e9, 7))
    assert priced(SUMMING, "all-gather", 8)["floor_s"] == pytest.approx(SIZE * 7 / 8 / 100e9)


def test_the_faster_of_ring_and_sum(priced):
    summing = SUMMING.replace(
        "source: by hand}}\n    size",
        "source: by hand}, all-reduce-in-network: {memory: 0.6, overhead: 30 us, per_hop: 1 us, error: 0.2, source: by hand}}\n    size",
    )
    assert summing != SUMMING
    ring = [wire(2 * s * 7 / 8, 100e9, 7) for s in (1e4, 1e8)]
    summed = [30e-6 + 7 * 1e-6 + s / 100e9 / 0.6 for s in (1e4, 1e8)]
    assert ring[0] < summed[0] and summed[1] < ring[1]
    small, large = (priced(summing, "all-reduce", 8, size) for size in (1e4, 1e8))
    assert small["time_s"] == pytest.approx(ring[0]) and small["algorithm"] == "ring"
    assert large["time_s"] == pytest.approx(summed[1]) and large["algorithm"] == "in-network reduction"


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_mesh_uses_the_links_among_its_members(priced, n):
    """Eight devices, seven links each of 100/7 GB/s: a group of n has n - 1 of them; a pair passes on by one."""
    mesh = level("mesh", "    size: 8\n")
    gathered = priced(mesh, "all-gather", n)
    assert gathered["time_s"] == pytest.approx(wire(SIZE * (n - 1) / n, 100e9 * (n - 1) / 7, n - 1))
    assert gathered["floor_s"] == pytest.approx(SIZE / n / (100e9 / 7))
    assert priced(mesh, "permute", n)["floor_s"] == pytest.approx(SIZE / n / (100e9 / 7))


FABRIC = level("fabric")


@pytest.mark.parametrize(
    ("op", "volume", "hops"), [("all-gather", 15 / 16, 15), ("all-to-all", 15 / 16 / 16, 1), ("permute", 1 / 16, 1)]
)
def test_a_network_of_hosts(priced, op, volume, hops):
    answer = priced(FABRIC, op, 16)
    assert answer["time_s"] == pytest.approx(wire(volume * SIZE, 100e9, hops))
    assert answer["floor_s"] == pytest.approx(volume * SIZE / 100e9)


@pytest.mark.parametrize("size", [1e4, 1e9])
def test_many_hosts_reduce_small_tensors_by_a_tree(priced, size):
    """A ring of 16 takes 30 steps, two binary trees 2 x 4 and a sixteenth more bytes."""
    ring = wire(2 * size * 15 / 16, 100e9, 30)
    tree = wire(2 * size, 100e9, 8)
    assert (tree < ring) == (size == 1e4)
    answer = priced(FABRIC, "all-reduce", 16, size)
    assert answer["time_s"] == pytest.approx(min(ring, tree))
    assert answer["algorithm"] == ("tree" if tree < ring else "ring")


def test_a_slow_link_is_no_faster_than_its_latency(priced):
    """A hop takes the level's own 4 us where that is more than what was fitted."""
    slow = level("fabric", latency=4)
    assert priced(slow, "permute", 2)["time_s"] == pytest.approx(wire(SIZE / 2, 100e9, 1, hop=4e-6))


TORUS = "    size: 64\n    axes: 3\n    shape: [4, 4, 4]\n    wrap: {wrap}\n"


@pytest.mark.parametrize(("wrap", "links", "hops"), [("always", 6, 2), ("never", 3, 3), ("cubes-4x4x4", 6, 2)])
@pytest.mark.parametrize("shape", ["", "    shape: [4, 4, 4]\n"])
def test_a_whole_cube(priced, wrap, links, hops, shape):
    """Three axes of four, each a ring of both directions or an open line; half or all the way along each."""
    torus = level("torus", TORUS.format(wrap=wrap).replace("    shape: [4, 4, 4]\n", shape))
    gathered = priced(torus, "all-gather", 64)
    assert gathered["floor_s"] == pytest.approx(SIZE * 63 / 64 / (links * 100e9))
    assert gathered["time_s"] == pytest.approx(wire(SIZE * 63 / 64, links * 100e9, 3 * hops))
    reduced = priced(torus, "all-reduce", 64)
    assert reduced["time_s"] == pytest.approx(wire(2 * SIZE * 63 / 64, links * 100e9, 2 * 3 * hops))


@pytest.mark.parametrize(("wrap", "links", "hops"), [("always", 2, 2), ("cubes-4x4x4", 1, 3), ("never", 1, 3)])
def test_one_axis_of_four_closes_by_itself_or_only_in_a_slice_of_cubes(priced, wrap, links, hops):
    """Four devices alone are a line of a 1 x 2 x 2 or 4 x 1 x 1 slice; here the slice is the group."""
    torus = level("torus", f"    size: 4\n    axes: 1\n    shape: [4]\n    wrap: {wrap}\n")
    assert priced(torus, "all-gather", 4)["time_s"] == pytest.approx(wire(SIZE * 3 / 4, links * 100e9, hops))


@pytest.mark.parametrize(("n", "links", "hops"), [(16, 2, 8), (8, 1, 7)])
def test_an_axis_of_sixteen_closes_and_one_of_eight_does_not(priced, n, links, hops):
    torus = level("torus", "    size: 16\n    axes: 1\n    shape: [16]\n    wrap: axis-16\n")
    assert priced(torus, "all-gather", n)["time_s"] == pytest.approx(wire(SIZE * (n - 1) / n, links * 100e9, hops))


@pytest.mark.parametrize(("wrap", "load"), [("always", 16 / 4 / 4 / 2), ("never", 16 / 4 / 4)])
def test_all_to_all_on_a_line_is_as_slow_as_its_middle(priced, wrap, load):
    """floor(m^2 / 4) / m of a device's buffer crosses the middle link, half of it on a ring."""
    torus = level("torus", f"    size: 4\n    axes: 1\n    shape: [4]\n    wrap: {wrap}\n")
    assert priced(torus, "all-to-all", 4)["floor_s"] == pytest.approx(SIZE / 4 * load / 100e9)


def test_a_permute_takes_one_link(priced):
    torus = level("torus", TORUS.format(wrap="always"))
    assert priced(torus, "permute", 64)["time_s"] == pytest.approx(wire(SIZE / 64, 100e9, 1))


def test_hosts_reduce_what_is_left_after_the_switch(priced):
    """Level by level, chunk after chunk: all of it inside, an eighth outside, the slower wires; an all-to-all uses both at once."""
    both = SWITCH + level("fabric", rate=10)
    eighth = SIZE / 8
    outside = min(wire(2 * eighth / 2, 10e9, 2), wire(2 * eighth, 10e9, 2))
    latencies = (5e-6 + 7 * 2e-6, 5e-6 + 2 * 2e-6)
    wires = max(wire(2 * SIZE * 7 / 8, 100e9, 7) - latencies[0], outside - latencies[1])
    answer = priced(both, "all-reduce", 16)
    assert answer["time_s"] == pytest.approx(sum(latencies) + wires)
    assert answer["floor_s"] == pytest.approx(max(2 * SIZE * 7 / 8 / 100e9, 2 * eighth / 2 / 10e9))
    exchanged = priced(both, "all-to-all", 16)
    inside, away = wire(SIZE / 16 * 7 / 16, 100e9, 7), wire(SIZE / 16 * 8 / 16, 10e9, 1)
    assert exchanged["time_s"] == pytest.approx(max(inside, away))
