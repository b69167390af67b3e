"""What the first screen of a search says where nothing fits, and of layouts that no published run supports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from conftest import run_cli

from rooflinecli.questions.search.question import TrainingRow
from rooflinecli.render.blocks import Note
from rooflinecli.render.views import search


@pytest.mark.slow
def test_a_search_without_an_answer_says_what_to_try():
    """The devices that hold the model where none does; the change that helps the nearest layout where a limit is missed."""
    none = run_cli("search", "llama-3-70b", "--hw", "h100", "-n", "1", "--phase", "train").out
    assert "memory: it needs" in none and "nearest that works: -n " in none
    late = run_cli("search", "llama-3-8b", "--hw", "rtx4090", "-n", "1", "--slo", "itl=1ms").out
    assert "nearest layout:" in late and "try      --dtype fp8: ITL" in late


@pytest.mark.parametrize("marked", [True, False])
def test_a_marked_layout_is_explained_on_the_first_screen(monkeypatch, marked):
    monkeypatch.setattr(search, "_extrapolations", lambda row: row.extrapolations)
    rows = [SimpleNamespace(extrapolations=["cp"] * (marked and i == 1)) for i in range(2)]
    said = search._extrapolated(rows)
    assert isinstance(said, Note) and said.text.startswith("* no published run") if marked else said is None
    assert "extrapolations" in TrainingRow.__annotations__
