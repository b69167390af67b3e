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
from rooflinecli.specs.scheduler import Scheduler
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


SHARES = (  # of what the hardware can do, or of a whole: nothing is more than all of it
    "compute memory quant_memory fabric rails unshared further whole_group overlap beyond narrow_gather host_copy mtp pads_heads early_stop"
).split()


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_a_constant_never_makes_work_faster_than_the_hardware(name):
    """Shares up to 1, everything else from 0 on, factors on bytes from 1 on; rates of nothing are none."""

    def made(value):
        return getattr(validated(Efficiency, {name: value, "source": "here"}), name)

    bytes_of_all, rates = ("traffic",), ("compute", "memory", "quant_memory", "fabric", "rails", "together")
    assert made(1.0) == 1.0
    if name in SHARES:
        assert made(0.25) == 0.25
        with pytest.raises(ValueError, match="1"):
            made(1.001)
    else:
        assert made(1.5) == 1.5 and made(40.0) == 40.0
    with pytest.raises(ValueError, match=name):
        made(-0.001)
    if name in (*bytes_of_all, *rates):
        with pytest.raises(ValueError, match=name):
            made(0.0)
    else:
        assert made(0.0) == 0.0


def test_a_constant_that_a_file_leaves_out_costs_nothing():
    """A class without constants of its own runs at the peak: shares and factors are 1, further time and bytes 0."""
    spec = validated(Efficiency, {"source": "here"})
    left = {name: getattr(spec, name) for name in CONSTANTS}
    neutral = {name: 1.0 if name in ("compute", "memory", "quant_memory", "fabric", "rails", "traffic") or name.startswith("of_") else 0.0 for name in CONSTANTS}  # fmt: skip
    apart = {"together", "sharding", "error"}  # numbers of what is not there, or that every class has
    assert {name: left[name] for name in CONSTANTS if name not in apart} == {k: v for k, v in neutral.items() if k not in apart}  # fmt: skip
    assert spec.p == float("inf") and 0 < spec.error < 1


@pytest.mark.parametrize(
    ("name", "given", "refused"),
    [
        ("look_ahead", (0, 1), (-1, 2)), ("hold_steps", (0, 1, 9), (-1,)), ("hold_share", (0, 0.5, 1), (-0.1, 1.1)), ("poll_steps", (1, 10), (0, -1)),
        ("stream_steps", (1, 10), (0,)), ("front", (0, 0.1), (-0.1,)), ("per_stream", (0, 0.1), (-0.1,)), ("per_token", (0, 0.1), (-0.1,)),
        ("graph_tokens", (0, 512), (-1,)), ("launch", (0, 1e-5), (-1e-5,)), ("prompt_factor", (0.5, 1, 2), (0, -1)), ("prompt_factor_moe", (0.5, 2), (0, -1)),
        ("first_token_error", (0, 0.5, 2), (-0.1,)), ("reserve_share", (0, 1), (-0.1, 1.1)), ("memory_share", (0, 0.9, 1), (-0.1, 1.1)),
        ("cache_share", (0, 0.9, 1), (-0.1, 1.1)), ("block", (1, 16), (0, -1)), ("token_budget", (1, 8192), (0, -1)),
    ],
)  # fmt: skip
def test_settings_of_a_scheduler_at_their_bounds(name, given, refused):
    """Times and counts from nothing on, shares up to the whole, and a look, a message, a block and a step of one at least."""
    for value in given:
        assert getattr(validated(Scheduler, {name: value}), name) == value
    for value in refused:
        with pytest.raises(ValueError, match=name):
            validated(Scheduler, {name: value})


def test_a_scheduler_of_which_nothing_is_said_waits_for_nothing():
    plain = validated(Scheduler, {})
    idle = ("look_ahead", "hold_steps", "hold_share", "front", "per_stream", "per_token", "graph_tokens", "launch", "reserve_share", "memory_share", "cache_share")  # fmt: skip
    assert {getattr(plain, name) for name in idle} == {0} and plain.graph_batches == () and not plain.mixed
    assert (plain.poll_steps, plain.stream_steps, plain.prompt_factor, plain.prompt_factor_moe) == (1, 1, 1.0, None)
    for graphs in ((0, 2), (4, 2), (1, 1)):
        with pytest.raises(ValueError, match="positive and rise"):
            validated(Scheduler, {"graph_batches": graphs})
    assert validated(Scheduler, {"graph_batches": "1/2/8"}).graph_batches == (1, 2, 8)
