"""Values with their intervals as people read them."""

from __future__ import annotations

from conftest import run_cli

from rooflinecli.core.text import times
from rooflinecli.render.numbers import around, interval, rate_bound


def test_an_interval_that_is_written_as_its_value_is_left_out() -> None:
    assert around(24.8, (21.8, 28.1), "time_s") == "24.8 s (21.8–28.1 s)"
    assert around(24.8, (24.79, 24.81), "time_s") == "24.8 s" == around(24.8, None, "time_s")
    assert around(0.961, (0.958, 0.964), "mfu") == "96%"


def test_both_ends_of_a_fraction_near_one_have_the_same_digits() -> None:
    assert interval(0.98996, 0.9962, "fraction") == "99.00–99.62%" and interval(0.72, 0.91, "fraction") == "72–91%"
    assert interval(0.0, 0.0047, "fraction") == "0–0.47%"


def test_a_rate_names_what_it_is_at_the_bound() -> None:
    assert rate_bound(3.472, 2.951) == "3.47 (2.95)" and rate_bound(3.472, 3.471) == "3.47"
    assert rate_bound(3.472, 2.951, " at the bound") == "3.47 req/s (2.95 at the bound)"


def test_a_ratio_has_no_exponent() -> None:
    assert [times(x) for x in (1.249, 12.34, 2142.0, 2.14e7)] == ["1.25", "12.3", "2,140", "21,400,000"]


def test_prices_of_both_rates_say_that_each_is_alone() -> None:
    text = " ".join(
        run_cli(
            "serving", "cost", "--usd-per-hour", "12", "--tokens-per-s", "3120", "--prefill-tokens-per-s", "15600"
        ).out.split()
    )
    assert "each as if the server did only that" in text


def test_owning_names_where_its_capex_is_from_and_whose_costs_are_compared() -> None:
    text = " ".join(run_cli("serving", "own", "--hw", "mi300x").out.split())
    assert "10–90% of published offers" in text and "Capex: mean of what 2 published costs of owning" in text
    assert "hardware/prices/mi300x.yaml:" in text and "continuous use" in text
    assert "Capex:" not in run_cli("serving", "own", "--hw", "mi300x", "--capex", "25000 USD").out


def test_latencies_of_a_simulation_are_named_medians() -> None:
    ran = run_cli(
        "simulate", "llama-3-8b", "--hw", "h100", "--qps", "1", "--requests", "20", "--prompt", "512", "--output", "32"
    )
    assert ran.code == 0 and "TTFT p50 " in " ".join(ran.out.split()) and "ITL p50 " in " ".join(ran.out.split())


def test_a_serving_search_says_the_rate_at_its_bound() -> None:
    asked = (
        "search",
        "llama-3-8b",
        "--hw",
        "h100",
        "--phase",
        "decode",
        "-n",
        "1",
        "--prompt",
        "512",
        "--output",
        "64",
        "--batch",
        "8",
    )
    row = run_cli(*asked, "--format", "json").json["results"][0]["serve"]
    assert row["requests_per_s_at_bound"] < row["requests_per_s"]
    assert f"max {rate_bound(row['requests_per_s'], row['requests_per_s_at_bound'], ' at the bound')}" in " ".join(
        run_cli(*asked).out.split()
    )
