"""The command-line contract of `roofline estimate`: formats, exit codes, one sentence per error, explanations equal to answers."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import cache

import pytest
from conftest import ROOT, examples, run_cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BASE = ("estimate", "llama70b", "--hw", "h100")


@cache
def answered(form: str = "json"):
    """BASE in one of the formats; most tests compare something with it."""
    return run_cli(*BASE, "--format", form)


@pytest.mark.slow
def test_one_screen_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = run_cli(*BASE)
    assert ran.code == 0 and not ran.err
    lines = ran.out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    for word in (
        "Llama 3 70B",
        "TTFT",
        "ITL",
        "floor",
        "expected",
        "80% interval",
        "memory bound",
        "memory ",
        "try ",
        "--details",
    ):
        assert word in ran.out
    details = run_cli(*BASE, "--details").out
    assert all(word in details for word in ("70.6B parameters", "memory per device", "KV cache", "cost at", "MBU"))
    assert "--details" not in details
    assert "\x1b[" not in ran.out


def test_json_is_the_contract():
    answer = answered().json
    assert [key for key in answer if key != "notes"] == [
        "schema",
        "model",
        "hardware",
        "layout",
        "workload",
        "phases",
        "cost",
        "price",
        "feasible",
        "violations",
    ]
    assert {"total", "active", "embedding"} <= set(answer["model"]["parameters"])
    assert {"devices", "tp", "pp", "dp", "cp", "ep", "zero", "micro_batch"} <= set(answer["layout"])
    for name in ("prefill", "decode", "train"):
        phase = answer["phases"][name]
        assert {
            "time_s",
            "floor_s",
            "interval_s",
            "tokens_per_s",
            "flops",
            "mfu",
            "bottleneck",
            "breakdown_s",
            "memory",
        } <= set(phase)
        low, high = phase["interval_s"]
        assert phase["floor_s"] <= low <= phase["time_s"] <= high
        held = phase["memory"]
        pieces = (
            "weights_bytes",
            "gradients_bytes",
            "optimizer_bytes",
            "activations_bytes",
            "kv_cache_bytes",
            "reserved_bytes",
        )
        assert (
            held["total_bytes"] == pytest.approx(sum(held.get(k, 0) for k in pieces))
            and held["total_bytes"] <= held["capacity_bytes"]
        )
    assert (
        answer["phases"]["train"]["hfu"] >= answer["phases"]["train"]["mfu"] and answer["phases"]["decode"]["mbu"] <= 1
    )
    assert {"usd_per_million_input_tokens", "usd_per_million_output_tokens", "training_usd"} <= set(answer["cost"])
    assert answer["feasible"] is True and answer["violations"] == [] and answer["layout"]["chosen"] is True


@pytest.mark.slow
def test_csv_and_markdown_carry_the_same_numbers():
    answer = answered().json
    table = dict(csv.reader(io.StringIO(answered("csv").out)))
    assert float(table["decode.time_s"]) == answer["phases"]["decode"]["time_s"]
    assert table["hardware.name"] == answer["hardware"]["name"]
    markdown = run_cli(*BASE, "--format", "markdown").out
    widths = [line.count("|") for line in markdown.splitlines() if line.startswith("|")]
    assert "### Llama 3 70B" in markdown and len(widths) > 10


def test_out_writes_the_file(tmp_path):
    target = tmp_path / "answer.json"
    ran = run_cli(*BASE, "--format", "json", "--out", str(target))
    assert ran.out == "" and json.loads(target.read_text())["feasible"] is True
    assert [p.name for p in tmp_path.iterdir()] == ["answer.json"]


def test_infeasible_prints_the_answer_and_the_nearest_plan():
    ran = run_cli(*BASE, "-n", "1", "--format", "json")
    assert ran.code == 1 and ran.json["feasible"] is False
    for violation in ran.json["violations"]:
        assert violation["needed"] > violation["available"] and "nearest that works: -n" in violation["message"]
    decode = next(v for v in ran.json["violations"] if v["constraint"] == "decode.memory")
    flags = re.search(r"nearest that works: (.*)$", decode["message"])[1].split()
    assert run_cli(*BASE, "--phase", "decode", *flags).code == 0
    assert "does not fit" in run_cli(*BASE, "-n", "1").out


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "quantity",
    [
        "decode.time_s",
        "prefill.time_s",
        "train.time_s",
        "decode.tokens_per_s",
        "train.mfu",
        "cost.usd_per_million_output_tokens",
        "decode.memory.kv_cache_bytes",
        "phases.decode.interval_s.1",
    ],
)
def test_an_explanation_equals_the_answer_bit_for_bit(quantity):
    answer = answered().json
    value: object = answer
    for part in (quantity if quantity.split(".")[0] in answer else f"phases.{quantity}").split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    text = run_cli(*BASE, "--explain", quantity, "--depth", "4")
    assert text.code == 0
    first = text.out.splitlines()[0]
    assert repr(value) in first or float(re.search(r"= ([0-9.e+-]+)", first)[1]) == value


def test_an_explanation_cites_file_and_line():
    text = run_cli(*BASE, "--explain", "decode.time_s", "--depth", "8").out
    place = re.search(r"hardware/h100-sxm\.yaml:(\d+)", text)
    line = (ROOT / "hardware" / "h100-sxm.yaml").read_text().splitlines()[int(place[1]) - 1]
    assert "TB/s" in line or "FLOP/s" in line or "GB/s" in line
    assert "datasheet" in text and "llama-3-70b.yaml:" in text and "[decode_attention]" in text


@pytest.mark.slow
def test_depth_limits_the_explanation():
    shallow, deep = (run_cli(*BASE, "--explain", "decode.time_s", "--depth", d).out for d in ("1", "6"))
    assert len(shallow.splitlines()) < 12 < len(deep.splitlines())


ERRORS = [
    (("estimate", "llama71b", "--hw", "h100"), 2, "did you mean"),
    (("estimate", "llama70b", "--hw", "h1000"), 2, "did you mean"),
    (("estimate", "llama70b"), 2, "--hw"),
    (("estimate", "llama70b", "--hw", "h100", "--frobnicate"), 2, "--frobnicate"),
    ((*BASE, "--tp", "3"), 2, "divisor of 64"),
    ((*BASE, "-n", "0"), 2, "at least 1"),
    ((*BASE, "-n", "-4"), 2, "at least 1"),
    ((*BASE, "--batch", "-1"), 2, "at least 1"),
    ((*BASE, "--batch", "many"), 2, "--batch many"),
    ((*BASE, "--batch", "nan"), 2, "finite"),
    ((*BASE, "-n", "2.5"), 2, "whole number"),
    ((*BASE, "--mfu", "1.37"), 2, "impossible"),
    ((*BASE, "--phase", "decode", "--measured", "1 us"), 2, "impossible"),
    ((*BASE, "--phase", "decode", "--measured", "1 GB"), 2, "measures B"),
    ((*BASE, "--phase", "fly"), 2, "unknown phase"),
    ((*BASE, "--dtype", "fp7"), 2, "unknown dtype"),
    (("estimate", "llama70b", "--hw", "a100", "--dtype", "fp8"), 2, "has no fp8"),
    ((*BASE, "--recompute", "some"), 2, "expected none or selective or full"),
    ((*BASE, "--pp", "81", "-n", "81"), 2, "80 layers"),
    ((*BASE, "--ep", "2"), 2, "no experts"),
    ((*BASE, "--explain", "decode.speed"), 2, "unknown quantity"),
    ((*BASE, "--explain", "decode"), 2, "is a group"),
    ((*BASE, "--format", "xml"), 2, "--format"),
    ((*BASE, "--out", "/nonexistent/x/y"), 2, "writable path"),
    (("estimate", "no/such.yaml", "--hw", "h100"), 3, "no such file"),
    (("estimate", "gpt2", "--hw", "h100", "--prompt", "2000"), 2, "learned positions"),
    (("nonsense",), 2, "unknown command"),
]


@pytest.mark.parametrize(("args", "code", "text"), ERRORS, ids=[" ".join(a[-3:]) for a, _, _ in ERRORS])
def test_bad_input_is_one_sentence(args, code, text):
    ran = run_cli(*args)
    assert ran.code == code, ran.err
    assert (
        text in ran.err and "Traceback" not in ran.err and ran.err.startswith("roofline: ") and ran.err.count("\n") == 1
    )


BROKEN = [
    ("name: x\n", "layers", 1),
    ("name: x\nsource: y\nd_model: [1]\nlayers: 1\nfeedforward: {kind: none}\n", "d_model", 3),
    ("a: b: c\n", "not valid YAML", 1),
    ("- 1\n", "mapping", 1),
    ("name: x\nname: y\n", "given twice", 2),
    ("d_model: 4e3\n", "not a number", 1),
    (
        "name: t\nsource: s\nd_model: 64\nlayers: 2\nattention: {n_heads: 3, n_kv_heads: 2, head_dim: 8}\nfeedforward: {d_ff: 4}\n",
        "does not divide",
        4,
    ),
    (
        "name: t\nsource: s\nd_model: -64\nlayers: 2\nattention: {n_heads: 2, n_kv_heads: 2, head_dim: 8}\nfeedforward: {d_ff: 4}\n",
        "greater than 0",
        3,
    ),
    (
        "name: t\nsource: s\nd_model: 64\nlayers: 2\nfavourite: 3\nattention: {n_heads: 2, n_kv_heads: 2, head_dim: 8}\nfeedforward: {d_ff: 4}\n",
        "no such field",
        5,
    ),
]


@pytest.mark.parametrize(("text", "message", "line"), BROKEN)
def test_broken_model_files_exit_3_with_file_and_line(tmp_path, text, message, line):
    path = tmp_path / "m.yaml"
    path.write_text(text)
    ran = run_cli("estimate", str(path), "--hw", "h100")
    assert ran.code == 3 and message in ran.err and "Traceback" not in ran.err
    assert f"{path}:{line}" in ran.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3.35 TB/s", "3.35 TB", "measures B"),
        ("80 GiB", "-80 GiB", "negative"),
        ("989.4 TFLOP/s", "989.4", "unit"),
        ("source: aiconfigurator}", "source: ''}", "source"),
        ("kind: gpu", "kind: toaster", "gpu"),
    ],
)
def test_broken_hardware_files_exit_3_with_file_and_line(tmp_path, old, new, message):
    text = (ROOT / "hardware" / "h100-sxm.yaml").read_text()
    assert old in text
    path = tmp_path / "c.yaml"
    path.write_text(text.replace(old, new, 1))
    ran = run_cli("estimate", "gpt2", "--hw", str(path))
    assert ran.code == 3 and message in ran.err and re.search(r"c\.yaml:\d+", ran.err)


yaml_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=True),
    st.text("abc:{}[]-#&*!|>%@ \n\t\"'0", max_size=8),
)
yaml_values = st.recursive(
    yaml_scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "source",
                    "d_model",
                    "layers",
                    "attention",
                    "feedforward",
                    "repeat",
                    "pattern",
                    "kind",
                    "n_heads",
                    "head_dim",
                    "d_ff",
                ]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(yaml_values)
def test_no_file_makes_a_traceback(tmp_path, value):
    import yaml

    path = tmp_path / "fuzz.yaml"
    path.write_text(yaml.safe_dump(value))
    ran = run_cli("estimate", str(path), "--hw", "h100")
    assert ran.code in (0, 1, 2, 3) and (ran.code < 2 or ran.err.startswith("roofline: "))


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=30))
def test_no_text_in_a_file_makes_a_traceback(text):
    from pathlib import Path

    from rooflinecli.core.errors import DataError
    from rooflinecli.specs.yaml_loader import parse

    try:
        parse(text, Path("x.yaml"))
    except DataError as error:
        assert "x.yaml" in str(error)


@pytest.mark.slow
def test_attention_conventions_differ_by_half_the_scores():
    causal, full = (
        run_cli(*BASE, "--phase", "train", "--attention-flops", c, "--format", "json").json["phases"]["train"]["flops"]
        for c in ("causal", "full")
    )
    assert full - causal == pytest.approx(3 * 1024 * 80 * 2 * 64 * 256 * 4096**2 / 2, rel=1e-9)


def test_recompute_and_optimizer_bytes_are_settable():
    light = run_cli(
        "estimate",
        "gpt2",
        "--hw",
        "h100",
        "-n",
        "1",
        "--phase",
        "train",
        "--gradient-bytes",
        "2",
        "--optimizer-bytes",
        "8",
        "--format",
        "json",
    ).json["phases"]["train"]["memory"]
    assert light["gradients_bytes"] == 2 * 124439808 and light["optimizer_bytes"] == 8 * 124439808


@pytest.mark.slow
def test_a_run_has_a_duration_and_a_bill():
    answer = run_cli(
        *BASE, "-n", "2048", "--phase", "train", "--tokens", "15T", "--price", "2", "--format", "json"
    ).json
    train = answer["phases"]["train"]
    assert train["run_s"] == train["steps"] * train["time_s"]
    assert answer["cost"]["training_usd"] == pytest.approx(train["run_s"] / 3600 * 2048 * 2)


@pytest.mark.slow
def test_models_of_the_first_library_all_answer():
    for model in ("llama-3-70b", "llama-3-8b", "llama-2-7b", "gpt2", "gpt3-175b", "falcon-40b"):
        for chip in ("tpu-v5e", "h100", "a100", "h200"):
            ran = run_cli("estimate", model, "--hw", chip, "--format", "json")
            assert ran.code == 0, (model, chip, ran.err)


def test_details_draw_memory_to_scale(cli):
    asked = ("estimate", "llama-3-8b", "--hw", "h100", "--tp", "2", "--dp", "4", "--zero", "1", "--recompute", "full")
    asked += ("--micro-batch-size", "1", "--batch", "64", "--seq-len", "8192", "--phase", "train")
    bar = re.search(r"\[([a-z.]{50})\]", cli(*asked, "--details").out)[1]
    memory = cli(*asked, "--format", "json").json["phases"]["train"]["memory"]
    for letter, key in (("w", "weights_bytes"), ("o", "optimizer_bytes"), ("a", "activations_bytes")):
        assert abs(bar.count(letter) - 50 * memory[key] / memory["capacity_bytes"]) <= 1
    assert abs(bar.count(".") - 50 * memory["headroom_fraction"]) <= 1


def test_what_was_not_asked_of_a_training_step_is_not_answered():
    bare = run_cli("estimate", "gpt2", "--hw", "h100", "--phase", "train", "--format", "json").json["phases"]["train"]
    assert (bare["steps"], bare["run_s"]) == (None, None)
    assert not {"goodput", "goodput_interval", "elapsed_s", "elapsed_interval_s"} & bare.keys()
