"""The tornado: where it says that another wins, another does, on a chip whose file says so; break-even prices; what it asks to measure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import run_cli

COST = "cost.usd_per_million_output_tokens"


def found(*args: str, code: int = 0) -> dict[str, Any]:
    ran = run_cli(*args, "--format", "json")
    assert ran.code == code, ran.err
    return ran.json


def worst(result: dict[str, Any], phase: str) -> float:
    return float(result["phases"][phase]["interval_s"][1])


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    return found("compare", "llama-3-8b", "--hw", "h100,h200", "-n", "1", "--batch", "32", "--sensitivity")


def chip_with(folder: Path, base: str, lines: str) -> str:
    path = folder / "moved.yaml"
    path.write_text(f"extends: {base}\nname: Moved\n{lines}\n")
    return str(path)


@pytest.mark.slow
def test_past_its_flip_another_chip_wins(compared: dict[str, Any], tmp_path: Path) -> None:
    row = next(r for r in compared["tornado"]["rows"] if r["figure"] == "memory.bandwidth" and r["chip"] == "h200")
    args = ["--phase", "prefill", "--phase", "decode", "-n", "1", "--batch", "32"]
    h100 = worst(found("estimate", "llama-3-8b", "--hw", "h100", *args), "decode")
    for factor, wins in ((1 + 1e-4, "h200"), (1 - 1e-4, "h100")):
        value = row["flip_value"] * factor / 1e12
        chip = chip_with(
            tmp_path,
            "h200-sxm",
            f"memory: {{bandwidth: {{value: {value!r} TB/s, source: test}}}}\nsources: {{test: a test}}",
        )
        moved = worst(found("estimate", "llama-3-8b", "--hw", chip, *args), "decode")
        assert (moved < h100) == (wins == "h200")
    assert row["winner_after_flip"] == "2" and row["factor"] < 1


def test_the_lead_is_that_of_the_pessimistic_ends(compared: dict[str, Any]) -> None:
    ends = [row["interval"][1] for row in compared["rows"]]
    assert compared["tornado"]["lead"] == pytest.approx(ends[1] / ends[0] - 1, rel=1e-12)
    for row in compared["tornado"]["rows"]:
        assert row["lead_at_least"] <= compared["tornado"]["lead"] * (1 + 1e-9) <= row["lead_at_most"] * (1 + 2e-9)


def test_rows_are_ordered_by_how_near_they_flip(compared: dict[str, Any]) -> None:
    factors = [max(r["factor"], 1 / r["factor"]) for r in compared["tornado"]["rows"] if r["factor"]]
    assert factors and factors == sorted(factors)
    for row in compared["tornado"]["rows"]:
        if row["within_error"]:
            assert max(row["factor"], 1 / row["factor"]) <= 1 + row["error"]
        if (
            row["figure"].endswith((".compute", ".memory"))
            and row["flip_value"]
            and not isinstance(row["flip_value"], list)
        ):
            assert row["flip_value"] <= 1, "a fraction of a peak stays one"


@pytest.mark.slow
def test_at_the_break_even_price_the_two_cost_the_same() -> None:
    args = ["llama-3-8b", "-n", "1", "--batch", "32", "--rank", COST]
    pair = found("compare", *args, "--hw", "h200,h100", "--sensitivity")["tornado"]["break_even"]
    priced = found("compare", *args, "--hw", "h200,h100", "--price", f"{pair['chip']}={pair['usd_per_device_hour']!r}")[
        "rows"
    ]
    assert priced[0]["interval"][1] == pytest.approx(priced[1]["interval"][1], rel=1e-12)
    unknown = found("compare", *args[:-2], "--hw", "h100,mi300x", "--sensitivity")["tornado"]["break_even"]
    assert {unknown["chip"], unknown["against"]} == {"h100", "mi300x"}


@pytest.mark.slow
def test_a_search_across_chips_flips_where_it_says(tmp_path: Path) -> None:
    result = found(
        "search",
        "llama-3-8b",
        "--hw",
        "h100,a100",
        "-n",
        "8",
        "--batch",
        "32",
        "--zero",
        "1,3",
        "--objective",
        "cost",
        "--sensitivity",
    )
    rows, report = {str(r["rank"]): r for r in result["results"]}, result["tornado"]
    row = next(
        r
        for r in report["rows"]
        if r["figure"] == "peak.bf16"
        and r["factor"]
        and rows[r["winner_after_flip"]]["chip"] != rows[report["first"]]["chip"]
    )
    base = {"h100": "h100-sxm", "a100": "a100-sxm-80"}
    chip = chip_with(
        tmp_path,
        base[row["chip"]],
        f"peak: {{bf16: {{value: {row['flip_value'] * (1 + 1e-4 * (1 if row['factor'] > 1 else -1)) / 1e12!r} TFLOP/s, source: test, basis: dense}}}}\nsources: {{test: a test}}",
    )
    bills = {}
    for label in (report["first"], row["winner_after_flip"]):
        words = shlex.split(rows[label]["estimate"])[1:]
        at = words.index("--hw") + 1
        words[at] = chip if words[at] == row["chip"] else words[at]
        phase = found(*words)
        bills[label] = (
            phase["cost"]["usd_per_million_training_tokens"]
            * worst(phase, "train")
            / phase["phases"]["train"]["time_s"]
        )
    assert bills[row["winner_after_flip"]] < bills[report["first"]]


def test_it_names_the_one_measurement(compared: dict[str, Any]) -> None:
    from rooflinecli.questions.sensitivity.answer import measurement

    settles = compared["tornado"]["resolving_measurement"]
    doubted = [r for r in compared["tornado"]["rows"] if r["within_error"]]
    assert (settles is None) == (not doubted)
    if settles:
        assert settles["figure"] in [r["figure"] for r in doubted] and settles["command"].startswith("roofline ")

    class Training:
        phase = "train"

    for path, command in (
        ("efficiency.collective.memory", "roofline measure collectives"),
        ("efficiency.tp_collective.overlap", "roofline calibrate training.log --hw h100"),
        ("efficiency.prefill_attention.compute", "roofline measure attention"),
        ("network.1.bandwidth", "roofline measure collectives"),
        ("efficiency.matmul.compute", "roofline measure matmul"),
        ("memory.bandwidth", "roofline measure bandwidth"),
    ):
        assert measurement(path, "h100", Training()) == command  # type: ignore[arg-type]


@pytest.mark.slow
def test_it_is_told_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run_cli("compare", "llama-3-8b", "--hw", "h100,h200", "-n", "1", "--batch", "32", "--sensitivity").out
    assert all(len(line) <= 80 for line in text.splitlines()) and "leads by" in text and "break-even" in text
    ran = run_cli(
        "compare",
        "llama-3-8b",
        "--hw",
        "h100,h200",
        "-n",
        "1",
        "--rank",
        "memory.headroom_fraction",
        "--phase",
        "decode",
        "--sensitivity",
    )
    assert ran.code == 2 and "does not follow a time" in ran.err
