"""Every malformed plan exits 2 or 3 with one sentence; no input shows a traceback."""

from __future__ import annotations

import json
import math

import pytest
import yaml
from check.plans import GOOD, plan, written
from conftest import examples, run_cli
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

SETTINGS = settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def ran_quietly(tmp_path, text, *args, codes=(2, 3)):
    """An exception that escapes `main` would be a traceback, and fails here by itself."""
    path = tmp_path / "plan.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    ran = run_cli("check", str(path), *args)
    assert ran.code in codes, ran
    if ran.code in (2, 3):
        assert ran.err.startswith("roofline: ") and ran.err.count("\n") == 1, ran.err
    return ran


@SETTINGS
@given(st.text() | st.binary())
def test_any_bytes(tmp_path, text):
    ran_quietly(tmp_path, text)


words = st.sampled_from(
    [
        "model",
        "hw",
        "require",
        "matrix",
        "bound",
        "hold",
        "checks",
        "defaults",
        "decode.time_s",
        "feasible",
        "batch",
        "phase",
        "tokens",
        "unsure",
        "on_inconclusive",
        "description",
        "extends",
        "llama70b",
        "h100",
        "<= 40 ms",
        "",
        "<<",
        "&a",
        "*a",
        "~",
        "-1",
        "1e400",
        ".nan",
        "!!set",
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | words
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from([10**400, -(10**400), 1e308, 5e-324, "\x00", "\ud800", "‮", "a\nb", 2**63])
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@SETTINGS
@given(trees)
def test_any_yaml(tmp_path, tree):
    assume(not (isinstance(tree, dict) and isinstance(tree.get("checks"), dict)))
    ran_quietly(tmp_path, dumped(tree))


def dumped(tree):
    try:
        return yaml.safe_dump(tree, allow_unicode=True)
    except Exception:  # what YAML itself cannot write
        return json.dumps(tree, default=str)


paths = st.sampled_from(
    [
        ("defaults",),
        ("defaults", "model"),
        ("defaults", "hw"),
        ("checks",),
        ("checks", "chat"),
        ("checks", "chat", "devices"),
        ("checks", "chat", "tp"),
        ("checks", "chat", "batch"),
        ("checks", "chat", "prompt"),
        ("checks", "chat", "output"),
        ("checks", "chat", "require"),
        ("checks", "chat", "require", "feasible"),
        ("checks", "chat", "require", "decode.time_s"),
        ("checks", "chat", "matrix"),
        ("checks", "chat", "bound"),
        ("checks", "chat", "hold"),
        ("checks", "chat", "zero"),
        ("checks", "chat", "tokens"),
        ("checks", "chat", "price"),
        ("checks", "chat", "phase"),
        ("checks", "chat", "kv-dtype"),
        ("checks", "chat", "description"),
        ("hold",),
        ("unsure",),
        ("extends",),
        ("checks", "chat", "pp"),
        ("checks", "chat", "ep"),
        ("checks", "chat", "seq"),
        ("checks", "chat", "matrix", "batch"),
        ("checks", "chat", "sequence-parallel"),
        ("checks", "chat", "micro-batch"),
    ]
)


@pytest.mark.slow
@settings(SETTINGS, max_examples=examples(400))
@given(paths, trees)
def test_a_good_plan_with_anything_anywhere(tmp_path, path, value):
    """It may happen to be a plan still; whatever it is, it is answered in the contract's words."""
    made = plan()
    here = made
    for key in path[:-1]:
        here = here.setdefault(key, {})
    here[path[-1]] = value
    text = dumped(made)
    for kind in ("table", "github"):
        ran_quietly(tmp_path, text, "--format", kind, "--suggest", "3", codes=(0, 1, 2, 3))


BROKEN = st.sampled_from(
    [None, "", [], {}, "nonsense", -1, 0, 10**400, math.nan, math.inf, [[]], {"a": {"b": 1}}, "\x07", "1 parsec"]
)
STRICT = st.sampled_from(
    [
        ("defaults", "model"),
        ("checks", "chat", "devices"),
        ("checks", "chat", "tp"),
        ("checks", "chat", "batch"),
        ("checks", "chat", "prompt"),
        ("checks", "chat", "require"),
        ("checks", "chat", "require", "decode.time_s"),
        ("checks", "chat"),
        ("checks",),
        ("hold",),
        ("unsure",),
        ("checks", "chat", "no-such-field"),
        ("nothing",),
        ("checks", "chat", "require", "no.such.quantity"),
    ]
)


@SETTINGS
@given(STRICT, BROKEN)
def test_what_is_broken_for_certain_is_refused(tmp_path, path, value):
    made = plan()
    here = made
    for key in path[:-1]:
        here = here[key]
    assume(not (path == ("hold",) and value is None))
    here[path[-1]] = value
    ran = ran_quietly(tmp_path, yaml.safe_dump(made, allow_unicode=True))
    assert ran.code == 3 and ran.out == ""


@SETTINGS
@given(st.integers(0, len(json.dumps(GOOD, indent=1)) - 1), st.text(max_size=3))
def test_a_good_plan_cut_or_smudged(tmp_path, at, smudge):
    text = json.dumps(GOOD, indent=1)
    ran_quietly(tmp_path, text[:at] + smudge)
    ran_quietly(tmp_path, text[:at] + smudge + text[at + 1 :], codes=(0, 1, 2, 3))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "? [x]\n: y",
        "checks: !!python/object:os.system {}",
        "checks:\n\t- a",
        "a: 1\na: 2",
        "%YAML 9.9\n---\na: 1",
        "---\na: 1\n---\nb: 2",
        "[" * 5000,
        "checks: {a: {<<: {b: 1}}}",
        "extends: h100",
        '"\\n": 1',
        'checks: {"a\\nb": 1}',
        "\ufeff",
        "checks: !!binary aGk=",
        "checks: {a: {model: llama70b, hw: h100, require: {decode.time_s: 12:30:45}}}",
        "{",
        "'",
        "checks: 2026-01-01",
    ],
)
def test_yaml_of_the_nasty_kind(tmp_path, text):
    assert ran_quietly(tmp_path, text).code == 3


@pytest.mark.slow
def test_aliases_that_multiply_are_refused_before_they_fill_the_memory(tmp_path):
    lines = [
        "a0: &a0 [x, x, x, x, x, x, x, x]",
        *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)),
        "checks: *a11",
    ]
    assert "aliases" in ran_quietly(tmp_path, "\n".join(lines)).err


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--hold", "best"),
        ("--unsure", "maybe"),
        ("--suggest", "-1"),
        ("--only", "nobody"),
        ("--format", "pdf"),
        ("--colour",),
        ("--out", "/nowhere/at/all"),
        ("--write-baseline", "/nowhere/at/all"),
        ("--tolerance", "x"),
    ],
)
def test_a_wrong_command_line_is_usage(tmp_path, args):
    paths = [str(written(tmp_path, GOOD))] if args else []
    ran = run_cli("check", *paths, *args)
    assert ran.code == 2 and ran.err.count("\n") == 1, ran


@pytest.mark.parametrize("name", ["none.yaml", ".", "/dev/null"])
def test_a_plan_that_is_no_file(tmp_path, name):
    ran = run_cli("check", str(tmp_path / name))
    assert ran.code == 3 and ran.err.count("\n") == 1, ran
