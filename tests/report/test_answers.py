"""`--format html` and `--plot`: a page of any answer that loads nothing, and the points of its picture."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from rooflinecli.questions.search.question import Search
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.render.formats.plot import text
from rooflinecli.render.report.charts import picture
from rooflinecli.render.views.pictures import _ranked, pictures
from tests.report.conftest import embedded
from tests.report.test_page import Reader

ASKED = {
    "search": ("llama-3-8b", "--hw", "h100", "-n", "2", "--slo", "ttft=2s,itl=50ms"),
    "compare": ("llama-3-8b", "--hw", "h100,h200"),
    "plan": ("llama-3-8b", "--hw", "h100,h200", "--qps", "5", "--slo", "ttft=2s,itl=50ms"),
    "simulate": ("llama-3-8b", "--hw", "h100", "--qps", "2", "--num-requests", "20"),
    "fit": ("llama-3.1-8b", "--hw", "rtx-4060"),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ASKED)
def test_a_page_of_an_answer_stands_alone_and_holds_its_json(cli, verb):
    ran = cli(verb, *ASKED[verb], "--format", "html")
    Reader(ran.out)
    assert ran.out.startswith("<!doctype html>") and ran.out.count("<svg") >= (0 if verb == "fit" else 2)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", ran.out) and "Content-Security-Policy" in ran.out
    held, printed = embedded(ran.out), json.loads(cli(verb, *ASKED[verb], "--format", "json").out)
    assert held.keys() == printed.keys() and held["schema"] == printed["schema"]


def test_the_points_of_a_search_are_its_rows_under_the_slo_line():
    answer = Search("llama-3-8b", hw="h100", n="2", slo="ttft=2s,itl=50ms").answer()
    (drawn,) = pictures(answer)
    points = [point for line in drawn.series.values() for point in line]
    assert sorted(points) == sorted(
        (r.serve["requests_per_s"] / r.serve["devices"], r.serve["itl_s"] * 1e3) for r in answer.results
    )
    assert drawn.limits == {"SLO 50.0 ms": 50.0} and all(y < 50 for _, y in points)
    assert drawn.series["best"] == [points[0]]
    html = picture(drawn, "p")
    assert html.count("<circle") == 2 * (len(points) + len(drawn.series) / 2) and html.count("floorline") == 2


def test_those_that_overlap_the_best_are_a_series_of_their_own():
    points = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    assert _ranked(points, [(0.9, 1.5), (1.4, 2.5), (1.6, 4.0)]) == {
        "best": points[:1], "interval overlaps the best": points[1:2], "others": points[2:],
    }  # fmt: skip


def test_percentiles_of_a_simulation_are_those_of_its_answer():
    found = Simulate("llama-3-8b", hw="h100", qps=2, num_requests=20).answer()
    (drawn,) = pictures(found)
    assert drawn.series["TTFT"][3] == (99.0, found.simulate["ttft_p99_s"]) and drawn.curves
    assert "o TTFT" in text(drawn)


@pytest.mark.slow
def test_plot_draws_in_the_terminal_and_to_a_file_and_says_where_it_cannot(cli, tmp_path):
    ran = cli("compare", *ASKED["compare"], "--plot", "-")
    assert "dollars per hour" in ran.out and "o H" in ran.out
    assert cli("search", *ASKED["search"], "--plot", str(tmp_path / "a.txt")).code == 2
    assert (
        cli("search", *ASKED["search"], "--plot", str(tmp_path / "a.svg")).code == 0
        and (tmp_path / "a.svg").stat().st_size > 1000
    )
    assert pictures(SimpleNamespace()) == []
