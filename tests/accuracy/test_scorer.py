"""One scorer for every table, and the rules that read the rows of the wheel."""

from __future__ import annotations

import pytest

from rooflinecli.validate.aiconfigurator_tables import matches
from rooflinecli.validate.stats import AT_FAULT, score, twin

EXACT, OFF = (2.0, 2.0, 1.0, 1.5, 2.5), (2.0, 4.0, 1.0, 3.5, 4.5)
ROWS = [(["b", "dense"], EXACT), (["a", "dense"], OFF), (["b" + AT_FAULT], OFF)]


def test_rows_at_fault_have_a_line_of_their_own_and_are_in_no_total():
    table = score("t", ROWS, ["note"], subtotals=("dense", "MoE"))
    assert [row["group"] for row in table.rows] == ["b", "a", "b" + AT_FAULT, "dense", "all"]
    assert [p.group for p in table.points] == ["b", "a", "b" + AT_FAULT] and table.notes == ["note"]
    for row in table.rows[-2:]:
        assert (row["rows"], row["mean"], row["coverage"]) == (2, 0.5, 0.5)


def test_lines_come_in_order_or_by_name_and_a_whole_is_optional():
    ranked = score("t", ROWS, [], ranked=True, with_all=False)
    assert [row["group"] for row in ranked.rows] == ["a", "b", "b" + AT_FAULT, "dense"]


def test_a_rate_above_its_ceiling_is_suspect_where_more_is_better():
    assert [score("t", [(["x"], EXACT)], [], higher=higher).rows[0]["suspect"] for higher in (False, True)] == [0, 1]


def test_a_twin_is_an_earlier_run_of_the_same_setup():
    earlier = {("h100", "llama")}
    assert (twin(("h100", "llama"), earlier), twin(("h200", "llama"), earlier)) == ("with a twin", "without a twin")


@pytest.mark.parametrize(
    ("patterns", "met"),
    [
        ({"hw": "h*"}, True),
        ({"hw": ["b2*", "gb*"]}, False),
        ({"hw": "h*", "public": False}, False),
        ({"prompt": 1024, "since": "2026-01-21"}, True),
        ({"since": "2026-01-22"}, False),
        ({}, True),
    ],
)
def test_patterns_meet_a_record_when_every_field_does(patterns, met):
    record = {"hw": "h100-sxm", "public": True, "prompt": 1024, "day": "2026-01-21"}
    assert matches(record, patterns) == met
