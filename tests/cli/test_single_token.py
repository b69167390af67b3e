"""Requests of one token: the prefill writes it, so there is no time between two, in any verb's numbers or tables."""

from __future__ import annotations

from typing import Any

import pytest

ASKED = ("phi-3-mini-4k", "--hw", "h200", "--engine", "vllm", "--prompt", "128", "--output", "1")


@pytest.mark.parametrize("load", [("--qps", "45"), ("--concurrency", "8"), ()], ids=str)
def test_an_estimate_has_no_itl(cli: Any, load: tuple[str, ...]) -> None:
    found = cli("estimate", *ASKED, *load, "--format", "json").json
    further = found["phases"]["decode"]
    assert (
        not {"time_s", "floor_s", "interval_s", "tokens_per_s_per_user"} & set(further) and further["tokens_per_s"] > 0
    )
    shown = cli("estimate", *ASKED, *load).out
    assert "ITL" not in shown and "TTFT" in shown and "prefill.time_s" in shown
    assert "ITL" not in cli("estimate", *ASKED, *load, "--details").out
    assert "time_s" in cli("estimate", *ASKED[:-1], "2", *load, "--format", "json").json["phases"]["decode"]
    assert cli("estimate", *ASKED, *load, "--explain", "decode.time_s").code == 2


def test_a_decode_step_alone_has_its_time(cli: Any) -> None:
    assert (
        cli("estimate", *ASKED, "--phase", "decode", "--batch", "8", "--format", "json").json["phases"]["decode"][
            "time_s"
        ]
        > 0
    )


@pytest.mark.slow
def test_a_simulation_has_no_itl(cli: Any) -> None:
    found = cli("simulate", *ASKED, "--qps", "45", "--format", "json").json
    assert not [name for part in ("simulate", "interval") for name in found[part] if name.startswith(("itl_", "tpot_"))]
    shown = cli("simulate", *ASKED, "--qps", "45", "--details").out
    assert "ITL" not in shown and "TPOT" not in shown and "TTFT" in shown
    assert found["simulate"]["ttft_mean_s"] == pytest.approx(
        cli("estimate", *ASKED, "--qps", "45", "--format", "json").json["phases"]["prefill"]["time_s"], rel=0.1
    )


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        pytest.param("search", ("-n", "2", "--qps", "45", "--phase", "decode"), marks=pytest.mark.slow),
        pytest.param("plan", ("--qps", "45", "--slo", "ttft=1s"), marks=pytest.mark.slow),
        ("compare", ("-n", "1", "--tp", "1", "--qps", "45")),
        ("sweep", ("-n", "1", "--tp", "1", "--concurrency", "1,8")),
    ],
)
def test_no_table_has_an_itl(cli: Any, verb: str, words: tuple[str, ...]) -> None:
    asked = [word.replace("h200", "h200,h100") if verb == "compare" else word for word in ASKED]
    ran = cli(verb, *asked, *words)
    assert ran.code == 0 and "ITL" not in ran.out and "TTFT" in ran.out
    several = cli(verb, *asked[:-1], "16", *words)
    assert "ITL" in several.out


def test_the_keys_of_a_row_are_absent(cli: Any) -> None:
    (row, *_) = cli(
        "search", *ASKED, "-n", "2", "--tp", "2", "--qps", "45", "--phase", "decode", "--format", "json"
    ).json["results"]
    assert not {"itl_s", "itl_at_bound_s", "tokens_per_s_per_user"} & set(row["serve"]) and row["serve"]["ttft_s"] > 0


@pytest.mark.slow
def test_the_keys_of_a_plan_are_null(cli: Any, tmp_path: Any) -> None:
    (planned,) = cli("plan", *ASKED, "--qps", "45", "--format", "json").json["rows"]
    assert planned["itl_s"] is planned["interval_itl_s"] is None and planned["ttft_s"] > 0
    assert cli("report", *ASKED, "--qps", "45", "--out", str(tmp_path / "page.html")).code == 0
