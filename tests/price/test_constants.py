"""Efficiency constants: one unit each, wherever they are written; unknown classes and names are errors, never silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.price.chip import Chip
from rooflinecli.questions.sweep.axes import space
from rooflinecli.specs.efficiency import CONSTANTS, SETTINGS, Efficiency
from rooflinecli.specs.hardware import load_defaults, load_hardware
from rooflinecli.specs.schema import generate
from rooflinecli.specs.validation import validated

PACKAGE = Path(__file__).resolve().parents[2] / "rooflinecli"


def _set(text: str) -> tuple[float, ...]:
    return space({"model": "llama-3-8b", "hw": "h100", "phase": "train"}, [text]).sizes[-1].values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("framework.accumulate=8 B", 8.0),
        ("framework.optimizer_bytes=2 kB", 2e3),
        ("matmul.quant_bytes=3 B", 3.0),
        ("prefill_attention.per_item=2 us", 2e-6),
        ("matmul.tau=0.3 ns", 3e-10),
        ("matmul.compute=80%", 0.8),
    ],
)
def test_a_constant_is_read_in_its_unit_on_the_command_line_and_in_a_file(text, value):
    assert _set(f"efficiency.{text}") == (pytest.approx(value),)
    name, written = text.partition(".")[2].split("=")
    assert getattr(validated(Efficiency, {name: written, "source": "here"}), name) == pytest.approx(value)


@pytest.mark.parametrize("text", ["framework.accumulate=8 us", "prefill_attention.per_item=2 B", "matmul.compute=1 s"])
def test_a_constant_in_another_unit_is_refused(text):
    with pytest.raises(UsageError, match="expected"):
        _set(f"efficiency.{text}")


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("efficiency.nosuch.compute", "no class of operation 'nosuch'; use one of .*collective, .*matmul"),
        ("efficiency.matmul.nosuch", "no constant 'nosuch'; use one of accumulate, .*tau"),
        ("efficiency.matmul", "classes are .*matmul.*names are .*tau"),
        ("memory.nosuch", "unknown figure 'memory.nosuch'"),
    ],
)
def test_an_override_that_nothing_reads_is_an_error_that_lists_what_exists(path, listed):
    with pytest.raises(UsageError, match=listed):
        Chip(load_hardware("h100"), override={path: 0.5})
    with pytest.raises(UsageError, match=listed):
        _set(f"{path}=0.5")


def test_constants_have_one_declaration():
    """The chip, the schema and the fields of Efficiency name the same constants."""
    read = vars(Chip(load_hardware("h100")).constants("kernel", "matmul", "bf16"))
    assert (
        set(CONSTANTS)
        == set(Efficiency.__dataclass_fields__) - {"p", "source", "note"}
        == set(read) - {"p", "known", "simple"}
    )
    field = generate("hardware")["$defs"]["Efficiency"]["properties"]["accumulate"]
    number, text = field["anyOf"]
    assert number == {"minimum": 0, "type": "number"} and re.match(text["pattern"], "33 B")
    assert not re.match(text["pattern"], "33 us") and "symbol" not in field


def test_a_class_that_nobody_gave_is_an_error_with_the_files_that_could(tmp_path):
    chip = Chip(load_hardware("h100"))
    with pytest.raises(DataError, match=r"class scan in bf16; add efficiency\.serving\.scan\.any .*defaults/gpu\.yaml"):
        chip.constants("serving", "scan", "bf16")
    assert Chip(load_hardware("h100"), ideal=True).constants("serving", "scan", "bf16").compute == 1.0


def test_settings_are_neutral_where_nobody_gave_them():
    found = Chip(load_hardware("epyc-9654")).constants("training", "framework", "any")
    assert (found.traffic, found.accumulate, found.overlap, found.known) == (1.0, 0.0, 0.0, False)


def test_a_complete_profile_takes_kernels_nobody_timed_from_its_kind_and_no_settings(tmp_path):
    entry = "{compute: 0.9, memory: 0.9, error: 0.1, source: here}"
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: Mine\nvendor: us\nkind: cpu\npeak: {fp32: {value: 1 TFLOP/s, source: here}}\n"
        "memory: {capacity: {value: 8 GiB, source: here}, bandwidth: {value: 50 GB/s, source: here}}\n"
        f"efficiency: {{kernel: {{matmul: {{any: {entry}}}}}}}\nmeasured: {{complete: 1}}\n"
    )
    chip = Chip(load_hardware(str(path)))
    assert chip.constants("kernel", "matmul", "fp32").compute == 0.9
    assert chip.constants("kernel", "gather", "fp32").memory == 0.75
    assert chip.constants("serving", "step").per_layer == 0.0


@pytest.mark.parametrize("kind", ["gpu", "tpu", "cpu", "accelerator"])
def test_every_kind_of_chip_has_constants_for_every_class_that_the_program_prices(kind):
    """Classes are read off the program: a class that a kernel is given, by its literal name."""
    source = "\n".join(p.read_text() for d in ("phases", "layers", "engine") for p in (PACKAGE / d).rglob("*.py"))
    priced = (
        set(re.findall(r'kind="(\w+)"', source))
        | set(re.findall(r'"(\w+_attention)"', source))
        | {"gather", "host_optimizer"}
    )
    table = load_defaults(kind).efficiency
    for regime in ("serving", "training"):
        known = set(table.get(regime, {})) | set(table["kernel"])
        only_training = {"optimizer", "host_optimizer"} if regime == "serving" else set()
        assert priced - only_training <= known, (regime, priced - known)
    assert not priced & SETTINGS


@pytest.mark.parametrize(("path", "unit"), [("engine.front", "s"), ("efficiency.matmul.tau", "s")])
def test_the_unit_of_what_can_be_set(path, unit):
    from rooflinecli.price import overrides
    from rooflinecli.specs.hardware import load_hardware

    assert overrides.unit(load_hardware("h100-sxm"), path) == unit
