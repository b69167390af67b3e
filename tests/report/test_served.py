"""The section on a simulated load: what it draws is what `roofline simulate` answers."""

from __future__ import annotations

import pytest

from rooflinecli.interfaces.python import api
from rooflinecli.questions.report.answer import served
from tests.conftest import run_cli
from tests.report.conftest import embedded
from tests.report.test_page import Reader

BASE = ("llama-3-8b", "--hw", "h100", "-n", "1", "--tp", "1", "--engine", "vllm", "--prompt", "1024", "--output", "128")
PHASES = ("--phase", "prefill", "--phase", "decode")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "r.html"
    ran = run_cli("report", *BASE, *PHASES, "--qps", "8", "--slo", "ttft=100ms,itl=12ms@90", "--out", str(path))
    assert ran.code == 0, ran.err
    return path.read_text()


@pytest.mark.slow
def test_its_derivations_stay_readable(page):
    """A formula that repeats its own intermediate values writes them out again each time, which once made 86 MB of a page."""
    assert len(page) < 3e6


@pytest.mark.slow
def test_its_numbers_are_the_commands(page):
    found = embedded(page)["simulation"]
    values = api.simulate(
        "llama-3-8b",
        "h100",
        n=1,
        tp=1,
        engine="vllm",
        prompt=1024,
        output=128,
        qps=8,
        requests=500,
        slo="ttft=100ms,itl=12ms@90",
    )
    assert {name: values[name] for name in found["values"]} == found["values"]
    shares = {point["load"]: point["slo_attainment"] for point in found["loads"]}
    assert shares[8.0] == values["slo_attainment"] and shares[2.0] >= shares[16.0] and len(shares) == 7


@pytest.mark.slow
def test_its_curves_rise_and_end_at_the_slowest(page):
    found = embedded(page)["simulation"]
    for name in ("ttft", "e2e"):
        times = [point["time_s"] for point in found["percentiles"][name]]
        assert times == sorted(times) and len(times) == 101
        assert times[50] == pytest.approx(found["values"].get(f"{name}_p50_s", times[50]))
    instants = [point["at_s"] for point in found["over_time"]]
    assert instants == sorted(instants) and len(instants) <= 300
    assert 0 < max(point["batch"] for point in found["over_time"]) <= found["values"]["decode_batch_max"] + 1


def test_its_pictures_are_there_and_whole(page):
    reader = Reader(page)
    assert not reader.open
    assert {i for tag, a in reader.tags if tag == "section" for i in [a.get("id")]} >= {"simulation", "curve"}
    assert page.count('class="chart wide"') == page.count('class="chart narrow"') >= 4
    assert f"Share inside {embedded(page)['simulation']['slo']} against requests per second" in page


def test_without_a_load_there_is_none(tmp_path):
    path = tmp_path / "r.html"
    assert run_cli("report", *BASE, *PHASES, "--out", str(path)).code == 0
    assert "simulation" not in embedded(path.read_text())
    assert served({"model": "llama-3-8b", "hw": "h100", "n": 1, "concurrency": "max"}, None) is None


@pytest.mark.slow
def test_a_closed_loop_without_a_promise_draws_the_first_token(tmp_path):
    path = tmp_path / "r.html"
    assert run_cli("report", *BASE, *PHASES, "--concurrency", "8", "--out", str(path)).code == 0
    found = embedded(path.read_text())["simulation"]
    assert found["slo"] is None and [p["load"] for p in found["loads"]] == [2, 4, 6, 8, 10, 12, 16]
    firsts = [p["ttft_p99_s"] for p in found["loads"]]
    assert firsts[0] < firsts[-1] and "TTFT, p99, against requests in flight" in path.read_text()
    bad = run_cli("report", *BASE, *PHASES, "--qps", "8", "--slo", "soon", "--out", str(path))
    assert bad.code == 2 and "is no limit" in bad.err


@pytest.mark.slow
def test_a_told_server_is_simulated_as_told():
    """First tokens that come with ten more, of the estimate and of the load drawn next to it."""
    load = {"model": "llama-3-8b", "hw": "h100", "n": 1, "engine": "vllm", "prompt": 1024, "output": 128, "qps": 8}
    at_once, late = (served({**load, "scheduler": f"stream_steps={n}"}, None)["values"]["ttft_p50_s"] for n in (1, 11))
    assert late - at_once > 9 * 5e-3  # a step of eight 8B-sequences takes more than 5 ms
