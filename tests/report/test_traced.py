"""The section on a trace: its numbers are those of `roofline profile --against`."""

from __future__ import annotations

import json

import pytest

from rooflinecli.core.units import duration
from tests.conftest import run_cli
from tests.report.conftest import embedded
from tests.report.test_page import Reader

ASKED = ("llama-3.1-8b", "--hw", "h100", "-n", "1", "--phase", "prefill", "--prompt", "1024")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A product that its name tells, attention, and a copy from the host that no operation explains."""
    names = {"nvjet_qkv_proj": 100.0, "flash_fwd_kernel": 40.0, "Memcpy HtoD (Pinned -> Device)": 20.0}
    events, at = [], 0.0
    for name, took in names.items():
        kind = "gpu_memcpy" if "Memcpy" in name else "kernel"
        events.append({"ph": "X", "cat": kind, "name": name, "ts": at, "dur": took, "pid": 0, "tid": 7})
        at += took + 5
    file = tmp_path_factory.mktemp("trace") / "t.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return file


def test_its_numbers_are_those_of_profile_against(trace, tmp_path):
    path = tmp_path / "r.html"
    ran = run_cli("report", *ASKED, "--profile", str(trace), "--out", str(path))
    assert ran.code == 0, ran.err
    text = path.read_text()
    found = embedded(text)["profile"]
    same = run_cli("profile", str(trace), "--against", " ".join(ASKED), "--format", "json").json
    assert found == same
    assert found["unexplained"]["time_s"] * found["steps"] == pytest.approx(20e-6)
    reader = Reader(text)
    assert not reader.open
    assert "profile" in {a.get("id") for tag, a in reader.tags if tag == "section"}
    shown = text[text.index('id="profile"') :]
    for row in found["rows"][:20]:
        assert duration(row["measured_s"]) in shown and row["operations"][0] in shown
    assert "Memcpy HtoD" in text


def test_without_a_trace_there_is_no_section(tmp_path):
    path = tmp_path / "r.html"
    assert run_cli("report", *ASKED, "--out", str(path)).code == 0
    assert "profile" not in embedded(path.read_text())


def test_a_trace_is_of_one_phase(trace, tmp_path):
    ran = run_cli(
        "report", "llama-3.1-8b", "--hw", "h100", "-n", "1", "--profile", str(trace), "--out", str(tmp_path / "r")
    )
    assert ran.code == 2
    assert "--phase" in ran.err
