"""Which kernels a device gets, without the device."""

import pytest

from rooflinecli.measure import cases, kernel_support


@pytest.mark.parametrize(
    ("platform", "capability", "jax", "absl", "backend"),
    [
        ("cpu", None, "0.10.2", False, "interpret"),
        ("tpu", None, "0.12.0.1", False, "tpu"),
        ("gpu", (9, 0), "0.10.2", True, "mosaic_gpu"),
        ("gpu", (9, 0), "0.12.0.1", True, "mosaic_gpu"),
        ("gpu", (9, 0), "0.10.2", False, None),
        ("gpu", (9, 0), "0.7.2", True, None),
        ("gpu", (8, 0), "0.10.2", True, None),
        ("gpu", (10, 0), "0.10.2", True, None),
        ("gpu", None, "0.10.2", True, None),
    ],
)
def test_pallas_backend(platform, capability, jax, absl, backend):
    assert kernel_support.pallas_backend(platform, capability, jax, absl) == backend


def test_shipped_kernels():
    assert kernel_support.shipped("gpu", (9, 0), True) == ("matmul", "attention")
    assert (
        kernel_support.shipped("gpu", (9, 0), False)
        == kernel_support.shipped("gpu", (8, 0), True)
        == kernel_support.shipped("cpu", None, True)
        == ()
    )


def test_the_missing_package_is_named_with_its_pip_line():
    assert "pip install absl-py" in kernel_support.missing("gpu", (9, 0), False)
    assert kernel_support.missing("gpu", (9, 0), True) == kernel_support.missing("cpu", None, False) == ""


@pytest.mark.parametrize(
    ("case", "taken"),
    [
        (cases.matmul(4096, 4096, 4096, "bf16"), True),
        (cases.matmul(64, 4096, 4096, "bf16"), False),
        (cases.matmul(4096, 4096, 4096, "fp32"), False),
        (cases.prefill(1, 2048, 32, 8, 128, "bf16"), True),
        (cases.prefill(1, 2000, 32, 8, 128, "bf16"), False),
        (cases.prefill_training(1, 2048, 32, 8, 128, "bf16"), False),
        (cases.decode(1, 2048, 32, 8, 128, "bf16"), False),
    ],
)
def test_shapes_our_tiles_take(case, taken):
    assert kernel_support.takes_pallas(case) is taken


def test_versions():
    assert (
        kernel_support.version("0.12.0.1")
        > kernel_support.version("0.10.2")
        > kernel_support.version("0.7.2")
        > kernel_support.version("nonsense")
    )
