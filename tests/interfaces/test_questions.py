"""Every question in every interface: the fields of its record, the same values by every way in, and old names still read."""

from __future__ import annotations

import contextlib
import inspect
import json
import subprocess
import sys

import pytest
from conftest import examples, run_cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rooflinecli
from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.from_question import command as made
from rooflinecli.interfaces.cli.main import LazyGroup
from rooflinecli.interfaces.mcp import tools
from rooflinecli.interfaces.web import form
from rooflinecli.questions.estimate.question import Estimate
from rooflinecli.questions.question import _value as coerced
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.specs.options import KINDS, OPTIONS, field

ON_THE_COMMAND_LINE = [verb for verb in verbs.NAMES if verb != "explain"]  # which is `estimate --explain` there
IN_PYTHON = [verb for verb in verbs.NAMES if verb in rooflinecli.__all__]
DELIVERY = {"format", "out", "wide", "schema", "jobs", "cluster"}
OLD = [
    (option.long, name)
    for option in OPTIONS.values()
    for name in option.names
    if name not in (option.long, *option.also) and len(name) > 1
]


def command(verb: str):
    return LazyGroup(name="roofline").get_command(None, verb)


@pytest.mark.parametrize("verb", ON_THE_COMMAND_LINE)
def test_a_command_has_the_fields_of_its_question_and_of_its_delivery(verb):
    fields = set(verbs.question(verb).fields())
    parameters = {parameter.name for parameter in command(verb).params}
    assert fields <= parameters and parameters - fields >= {"format", "wide", "schema"}
    assert not DELIVERY & fields


@pytest.mark.parametrize("verb", verbs.NAMES)
def test_a_tool_has_them_under_their_long_names(verb):
    fields = verbs.question(verb).fields().values()
    properties = tools.schema(verb)["properties"]
    assert set(properties) == {one.long for one in fields}
    for name, about in properties.items():
        assert len(about.get("enum", [])) == len(set(about.get("enum", []))), name


def test_every_question_but_the_exercises_is_a_python_function():
    assert {*verbs.NAMES} - {*IN_PYTHON} == {"quiz"}


@pytest.mark.parametrize("verb", IN_PYTHON)
def test_a_function_has_them_in_its_signature(verb):
    parameters = inspect.signature(getattr(rooflinecli, verb)).parameters
    assert set(parameters) == set(verbs.question(verb).fields())
    assert not [p for p in parameters.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


@pytest.mark.parametrize("verb", ON_THE_COMMAND_LINE)
def test_the_help_of_a_command_shows_every_field(verb):
    text = run_cli(verb, "--help").out
    for one in verbs.question(verb).fields().values():
        shown = one.metavar or one.long.upper() if one.positional else one.flag
        assert shown in text, one.long


def test_the_form_has_a_control_for_every_option_of_an_estimate():
    page = form.page({"model": "llama-3-8b", "hw": "h100"}, form.problem(UsageError("x")))
    for name in OPTIONS:
        assert f'name="{name}"' in page, name


@pytest.mark.parametrize("verb", verbs.NAMES)
def test_every_kind_exists_and_no_two_fields_share_a_name(verb):
    names: dict[str, str] = {}
    for parameter, one in verbs.question(verb).fields().items():
        assert one.kind in KINDS and one.help, one.long
        for name in (one.long, *one.also):
            assert names.setdefault(name, parameter) == parameter, name
        kind = KINDS[one.kind]
        assert one.least is None or (one.least, None) != (kind.least, kind.above), f"{one.long}: the bound of its kind"


def test_a_name_of_an_earlier_release_is_read_and_not_shown():
    """By a question and by the command line; it stands in no help and no schema."""
    parsed = command("estimate")
    shown = {flag for parameter in parsed.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    for long, old in OLD:
        assert Estimate.named(old).long == long
        assert old not in tools.schema("estimate")["properties"]
        assert f"--{old}" not in shown and parsed.former[f"--{old}"] in shown, old


def test_an_old_flag_and_a_new_one_answer_alike():
    base = ("estimate", "llama-3-8b", "--hw", "h100", "-n", "8", "--format", "json", "--phase", "train")
    old = run_cli(*base, "--seq", "4k", "--micro-batch=2", "--hold", "expected", "--utilisation", "50%")
    new = run_cli(*base, "--seq-len", "4k", "--micro-batch-size=2", "--bound", "expected", "--utilization", "50%")
    assert old.code == new.code == 0 and old.out == new.out


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # each asks by four interfaces
@given(st.integers(1, 2000), st.integers(1, 300), st.floats(0.1, 50))
def test_the_same_values_by_every_way_in_are_the_same_question(prompt, requests, qps):
    """Arguments of Python, text of a command line, numbers of JSON."""
    base = {"model": "llama-3-8b", "hw": "h100"}
    typed = Simulate("llama-3-8b", hw="h100", prompt=str(prompt), num_requests=requests, qps=qps)
    text = Simulate.read({**base, "prompt": str(prompt), "num-requests": str(requests), "request_rate": repr(qps)})
    sent = Simulate.read(json.loads(json.dumps({**base, "prompt": prompt, "num_prompts": requests, "qps": qps})))
    for name in ("model", "hw", "prompt", "num_requests", "qps", "warmup", "replicas", "seed"):
        assert getattr(typed, name) == getattr(text, name) == getattr(sent, name), name


QUESTIONS = [verbs.question(verb) for verb in (*verbs.NAMES, *verbs.COMMANDS)]
QUESTIONS += [each for group in ("serving", "scaling", "kernel", "occupancy") for each in verbs.several(group)]


def test_what_is_a_number_as_text_is_one_in_every_field_of_every_verb():
    """price=2.5, budget=2e5: Python and MCP give numbers where a command line writes text, under any name of a field."""
    read = set()
    for kind in QUESTIONS:
        for one in kind.fields().values():
            assert not one.short or kind.named(one.short.strip("-")) is kind.named(one.long)
            for text, number in (("4", 4), ("2.5", 2.5), ("200000", 2e5)):
                with contextlib.suppress(UsageError):
                    wanted = coerced(one, text)
                    assert coerced(one, number) == wanted, f"{kind.verb}: {one.long}"
                    read.add((kind.verb, one.long))
    assert {
        ("search", "price"),
        ("plan", "price"),
        ("plan", "budget"),
        ("compare", "hw"),
        ("speculate", "devices"),
    } <= read
    with pytest.raises(UsageError, match="expected text or a number"):
        Estimate.read({"model": "llama-3-8b", "hw": "h100", "region": True}).answer()


def test_a_question_is_refused_whole_and_never_changes():
    with pytest.raises(TypeError, match="has no field colour"):
        Simulate("llama-3-8b", hw="h100", qps=1.0, colour="red")
    with pytest.raises(UsageError, match="did you mean prefill-replicas"):
        Simulate.read({"model": "llama-3-8b", "hw": "h100", "qps": 1, "prefil-replicas": 2})
    question = Simulate("llama-3-8b", hw="h100", qps=1.0)
    with pytest.raises(AttributeError, match="replace"):
        question.qps = 2.0
    assert question.replace(qps=2.0).qps == 2.0 and question.qps == 1.0
    assert question == Simulate("llama-3-8b", hw="h100", qps=1.0) != question.replace(seed=1)


def test_a_field_added_to_a_question_is_in_every_interface_at_once(monkeypatch):
    """In a copy of `simulate` with one more field: the command line with its help and old name, MCP, Python."""

    class Copy(Simulate):
        """Simulate with a field more."""

        verb = "copy"
        drain_time: object = field("time", "Time to drain a replica.", default=None, former=("drain",))

    seen = []
    app = made(Copy, lambda question, how: seen.append(question.drain_time))
    asked = ["llama-3-8b", "--hw", "h100", "--qps", "1"]
    assert CliRunner().invoke(app, [*asked, "--drain", "2 min"]).exit_code == 0 and seen == [120.0]
    assert "--drain-time TIME" in CliRunner().invoke(app, ["--help"]).output
    monkeypatch.setattr(verbs, "question", lambda verb: Copy)
    assert tools.schema("copy")["properties"]["drain-time"]["description"] == "Time to drain a replica."
    assert Copy.read({"model": "llama-3-8b", "hw": "h100", "qps": 1, "drain_time": 30}).drain_time == 30.0
    assert Copy("llama-3-8b", hw="h100", qps=1.0, drain_time="1 s").drain_time == 1.0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("verb", ["simulate", "estimate", "search", "collective", "check"])
def test_help_imports_neither_pydantic_nor_rich_nor_numpy(verb):
    code = (
        "import sys; sys.argv = ['roofline', sys.argv[1], '--help']\n"
        "from rooflinecli.interfaces.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('pydantic', 'rich', 'numpy', 'yaml') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code, verb], capture_output=True, text=True, check=True)
    assert ran.stdout.rstrip().endswith("[]"), ran.stdout[-200:]
