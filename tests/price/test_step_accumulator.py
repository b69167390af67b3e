"""Bills added to bills, in round numbers."""

from __future__ import annotations

from rooflinecli.ledger.ops import Collective
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import custom_all_reduce
from rooflinecli.specs.hardware import load_hardware


def bill() -> StepAccumulator:
    return StepAccumulator(Chip(load_hardware("h100")), "serving", 1.0)


def draft() -> StepAccumulator:
    """2 s of matmuls sure to a tenth, 3 s on the tensor axis, and what moved."""
    made = bill()
    made.groups, made.errors = {"matmul": 2.0, "communication": 3.0}, {"matmul": 0.2}
    made.volumes, made.by_axis = {"tp": 100.0, "pp": 10.0}, {"tp": 3.0}
    made.t_compute, made.t_memory, made.t_communication, made.flops, made.bytes = 1.0, 1.5, 0.5, 7e9, 4e9
    return made


def test_a_draft_beside_its_target_is_one_group_with_all_it_sends():
    """Four steps of a draft: 20 s as one group, four times its bytes, FLOPs, floors and errors."""
    own = bill()
    own.groups, own.volumes, own.flops = {"matmul": 1.0}, {"tp": 1.0}, 1e9
    own.add_group("draft", draft(), 5.0, 4.0)
    assert own.groups == {"matmul": 1.0, "draft": 20.0}
    assert own.volumes == {"tp": 401.0, "pp": 40.0}
    assert own.errors == {"draft": 0.0, "matmul": 0.8}
    assert (own.t_compute, own.t_memory, own.t_communication) == (4.0, 6.0, 2.0)
    assert (own.flops, own.bytes) == (29e9, 16e9)


def test_a_share_of_a_bill_is_a_share_of_everything_on_it():
    own = draft()
    own.divide_by(4.0)
    assert own.groups == {"matmul": 0.5, "communication": 0.75}
    assert own.volumes == {"tp": 25.0, "pp": 2.5}
    assert own.by_axis == {"tp": 0.75}
    assert own.errors == {"matmul": 0.05}
    assert (own.t_compute, own.t_memory, own.t_communication) == (0.25, 0.375, 0.125)
    assert (own.flops, own.bytes) == (1.75e9, 1e9)


def test_a_total_is_the_sum_of_its_groups():
    assert draft().total == 5.0


def test_floors_are_taken_by_their_own_share():
    """A stage's share of the expected times, and the least of the floors, which no split of layers moves."""
    own = bill()
    own.merge(draft(), 3.0, 0.5)
    assert own.groups == {"matmul": 6.0, "communication": 9.0}
    assert own.by_axis == {"tp": 9.0}
    assert own.volumes == {"tp": 300.0, "pp": 30.0}
    assert (own.t_compute, own.t_memory, own.t_communication) == (0.5, 0.75, 0.25)
    assert (own.flops, own.bytes) == (21e9, 12e9)


def test_an_all_reduce_of_an_engine_runs_in_its_own_kernel():
    """Small sums in one NVLink domain; NCCL has every other collective, and every one without a library."""

    def seconds(op, library=""):
        return bill().collective(Collective(op, op, 64e3, "tp", 8.0, 1.0, library=library))

    own = custom_all_reduce(64e3, 8.0, bill().chip, "vllm").expected
    assert seconds("all-reduce", "vllm") == own < seconds("all-reduce")
    assert seconds("all-gather", "vllm") == seconds("all-gather")
    assert (
        custom_all_reduce(64e3, 8.0, bill().chip, "vllm").gain is None
    )  # as far toward shorter times as toward longer
