"""The Python door: typed, the same digits as the command line, frames of either library."""

from __future__ import annotations

import copy
import json
import sys

import pytest

import rooflinecli as rl
from rooflinecli.core.errors import UsageError

ASKED = {"model": "llama-3-8b", "hw": "h100", "n": 2}


def test_an_answer_is_typed_and_is_the_json(cli):
    answer = rl.estimate(**ASKED)
    printed = cli("estimate", "llama-3-8b", "--hw", "h100", "-n", "2", "--format", "json").json
    assert json.loads(json.dumps(answer)) == printed == json.loads(json.dumps(answer.to_dict()))
    assert answer.decode.time_s == printed["phases"]["decode"]["time_s"] == answer["phases"]["decode"]["time_s"]
    assert answer.train.memory.total_bytes == printed["phases"]["train"]["memory"]["total_bytes"]
    assert answer.prefill.floor_s <= answer.prefill.time_s and answer.feasible is True and answer.plan.devices == 2
    assert copy.deepcopy(answer) == answer and "llama" in repr(answer).lower()


def test_a_phase_that_was_not_asked_for_says_so():
    with pytest.raises(UsageError, match="answers decode; ask for phase='train'"):
        _ = rl.estimate(**ASKED, phase="decode").train


@pytest.mark.slow
def test_explain_is_that_of_the_command_line(cli):
    answer = rl.estimate(**ASKED)
    assert answer.explain("decode.time_s").splitlines()[0] == cli("estimate", "llama-3-8b", "--hw", "h100", "-n", "2", "--explain", "decode.time_s").out.splitlines()[0]  # fmt: skip


def test_a_launch_is_read_and_written():
    answer = rl.estimate(source="vllm serve meta-llama/Llama-3.1-8B -tp 2 --max-num-seqs 16", hw="h100")
    assert answer.plan.tp == 2 and answer.decode.batch == 16
    assert "--tensor-parallel-size 2" in rl.emit("vllm", answer)


def test_html_escapes_what_people_wrote(tmp_path):
    (tmp_path / "odd.yaml").write_text("extends: gpt2\nname: '<img src=x>'\n")
    page = rl.estimate(str(tmp_path / "odd.yaml"), "h100")._repr_html_()
    assert "<img" not in page and "&lt;img" in page and "<table>" in page


@pytest.fixture(params=["pandas", "polars"])
def library(request, monkeypatch):
    """Only one of the two libraries is there."""
    pytest.importorskip(request.param)
    find = sys.modules["importlib.util"].find_spec
    hidden = {"pandas", "polars"} - {request.param}
    monkeypatch.setattr(
        "rooflinecli.interfaces.python.api.find_spec", lambda name: None if name in hidden else find(name)
    )
    return request.param


def column(frame, name):
    return list(frame[name])


@pytest.mark.slow
def test_frames(library, cli):
    frame = rl.estimate(**ASKED).to_frame()
    assert type(frame).__module__.startswith(library) and column(frame, "phase") == ["prefill", "decode", "train"]
    swept = rl.sweep("llama-3-8b", "h100", batch=[1, 2, 4], kv_dtype=["bf16", "fp8"], columns=["decode.time_s"])
    assert len(swept) == 6 and column(swept, "feasible") == [True] * 6
    part = rl.sweep("llama-3-8b", "h100", batch=[1, 2, 4], part="3/3", columns=["decode.time_s"])
    assert column(part, "decode.time_s") == column(swept, "decode.time_s")[2:3]
    one = rl.estimate("llama-3-8b", "h100", n=1, tp=1, batch=4, kv_dtype="fp8", phase="decode").decode.time_s
    assert column(swept, "decode.time_s")[-1] == one
    found = rl.search("llama-3-8b", "h100", n=8, phase="train", top=3)
    assert column(found, "tokens_per_s") == sorted(column(found, "tokens_per_s"), reverse=True) and len(found) == 3
    assert len(rl.compare("llama-3-8b", ["h100", "a100"], n=1, batch=8)) == 2


def test_without_a_library_the_error_names_both(monkeypatch):
    monkeypatch.setattr("rooflinecli.interfaces.python.api.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pandas or polars"):
        rl.estimate(**ASKED, phase="decode").to_frame()


def test_importing_the_package_costs_nothing(python):
    assert python("import rooflinecli, sys; print([m for m in sys.modules if m.startswith('rooflinecli.') or m in ('yaml', 'pydantic')])").stdout.strip() == "[]"  # fmt: skip
    assert "it offers Answer, Calibration" in python("import rooflinecli\ntry: rooflinecli.nothing\nexcept AttributeError as e: print(e)").stdout  # fmt: skip


@pytest.mark.parametrize("name", rl.__all__)
def test_what_is_offered_is_there_and_described(name):
    assert getattr(rl, name).__doc__


@pytest.mark.parametrize("kind", ["int32", "int64", "float32", "float64"])
def test_numbers_of_numpy_are_numbers(kind):
    import numpy as np

    given = getattr(np, kind)(512)
    assert (
        rl.estimate(**ASKED, phase="prefill", prompt=given).prefill
        == rl.estimate(**ASKED, phase="prefill", prompt=512).prefill
    )
    with pytest.raises(rl.UsageError, match="expected a number"):
        rl.estimate(**ASKED, prompt=np.bool_(True))


def test_every_error_is_offered_by_the_package():
    for kind in (rl.UsageError, rl.DataError, rl.Infeasible, rl.ImpossibleValue):
        assert issubclass(kind, rl.RooflineError)
    with pytest.raises(rl.Infeasible):
        rl.estimate("bloom-176b", "rtx-4090")


def test_what_is_no_name_depth_or_answer_is_one_sentence():
    answer = rl.estimate(**ASKED, phase="decode")
    with pytest.raises(rl.UsageError, match="unknown quantity '3'"):
        answer.explain(3)
    with pytest.raises(rl.UsageError, match="depth"):
        answer.explain("decode.time_s", depth="deep")
    with pytest.raises(rl.UsageError, match="an answer of estimate"):
        rl.emit(answer, "vllm")
