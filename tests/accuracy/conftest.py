"""What several tests of accuracy read, computed once per session."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lab import search_vs_tuned
from rooflinecli.engine import extrapolation
from rooflinecli.specs.snapshots import published
from rooflinecli.validate import inference, published_training
from rooflinecli.validate.question import Validate


@pytest.fixture(scope="session")
def report():
    """`report(SUBJECT)`: the tables of `roofline validate SUBJECT`."""
    tables = Validate.tables  # tests replace it by this
    return cache(lambda subject: tables(Validate(subject)))


@pytest.fixture(scope="session")
def lines(report):
    """`lines(SUBJECT, TITLE)`: the rows of one of its tables by group; published servers alone are a third of the work."""

    @cache
    def servers() -> list[Any]:
        return inference._scored("published", inference.published_runs(), [], inference.published_lines)

    def found(subject: str, title: str) -> dict[str, Any]:
        tables = (
            servers()
            if title.startswith("inference: published, ") and "other releases" not in title
            else report(subject)
        )
        return {row["group"]: row for table in tables if table.title == title for row in table.rows}

    return found


@pytest.fixture(scope="session")
def searched():
    """A training run against the search of its question, by the bound of BOUNDS."""
    found: dict[Any, Any] = {}
    run = search_vs_tuned.searched

    def search(row: dict[str, Any], *bound: str) -> search_vs_tuned.Searched | None:
        key = (row["id"], row["plan"].get("software"), bound)
        if key not in found:
            found[key] = run(row, *bound)
        return found[key]

    return search


@pytest.fixture(scope="session")
def ranked():
    """Place and gain of a training run by its own envelope alone; what `searched` adds, each family left out, takes every published run."""

    def rank(row: dict[str, Any]) -> search_vs_tuned.Searched | None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                search_vs_tuned, "_terms", lambda ctx, plan, found, _: (extrapolation.of(ctx, plan, found),) * 2
            )
            return search_vs_tuned.searched(row)

    return rank


@pytest.fixture(scope="session")
def reached():
    """`search_vs_tuned.reached` of a published point, searched once."""
    found: dict[str, tuple[float, float]] = {}
    run = search_vs_tuned.reached

    def reach(row: dict[str, Any]) -> tuple[float, float]:
        if row["id"] not in found:
            found[row["id"]] = run(row)
        return found[row["id"]]

    return reach


FRONT = [f"inferencex-deepseek-r1-b200-fp8-1024x1024-i{speed}" for speed in (42, 100)]


@pytest.fixture(scope="session")
def search_report(searched, reached):
    """The tables of `lab.search_vs_tuned` over one tuned run and two points of a front."""
    run = next(row for row in published_training.timed() if row["id"] == "nemo-2407-nemotron-8b-pretrain-n64")
    points = [row for row in published("pareto")["rows"] if row["id"] in FRONT]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_vs_tuned, "sampled", lambda full: [run])
        patch.setattr(search_vs_tuned, "searched", searched)
        patch.setattr(
            search_vs_tuned, "published", lambda name: {"rows": points} if name == "pareto" else published(name)
        )
        patch.setattr(search_vs_tuned, "reached", reached)
        return search_vs_tuned.tables()
