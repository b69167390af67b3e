"""Which kernels a device gets, without the device."""

import pytest

from rooflinecli.measure import cases, shape_grids


@pytest.mark.parametrize(
    ("platform", "capability", "jax", "absl", "compiles"),
    [
        ("cpu", None, "0.10.2", True, False),
        ("tpu", None, "0.12.0.1", False, True),
        ("gpu", (9, 0), "0.10.2", True, True),
        ("gpu", (9, 0), "0.12.0.1", True, True),
        ("gpu", (9, 0), "0.10.2", False, False),
        ("gpu", (9, 0), "0.7.2", True, False),
        ("gpu", (8, 0), "0.10.2", True, False),
        ("gpu", (10, 0), "0.10.2", True, False),
        ("gpu", None, "0.10.2", True, False),
    ],
)
def test_pallas_kernels_by_device(platform, capability, jax, absl, compiles):
    assert shape_grids.has_pallas(platform, capability, jax, absl) is compiles


def test_the_missing_package_is_named_with_its_pip_line():
    assert "pip install absl-py" in shape_grids.missing("gpu", (9, 0), False)
    assert shape_grids.missing("gpu", (9, 0), True) == shape_grids.missing("cpu", None, False) == ""


@pytest.mark.parametrize(
    ("case", "hopper", "tpu"),
    [
        (cases.matmul(4096, 4096, 4096, "bf16"), True, True),
        (cases.matmul(128, 4096, 4096, "bf16"), True, False),
        (cases.matmul(64, 4096, 4096, "bf16"), False, False),
        (cases.matmul(4096, 4096, 4096, "fp32"), False, False),
        (cases.prefill(1, 2048, 32, 8, 128, "bf16"), False, True),
        (cases.prefill(1, 2048, 32, 8, 128, "fp16"), True, True),
        (cases.prefill(1, 2000, 32, 8, 128, "fp16"), False, False),
        (cases.prefill_training(1, 2048, 32, 8, 128, "fp16"), False, False),
        (cases.decode(1, 2048, 32, 8, 128, "fp16"), False, False),
    ],
)
def test_shapes_the_pallas_tiles_take(case, hopper, tpu):
    assert shape_grids.takes_pallas(case) is hopper
    assert shape_grids.takes_pallas(case, "tpu") is tpu


def test_versions():
    assert (
        shape_grids.version("0.12.0.1")
        > shape_grids.version("0.10.2")
        > shape_grids.version("0.7.2")
        > shape_grids.version("nonsense")
    )
