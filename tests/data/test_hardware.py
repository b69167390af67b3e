"""hardware/*.yaml: every file loads, every figure has a source, and peaks agree with the units they are made of."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from rooflinecli.specs.figure import Figure
from rooflinecli.specs.hardware import HardwareSpec, load_defaults, load_hardware

FOLDER = Path(__file__).resolve().parents[2] / "hardware"
FILES = sorted(FOLDER.glob("*.yaml"))

# chips whose published peak is not units x clock x width, and why
PEAK_EXCEPTIONS = {
    "b200-sxm": "148 SMs at the 1.965 GHz boost give 2382 TFLOP/s; the 1000 W part is published at 2250",
    "dgx-b200": "extends b200-sxm",
    "p6-b200": "extends b200-sxm",
}
# sparse headline rates (TFLOP/s) that must never appear as a dense peak: (chip, dtype) -> the trap
SPARSE = {
    ("h100-sxm", "bf16"): 1979,
    ("h100-sxm", "fp8"): 3958,
    ("h200-sxm", "bf16"): 1979,
    ("h200-sxm", "fp8"): 3958,
    ("h100-pcie", "bf16"): 1513,
    ("a100-sxm-80", "bf16"): 624,
    ("l4", "bf16"): 242,
    ("l4", "fp8"): 485,
    ("l40s", "bf16"): 733,
    ("l40s", "fp8"): 1466,
    ("b200-sxm", "bf16"): 4500,
    ("b200-sxm", "fp8"): 9000,
    ("b200-sxm", "fp4"): 18000,
    ("gb200", "bf16"): 5000,
    ("gb200", "fp4"): 20000,
    ("rtx-4090", "fp16"): 661,
    ("rtx-5090", "fp4"): 3352,
    ("mi300x", "fp8"): 5230,
    ("trainium2", "bf16"): 2563,
    ("trainium3", "bf16"): 2517,
}


@cache
def specs() -> dict[str, HardwareSpec]:
    return {path.stem: load_hardware(str(path)) for path in FILES}


def figures(value: object, path: str = "") -> list[tuple[str, Figure]]:
    """Every figure of a spec, wherever it sits."""
    if isinstance(value, Figure):
        return [(path, value)]
    if isinstance(value, dict):
        return [f for k, v in value.items() for f in figures(v, f"{path}.{k}")]
    if isinstance(value, list):
        return [f for i, v in enumerate(value) for f in figures(v, f"{path}[{i}]")]
    if hasattr(value, "__dataclass_fields__"):
        return [f for k in value.__dataclass_fields__ for f in figures(getattr(value, k), f"{path}.{k}")]
    return []


def implied(spec: HardwareSpec) -> dict[str, float]:
    """Peaks from units: count x clock x (FLOP per clock, or 2 x rows x columns)."""
    if spec.units is None:
        return {}
    base = spec.units.count.si * spec.units.clock.si
    found = {dtype: base * per.si for dtype, per in spec.units.flops_per_clock.items()}
    if spec.units.shape:
        found["bf16"] = 2 * spec.units.shape[0] * spec.units.shape[1] * base
    return found


def test_the_registry_is_as_large_as_promised() -> None:
    assert len(specs()) >= 44
    assert {"nvidia", "google", "amd", "intel", "aws"} <= {spec.vendor for spec in specs().values()}


def test_every_figure_has_a_source() -> None:
    for name, spec in specs().items():
        found = figures(spec)
        assert len(found) >= 3, name
        for path, figure in found:
            cited = spec.citation(figure.source)
            assert len(cited) > 8, f"{name}{path}: {cited!r}"
            if figure.source == "unconfirmed":
                assert not figure.verified, f"{name}{path}: recalled, yet marked verified"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_source_key_is_defined_and_none_is_idle(path: Path) -> None:
    raw = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    used = set(re.findall(r"source: ([\w-]+)[,}]", path.read_text(encoding="utf-8")))
    declared = set(raw.get("sources", {}))
    assert declared <= used, f"idle sources {declared - used}"
    assert used <= set(specs()[path.stem].sources), f"undefined sources {used - set(specs()[path.stem].sources)}"


def test_peaks_are_units_times_clock_times_width() -> None:
    of_units = [(name, dtype, value) for name, spec in specs().items() for dtype, value in implied(spec).items()]
    assert len({name for name, _, _ in of_units}) > 40
    for name, dtype, value in of_units:
        off = abs(value / specs()[name].peak[dtype].si - 1)
        if name in PEAK_EXCEPTIONS:
            assert off > 0.01, f"{name} agrees now; drop its exception ({PEAK_EXCEPTIONS[name]})"
        else:
            assert off <= 0.01, f"{name} {dtype}: units give {value:.4g}"


@pytest.mark.parametrize(("name", "dtype"), SPARSE)
def test_no_peak_is_a_sparse_headline(name: str, dtype: str) -> None:
    assert specs()[name].peak[dtype].si < 0.75e12 * SPARSE[name, dtype]


def test_rates_that_no_rule_predicts() -> None:
    """Traps of reference pages, each with the vendor or JAX as witness in its file."""
    peak = {name: {k: v.si / 1e12 for k, v in spec.peak.items()} for name, spec in specs().items()}
    assert "fp8" not in peak["a100-sxm-80"] and "bf16" not in peak["v100-sxm-16"] and "fp8" not in peak["tpu-v5e"]
    assert peak["tpu-v6e"]["fp8"] == peak["tpu-v6e"]["bf16"] == 918
    assert peak["tpu-v4"]["int8"] == peak["tpu-v4"]["bf16"]
    assert peak["tpu-v3"]["bf16"] == 123
    assert peak["gaudi3"]["fp8"] == peak["gaudi3"]["bf16"] == 1677
    assert peak["b300-sxm"]["int8"] < 0.05 * peak["b300-sxm"]["fp8"]
    assert peak["a10g"]["bf16"] < 0.6 * peak["a10"]["bf16"]
    assert peak["gb200"]["bf16"] > peak["b200-sxm"]["bf16"]


def test_links_count_one_way() -> None:
    inner = {name: spec.network[0].bandwidth.si / 1e9 for name, spec in specs().items() if spec.network}
    assert inner["h100-sxm"] == 450 and inner["a100-sxm-80"] == 300 and inner["b200-sxm"] == 900
    assert inner["tpu-v5e"] == 45 and inner["tpu-v5p"] == 90 and inner["mi300x"] == 448


def test_a_torus_has_its_shape() -> None:
    tori = {n: s.network[0] for n, s in specs().items() if any(level.kind == "torus" for level in s.network)}
    assert {"tpu-v4", "tpu-v5p", "tpu-v5e"} <= set(tori)
    for name, level in tori.items():
        assert level.axes and level.shape and len(level.shape) == level.axes, name
        assert math.prod(level.shape) == level.size, name


def test_nothing_is_faster_than_its_roofline() -> None:
    """Fractions at most 1 are enforced by the spec; an error of 0 would claim certainty."""
    for name, spec in specs().items():
        for classes in spec.efficiency.values():
            for dtypes in classes.values():
                for item in dtypes.values():
                    assert 0.03 <= item.error <= 2 and spec.citation(item.source), name


@pytest.mark.parametrize("kind", ["gpu", "tpu", "cpu", "accelerator"])
def test_every_kind_has_defaults_for_every_class(kind: str) -> None:
    kernel = load_defaults(kind).efficiency["kernel"]
    needed = {"matmul", "prefill_attention", "decode_attention", "elementwise", "grouped_matmul", "collective"}
    assert needed <= set(kernel) and all("any" in kernel[cls] for cls in needed)
    assert "step" in load_defaults(kind).efficiency["serving"]
    assert all(item.p == 1 for item in kernel["matmul"].values()) == (kind == "cpu")


def test_serving_constants_are_written_once() -> None:
    """Every GPU shares them: the file they come from is the same for a fitted chip and for the default."""
    for name in ("h100-sxm", "a100-sxm-80", "b200-sxm", "gb200-nvl72"):
        assert "_serving.yaml" in specs()[name].document.location("efficiency", "serving", "step", "any", "per_layer")
    assert "_serving.yaml" in load_defaults("gpu").document.location("efficiency", "serving", "matmul", "any")
