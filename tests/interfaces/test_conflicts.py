"""questions/conflicts.yaml: every row is of a class that exists and names only what its questions have; a row that holds refuses."""

from __future__ import annotations

import string
from importlib import import_module

import pytest
import yaml
from conftest import ROOT, run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.core.expressions import compiled
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.answers import VERBS
from rooflinecli.interfaces.cli.simulate import SimulateDelivery
from rooflinecli.questions.goodput.question import TrainingGoodput
from rooflinecli.questions.report.question import Report
from rooflinecli.questions.rl.question import Rl
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.sweep.question import Sweep

ROWS = yaml.load((ROOT / "rooflinecli" / "questions" / "conflicts.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
KNOWN = {"len", "default", "given"}


def questions():
    found = [
        Report,
        SimulateDelivery,
        Sweep,
        *(verbs.question(verb) for verb in (*verbs.NAMES, *verbs.COMMANDS)),
    ]
    for verb, row in VERBS.items():
        found += import_module(f"rooflinecli.questions.{verb}.question").QUESTIONS if row.help else ()
    return found


def test_rows_name_classes_and_fields_that_exist():
    met = set()
    for question in questions():
        for kind in question.__mro__:
            met |= {kind.__name__} & set(ROWS)
            for row in ROWS.get(kind.__name__, ()):
                each = row.get("each", [])
                names = {*KNOWN, *row.get("let", ()), *(("each", "flag", "written") if each else ())}
                asked = {*compiled(row["if"]).co_names, *each}
                asked |= {name for _, name, *_ in string.Formatter().parse(row.get("say") or row["note"]) if name}
                assert not {name for name in asked - names if not hasattr(question, name)}, (question.verb, row)
                assert row.get("option") in (None, *(field.long for field in question.fields().values())), row
    assert met == set(ROWS)


@pytest.mark.parametrize(
    ("question", "options", "option", "said"),
    [
        (Simulate, {"qps": 1, "concurrency": 2}, "qps", "--concurrency and --qps are mutually exclusive"),
        (Simulate, {"qps": 1, "trace_window": "1s:2s"}, "trace-window", "--trace-window requires a recorded load"),
        (Simulate, {"concurrency": 3e6}, "concurrency", "--concurrency 3e+06 and 10 requests per client: at most"),
        (Simulate, {"qps": 1e-9}, "qps", "--qps 1e-09: 1000 requests take longer than 1e+09 s"),
        (Rl, {"tool_wait": "2"}, "tool-wait", "--tool-wait requires several turns"),
        (Rl, {"n": 8, "rollout_devices": 8}, "rollout-devices", "--rollout-devices 8 leaves none of -n 8"),
    ],
)
def test_a_row_that_holds_refuses_with_its_option(question, options, option, said):
    with pytest.raises(UsageError) as refused:
        question(model="llama-3-8b", hw="h100", **options)
    assert str(refused.value).startswith(said) and refused.value.option == option


def test_a_question_without_a_conflict_is_made():
    assert TrainingGoodput(n=8, params=1e9, spares=2, repair="1h").repair == 3600.0


@pytest.mark.parametrize(
    ("asked", "noted"),
    [
        ("estimate llama-3-8b --hw h100 -n 1 --phase decode", True),
        ("compare llama-3-8b --hw h100,a100 -n 1 --phase decode", False),
        ("search llama-3-8b --hw h100 -n 1 --phase decode --batch 8", False),
        ("sweep llama-3-8b --hw h100 -n 1 --phase decode --batch 1,2", False),
    ],
)
def test_a_bound_changes_nothing_where_one_layout_is_not_ranked(asked, noted):
    """Rows of chips, layouts and points are ranked and limited by it, though each has one layout."""
    ran = run_cli(*asked.split(), "--bound", "expected")
    assert ran.code == 0 and ("--bound changes nothing" in ran.err) == noted
