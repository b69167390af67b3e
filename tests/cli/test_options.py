"""The table of options: every door reads it, its bounds hold at every door, and an error names what was typed."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import warnings

import pytest
import yaml
from conftest import ROOT, run_cli

from rooflinecli.core import units
from rooflinecli.core.errors import RooflineWarning, UsageError
from rooflinecli.engine import build_request
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.completion import registered
from rooflinecli.interfaces.python import api
from rooflinecli.questions.search.search_request import question
from rooflinecli.questions.sweep.axes import space
from rooflinecli.specs.options import KINDS, OPTIONS, PANELS
from rooflinecli.specs.request import Request

BASE = {"model": "llama-3-8b", "hw": "h100"}
OUTSIDE = {  # below the least that each kind of number may be
    "count": -1,
    "length": -1,
    "amount": -1,
    "number": -1,
    "size": -1,
    "rate": 0,
    "price": -1,
    "share": 0,
    "stage": 4,
}


def test_the_table_and_the_request_have_the_same_fields():
    assert {o.field for o in OPTIONS.values()} == {f.name for f in dataclasses.fields(Request)}


def test_every_row_is_shown_somewhere_and_read_somehow():
    assert all(o.kind in KINDS and o.panel in PANELS and o.help for o in OPTIONS.values())
    assert all(o.choices for o in OPTIONS.values() if o.kind in ("choice", "stage", "phases"))


@pytest.mark.sampled(21)
@pytest.mark.parametrize("name", [name for name, o in OPTIONS.items() if o.kind in OUTSIDE])
def test_a_number_out_of_bounds_is_refused_at_every_door(name, tmp_path):
    """estimate, sweep, search, compare, check and the API: one sentence, with the option as data."""
    option, value = OPTIONS[name], OUTSIDE[OPTIONS[name].kind]
    for door in (
        lambda: build_request.request({**BASE, name: value}),
        lambda: api.estimate(**BASE, **{option.parameter: value}),
        lambda: space({**BASE, name: str(value)}),
        lambda: question({**BASE, name: str(value)}, "throughput", []),
    ):
        with pytest.raises(UsageError, match=f"{option.long}.*(must|expected|share)") as caught:
            door()
        assert caught.value.option == name
    ran = run_cli("compare", BASE["model"], "--hw", "h100,h200", option.flag, str(value))
    assert ran.code == 2 and ran.err.startswith(f"roofline: {option.flag} {value}: ")
    plan = tmp_path / "plan.yaml"
    checks = {"a": {**BASE, name: value, "require": {"feasible": True}}}
    plan.write_text(yaml.safe_dump({"checks": checks}, sort_keys=False))
    ran = run_cli("check", str(plan))
    line = plan.read_text().splitlines().index(f"    {name}: {value}") + 1
    assert ran.code == 3 and f"plan.yaml:{line}: " in ran.err


@pytest.mark.parametrize("verb", ["estimate", "ops", "report", "sweep", "search", "compare"])
def test_help_is_grouped_has_examples_and_fits_80_columns(verb):
    text = run_cli(verb, "-h").out
    assert text == run_cli(verb, "--help").out
    for panel in ("Model and load:", "Layout:", "Numbers:", "Engine:", "Output:", "Examples:"):
        assert f"\n{panel}\n" in text
    assert "<str>" not in text and max(map(len, text.splitlines())) <= 80
    examples = text.split("\nExamples:\n")[1].replace("\\\n", "").strip().splitlines()
    assert 2 <= len(examples) <= 3 and all(line.strip().startswith(f"roofline {verb} ") for line in examples)


@pytest.mark.parametrize("verb", ["estimate", "compare", "ops", "report"])
def test_a_verb_that_answers_from_an_estimate_takes_every_option(verb):
    text, without = run_cli(verb, "--help").out, verbs.question(verb).without if verb != "report" else ()
    assert all(
        option.flag in text for name, option in OPTIONS.items() if name != "model" and option.parameter not in without
    )


@pytest.mark.parametrize(
    ("written", "tokens"), [("2k", 2048), ("2K", 2048), ("2.0k", 2048), ("1.5k", 1536), ("1M", 1048576), (2000, 2000)]
)
def test_a_length_counts_in_1024s_however_it_is_written(written, tokens):
    assert build_request.request({**BASE, "prompt": written}).prompt == tokens
    assert space({**BASE, "prompt": written}).sizes[0].values == (tokens,)


@pytest.mark.parametrize(
    ("option", "written"), [("price", "2,15"), ("batch", "1,2"), ("tokens", "1,000"), ("prompt", "2,048")]
)
def test_a_comma_in_one_number_is_refused(option, written):
    ran = run_cli("estimate", "llama-3-8b", "--hw", "h100", f"--{option}", written)
    assert ran.code == 2 and f"--{option} {written}: one number has no comma; write " in ran.err


def test_a_comma_in_a_count_separates_thousands_alone():
    for written, meant in (("1,000", "1000"), ("1,000,000", "1000000"), ("0,5", "0.5"), ("1,5", "15 or 1.5")):
        with pytest.raises(ValueError, match=f"write {re.escape(meant)}$"):
            units.parse(written, "length")
    with pytest.raises(ValueError, match=r"write 1000 or 1\.000$"):
        units.parse("1,000 GB", "B")


def test_zero_needs_no_unit():
    assert all(units.parse(zero, unit) == 0 for unit in units.UNITS for zero in ("0", "0.0", 0))
    ran = run_cli("goodput", "-n", "1000", "--checkpoint", "30 s", "--restart", "0")
    assert ran.code == 0 and "restarts     0 ns" in ran.out
    ran = run_cli("goodput", "-n", "1000", "--checkpoint", "30 s", "--mtbf", "0")
    assert ran.code == 2 and "--mtbf 0: must be above zero" in ran.err


def test_what_is_missing_is_named_by_its_own_help():
    assert "no plan given; YAML files of named checks (docs/check.md): `roofline check PLAN...`" in run_cli("check").err
    assert "no op given; all-reduce" in run_cli("collective", "--hw", "h100").err


def test_a_default_time_is_shown_in_days():
    assert "[default: 1461 days]" in " ".join(run_cli("serving", "own", "--help").out.split())


def test_a_collective_of_one_device_sends_nothing():
    assert (
        "on 1 device of H100 SXM5 80GB: nothing is sent"
        in run_cli("collective", "all-reduce", "1GB", "--hw", "h100", "-n", "1").out
    )
    tokens = ("dispatch", "2MB", "--hw", "h100", "-n", "64", "--backend", "deepep-low-latency")
    assert "dispatch of 2.00 MB over 64 devices of H100 SXM5 80GB: 3" in run_cli("collective", *tokens).out


def test_a_rate_far_beyond_reach_cannot_be_sustained():
    ran = run_cli("estimate", "llama-3-8b", "--hw", "h100", "--qps", "1e9")
    assert ran.code == 1 and "--qps 1e+09 cannot be sustained: prompts alone are 1.3e+07 times" in " ".join(
        ran.out.split()
    )


def test_a_comma_is_refused_wherever_a_quantity_is_read():
    for line in (
        ("collective", "all-reduce", "1,5GB", "--hw", "h100", "-n", "8"),
        ("formula", "memory_time", "bytes_moved=1,5GB", "bandwidth=1TB/s"),
        ("estimate", "llama-3-8b", "--hw", "h100", "--phase", "decode", "--measured", "35,5 ms"),
    ):
        ran = run_cli(*line)
        assert ran.code == 2 and "one number has no comma" in ran.err


def test_a_batch_in_tokens_is_the_nearest_number_of_whole_sequences():
    """16M is 16 x 2^20, as a sequence of 8k has 8 x 2^10 tokens: Llama 3 405B trained on 2,048 sequences of 8,192."""
    options = {**BASE, "phase": "train", "seq": 8192, "batch": "16M-tokens"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build_request.request(options).batch == 2048
        assert question(options, "throughput", []).request.batch == 2048
        assert build_request.request({**options, "batch": "8192000 tokens", "seq": 1000}).batch == 8192
    with pytest.warns(RooflineWarning, match="1953"):
        assert build_request.request({**options, "batch": "16000000-tokens"}).batch == 1953
    assert build_request.request({**options, "batch": "1-tokens"}).batch == 1


def test_a_batch_in_tokens_is_divided_by_the_length_that_is_trained_on():
    """gpt2 takes 1024 tokens, so 1M tokens are not a quarter as many sequences of 4096."""
    assert build_request.request({"model": "gpt2", "hw": "h100", "batch": "1048576-tokens"}).batch == 1024


@pytest.mark.parametrize("written", ["4M-tokens", "4Mtok", "4M tok", "4 Mtokens", "4M-toks", "4M token", " 4Mtok "])
def test_a_batch_that_says_tokens_in_any_spelling_is_in_tokens(written):
    assert build_request.request({**BASE, "phase": "train", "seq": 4096, "batch": written}).batch == 1024


def test_a_decode_step_computes_a_token_of_each_sequence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build_request.request({**BASE, "phase": "decode", "batch": "32 tokens"}).batch == 32
    swept = run_cli(
        "sweep", "llama-3-8b", "--hw", "h100", "--phase", "decode", "--batch", "16tok,32tok", "--format", "json"
    )
    assert [point["batch"] for point in swept.json["points"]] == [16, 32] and not swept.err.count("nearest")


def test_a_sweep_takes_a_batch_in_tokens_as_estimate_does():
    line = (
        "llama-3-8b",
        "--hw",
        "h100",
        "--phase",
        "train",
        "-n",
        "8",
        "--seq",
        "8192",
        "--zero",
        "3",
        "--tp",
        "1",
        "--pp",
        "1",
    )
    swept = run_cli("sweep", *line, "--batch", "4M-tokens,16M-tokens", "--columns", "train.time_s", "--format", "json")
    for point in swept.json["points"]:
        asked = run_cli("sweep", *line, "--batch", f"{point['batch'] / 8192:.0f}", "--format", "json")
        assert asked.json["points"][0]["train.time_s"] == point["train.time_s"]


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 4, "qps": 3},
        {"batch": 8, "concurrency": 4, "phase": "decode"},
        {"batch": 8, "qps": 4, "phase": "prefill,decode"},
    ],
)
def test_two_options_that_say_the_load_exclude_each_other(options):
    for door in (build_request.request, space):
        with pytest.raises(UsageError, match="give one of them"):
            door({**BASE, **options})


def test_with_training_the_batch_is_the_trained_one():
    request = build_request.request({**BASE, "phase": "train,decode", "batch": 8, "concurrency": 4})
    assert (request.batch, request.concurrency) == (8, 4)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--prompt", "20k"), "more than the 8,192 of Llama 3 8B"),
        (("--prompt", "8100"), "--prompt and --output (by default 256) come to 8,356 tokens, more than the 8,192"),
        (("--dtype", "int4", "--hw", "a100"), "use --weight-dtype int4"),
    ],
)
def test_what_is_seldom_meant_is_one_line_on_stderr_and_answered(args, says):
    chip = () if "--hw" in args else ("--hw", "h100")
    ran = run_cli("estimate", "llama-3-8b", *chip, "--phase", "decode", *args)
    assert ran.code == 0 and says in ran.err and ran.err.count("\n") == 1 and ran.out
    swept = run_cli("sweep", "llama-3-8b", *chip, "--phase", "decode", "--batch", "1", *args)
    assert swept.code == 0 and says in swept.err and swept.err.count("\n") == 1


@pytest.mark.parametrize("args", [("--prompt", "4k"), ("--weight-dtype", "int4")])
def test_what_is_commonly_meant_passes_without_a_word(args):
    assert run_cli("estimate", "llama-3-8b", "--hw", "h100", "--phase", "decode", *args).err == ""


def test_the_api_takes_the_long_names_too():
    short, long = (
        api.estimate("gpt2", "h100", n=2, phase="decode"),
        api.estimate("gpt2", hardware="h100", devices=2, phase="decode"),
    )
    assert short == long
    with pytest.raises(UsageError, match="twice"):
        api.estimate("gpt2", "h100", n=2, devices=4)
    with pytest.raises(UsageError, match="did you mean batch"):
        api.estimate("gpt2", "h100", batches=4)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "int8"])
def test_the_cache_is_reported_in_the_format_it_is_kept_in(dtype):
    work = api.estimate("llama-3-8b", "a100", phase="decode", dtype=dtype)["workload"]
    assert work["kv_dtype"] == ("bf16" if dtype == "int8" else dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "line", ["recipe: lora", "schedule: gpipe", "software: nemo-2024", "optimizer: muon", "dropout: true"]
)
def test_a_check_with_a_training_option_alone_is_about_training(line, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"checks:\n  a:\n    model: llama-3-8b\n    hw: h100\n    {line}\n    require: {{feasible: true}}\n"
    )
    found = run_cli("check", str(plan), "--format", "json")
    assert '"train"' in found.out and '"decode"' not in found.out


def test_an_error_of_the_layout_names_its_line_without_reading_prose(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("checks:\n  a:\n    model: llama-3-8b\n    hw: h100\n    tp: 3\n    require: {feasible: true}\n")
    assert f"{plan}:5: " in run_cli("check", str(plan)).err


@pytest.mark.parametrize(
    "line",
    [
        "estimate gpt2 --hw h100 --explain decode.time_s --depth -3",
        "ops gpt2 --hw h100 --top -1",
        "search gpt2 --hw h100 -n 2 --top 0",
        "kernel matmul 8 8 8 --hw h100 --explain time_s --depth -1",
    ],
)
def test_depth_and_top_are_counts(line):
    ran = run_cli(*line.split())
    assert ran.code == 2 and ran.err.count("\n") == 1 and not ran.out


def test_a_rate_says_its_unit_and_bytes_may_be_bare():
    assert "unit is missing" in run_cli("formula", "memory_time", "bytes_moved=8", "bandwidth=8x15").err
    assert run_cli("formula", "memory_time", "bytes_moved=8GB", "bandwidth=8x15GB/s").code == 0
    bare = run_cli("collective", "all-reduce", "128000000", "--hw", "h100", "-n", "8", "--format", "json")
    assert bare.json == run_cli("collective", "all-reduce", "128MB", "--hw", "h100", "-n", "8", "--format", "json").json


def test_a_sweep_names_the_flag_that_was_typed():
    ran = run_cli("sweep", "llama-3-8b", "--hw", "h100", "--phase", "train", "--dp-shard", "0.5")
    assert ran.code == 2 and "--dp-shard 0.5" in ran.err


def test_a_bare_roofline_is_its_help():
    assert run_cli().code == 0 and run_cli().out == run_cli("--help").out == run_cli("-h").out
    assert run_cli("kernel").code == 0 and "matmul" in run_cli("kernel").out


def _verbs():
    from rooflinecli.interfaces.cli.main import VERBS

    return sorted(VERBS)


@pytest.mark.parametrize("verb", _verbs())
def test_short_options_are_the_same_on_every_verb(verb):
    import typer

    from rooflinecli.interfaces.cli.main import app

    group = typer.main.get_command(app)
    command = group.get_command(None, verb)
    for one in [command, *getattr(command, "commands", {}).values()]:
        flags = [p.opts for p in one.params]
        for long, short in (("--format", "-f"), ("--out", "-o"), ("--devices", "-n")):
            assert all(short in opts for opts in flags if long in opts), (verb, one.name, long)


def test_names_complete_after_the_last_comma():
    assert "llama-3-8b" in registered("models", "llama-3-")
    assert "h100,b200-sxm" in registered("hardware", "h100,b2")
    assert registered("hardware", "zzz") == []


def completed(words: str, at: int) -> list[str]:
    code = "import sys; sys.argv = ['roofline']; from rooflinecli.interfaces.cli.main import main; main()"
    env = {**os.environ, "_ROOFLINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.split()


@pytest.mark.slow
def test_a_shell_completes_verbs_options_names_and_choices():
    assert completed("roofline se", 1) == ["search", "serving"]
    assert "--recompute-num-layers" in completed("roofline estimate --rec", 2)
    assert completed("roofline estimate x --recompute s", 4) == ["selective"]
    assert "h100-sxm" in completed("roofline hardware h1", 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("estimate x --framework mega", "megatron"), ("estimate x --optimizer ad", "adamw-8bit"), ("estimate x --engine vl", "vllm"),
        ("estimate x --host-cpu ryzen", "ryzen-9-9950x"), ("simulate x --router l", "least-loaded"), ("estimate x --emit v", "vllm"),
        ("collective all-r", "all-reduce"), ("kernel matmul --dtype b", "bf16"), ("models --family ll", "llama"), ("hardware --vendor nv", "nvidia"),
        ("formula floor", "floor_time"), ("ops x --sort in", "intensity"), ("search x --objective th", "throughput"), ("validate tr", "training"),
        ("estimate x --speculative-method e", "eagle"), ("estimate x --recompute-modules core", "core_attn"), ("estimate x --weight-dtype aw", "awq"),
    ],
)  # fmt: skip
def test_values_that_are_names_complete(line, wanted, monkeypatch):
    """Every option whose values are names; of one verb each."""
    monkeypatch.setenv("_ROOFLINE_COMPLETE", "complete_bash")
    assert wanted in completed(f"roofline {line}", len(line.split()))


def test_completion_is_installed_where_the_shell_looks(tmp_path, monkeypatch):
    import shellingham

    monkeypatch.setenv("HOME", str(tmp_path))
    for shell, path in (
        ("bash", ".bash_completions/roofline.sh"),
        ("fish", ".config/fish/completions/roofline.fish"),
        ("zsh", ".zfunc/_roofline"),
    ):
        monkeypatch.setattr(shellingham, "detect_shell", lambda shell=shell: (shell, shell))
        assert run_cli("--install-completion").code == 0
        assert "_ROOFLINE_COMPLETE" in (tmp_path / path).read_text()
        assert "roofline" in run_cli("--show-completion").out
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("tcsh", "tcsh"))
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run_cli("--show-completion").code == 2
    assert "_ROOFLINE_COMPLETE=complete_zsh" in run_cli("--show-completion", "zsh").out
    assert "bash, zsh, fish" in run_cli("--show-completion", "tcsh").err


@pytest.mark.slow
def test_a_search_prints_the_options_it_was_given():
    ran = run_cli(
        "search",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--batch",
        "64",
        "--framework",
        "nemo-2024",
        "--recipe",
        "lora",
        "--format",
        "json",
    )
    command = json.loads(ran.out)["results"][0]["estimate"]
    assert "--framework nemo-2024" in command and "--recipe lora" in command and "--batch 64" in command


def test_the_commands_hold_no_list_of_their_own():
    """A field of a group is on every verb: the modules of the verbs spell none of them out."""
    from rooflinecli.interfaces.cli import answers, estimate, measure, simulate, sweep

    for module in (answers, estimate, measure, simulate, sweep):
        source = inspect.getsource(module)
        assert not [o.parameter for o in OPTIONS.values() if f"    {o.parameter}: " in source], module.__name__


def test_every_list_of_names_for_completion_is_there():
    from rooflinecli.interfaces.cli import completion

    for name in (*completion.names(), *completion._FIELDS):
        assert max(map(len, completion.named(name))) > 2, name


@pytest.mark.parametrize(
    "verb", [("search", "--phase", "decode", "-n", "1"), ("simulate", "--qps", "2", "--requests", "50")]
)
def test_limits_given_one_by_one_are_those_of_one_list(verb):
    asked = (verb[0], "llama-3-8b", "--hw", "h100", *verb[1:], "--format", "json")
    together, apart = (
        run_cli(*asked, "--slo", "itl=25ms,ttft=1s"),
        run_cli(*asked, "--slo", "itl=25ms", "--slo", "ttft=1s"),
    )
    assert together.out == apart.out and together.code == apart.code == 0


def test_the_help_of_every_verb_is_that_of_the_docs(monkeypatch):
    """docs/cli.md, which is read in review: a panel, a default, a kind of value or a sentence does not change in silence."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## roofline (\S+)\n\n```\n(.*?)\n```$", written, re.MULTILINE | re.DOTALL)
    assert len(parts) > 20
    for verb, text in parts:
        assert page["help_text"](verb) == text, "run `python docs/generate.py`"
