"""What moved since the accepted plan."""

from __future__ import annotations

import json

import pytest
from check.plans import check, plan, report


def saved(tmp_path, made):
    assert check(tmp_path, made, "--write-baseline", str(tmp_path / "old.json")).code == 0
    return "--baseline", str(tmp_path / "old.json")


def test_nothing_moves_when_nothing_changed(tmp_path):
    old = saved(tmp_path, plan())
    assert report(tmp_path, plan(), *old)["changes"] == []
    assert "0 changed" in check(tmp_path, plan(), *old).out


def test_moves_beyond_the_tolerance_are_shown(tmp_path):
    old = saved(tmp_path, plan())
    moved = report(tmp_path, plan(batch=64), *old)["changes"]
    (time,) = [m for m in moved if m["what"] == "decode.time_s"]
    assert time["change"] == pytest.approx((time["now"] - time["before"]) / time["before"]) and time["change"] > 0.02
    (faster,) = [m for m in report(tmp_path, plan(batch=8), *old)["changes"] if m["what"] == "decode.time_s"]
    assert faster["change"] < -0.02
    assert report(tmp_path, plan(batch=64), *old, "--tolerance", "1000 %")["changes"] == []
    assert len(report(tmp_path, plan(batch=33), *old, "--tolerance", "0")["changes"]) > len(
        report(tmp_path, plan(batch=33), *old, "--tolerance", "0.5")["changes"]
    )


@pytest.mark.slow
def test_a_new_layout_verdict_or_check_is_a_move(tmp_path):
    old = saved(tmp_path, plan())
    assert {"layout", "decode.time_s"} <= {m["what"] for m in report(tmp_path, plan(devices=4, tp=4), *old)["changes"]}
    worse = plan(require={"feasible": True, "decode.time_s": "<= 1 ms", "memory.headroom_fraction": ">= 5 %"})
    (verdict,) = report(tmp_path, worse, *old)["changes"]
    assert (verdict["what"], verdict["before"], verdict["now"]) == ("verdict", "pass", "fail")
    renamed = plan()
    renamed["checks"]["talk"] = renamed["checks"].pop("chat")
    assert [(m["before"], m["now"]) for m in report(tmp_path, renamed, *old)["changes"]] == [
        (None, "pass"),
        ("pass", None),
    ]
    for kind in ("table", "markdown", "github", "junit", "sarif"):
        assert check(tmp_path, renamed, *old, "--format", kind).code == 0


def test_a_move_fails_only_when_told_to(tmp_path):
    old = saved(tmp_path, plan())
    assert check(tmp_path, plan(batch=64), *old).code == 0
    assert check(tmp_path, plan(batch=64), *old, "--moved", "fail").code == 1
    assert check(tmp_path, plan(), *old, "--moved", "fail").code == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        '{"schema": "roofline/estimate/1"}',
        '{"schema": "roofline/check/1"}',
        "\x00",
        '{"schema": "roofline/check/1", "checks": [{"name": "a"}]}',
        '{"schema": "roofline/check/1", "checks": 3}',
        "[" * 100000,
    ],
)
def test_a_broken_baseline_is_bad_data(tmp_path, text):
    (tmp_path / "old.json").write_text(text)
    ran = check(tmp_path, plan(), "--baseline", str(tmp_path / "old.json"))
    assert ran.code == 3 and "old.json" in ran.err and ran.err.count("\n") == 1


def test_values_of_another_kind_in_a_baseline_are_a_move_not_a_crash(tmp_path):
    old = saved(tmp_path, plan())
    made = json.loads((tmp_path / "old.json").read_text())
    for row, value in zip(made["checks"][0]["requirements"], (None, "fast", 0), strict=True):
        row["expected"] = value
    (tmp_path / "old.json").write_text(json.dumps(made))
    for kind in ("table", "markdown", "github", "json"):
        assert check(tmp_path, plan(), *old, "--format", kind).code in (0, 3)


def test_a_missing_baseline_says_how_to_make_one(tmp_path):
    ran = check(tmp_path, plan(), "--baseline", str(tmp_path / "none.json"))
    assert ran.code == 3 and "--write-baseline" in ran.err


@pytest.mark.parametrize("tolerance", ["-1", "much", "nan", "inf", "3 s"])
def test_a_tolerance_is_a_share(tmp_path, tolerance):
    assert check(tmp_path, plan(), "--tolerance", tolerance).code == 2
