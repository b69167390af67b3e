"""`roofline fleet`: its rows against the commands it prints and against `plan`, its sums, its refusals, its formats."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import run_cli

import rooflinecli as rl
from rooflinecli.interfaces.mcp import tools

SMALL = """\
fleet:
  h100: 8
  cheap: {hw: l40s, devices: 8, price: 0.9}
defaults: {engine: vllm, prompt: 512, output: 128}
models:
  chat: {model: llama-3-8b, qps: 20, slo: "ttft=1s,itl=25ms"}
  mixture: {model: qwen3-30b-a3b, dtype: fp8, qps: 15, slo: itl=30ms, hw: h100}
  hybrid: {model: nemotron-3-nano, qps: 4, tp: 1, where: "decode.memory.headroom_fraction >= 5 %"}
"""


def asked(folder: Path, text: str, *args: str, code: int = 0) -> dict[str, Any]:
    path = folder / "fleet.yaml"
    path.write_text(text)
    ran = run_cli("fleet", str(path), *args, "--format", "json")
    assert ran.code == code, ran.err
    return ran.json


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["pessimistic", "expected"])
def test_every_row_is_what_its_command_prints(tmp_path: Path, hold: str) -> None:
    result = asked(tmp_path, SMALL, "--hold", hold, "--split")
    assert (
        result["feasible"]
        and result["exact"]
        and {row["name"] for row in result["rows"]} == {"chat", "mixture", "hybrid"}
    )
    for row in result["rows"]:
        ran = run_cli(*shlex.split(row["command"])[1:], "--format", "json")
        first, other, output = (
            ran.json["phases"]["prefill"],
            ran.json["phases"]["decode"],
            ran.json["workload"]["output"],
        )
        assert (row["ttft_s"], row["interval_ttft_s"]) == (first["time_s"], first["interval_s"])
        assert (row["itl_s"], row["interval_itl_s"]) == (other["time_s"], other["interval_s"])
        low, high = (rate / output * row["instances"] for rate in other["tokens_per_s_interval"])
        least, most = row["requests_per_s_interval"]  # no more than an open loop holds inside the limits
        assert least <= low * (1 + 1e-14) and most == pytest.approx(high, rel=1e-14)
        carried = row["requests_per_s_at_bound"]
        assert carried <= (low if hold == "pessimistic" else row["requests_per_s"]) * (1 + 1e-14)
        words = [word for word in shlex.split(row["command"])[1:] if word != "--concurrency"][:-1]
        open_loop = run_cli(*words, "--qps", repr(carried / row["instances"]), "--format", "json").json["phases"]
        arrived = open_loop["decode"]["interval_s"][1] if hold == "pessimistic" else open_loop["decode"]["time_s"]
        assert row["usd_per_million_output_tokens"] == ran.json["cost"]["usd_per_million_output_tokens"]
        assert row["devices"] == row["instances"] * ran.json["layout"]["devices"] + row["unused"]
        limit = {"chat": 0.025, "mixture": 0.03, "hybrid": 1e9}[row["name"]]
        assert (row["interval_itl_s"][1] if hold == "pessimistic" else row["itl_s"]) <= limit and arrived <= limit


@pytest.mark.slow
def test_the_sums_agree(tmp_path: Path) -> None:
    result = asked(tmp_path, SMALL)
    for group in result["groups"]:
        mine = [row["devices"] for row in result["rows"] if row["group"] == group["name"]]
        assert group["used"] == sum(mine) <= group["devices"] and group["spare"] == group["devices"] - group["used"]
        assert group["usd_per_hour"] == pytest.approx(group["used"] * group["usd_per_device_hour"])
    for model in result["models"]:
        mine = [row for row in result["rows"] if row["name"] == model["name"]]
        assert len(mine) == 1, "a model stays on one group where all fits so"
        assert (
            sum(row["requests_per_s_at_bound"] for row in mine)
            >= model["qps"]
            == pytest.approx(sum(row["qps"] for row in mine))
        )
        assert model["growth"] >= result["growth"] >= 1
    assert result["groups"][1]["usd_per_device_hour"] == 0.9
    least = min(result["models"], key=lambda m: m["growth"])
    assert result["bottleneck"] == least["name"]


@pytest.mark.slow
def test_growth_fits_and_a_little_more_does_not(tmp_path: Path) -> None:
    growth = asked(tmp_path, SMALL)["growth"]

    def grown(factor: float) -> str:
        return (
            SMALL.replace("qps: 20", f"qps: {20 * factor!r}")
            .replace("qps: 15", f"qps: {15 * factor!r}")
            .replace("qps: 4", f"qps: {4 * factor!r}")
        )

    assert asked(tmp_path, grown(growth * (1 - 1e-9)))["feasible"]
    short = asked(tmp_path, grown(growth * 1.01), code=1)
    assert short["growth"] == pytest.approx(1 / 1.01, rel=1e-5) and short["rows"]
    for model in short["models"]:
        assert model["served_qps"] == pytest.approx(model["qps"] * short["growth"])
    needed = {g["name"]: g["needed"] for g in short["groups"]}
    enough = grown(growth * 1.01).replace("h100: 8", f"h100: {needed['h100']}")
    assert needed["h100"] > 8 and asked(tmp_path, enough)["feasible"]


@pytest.mark.slow
def test_one_model_on_one_chip_takes_no_more_than_a_plan(tmp_path: Path) -> None:
    load = {"qps": 50, "slo": "ttft=400ms,itl=20ms"}
    one = asked(tmp_path, json.dumps({"fleet": {"h100": 64}, "models": {"llama-3-8b": load}}))["rows"][0]
    plan = rl.plan("llama-3-8b", "h100", phase="decode", **load)["rows"][0]
    assert one["devices"] <= plan["devices"] and one["requests_per_s_at_bound"] >= 50


@pytest.mark.slow
def test_splitting_never_costs_more(tmp_path: Path) -> None:
    together, apart = (asked(tmp_path, SMALL, *flags)["usd_per_hour"] for flags in ([], ["--split"]))
    assert apart <= together
    fewest = asked(tmp_path, SMALL, "--objective", "devices", "--split")
    assert fewest["devices"] <= asked(tmp_path, SMALL, "--objective", "devices")["devices"]


@pytest.mark.slow
def test_a_model_that_nothing_serves_is_named_and_the_others_are_placed(tmp_path: Path) -> None:
    text = SMALL.replace("itl=25ms", "itl=10us")
    result = asked(tmp_path, text, code=1)
    assert result["bottleneck"] == "chat" and result["growth"] == 0
    assert {row["name"] for row in result["rows"]} == {"mixture", "hybrid"}
    said = run_cli("fleet", str(tmp_path / "fleet.yaml")).out
    assert "chat cannot be served" in said and "infeasible on h100" in said


def test_a_group_without_a_price_counts_devices(tmp_path: Path) -> None:
    text = "fleet: {mi250x: 8}\nmodels:\n  llama-3-8b: {qps: 5}\n"
    result = asked(tmp_path, text)
    assert result["objective"] == "devices" and result["unpriced"] == ["mi250x"] and result["usd_per_hour"] is None
    ran = run_cli("fleet", str(tmp_path / "fleet.yaml"), "--objective", "cost")
    assert ran.code == 2 and "no price is known for mi250x" in ran.err


@pytest.mark.slow
def test_formats_and_doors_say_the_same(tmp_path: Path) -> None:
    result = asked(tmp_path, SMALL)
    path = str(tmp_path / "fleet.yaml")
    rows = list(csv.DictReader(io.StringIO(run_cli("fleet", path, "--format", "csv").out)))
    assert [float(r["ttft_s"]) for r in rows] == [r["ttft_s"] for r in result["rows"]]
    page = run_cli("fleet", path, "--format", "markdown").out
    assert "| chat |" in page and all(row["command"] in page for row in result["rows"])
    assert rl.fleet(path) == result
    answer, _ = tools.call("fleet", {"file": SMALL})
    assert answer is not None and answer["answer"] == result


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("h100: 8", "h100: 0", "fleet.yaml:2"),
        ("h100: 8", "h100: 8.5", "fleet.yaml:2"),
        ("h100: 8", "nosuch: 8", "unknown chip 'nosuch'"),
        ("price: 0.9", "price: free", "fleet.yaml:3"),
        ("hw: l40s,", "cores: 4,", "fleet.yaml:3"),
        ("qps: 20", "qps: many", "fleet.yaml:6"),
        ("qps: 20", "qps: 0", "above zero"),
        ("qps: 20, ", "", "fleet.yaml:6"),
        ("llama-3-8b", "llama-3-8c", "fleet.yaml:6"),
        ("ttft=1s", "e2e=1s", "fleet.yaml:6"),
        ("hw: h100}", "hw: b200}", "no group 'b200'"),
        ("tp: 1", "devices: 4", "set the device count"),
        ("tp: 1", "price: 2", "write it at the group"),
        ("tp: 1", "colour: red", "fleet.yaml:8"),
        ("prompt: 512", "prompt: -3", "fleet.yaml:4"),
        ("models:", "modles:", "fleet.yaml:1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in SMALL
    path = tmp_path / "fleet.yaml"
    path.write_text(SMALL.replace(old, new, 1))
    ran = run_cli("fleet", str(path))
    assert ran.code == 3 and says in ran.err and ran.err.count("\n") == 1 and "Traceback" not in ran.err, ran.err


HELD = """\
checks:
  all-of-it:
    fleet: fleet.yaml
    require: {fleet.growth: ">= 1.1", fleet.models.chat.growth: ">= 1.1", fleet.models.chat.carried_qps: ">= 1", fleet.groups.cheap.spare: ">= 1", fleet.usd_per_hour: "<= 100 USD/h"}
"""


def held(folder: Path, text: str, *args: str) -> Any:
    (folder / "fleet.yaml").write_text(SMALL)
    (folder / "plan.yaml").write_text(text)
    return run_cli("check", str(folder / "plan.yaml"), *args)


@pytest.mark.slow
def test_a_check_holds_a_fleet(tmp_path: Path) -> None:
    found = held(tmp_path, HELD, "--format", "json").json["checks"][0]
    assert "the fleet of fleet.yaml" in held(tmp_path, HELD).out
    said = rl.fleet(str(tmp_path / "fleet.yaml"))
    values = {row["quantity"]: row["value"] for row in found["requirements"]}
    assert found["verdict"] == "pass" and values["fleet.feasible"] is True
    assert values["fleet.growth"] == said["growth"] and values["fleet.usd_per_hour"] == said["usd_per_hour"]
    assert values["fleet.models.chat.growth"] == said["models"][0]["growth"]
    assert values["fleet.models.chat.carried_qps"] == said["models"][0]["served_qps"]
    assert values["fleet.groups.cheap.spare"] == said["groups"][1]["spare"]
    missed = held(tmp_path, HELD.replace(">= 1.1", f">= {said['growth'] * 1.01:.4f}", 1))
    assert missed.code == 1 and "fleet.growth" in missed.out


@pytest.mark.slow
def test_a_fleet_that_does_not_fit_never_passes(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(SMALL.replace("qps: 20", "qps: 2000"))
    (tmp_path / "plan.yaml").write_text('checks: {a: {fleet: fleet.yaml, require: {fleet.devices: "<= 100"}}}')
    ran = run_cli("check", str(tmp_path / "plan.yaml"))
    assert ran.code == 1 and "fleet.feasible" in ran.out


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("fleet: fleet.yaml", "fleet: none.yaml", "plan.yaml:3"),
        ("fleet: fleet.yaml", "fleet: fleet.yaml\n    model: llama-3-8b", "not allowed in a fleet check"),
        ("fleet.growth", "plan.devices", "not a fleet quantity"),
        ("fleet.growth", "fleet.grows", "unknown quantity of a fleet"),
        ("fleet.models.chat.growth", "fleet.models.talk.growth", "unknown quantity of a fleet"),
    ],
)
def test_what_a_check_of_a_fleet_refuses(tmp_path: Path, old: str, new: str, says: str) -> None:
    ran = held(tmp_path, HELD.replace(old, new, 1))
    assert ran.code == 3 and says in ran.err and "Traceback" not in ran.err, ran.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("batch: 0", "--batch 0: must be at least 1"),
        ("tp: x", "--tp x"),
        ("pp: 0", "--pp 0"),
        ('where: "decode.nosuch >= 1"', "no quantity 'decode.nosuch'"),
        ('where: "decode >>= 1"', "decode >>= 1"),
        ("engine: nosuch", "unknown engine 'nosuch'"),
        ("prompt: .nan", "nan is not a finite number"),
        ("zero: 3", "--zero belongs to training"),
    ],
)
def test_a_question_that_no_chip_could_answer_is_no_lack_of_room(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"fleet: {{h100: 8}}\nmodels:\n  a:\n    model: llama-3-8b\n    qps: 2\n    {line}\n")
    ran = run_cli("fleet", str(path))
    assert ran.code == 3 and not ran.out and says in ran.err, ran.err
    at = int(ran.err.split("fleet.yaml:")[1].split(":")[0])
    assert at in (3, 6) and "Traceback" not in ran.err, ran.err


def test_what_one_chip_cannot_do_is_said_of_that_chip(tmp_path: Path) -> None:
    """H100 has no four-bit matmuls: no mistake of the file, whose other group may serve the model."""
    path = tmp_path / "fleet.yaml"
    path.write_text("fleet: {h100: 8}\nmodels:\n  a: {model: llama-3-8b, qps: 2, dtype: nvfp4}\n")
    ran = run_cli("fleet", str(path))
    assert ran.code == 1 and "infeasible on h100" in ran.out and "no nvfp4 matmul rate" in ran.out


def test_one_is_no_plural_and_a_small_share_no_nought(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("fleet: {h100: 1}\nmodels:\n  a: {model: llama-3-8b, qps: 200000, batch: 32}\n")
    ran = run_cli("fleet", str(path), "--format", "json")
    growth = ran.json["growth"]
    assert 0 < growth < 1e-3
    title = " ".join(run_cli("fleet", str(path)).out.split("\n\n")[0].split())
    assert title.startswith("1 model on 1 device:") and f"{100 * growth:.2g}% of each" in title


def test_an_empty_file_of_a_fleet_is_told_how_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("")
    ran = run_cli("fleet", str(path))
    assert ran.code == 3 and "start with 'fleet: …'" in ran.err
