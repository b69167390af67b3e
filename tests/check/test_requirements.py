"""What may be required, in which unit, and what is refused with file:line instead of passing."""

from __future__ import annotations

import math
import re

import pytest
from check.plans import GOOD, check, plan, report, requiring, row

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.questions.conditions import ends, known
from rooflinecli.questions.conditions import requirement as parse
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.quantities import unit_of

READ = [
    ("decode.time_s", "<= 40 ms", 0.040),
    ("prefill.time_s", "< 1.5 s", 1.5),
    ("train.run_s", "<= 95 days", 95 * 86400),
    ("cost.training_usd", "<= 9 M USD", 9e6),
    ("cost.training_usd", "<= 9 MUSD", 9e6),
    ("cost.training_usd", "<= $9M", 9e6),
    ("cost.usd_per_million_output_tokens", "<= 2", 2.0),
    ("cost.usd_per_million_output_tokens", "<= $2/Mtok", 2.0),
    ("cost.usd_per_device_hour", "<= 3 USD/h", 3.0),
    ("train.mfu", ">= 0.4", 0.4),
    ("train.mfu", ">= 40 %", 0.4),
    ("memory.headroom_fraction", ">= 10 %", 0.1),
    ("decode.memory.total_bytes", "<= 64 GiB", 64 * 2**30),
    ("decode.memory.total_bytes", "<= 70 GB", 70e9),
    ("decode.tokens_per_s", ">= 1500 tokens/s", 1500),
    ("decode.tokens_per_s_per_user", ">= 25 tok/s", 25),
    ("train.flops", "<= 2 EFLOP", 2e18),
    ("hardware.peak_flops_per_s", ">= 400 TFLOP/s", 4e14),
    ("hardware.bandwidth_bytes_per_s", ">= 2 TB/s", 2e12),
    ("plan.devices", "<= 16", 16),
    ("model.parameters.total", "<= 71B", 71e9),
    ("decode.breakdown_s.matmul", "<= 2 ms", 0.002),
    ("decode.interval_s.1", "<= 1 s", 1.0),
    ("prefill.time_s", "≤ 1 s", 1.0),
]


@pytest.mark.parametrize(("quantity", "text", "value"), READ)
def test_limits_are_read_in_the_unit_of_the_quantity(quantity, text, value):
    assert math.isclose(parse(quantity, text, "plan.yaml:3").limit, value, rel_tol=1e-12)


REFUSED = [
    ("decode.time_s", "<= 40", "unit is missing"),
    ("decode.time_s", "<= 40 GB", "measures B"),
    ("decode.time_s", "40 ms", "no comparison"),
    ("decode.time_s", "<=", "no limit"),
    ("decode.time_s", "<= fast", "not a number"),
    ("decode.time_s", "<= 40 parsec", "unknown unit"),
    ("decode.time_s", "<= -40 ms", "negative"),
    ("decode.time_s", 0.04, "no comparison"),
    ("decode.time_s", "== 40 ms", "interval"),
    ("decode.time_s", True, "compare it with a number"),
    ("feasible", "<= 3", "true or false"),
    ("decode.bound", "<= 3", "a word"),
    ("train.mfu", ">= 40", "exceeds 100%"),
    ("decode.tokens_per_s", ">= 1500", "unit is missing"),
    ("decode.memory.total_bytes", "<= 70 s", "measures s"),
    ("decode.time", "<= 40 ms", "unknown quantity 'decode.time'; did you mean decode.time_s"),
    ("decode.layout.tp", "<= 40 ms", "wrong unit"),
    ("decode.times_s", "<= 40 ms", "did you mean"),
    ("speed", ">= 3", "unknown quantity"),
    ("decode", ">= 3", "a group"),
    ("decode.memory", ">= 3", "a group"),
    ("memory.speed", ">= 3", "unknown quantity"),
    ("decode.time_s", None, "write one"),
    ("decode.time_s", "", "write one"),
    ("decode.time_s", [], "empty list"),
    ("decode.time_s", {"max": "40 ms"}, "expected a number"),
    ("decode.time_s", "<= .inf s", "not a number"),
    ("decode.interval_s.7", "<= 1 s", "unknown quantity"),
    ("train.run_s", "<= 95 days", "tokens"),
    ("cost.training_usd", "<= 3", "tokens"),
]


@pytest.mark.parametrize(("quantity", "text", "why"), REFUSED)
def test_a_requirement_that_cannot_be_held_is_an_error_on_its_line(tmp_path, quantity, text, why):
    ran = check(tmp_path, requiring(quantity, text))
    assert ran.code == 3, ran
    assert not ran.out and ran.err.count("\n") == 1
    found = re.search(r"plan\.yaml:(\d+): ", ran.err)
    assert found and why in ran.err
    line = (tmp_path / "plan.yaml").read_text().splitlines()[int(found[1]) - 1]
    assert quantity in line


EMPTY = [
    "",
    "{}",
    "checks:",
    "checks: {}",
    "checks: {a: }",
    "checks: {a: {}}",
    "checks: {a: {model: llama70b, hw: h100}}",
    "checks: {a: {model: llama70b, hw: h100, require: }}",
    "checks: {a: {model: llama70b, hw: h100, require: {}}}",
    "- a",
    "checks: 3",
    "null",
    "checks: {'': {model: llama70b, hw: h100, require: {feasible: true}}}",
    "# nothing",
]


@pytest.mark.parametrize("text", EMPTY)
def test_nothing_to_check_is_an_error(tmp_path, text):
    ran = check(tmp_path, text)
    assert ran.code == 3 and "plan.yaml:1: " in ran.err and ran.err.count("\n") == 1


WRONG = [
    ({"model": "llama-9000b"}, "unknown model"),
    ({"hw": "h1000"}, "unknown chip"),
    ({"dtype": "bf17"}, "unknown dtype"),
    ({"tp": 3}, "does not divide"),
    ({"bacth": 3}, "did you mean batch"),
    ({"batch": "many"}, "--batch"),
    ({"batch": [1, 2]}, "matrix"),
    ({"flash": "yes please"}, "true or false"),
    ({"tp": True}, "expected a value"),
    ({"phase": "sleep"}, "unknown phase"),
    ({"phase": ["decode", 3]}, "phase"),
    ({"devices": 0}, "at least 1"),
    ({"devices": 8.5}, "whole"),
    ({"zero": 9, "phase": "train"}, "zero"),
    ({"n": 8}, "given twice"),
    ({"bound": "optimistic"}, "bound"),
    ({"hold": "optimistic"}, "hold"),
    ({"bound": "expected", "hold": "floor"}, "keep one"),
    ({"matrix": {"batch": []}}, "empty list"),
    ({"matrix": {"batch": 3}}, "list"),
    ({"matrix": {"batch": [1]}}, "given twice"),
    ({"matrix": {"colour": ["red"]}}, "unknown option"),
    ({"description": 3}, "description"),
    ({"price": "cheap"}, "--price"),
    ({"matrix": {"seq": list(range(1, 200)), "gradient-bytes": list(range(1, 200))}}, "combinations"),
    ({"phase": "train"}, "add it to `phase`"),
]


@pytest.mark.parametrize(("changes", "why"), WRONG)
def test_options_that_do_not_exist_or_cannot_be_are_errors_on_their_line(tmp_path, changes, why):
    ran = check(tmp_path, plan(**changes))
    assert ran.code == 3 and why in ran.err, ran
    assert ran.err.count("\n") == 1
    line = (tmp_path / "plan.yaml").read_text().splitlines()[int(re.search(r"plan\.yaml:(\d+): ", ran.err)[1]) - 1]
    keys = [*changes, *(changes.get("matrix") or {}), "chat"]
    assert any(key in line for key in keys) or "decode.time_s" in line or line.strip() in ("3", "{"), line


def test_every_quantity_of_an_estimate_can_be_required():
    """Its unit follows from its name; a limit on its right side passes, one on its wrong side never does."""
    answer = estimate(build_request.request({"model": "llama-3.3-70b", "hw": "h100", "n": 16, "tokens": "1T"}))
    units = {
        "s": "s",
        "B": "B",
        "FLOP": "FLOP",
        "FLOP/s": "FLOP/s",
        "B/s": "B/s",
        "tokens/s": "tokens/s",
        "J": "J",
        "W": "W",
        "g": "g",
        "L": "L",
        "USD": "USD",
        "USD/h": "USD/h",
        "fraction": "",
        "count": "",
    }
    for quantity in known(answer):
        value = ends(answer, quantity).expected if not _empty(answer, quantity) else None
        if value is None or isinstance(value, (bool, str)):
            continue
        found = parse(quantity, f"<= {abs(value) * 0.5!r} {units[unit_of(quantity)]}", "plan.yaml:1")
        assert found.holds(value) == (value <= abs(value) * 0.5), quantity
    assert unit_of("decode.communication_bytes.tp") == "B" and unit_of("train.breakdown_s.bubble") == "s"


def _empty(answer, quantity):
    try:
        ends(answer, quantity)
    except UsageError:
        return True
    return False


@pytest.mark.slow
def test_words_switches_and_lists(tmp_path):
    assert row(tmp_path, requiring("decode.bound", "memory"))["verdict"] == "pass"
    assert row(tmp_path, requiring("decode.bound", "compute"))["verdict"] == "fail"
    found = report(tmp_path, requiring("decode.time_s", [">= 1 ns", "<= 1 ms"]))["checks"][0]
    assert [r["verdict"] for r in found["requirements"]] == ["pass", "fail"]


def test_each_requirement_knows_its_line(tmp_path):
    found = report(tmp_path, GOOD)["checks"][0]
    lines = (tmp_path / "plan.yaml").read_text().splitlines()
    assert all(r["quantity"] in lines[r["line"] - 1] for r in found["requirements"])
    assert '"chat"' in lines[found["line"] - 1]
