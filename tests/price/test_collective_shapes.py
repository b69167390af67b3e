"""Collectives over slices, partly filled hosts and racks: bytes and rates worked out by hand."""

from __future__ import annotations

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.price.fabrics import slice_shape
from rooflinecli.questions.collective.answer import along_axes, collective
from rooflinecli.specs.hardware import load_hardware

MIB = 2.0**20


def ask(op: str, size: float, hw: str, n: float, **options):
    return collective(op, size, load_hardware(hw), n, efficiency="ideal", **options)


def test_an_axis_of_a_pod_is_a_ring() -> None:
    """The Scaling Book's all-gather over one axis of v5p: V / (2 links x 90 GB/s)."""
    chip = load_hardware("tpu-v5p")
    answer = ask("all-gather", 256 * MIB, "tpu-v5p", 16.0, mesh=along_axes(chip, {"x": 16.0}))
    assert answer.floor_s == pytest.approx(256 * MIB * 15 / 16 / (2 * 90e9), rel=1e-6)


def test_an_axis_longer_than_the_pod_is_refused() -> None:
    with pytest.raises(UsageError, match=r"longest axis of TPU v5e has 16"):
        along_axes(load_hardware("tpu-v5e"), {"x": 17.0})


def test_a_slice_that_is_no_power_of_two_has_the_shape_that_is_rented() -> None:
    assert slice_shape(384, 3) == (4, 8, 12) and slice_shape(96, 3) == (4, 4, 6) and slice_shape(48, 2) == (6, 8)
    assert slice_shape(37, 2) is None
    # 384 chips, three rings: six links of 90 GB/s share the two passes of an all-reduce
    answer = ask("all-reduce", 128 * MIB, "tpu-v5p", 384.0)
    assert answer.floor_s == pytest.approx(2 * 128 * MIB * 383 / 384 / (6 * 90e9), rel=1e-6)


def test_a_whole_tensor_is_sharded_before_an_all_to_all_and_a_permute() -> None:
    """64 MiB over 8 devices: each holds 8 MiB and keeps an eighth of it, or hands all of it on."""
    sent = ask("all-to-all", 64 * MIB, "h100", 8.0, whole=True)
    assert sent.volume_bytes == pytest.approx(8 * MIB * 7 / 8)
    assert ask("permute", 64 * MIB, "h100", 8.0, whole=True).volume_bytes == pytest.approx(8 * MIB)
    assert ask("all-to-all", 8 * MIB, "h100", 8.0).volume_bytes == sent.volume_bytes


def test_one_device_in_the_second_host_has_one_port_for_the_whole_tensor() -> None:
    """Nine devices: the host with one of them sends and receives all of 128 MiB over 50 GB/s; sixteen have eight ports."""
    nine, sixteen = (ask("all-reduce", 128 * MIB, "h100", n) for n in (9.0, 16.0))
    assert nine.floor_s == pytest.approx(128 * MIB / 50e9, rel=1e-6)
    assert sixteen.floor_s == pytest.approx(16 * MIB / 50e9, rel=1e-6)


def test_a_switch_that_sums_takes_every_byte_once() -> None:
    hardware = load_hardware("h100")
    assert collective("all-reduce", 64e6, hardware, 8.0).volume_bytes == pytest.approx(64e6)
    assert collective("all-gather", 64e6, hardware, 8.0).volume_bytes == pytest.approx(64e6 * 7 / 8)


def test_a_small_message_crosses_a_rack_faster_than_eight_hosts_on_infiniband() -> None:
    rack = collective("all-reduce", 8e3, load_hardware("gb200-nvl72"), 72.0)
    hosts = collective("all-reduce", 8e3, load_hardware("h100"), 64.0)
    assert rack.algorithm == "tree" and rack.expected_s < hosts.expected_s


def test_a_neighbor_is_one_hop_away_on_a_switch() -> None:
    rack = load_hardware("gb200-nvl72")
    assert collective("permute", 8e3, rack, 72.0).latency_s == collective("permute", 8e3, rack, 2.0).latency_s


@pytest.mark.parametrize(("size", "bus_bytes_per_s"), [(2**29, 326.9e9), (2**31, 372.42e9), (2**33, 380.39e9)])
def test_four_nodes_over_efa(size, bus_bytes_per_s) -> None:
    """All-reduce over 32 B200 of AWS P6 (stas00/ml-engineering, network/README.md, Aug 2026), within 15 %."""
    answer = collective("all-reduce", float(size), load_hardware("p6-b200"), 32.0)
    assert answer.bus_bandwidth_bytes_per_s == pytest.approx(bus_bytes_per_s, rel=0.15)


@pytest.mark.parametrize("n", [8.0, 16.0, 64.0])
def test_the_root_of_a_scatter_sends_all_but_its_own_part_over_its_levels(n) -> None:
    scatter, gather = (ask(op, 64 * MIB, "h100", n) for op in ("scatter", "gather"))
    assert scatter.volume_bytes == pytest.approx(64 * MIB * (n - 1) / n) == pytest.approx(gather.volume_bytes)


def test_a_broadcast_is_no_shorter_than_its_root_sending_everything_once() -> None:
    """450 GB/s inside, eight ports of 50 GB/s between hosts; a reduce is the same in the other direction."""
    one, four = (ask("broadcast", 512 * MIB, "h100", n) for n in (8.0, 32.0))
    assert one.floor_s == pytest.approx(512 * MIB / 450e9) and four.floor_s == pytest.approx(64 * MIB / 50e9)
    assert ask("reduce", 512 * MIB, "h100", 32.0).expected_s == four.expected_s
    small = collective("broadcast", 8e3, load_hardware("h100"), 8.0)
    assert small.algorithm == "tree" and collective("broadcast", 8e8, load_hardware("h100"), 8.0).algorithm == "chain"


@pytest.mark.parametrize(
    ("hw", "port", "nic"), [("l40s", 31.5e9, 50e9), ("a100-pcie", 31.5e9, 25e9), ("h100-nvl", 63e9, 50e9)]
)
def test_a_nic_behind_the_port_of_the_devices_shares_it(hw, port, nic) -> None:
    """Sixteen devices in two hosts: the bytes of both levels pass the port; none moves faster than the slower of NIC and port."""
    answer = ask("all-reduce", 1e9, hw, 16.0)
    inside, outside = (level["volume_bytes"] for level in answer.levels[-2:])
    assert answer.floor_s == pytest.approx((inside + outside) / port)
    assert answer.levels[-1]["bandwidth_bytes_per_s"] == min(port, nic)


def test_an_all_to_all_on_a_torus_sends_each_device_s_own_bytes() -> None:
    """16 x 16 chips: a device sends 255 of 256 parts, whatever the busiest link carries."""
    assert ask("all-to-all", 256.0 * MIB, "tpu-v5e", 256.0).volume_bytes == pytest.approx(256 * MIB * 255 / 256)


@pytest.mark.parametrize(
    "op", ["all-reduce", "all-gather", "all-to-all", "permute", "broadcast", "reduce", "scatter", "gather"]
)
@pytest.mark.parametrize(
    ("hw", "n"), [("h100", 8.0), ("h100", 64.0), ("tpu-v5p", 64.0), ("mi300x", 8.0), ("l40s", 16.0)]
)
def test_latency_is_what_a_message_without_bytes_takes(op, hw, n) -> None:
    """Of the algorithm that was picked: an empty message may take a faster one, and none takes longer than a byte does."""
    hardware = load_hardware(hw)
    empty, large = collective(op, 1e-6, hardware, n), collective(op, 1e9, hardware, n)
    assert empty.latency_s == pytest.approx(empty.expected_s, rel=1e-3)
    assert empty.latency_s <= large.latency_s * (1 + 1e-9) and large.latency_s < large.expected_s


@pytest.mark.parametrize(("n", "least"), [(9.0, 1), (12.0, 4), (17.0, 1), (20.0, 4)])
def test_partly_filled_hosts_share_one_ring_through_the_ports_of_the_emptiest(n, least) -> None:
    """H100, 450 GB/s inside and a port of 50 GB/s each: the emptiest host of an all-gather receives what the others have over its own ports; a
    ring through all devices brings 2 (n - 1)/n of an all-reduce over them, as NCCL does where hosts are not equal."""
    size = 64 * MIB
    gathered, reduced = (ask(op, size, "h100", n) for op in ("all-gather", "all-reduce"))
    assert gathered.floor_s == pytest.approx(max(size * (n - least) / n / least / 50e9, size * 7 / 8 / 450e9))
    assert reduced.levels[-1]["volume_bytes"] == pytest.approx(2 * size * (n - 1) / n / least)
    assert reduced.expected_s >= 2 * size * (n - 1) / n / least / 50e9 > reduced.floor_s


def test_nine_devices_take_the_port_of_one() -> None:
    """64 MB over eight devices and one: 113.8 MB pass a port of 50 GB/s in 2.28 ms at its full rate, of which NCCL reaches 80 to 90 %."""
    answer = collective("all-reduce", 64e6, load_hardware("h100"), 9.0)
    assert 2.28e-3 / 0.9 < answer.expected_s < 2.28e-3 / 0.8 and answer.floor_s == pytest.approx(64e6 / 50e9)
