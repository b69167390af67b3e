"""Carbon by region, dated offers, and published statements inside the interval."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.formulas import energy
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.hardware.answer import imported
from rooflinecli.specs import prices
from rooflinecli.specs.grid import embodied_grams_per_device_hour, grid
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.snapshots import published
from tests.conftest import run_cli

BILLS = [  # chip, words, region, USD per device-hour: rows of hardware/prices/ read by hand
    ("a100-80", "aws", "", 5.1212),
    ("a100-40", "aws", "", 4.0963),
    ("a100-40", "aws spot", "", 1.2288),
    ("a10g", "aws", "", 1.006),
    ("v100-sxm-32", "aws", "", 3.9013),
    ("b300", "verda", "", 6.99),
    ("b300", "verda spot", "fin", 2.4465),
    ("mi355x", "reserved-3y", "", 2.10),
    ("h200", "neocloud ownership", "", 1.74),
    ("gb200", "hyperscaler", "", 2.21),
]


def statement(name: str) -> dict[str, float]:
    return next(s for s in published("energy")["statements"] if s["id"] == name)


@pytest.mark.parametrize(("chip", "words", "region", "usd"), BILLS)
def test_a_bill_is_the_offer_of_the_table(chip: str, words: str, region: str, usd: float) -> None:
    options = {"model": "llama-3-8b", "hw": chip, "phase": "decode", "price": words, "region": region or None}
    if region:
        assert prices.choose(load_hardware(chip), words, region).offer.region.lower() == region
    answer = estimate(build_request.request(options))
    assert answer.cost.usd_per_device_hour == pytest.approx(usd)
    decode = answer.phases["decode"]
    hourly = usd * decode.layout_of_phase.devices
    assert answer.cost.usd_per_million_output_tokens == pytest.approx(hourly / (decode.tokens_per_s * 3600) * 1e6)


def test_a_region_chooses_among_the_offers_of_a_provider() -> None:
    """Of Vast's H100 one in the Czech Republic costs less than one in the United States; a region that no row knows chooses nothing."""
    spec = load_hardware("h100")
    there, here = (prices.choose(spec, "vast marketplace", region) for region in ("CZ", "us"))
    assert there is not None and here is not None and (there.offer.usd, here.offer.usd) == (1.8, 2.1338)
    assert prices.choose(spec, "vast marketplace", "moon") == prices.choose(spec, "vast marketplace")


@pytest.mark.parametrize("chip", ["mi300x", "rtx-4090", "tpu-v5p", "h100", "b200", "a100-80"])
def test_every_usual_chip_has_a_price_that_somebody_offered(chip: str) -> None:
    spec = load_hardware(chip)
    chosen = prices.choose(spec)
    assert chosen is not None and chosen.low <= chosen.offer.usd <= chosen.high
    assert chosen.offer in prices.offers(spec)


def test_words_that_no_offer_fits_name_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"no such offer of H100.*verda spot"):
        prices.choose(load_hardware("h100"), "azure spot")
    assert prices.parse("Verda  spot") == "verda spot"
    assert prices.parse("nan") == prices.parse("free") == prices.parse("verda;2") == ""


def test_a_stale_price_fails_a_check(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "checks:\n  a: {model: llama-3-8b, hw: a100-80, phase: decode, price: aws, require: {price.age: '<= 90 d'}}\n"
    )
    ran = run_cli("check", str(plan), "--format", "json", "--suggest", "0")
    assert ran.code == 1 and ran.json["checks"][0]["requirements"][0]["expected"] > 90 * 86400


def test_offers_keep_the_form_of_the_table() -> None:
    folder = Path(__file__).parents[2] / "hardware" / "prices"
    for path in folder.glob("*.yaml"):
        rows = yaml.load(path.read_text(), yaml.CSafeLoader)["offers"]
        found = prices.offers(load_hardware(path.stem))
        assert len(found) >= len(rows)
        assert all(o.usd > 0 and o.age_days is not None and o.age_days > 0 for o in found if o.date)


def test_an_offer_cites_the_catalog_of_its_own_provider() -> None:
    for path in (Path(__file__).parents[2] / "hardware" / "prices").glob("*.yaml"):
        for one in prices.offers(load_hardware(path.stem)):
            catalog = re.search(r"catalogs/v\d/(\w+)/", one.source)
            assert catalog is None or not one.where.startswith("hardware/prices") or catalog[1] == one.provider, (
                one.where
            )


def test_words_that_choose_an_old_offer_are_answered_with_its_age(cli) -> None:
    asked = ("estimate", "llama-3-8b", "--hw", "a100-80", "--phase", "decode")
    age = (date.today() - date(2025, 3, 7)).days
    assert f"(aws on-demand) is of 2025-03-07, {age} days old" in cli(*asked, "--price", "aws").err
    assert "days old" not in cli(*asked).err + cli(*asked, "--price", "5.12").err
    assert f"2025-03-07; {age} days old: `roofline prices import`" in " ".join(
        cli(*asked, "--price", "aws", "--details").out.split()
    )


def test_a_sweep_goes_over_prices_in_words(cli) -> None:
    asked = "sweep llama-3-8b --hw h100 --phase decode --columns cost.usd_per_device_hour --format json".split()
    points = cli(*asked, "--price", "verda,verda spot,2.5").json["points"]
    assert [point["cost.usd_per_device_hour"] for point in points] == [2.29, 0.8015, 2.5]
    assert "not a number with a unit" in cli(*asked, "--price", "bogus").err


@pytest.mark.slow
def test_a_run_that_spot_pays_for_has_what_preemptions_leave_of_it(cli) -> None:
    asked = (
        "plan",
        "llama-3-8b",
        "--tokens",
        "100B",
        "--hw",
        "h100",
        "-n",
        "8",
        "--deadline",
        "60d",
        "--price",
        "spot",
    )
    free, taken = cli(*asked, "-f", "json"), cli(*asked, "--preempted", "12h", "-f", "json")
    assert "--preempted says how often" in free.err and "--preempted" not in taken.err
    one, other = (ran.json["rows"][0] for ran in (free, taken))
    assert other["goodput"] < 0.9 < one["goodput"]
    assert other["elapsed_usd"] * other["goodput"] == pytest.approx(one["elapsed_usd"] * one["goodput"])
    offers = cli(*asked[:-2], "--preempted", "12h", "-f", "json").json["rows"][0]["offers"]
    assert other["goodput"] == pytest.approx(next(o["goodput"] for o in offers if o["kind"] == "spot"))


def test_a_skypilot_catalog_becomes_offers() -> None:
    rows = [
        {"InstanceType": "x8", "AcceleratorName": "H100", "AcceleratorCount": "8", "Price": "24.0", "SpotPrice": "8.0", "Region": "r1"},
        {"InstanceType": "cpu", "AcceleratorName": "", "AcceleratorCount": "", "Price": "1.0", "SpotPrice": "", "Region": "r1"},
    ]  # fmt: skip
    found = imported(rows, "mycloud", "2026-11-01", "catalog.csv")
    assert found == {
        "h100-sxm": [
            {"provider": "mycloud", "kind": "on-demand", "devices": 8, "usd": 3.0, "spot": 1.0, "instance": "x8", "region": "r1", "date": "2026-11-01", "source": "catalog"}
        ]
    }  # fmt: skip


def test_carbon_is_energy_times_the_grid() -> None:
    options = {"model": "llama-3-8b", "hw": "h100", "phase": "decode", "concurrency": 8, "region": "us-east-1"}
    d = estimate(build_request.request({**options, "electricity": "0.09 USD/kWh"})).phases["decode"].derived
    kwh = d["facility_joules_per_token"] * 1e6 / 3.6e6
    assert d["grams_co2e_per_million_tokens"] == pytest.approx(kwh * 383.55)
    assert d["liters_per_million_tokens"] == pytest.approx(kwh * 3.1321)
    assert d["electricity_usd_per_million_tokens"] == pytest.approx(kwh * 0.09)
    assert d["tokens_per_s_per_megawatt"] == pytest.approx(1e6 / d["facility_joules_per_token"])
    assert embodied_grams_per_device_hour()[0] == pytest.approx(1000 * (164 + 5700 / 8) / (4 * 8766))
    assert grid("europe-west4").liters_per_kwh == grid("NLD").liters_per_kwh


def test_the_training_statement_of_llama_3_is_inside_the_interval() -> None:
    """8,930 t of CO2e for 405B in 30.84 M GPU-hours: the chips alone, with Meta's PUE of 1.08 on the grid of the United States."""
    row = statement("llama-3.1-405b-training")
    options = {
        "model": "llama-3.1-405b", "hw": "h100", "n": 16384, "phase": "train", "tokens": "15.6T", "tp": 8, "pp": 16,
        "batch": 2048, "seq-len": "8k", "region": "USA", "pue": 1.08, "host-factor": 1.0,
    }  # fmt: skip
    found = estimate(build_request.request(options)).phases["train"].derived_intervals["run_grams_co2e_interval"]
    assert found[0] <= row["t_co2e"] * 1e6 <= found[1]


def test_the_gemini_prompt_is_inside_the_interval_of_the_factors() -> None:
    """0.24 Wh of a prompt, of which 58% are the accelerators': chips to data center by the default factors."""
    row = statement("gemini-prompt")
    chips = row["wh"] * row["accelerator_share"] * 3600
    found = energy.facility_energy(energy.server_energy(chips, 1.6), row["pue"]) / 3600
    assert found / 1.22 <= row["wh"] <= found * 1.22
    assert found == pytest.approx(row["wh"], rel=0.05)


def test_a_catalog_is_imported_into_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = tmp_path / "vms.csv"
    catalog.write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\nx8,H100,8,24.0,8.0,r1\nold,K80,1,0.9,,r1\ncpu,,,1.0,,r1\n"
    )
    monkeypatch.chdir(tmp_path)
    said = run_cli("prices", "import", "vms.csv", "--provider", "mine").out
    assert "1 offer of mine" in said and "left out, chips that no file describes: K80" in said
    priced = run_cli(
        "estimate", "llama-3-8b", "--hw", "h100", "--phase", "decode", "--price", "mine spot", "--format", "json"
    ).json
    assert priced["cost"]["usd_per_device_hour"] == 1.0 and priced["price"]["age_s"] < 3 * 86400
    listed = run_cli("prices", "h100", "--format", "json").json["offers"]
    assert {"mine", "verda", "nebius"} <= {row["provider"] for row in listed}
    assert run_cli("prices", "import").code == 2


@pytest.mark.slow
def test_a_plan_stays_within_its_watts() -> None:
    asked = ("plan", "llama-3-8b", "--hw", "h100", "--tokens", "100B", "--deadline", "10d", "--format", "json")
    row = run_cli(*asked, "--power", "20kW").json["rows"][0]
    assert row["feasible"] and row["devices"] * 700 * 1.6 * 1.09 <= 20_000
    short = run_cli(*asked, "--power", "5kW")
    assert short.code == 1 and not short.json["rows"][0]["feasible"]


def test_tokens_per_joule_is_an_objective() -> None:
    rows = run_cli("search", "llama-3-8b", "--hw", "h100", "-n", "2", "--phase", "decode", "--objective", "tokens-per-joule", "--format", "json").json["results"]  # fmt: skip
    serve = rows[0]["serve"]
    assert serve["tokens_per_joule"] == pytest.approx(1 / serve["joules_per_token"])
    assert serve["tokens_per_joule"] == max(row["serve"]["tokens_per_joule"] for row in rows)


def test_carbon_is_an_objective_where_a_region_says_whose(cli) -> None:
    asked = "search llama-3-8b --hw h100 -n 1 --phase decode --batch 8 --objective carbon".split()
    found = cli(*asked, "--region", "FRA")
    assert found.code == 0 and "$/M in+out  CO2e per million tokens" in found.out
    assert "needs --region" in cli(*asked).err


@pytest.mark.parametrize(("chip", "capex"), [("h100", "35000 USD"), ("b200", "50000 USD"), ("mi300x", "25000 USD")])
def test_owning_costs_about_what_others_publish_and_pays_after_its_price_in_rent(chip: str, capex: str) -> None:
    """InferenceX, 2026-04-02: H100 1.30 to 1.69, B200 1.95 to 2.34, MI300X 1.12 to 1.40 USD per hour owned."""
    found = run_cli("serving", "own", "--hw", chip, "--capex", capex, "--format", "json").json
    low, high = found["published_usd_per_hour"]
    assert low / 1.5 <= found["own_usd_per_hour"] <= high * 1.5
    usd = float(capex.split()[0])
    rent = found["rent_usd_per_hour"] - found["electricity_usd_per_hour"]
    assert found["break_even_s"] == pytest.approx(usd / rent * 3600)
    assert found["break_even_s_interval"][0] <= found["break_even_s"] <= found["break_even_s_interval"][1]


OWNED = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300", "mi300x", "mi325x", "mi355x")


@pytest.mark.parametrize("chip", OWNED)
def test_the_break_even_date_has_the_published_costs_of_owning_and_rents_in_its_interval(chip: str) -> None:
    """Three rows each of InferenceX, 2026-04-02: ownership of a hyperscaler and of a neocloud, and a three-year rental; 27 in all."""
    spec = load_hardware(chip)
    rows = [o for o in prices.offers(spec) if "inferencex" in o.source.lower()]
    owned, rental = [o.usd for o in rows if o.kind == "ownership"], [o.usd for o in rows if o.kind == "reserved-3y"]
    assert len(owned) == 2 and len(rental) == 1
    found = run_cli("serving", "own", "--hw", chip, "--bought", "2026-12-01", "--format", "json").json
    assert 0.85 * min(owned) <= found["own_usd_per_hour"] <= 1.15 * max(owned)
    low, high = found["break_even_s_interval"]
    assert low <= found["break_even_s"] <= high and found["break_even_earliest"] < found["break_even_date"]
    bought = date.fromisoformat("2026-12-01")
    assert (date.fromisoformat(found["break_even_date"]) - bought).days == int(found["break_even_s"] // 86400)
    for usd in owned:  # what each publisher's owner has saved against the rent, by hand
        life = 4 * 31_557_600.0
        capex = (usd - rows[0].kw * 0.09) * life / 3600
        rent = found["rent_usd_per_hour"] - found["electricity_usd_per_hour"]
        assert low <= capex / rent * 3600 <= high
    same = run_cli("serving", "own", "--hw", chip, "--rent", f"{rental[0]} USD/h", "--format", "json").json
    assert same["break_even_s"] / life == pytest.approx(
        (same["own_usd_per_hour"] - same["electricity_usd_per_hour"]) / (rental[0] - same["electricity_usd_per_hour"])
    )


def test_owning_without_a_price_or_a_published_cost_is_refused() -> None:
    assert "give --capex" in run_cli("serving", "own", "--hw", "a100").err
    assert "write a date" in run_cli("serving", "own", "--hw", "h100", "--bought", "soon").err


@pytest.mark.parametrize("chip", ["h100", "a100-40", "b200", "mi300x", "tpu-v5e"])
def test_the_range_of_a_price_has_the_price_and_what_offers_spread_over(chip):
    chosen = prices.choose(load_hardware(chip))
    low, high = prices.spread(load_hardware(chip), chosen.offer.kind)
    assert chosen.low == min(low, chosen.offer.usd) and chosen.high == max(high, chosen.offer.usd)


def test_prices_of_unlike_contracts_are_named(cli):
    """MI300X has offers by reservation only (SemiAnalysis), H100 on demand: their dollars compare only under one kind."""
    asked = ("compare", "llama-3-70b", "--hw", "h100,mi300x", "-n", "8")
    mixed = cli(*asked)
    assert mixed.code == 0 and "different kinds of contract (h100 on-demand, mi300x reserved-3y)" in mixed.err
    assert "--price reserved-3y compares like with like" in mixed.err
    assert "kinds of contract" not in cli(*asked, "--price", "reserved-3y").err
    assert "kinds of contract" not in cli("compare", "llama-3-70b", "--hw", "h100,b200", "-n", "8").err


@pytest.mark.parametrize(
    ("region", "liters"), [("AAA", 2.0), ("bbb", None), ("in-a", 2.0), ("dry-a", 3.0), ("in-b", None), ("city", 3.0)]
)
def test_the_water_of_a_region_is_its_own_or_its_country_s(monkeypatch, region, liters) -> None:
    """Two countries, of which one states its water, parts of them, and a city inside a part."""
    stated = {"AAA": {"liters": 2}, "BBB": {}, "In-A": {"country": "AAA"}, "dry-a": {"country": "AAA", "liters": 3}, "in-b": {"country": "BBB"}}  # fmt: skip
    data = {
        "rows": {name: {"g": 100, "date": 2025, "source": "s", **row} for name, row in stated.items()},
        "within": {"City": "dry-a"}, "sources": {"s": "a source"},
    }  # fmt: skip
    table = SimpleNamespace(data=data, location=lambda *path: "grid.yaml:1")
    monkeypatch.setattr("rooflinecli.specs.grid._table", lambda: table)
    assert grid(region).liters_per_kwh == liters and grid(region).source.endswith(", 2025, a source")
