"""What is refused says which option is at fault, in our words and not in a parser's; what is drawn fits 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_cli

from rooflinecli.core import units
from rooflinecli.core.errors import MOST
from rooflinecli.interfaces.cli.main import other_tools
from rooflinecli.questions.conditions import limit
from rooflinecli.specs.name_lookup import find
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
        (
            ("estimate", *BASE, "-n", "8", "--phase", "train", "--recompute", "full", "--recompute-num-layers", "33"),
            "--recompute-num-layers 33: Llama 3 8B has 32 layers; give at most as many",
        ),
        (("estimate", *BASE, "-n", "8", "--phase", "train", "--tokens", "0"), "--tokens 0: must be at least 1"),
        (
            ("estimate", *BASE, "-n", "8", "--pp", "4", "--layers-per-stage", "20,12"),
            "--layers-per-stage names 2 stages and --pp 4; make them agree",
        ),
        (("goodput", "-n", "16", "--checkpoint", "30 s", "--elastic", "17"), "--elastic 17: more replicas than the 16"),
    ],
)
def test_a_refusal_names_its_option_in_plain_words(args: tuple[str, ...], said: str) -> None:
    ran = run_cli(*args)
    assert ran.code == 2 and said in ran.err, ran
    assert ran.err.count("\n") == 1 and "Input should" not in ran.err and "Value error" not in ran.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--quantization", "int4", "--weight-dtype", "fp8"), "--quantization int4 and --weight-dtype fp8 are the same option; keep one"),
        (("-n8", "-n", "4"), "-n 8 and -n 4 are the same option; keep one"),
        (("--devices=8", "-n", "4"), "--devices 8 and -n 4 are the same option; keep one"),
        (("--attention-dp", "--no-attention-dp"), "--attention-dp and --no-attention-dp are the same option; keep one"),
        (("-n", "4x4"), "-n 4x4: '4x4': unknown unit 'x4'; expected a count, for example '8'"),
        (("--qps", "abc"), "--qps abc: 'abc' is not a number; write for example '2.5'"),
        (("--utilization", "x"), "--utilization x: 'x' is not a number; write for example '80%'"),
        (("h200",), "h200: an argument too many; a switch takes no value, and any other value follows its option"),
        (("--attention-dp", "yes"), "yes: an argument too many; a switch takes no value"),
        (("--deadline", "30d"), "no option --deadline: `roofline estimate` does not read it; `roofline plan` has --deadline"),
        (("-n", "8", "--measured", "35"), "expected a time in us, ms, s, min, h or days, for example '40 ms'"),
        (("--doc-lengths", "2k;4k"), "--doc-lengths 2k;4k: "),
        (("-n", "8", "--phase", "train", "--mfu", "140%"), "more than the hardware can do. Check that"),
    ],
)  # fmt: skip
def test_a_value_is_refused_with_an_example_of_its_own_and_given_once(args: tuple[str, ...], said: str) -> None:
    ran = run_cli("estimate", *BASE, *args)
    assert ran.code == 2 and said in ran.err, ran


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("ops", *BASE, "--price", "2"), "no option --price: `roofline ops` does not read it; `roofline estimate` has --price."),
        (("estimate", *BASE, "--slo", "itl=20ms"), "no option --slo: `roofline estimate` does not read it; `roofline search` has --slo."),
        (("estimate", "llama-3-8b", "--hw", "h100,h200"), "--hw h100,h200: takes one here; `roofline sweep` and `compare` take several"),
        (("kernel", "conv"), "unknown command 'conv'; known: attention, elementwise, grouped-gemm, matmul. `roofline kernel --help` lists them"),
        (("rl", "--hw", "h100"), "no model given; name one"),
        (("plan", *BASE, "--tokens", "1T", "--deadline", "30"), "for example '40 ms' or '30d'"),
    ],
)  # fmt: skip
def test_what_is_mistaken_is_named_with_what_is_meant(args: tuple[str, ...], said: str) -> None:
    ran = run_cli(*args)
    assert ran.code == 2 and said in ran.err and ran.err.count("\n") == 1, ran


def test_formats_are_read_by_the_names_of_pytorch_too() -> None:
    ours, theirs = (
        run_cli("estimate", *BASE, "-n", "1", "--phase", "decode", "--dtype", name, "-f", "json").out
        for name in ("fp16", "float16")
    )
    assert ours == theirs != ""


def test_one_option_with_one_value_twice_and_those_that_may_be_repeated_are_taken() -> None:
    once = run_cli("estimate", *BASE, "-n", "8", "--phase", "decode,prefill", "-f", "json")
    twice = run_cli(
        "estimate", *BASE, "-n", "8", "-n8", "--devices", "8", "--phase", "decode", "--phase", "prefill", "-f", "json"
    )
    assert twice.code == 0 and twice.out == once.out, twice


def test_an_argument_that_is_missing_is_shown_in_its_place() -> None:
    ran = run_cli("kernel", "matmul", "10", "10", "--hw", "h100")
    assert ran.code == 2 and "no n given; columns: `roofline kernel matmul M K N`" in ran.err


NOTES = [
    (("estimate", *BASE, "-n", "8", "--phase", "decode", "--redundant-experts", "8"), "--redundant-experts changes nothing: Llama 3 8B has no experts"),
    (("estimate", *BASE, "-n", "1", "--phase", "decode", "--attention-dp"), "--attention-dp changes nothing on one device; add -n"),
    (("estimate", *BASE, "-n", "8", "--phase", "decode", "--max-num-batched-tokens", "512"), "--max-num-batched-tokens changes nothing: it is about prompts"),
    (("estimate", *BASE, "-n", "1", "--phase", "decode", "--output", "0"), "--output 0: no token is written"),
    (("goodput", "-n", "1024", "--checkpoint", "30 s", "--params", "70B"), "--params changes nothing: --checkpoint says"),
    (("collective", "all-reduce", "1MB", "--hw", "h100", "-n", "8", "--top-k", "4"), "--top-k changes nothing in all-reduce"),
    (("sweep", *BASE, "--phase", "decode", "--batch", "1,2", "--ssm-state-dtype", "bf16"), "--ssm-state-dtype changes nothing: Llama 3 8B has no"),
    (("simulate", *BASE, "-n", "1", "--qps", "1", "--num-requests", "20", "--prefix-caching"), "--prefix-caching changes nothing: prompts that are drawn"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "said"), NOTES, ids=[args[0] + args[-2] for args, _ in NOTES])
def test_an_option_that_changes_nothing_is_noted_and_the_answer_stands(args: tuple[str, ...], said: str) -> None:
    ran = run_cli(*args)
    assert ran.code == 0 and ran.out and said in ran.err and ran.err.count("note: ") == 1, ran


def test_what_only_a_launch_sets_is_not_noted() -> None:
    """--gpu-layers of the launch makes the host's CPU matter, and its own options are not the user's."""
    launch = "vllm serve meta-llama/Meta-Llama-3-8B --tensor-parallel-size 2 --max-num-batched-tokens 512 --enable-lora"
    ran = run_cli("estimate", "--from", launch, "--hw", "h100", "--phase", "decode", "--concurrency", "4")
    assert ran.code == 0 and "changes nothing" not in ran.err, ran


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


def test_every_quantity_can_be_held_to_a_limit() -> None:
    """A unit that nothing can read would make a check of it a mistake of ours."""
    for name, quantity in QUANTITIES.items():
        unit = quantity.unit
        written = {"count": "2", "fraction": "50 %"}.get(unit, f"2 {unit}")
        assert limit(name, written) == (0.5 if unit == "fraction" else 2.0), name
        assert unit in ("count", "fraction") or unit in units.UNITS, name


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


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_what_an_error_lists_exists(kind):
    """Of hundreds of names one of each beginning, whole, so that each may be typed."""
    names = ("zorble", "--hw", "h100") if kind == "models" else ("gpt2", "--hw", "zorble")
    listed = run_cli("estimate", *names).err.partition("among them ")[2].partition(" …")[0].split(", ")
    assert len(listed) == MOST and len({find(kind, name) for name in listed}) > MOST / 2
