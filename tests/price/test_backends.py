"""Which constants an operation is priced with: an engine's own on the very chip, its generation, its vendor; then the chip's."""

from __future__ import annotations

import pytest

from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, experts_op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.specs.efficiency import Efficiency
from rooflinecli.specs.engine import load_engine
from rooflinecli.specs.hardware import load_hardware


def own(compute: float) -> Efficiency:
    return Efficiency(compute=compute, source="by hand")


BACKENDS = {
    "rtx-4090": {"scores": {"any": own(0.11)}},
    "nvidia-ada": {"matmul": {"packed": own(0.21), "int8": own(0.22)}, "scores": {"any": own(0.23)}},
    "nvidia": {"matmul": {"packed": own(0.31), "any": own(0.33)}, "gather": {"any": own(0.34)}},
}


@pytest.fixture(scope="module")
def chip() -> Chip:
    engine = load_engine("llamacpp").with_changes(backends=BACKENDS)
    engine._document = load_engine("llamacpp").document
    found = Chip(load_hardware("rtx-4090"), engine=engine)
    assert found.backend_names == ("rtx-4090", "nvidia-ada", "nvidia")
    return found


@pytest.mark.parametrize(
    ("asked", "compute"),
    [
        (("serving", "matmul", "int8", "packed"), 0.21),  # the variant before the format
        (("serving", "matmul", "int8", "loose"), 0.22),  # the format before any
        (("serving", "matmul", "int8"), 0.22),
        (("serving", "matmul", "bf16"), 0.33),  # the vendor, where the generation has neither
        (("serving", "matmul", "bf16", "packed"), 0.21),
        (("serving", "scores", "bf16"), 0.11),  # the very chip before its generation
        (("serving", "gather", "bf16"), 0.34),
    ],
)
def test_an_engine_s_own_kernels_come_first_the_nearest_before_all(chip, asked, compute):
    assert chip.constants(*asked).compute == compute


def test_experts_of_an_engine_s_own_are_as_served_already():
    """What serving sees of kernel tables is a factor on the chip's constants, not on those that were fitted to serving runs."""
    shape, stored = ExpertShape(4096.0, 1536.0, 3.0, 128.0, 8.0), ExpertStorage(2.0, 2.0, 2.0, "bf16", "bf16@vllm")
    op = experts_op("x", 64.0, shape, stored, 1.0, 1.0)
    kernels = {"nvidia": {"routed_experts": {"any": Efficiency(compute=0.5, memory=0.5, source="by hand")}}}
    engine = load_engine("llamacpp").with_changes(backends=kernels)
    engine._document = load_engine("llamacpp").document
    for brings, unmoved in ((engine, True), (None, False)):
        first, other = (
            price(
                op,
                Chip(
                    load_hardware("h100-sxm"), engine=brings, override={"efficiency.served_experts.of_memory": factor}
                ),
                "serving",
            ).expected
            for factor in (0.1, 0.2)
        )
        assert (first == other) is unmoved


def test_training_and_other_classes_know_nothing_of_them(chip):
    plain = Chip(load_hardware("rtx-4090"))
    assert chip.constants("kernel", "matmul", "bf16").compute == plain.constants("kernel", "matmul", "bf16").compute
    assert chip.constants("kernel", "matmul", "bf16").compute not in (0.21, 0.22, 0.33)
    missing = ("serving", "elementwise", "any")
    assert chip.constants(*missing).memory == plain.constants(*missing).memory
    assert (
        chip.engine_has_constants("gather")
        and not chip.engine_has_constants("elementwise")
        and not plain.engine_has_constants("gather")
    )


def test_devices_of_a_host_are_as_the_file_says_else_as_its_network():
    spec = load_hardware("h100")
    bare = spec.with_changes(devices_per_host=None)
    alone = bare.with_changes(network=[])
    for each in (bare, alone):
        each._document = spec.document
    assert Chip(bare).devices_per_host == spec.network[0].size
    assert Chip(alone).devices_per_host == 1
