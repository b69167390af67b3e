"""Tiers of a fabric: oversubscription, hash collisions, rails, SHARP between nodes, several collectives at once, twisted tori, order of the axes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflinecli.ledger.ops import Collective
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import price_collective
from rooflinecli.questions.collective.answer import collective
from rooflinecli.questions.search.question import TrainingLayout
from rooflinecli.questions.search.search_request import question
from rooflinecli.questions.search.training import search
from rooflinecli.specs.hardware import HardwareSpec, Level, load_hardware
from rooflinecli.specs.layout import Layout

CLUSTER = Path(__file__).parents[2] / "examples" / "llama3-cluster.yaml"


@pytest.fixture
def cluster() -> HardwareSpec:
    return load_hardware(str(CLUSTER))


def changed(spec: HardwareSpec, index: int, **fields: object) -> HardwareSpec:
    """The chip with fields of a network level changed."""
    levels: list[Level] = list(spec.network)
    levels[index] = levels[index].with_changes(**fields)
    return spec.with_changes(network=levels)


def test_a_ring_over_two_tiers_is_one_ring_until_its_uplinks_are_full(cluster: HardwareSpec) -> None:
    """24 members of every pod (stride 128) share uplinks of a seventh: 7 x 1.4/24 < 1, so the ring goes at its ports' rate."""
    one = changed(cluster, 2, oversubscription=1.0, collisions=1.0)
    across = {"regime": "training", "stride": 128.0}
    free, narrow = (collective("all-gather", 8e9, spec, 96.0, **across).expected_s for spec in (one, cluster))
    assert narrow == pytest.approx(free)
    # one member per pod (stride 3,072): every byte crosses, at 7 x 1.4 of the wire
    far = {"regime": "training", "stride": 3072.0}
    free, narrow = (collective("all-gather", 8e9, spec, 4.0, **far).expected_s for spec in (one, cluster))
    assert narrow == pytest.approx(9.8 * free, rel=0.01)


def test_a_third_of_the_stages_shift_across_a_pod(cluster: HardwareSpec) -> None:
    """Stages of 1,024 devices: one of three in a pod sends beyond it, so a seventh of the uplink is 7 x 1.4/3 of the time."""
    free, narrow = (
        collective("permute", 4e9, spec, 16.0, regime="training", stride=1024.0).expected_s
        for spec in (changed(cluster, 2, oversubscription=1.0, collisions=1.0), cluster)
    )
    assert narrow == pytest.approx(7 * 1.4 / 3 * free, rel=0.01)


def test_an_all_to_all_waits_for_the_bytes_that_cross(cluster: HardwareSpec) -> None:
    """Half of the pairs of two pods are apart: 7 x 1.4 x 1/2 of the time on the ports."""
    free, narrow = (
        collective("all-to-all", 8e9, spec, 6144.0).levels[-1]["expected_s"]
        for spec in (changed(cluster, 2, oversubscription=1.0, collisions=1.0), cluster)
    )
    assert narrow == pytest.approx(7 * 1.4 / 2 * free, rel=0.03)


def test_rails_keep_rings_apart_and_not_exchanges(cluster: HardwareSpec) -> None:
    colliding, railed = changed(cluster, 1, collisions=1.4), changed(cluster, 1, collisions=1.4, rails=True)
    for op, slower in (("all-reduce", True), ("all-to-all", False)):
        plain, rails = (collective(op, 8e9, spec, 512.0).expected_s for spec in (colliding, railed))
        assert (rails < 0.8 * plain) == slower and rails <= plain
    free, railed = (
        collective("all-reduce", 8e9, changed(cluster, 1, collisions=c, rails=True), 512.0).expected_s
        for c in (None, 1.4)
    )
    assert railed == pytest.approx(free)  # each rail has a switch of its own


def test_unmeasured_contention_is_wide_and_ones_own_measurement_closes_it(cluster: HardwareSpec) -> None:
    def width(spec: HardwareSpec) -> float:
        answer = collective("all-to-all", 8e9, spec, 6144.0)
        return (answer.interval_s[1] - answer.expected_s) / answer.expected_s

    assert width(cluster) == pytest.approx(0.35 + 1.8 / 1.4 - 1, rel=0.01)
    assert width(changed(cluster, 2, collisions=1.4)) < 0.65 * width(cluster)
    chip = Chip(cluster).with_factors({"efficiency.collective.memory": 0.9})
    asked = Collective("c", "all-to-all", 8e9, "ep", 6144.0, 1.0)
    assert (
        price_collective(asked, chip, "kernel", 6144.0).error
        < price_collective(asked, Chip(cluster), "kernel", 6144.0).error
    )


def test_floor_under_expected_and_sharp_sends_half(cluster: HardwareSpec) -> None:
    constants = cluster.network[1].efficiency["any"].with_changes(memory=0.9)
    sharp = changed(
        cluster, 1, in_network_reduction=True, efficiency={"any": constants, "all-reduce-in-network": constants}
    )
    ring, summed = (collective("all-reduce", 8e9, spec, 2048.0) for spec in (cluster, sharp))
    assert summed.levels[1]["algorithm"] == "in-network reduction"
    assert summed.levels[1]["volume_bytes"] == pytest.approx(ring.levels[1]["volume_bytes"] / 2, rel=0.01)
    for op in ("all-reduce", "all-gather", "all-to-all", "permute"):
        for n in (16.0, 3072.0, 12288.0):
            answer = collective(op, 1e9, cluster, n)
            assert answer.floor_s <= answer.expected_s


def test_collectives_at_once_share_the_wire_and_not_the_latency(cluster: HardwareSpec) -> None:
    one, four = (collective("all-gather", 8e9, cluster, 64.0, concurrent=k) for k in (1.0, 4.0))
    assert four.floor_s == pytest.approx(4 * one.floor_s)
    assert four.latency_s == pytest.approx(one.latency_s)


@pytest.mark.parametrize(("chips", "gain"), [(128, 1.63), (256, 1.31), (512, 1.0)])
def test_twisted_tori(chips: int, gain: float) -> None:
    """Jouppi et al. 2023, TPU v4: 1.63 times the all-to-all throughput on 4x4x8, 1.31 on 4x8x8."""
    plain = load_hardware("tpu-v4")
    twisted = changed(plain, 0, twisted=True)
    regular, better = (collective("all-to-all", 8e9, spec, chips) for spec in (plain, twisted))
    assert regular.floor_s / better.floor_s == pytest.approx(gain)


def test_optical_switches_join_cubes_in_any_shape() -> None:
    """512 chips as 4 x 4 x 32: the long axis makes an all-to-all four times as slow as a cube of 8."""
    plain = load_hardware("tpu-v4")
    long = changed(plain, 0, slice=[4, 4, 32])
    cube, bar = (collective("all-to-all", 8e9, spec, 512) for spec in (plain, long))
    assert bar.floor_s == pytest.approx(4 * cube.floor_s)


# S. Bekman, Machine Learning Engineering, network/README.md (stas00/ml-engineering, Aug 2026): bus bandwidth in GB/s over four P6-B200 nodes
EFA = {2**17: 0.45, 2**19: 2.84, 2**21: 10.38, 2**23: 35.12, 2**25: 91.19, 2**27: 197.94, 2**29: 326.9, 2**31: 372.42, 2**33: 380.39}  # fmt: skip


def test_four_nodes_over_efa() -> None:
    chip = load_hardware("p6-b200")
    errors = [
        abs(float(collective("all-reduce", float(size), chip, 32).bus_bandwidth_bytes_per_s) / (rate * 1e9) - 1)
        for size, rate in EFA.items()
    ]
    assert sum(errors) / len(errors) < 0.15


def test_strides_follow_the_placement() -> None:
    sizes = {"tp": 8.0, "cp": 16.0, "pp": 16.0, "dp": 8.0}
    usual, llama3 = Layout(**sizes), Layout(**sizes, placement="tp-cp-pp-dp")
    assert (usual.stride["dp"], usual.stride["pp"]) == (128, 1024)
    assert (llama3.stride["pp"], llama3.stride["dp"]) == (128, 2048)
    assert (usual.replica_stride, llama3.replica_stride) == (8, 128)


@pytest.mark.slow
@pytest.mark.parametrize(("oversubscription", "order"), [(7.0, "tp-cp-pp-dp"), (1.0, "tp-cp-dp-pp")])
def test_llama_3s_order_of_axes(cluster: HardwareSpec, oversubscription: float, order: str, tmp_path: Path) -> None:
    """Llama 3 report, section 3.3.2: [TP, CP, PP, DP], optimized for network communication (tp8 cp16 pp16 dp8 at 131,072 tokens)."""
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.read_text().replace("oversubscription: 7", f"oversubscription: {oversubscription:g}"))
    options = {"model": "llama-3.1-405b", "hw": str(path), "phase": "train", "n": "16384", "seq-len": "131072", "batch": "128", "tp": "8", "cp": "16", "pp": "16"}  # fmt: skip
    best = search(question(options, "throughput", [])).top(1)[0].layout
    assert isinstance(best, TrainingLayout)
    assert (best.placement, best.dp) == (order, 8)
