"""Every option of every command refuses an empty value and a number without end, in one sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from conftest import run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.interfaces.cli.main import VERBS, app
from rooflinecli.questions.conditions import limit
from rooflinecli.specs.options import OPTIONS


def commands(verb: str, command: Any) -> list[tuple[tuple[str, ...], Any]]:
    """A command and those under it, with the words that call them."""
    below = [pair for name, one in getattr(command, "commands", {}).items() for pair in commands(name, one)]
    return [((verb,), command), *(((verb, *words), one) for words, one in below)]


def valued(command: Any) -> list[str]:
    """The options of a command that take a value, by the first of their long names."""
    return [
        next((one for one in p.opts if one.startswith("--")), p.opts[0])
        for p in command.params
        if p.param_type_name == "option" and not p.is_flag and p.name != "help"
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_value_is_refused(verb: str) -> None:
    found = commands(verb, typer.main.get_command(app).get_command(None, verb))
    assert found
    for words, command in found:
        for flag in valued(command):
            ran = run_cli(*words, flag, "")
            assert ran.code == 2 and ran.err.startswith(f"roofline: {flag} '': empty;"), (words, flag, ran)


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "NaN", "1e999"])
def test_no_number_is_without_end(written: str) -> None:
    numeric = [option for option in OPTIONS.values() if option.numeric and written not in option.choices]
    assert len(numeric) > 30
    for option in numeric:
        with pytest.raises(UsageError) as refused:
            build_request.value(option, written)
        assert "finite" in str(refused.value) and str(refused.value).startswith(option.flag), option.flag


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "foo"])
@pytest.mark.parametrize(
    ("args", "flag"),
    [
        (("plan", "llama-3-8b", "--hw", "h100", "--tokens", "1T"), "--budget"),
        (("plan", "llama-3-8b", "--hw", "h100", "--tokens", "1T"), "--deadline"),
        (("compare", "llama-3-8b", "--hw", "h100,h200"), "--price"),
        (("compare", "llama-3-8b", "--hw", "h100,h200"), "--price h100="),
        (("search", "llama-3-8b", "--hw", "h100", "--phase", "decode"), "--ttft"),
        (("search", "llama-3-8b", "--hw", "h100", "--phase", "decode"), "--qps"),
        (("search", "llama-3-8b", "--hw", "h100", "--phase", "decode"), "--slo itl="),
    ],
)
def test_what_was_typed_is_what_is_refused(args: tuple[str, ...], flag: str, written: str) -> None:
    option, _, name = flag.partition(" ")
    ran = run_cli(*args, option, f"{name}{written}")
    assert ran.code == 2 and ran.err.count("\n") == 1, ran
    assert f"{written}USD" not in ran.err and f"{written} USD" not in ran.err and option in ran.err, ran


def test_a_distance_may_be_more_than_the_whole_and_a_share_may_not() -> None:
    assert limit("layout.within_of_best", "150 %") == 1.5
    assert limit("measured.gap", "150 %") == 1.5
    with pytest.raises(ValueError, match="exceeds 100%"):
        limit("train.mfu", "150 %")


def test_chips_for_images_are_ranked_by_the_phase_that_there_is(cli: Any) -> None:
    found = cli("compare", "flux.1-dev", "--hw", "h100,b200", "--format", "json").json
    assert found["rank"] == "prefill.time_s" and len(found["rows"]) == 2
    assert cli("compare", "llama-3-8b", "--hw", "h100,b200", "--format", "json").json["rank"] == "decode.time_s"


def test_a_rank_that_is_none_is_named_with_a_colon() -> None:
    assert (
        "--rank-by foo: unknown quantity" in run_cli("compare", "llama-3-8b", "--hw", "h100,h200", "--rank", "foo").err
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checks: 7\n", "checks: expected names with values"),
        ("checks:\n  a: {model: llama-3-8b, hw: h100, require: 5}\n", "require: expected names with values"),
        ("hold: 3\nchecks: {}\n", "hold: expected 'floor', 'expected' or 'pessimistic'"),
        ("bound: 3\nchecks: {}\n", "bound: expected 'floor', 'expected' or 'pessimistic'"),
        (
            "bound: floor\nhold: floor\nchecks: {a: {model: gpt2, hw: h100, require: {feasible: true}}}\n",
            ":2: hold: no such field",
        ),
    ],
)
def test_a_plan_file_is_refused_in_our_words(tmp_path: Any, text: str, said: str) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(text)
    ran = run_cli("check", str(plan))
    assert ran.code == 3 and said in ran.err and "Input should" not in ran.err and "dictionary" not in ran.err
