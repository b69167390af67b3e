"""What is refused says which option is at fault, in our words and not in a parser's; what is drawn fits 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_cli

from rooflinecli.core import units
from rooflinecli.interfaces.cli.main import other_tools
from rooflinecli.questions.conditions import limit
from rooflinecli.specs.quantities import QUANTITIES, describe_path

BASE = ("llama-3-8b", "--hw", "h100")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("search", *BASE, "-n", "8", "--phase", "train", "--slo", "ttft=1s"), "--slo ttft=1s: applies to serving"),
        (("search", *BASE, "-n", "8", "--top", "0"), "--top 0: must be at least 1"),
        (("search", *BASE, "-n", "8", "--jobs", "nan"), "--jobs nan: expected a finite number"),
        (("check", "plan.yaml", "--hold", "x"), "--bound x: expected pessimistic or expected or floor"),
        (
            ("estimate", *BASE, "-n", "8", "--tp", "2", "--pp", "1", "--dp", "2"),
            "--tp 2 --pp 1 --dp 2 multiply to 4, not -n 8; change one of them",
        ),
        (("prices",), "no chip given; name one (`roofline hardware` lists them)"),
        (("estimate", "--hw", "h100", "--from", "vllm serve"), "the command: names no model; give MODEL with --from"),
        (("estimate", "--from", "the docs of vllm serve"), "the command: no launch of a supported tool"),
        (
            ("estimate", *BASE, "-n", "8", "--phase", "train", "--recompute", "full", "--offload", "activations:33"),
            "--offload activations:33: Llama 3 8B has 32 layers",
        ),
    ],
)
def test_a_refusal_names_its_option_in_plain_words(args: tuple[str, ...], said: str) -> None:
    ran = run_cli(*args)
    assert ran.code == 2 and said in ran.err, ran
    assert ran.err.count("\n") == 1 and "Input should" not in ran.err and "Value error" not in ran.err


def test_the_sizes_of_a_matmul_are_three_arguments_or_one() -> None:
    one, three = (
        run_cli("kernel", "matmul", *m, "--hw", "h100", "-f", "json") for m in (["4kx64x128"], ["4k", "64", "128"])
    )
    assert one.code == 0 and one.out == three.out
    assert run_cli("kernel", "matmul", "4kx64", "--hw", "h100").code == 2


@pytest.mark.parametrize(
    ("rows", "args", "said"),
    [
        ("0,100,30\n1,200,40\n", ("--window", "10min:20min"), "--trace-window 10min:20min: no request of"),
        ("", (), "it holds no request"),
    ],
)
def test_a_trace_without_requests_says_so(tmp_path: Path, rows: str, args: tuple[str, ...], said: str) -> None:
    trace = tmp_path / "load.csv"
    trace.write_text(f"time,prompt,output\n{rows}")
    ran = run_cli("simulate", *BASE, "--trace", str(trace), *args)
    assert ran.code == 2 and said in ran.err, ran


@pytest.mark.parametrize("kind", ["latency", "roofline", "memory"])
def test_a_picture_in_the_terminal_fits_80_columns(kind: str) -> None:
    ran = run_cli("sweep", *BASE, "--phase", "decode", "--batch", "1..64x2", "--plot", "-", "--plot-kind", kind)
    assert ran.code == 0, ran
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("name", sorted(QUANTITIES))
def test_every_quantity_can_be_held_to_a_limit(name: str) -> None:
    """A unit that nothing can read would make a check of it a mistake of ours."""
    unit = QUANTITIES[name].unit
    written = {"count": "2", "fraction": "50 %"}.get(unit, f"2 {unit}")
    assert limit(name, written) == (0.5 if unit == "fraction" else 2.0)
    assert unit in ("count", "fraction") or unit in units.UNITS


def test_an_end_of_an_interval_is_named_in_words():
    assert describe_path("prefill.interval_s.1") == "the high end of the prefill time"
    assert describe_path("train.interval_s.0") == "the low end of the train time"
    assert describe_path("decode.time_s") == "decode.time_s"


HERE = other_tools()


@pytest.mark.sampled(27)
@pytest.mark.parametrize("name", sorted(HERE))
def test_an_option_of_another_tool_is_told_by_its_name_here(name):
    """--gpus is -n; what the message names is an option of the verb."""
    verb = "plan" if name == "--days" else "estimate"
    ran = run_cli(verb, "llama-3.1-8b", "--hw", "h100", name, "8")
    assert (ran.code, ran.out) == (2, "")
    said = "MODEL is a positional argument" if name == "--model" else f"here it is {HERE[name]}."
    assert f"no option {name}: {said}" in ran.err
    words = [word.strip(",.`") for word in HERE[name].split() if word.startswith("-")]
    known = run_cli(verb, "--help").out
    assert all(word in known for word in words)


def test_and_not_where_the_verb_has_no_such_thing():
    ran = run_cli("shard", "--gpus", "8")
    assert ran.code == 2
    assert "here it is" not in ran.err
