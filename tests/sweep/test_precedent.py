"""What published runs support: the file against the rows, the widening against arithmetic by hand, and what a search makes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import yaml

from lab import training_envelope
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search.search_request import question
from rooflinecli.questions.search.training import report, search
from rooflinecli.specs import training_envelope as known
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request
from rooflinecli.validate import published_training


def train(model: str, chip: str, **plan):
    """The answer of a plan in full."""
    asked = Request(load_model(model), load_hardware(chip), phases=("train",), **plan)
    return estimate(asked).phases["train"]


def half_width(answer) -> float:
    return answer.interval_s[1] / answer.time_s - 1


@pytest.mark.slow
def test_the_file_is_what_the_rows_say():
    assert training_envelope.FILE.read_text(encoding="utf-8") == training_envelope.text(), (
        "python -m lab.training_envelope"
    )


def test_a_configuration_has_the_width_of_its_runs_then_of_its_stack():
    """Ten runs of one configuration weigh ten; one more run of the stack weighs one, and so do all five of another together."""

    def run(stack: str, configuration: str, needed: float) -> dict[str, object]:
        return {"stack": stack, "chip": "x", "configuration": configuration, "moe": False, "needed": needed}

    rows = [run("a", "a1", 0.02) for _ in range(10)] + [run("a", "a2", 0.3)] + [run("b", "b1", 0.1) for _ in range(5)]
    found = training_envelope.widths((*rows, {**run("c", "c1", 0.5), "moe": True}))
    assert found["measured"]["x"] == {"a1": 0.02, "a2": 0.3, "b1": 0.1, "c1": 0.5}  # 10 of 12 need 0.02 and no more
    assert {error["mixture"] for error in found["stacks"].values()} == {0.5}
    assert {stack: found["stacks"][stack]["dense"] for stack in ("a", "b", "others")} == {
        "a": 0.1,
        "b": 0.1,
        "others": 0.1,
    }


def test_no_published_layout_goes_beyond_the_furthest():
    """A few runs of each round; the next test has all."""
    runs = [row for row in published_training.timed() if "at_fault" not in row and "unstated" not in row]
    for row in map(training_envelope._layout, runs[::40]):
        keeps_to_the_furthest(row)


def keeps_to_the_furthest(row):
    far = known.envelope(row["kind"], row["chip"], row["software"], row["moe"])
    assert row["tensor"] <= far.tensor and row["stages"] <= far.stages and row["context"] >= far.context
    assert row["experts"] <= far.experts and row["sharding"] <= far.sharding * (1 + 1e-5)


@pytest.mark.slow
def test_published_layouts_have_precedent():
    """Nine of ten keep to what nine of ten keep to; in the rest a run cannot go beyond the furthest run."""
    rows = training_envelope.layouts()
    for row in rows:
        keeps_to_the_furthest(row)
    for name in ("hidden", "memory"):
        for kind in ("gpu", "tpu"):
            for moe in (False, True):
                alike = [row for row in rows if row["kind"] == kind and row["moe"] == moe]
                far = [getattr(known.envelope(kind, row["chip"], row["software"], moe), name) for row in alike]
                inside = sum(row[name] <= limit + 1e-3 for row, (limit, _) in zip(alike, far, strict=True))
                assert 0.85 <= inside / len(alike) <= 1


def test_a_full_memory_is_wholly_new():
    """Whatever the limit, it ends above it."""
    for kind in ("gpu", "tpu"):
        for moe in (False, True):
            far = known.envelope(kind, "h100-sxm", "any", moe)
            assert far.memory[0] < far.memory[1] == 1.0
            assert far.hidden[1] >= far.hidden[0] * 1.25 - 1e-3


@pytest.mark.slow
def test_what_two_tuned_models_hide_ends_what_is_supported():
    """Dense models on GPUs hide more than a quarter beyond the limit, and a sweep of one model sets no end."""
    rows = [row for row in training_envelope.layouts() if row["kind"] == "gpu" and not row["moe"]]
    hidden = [row["hidden"] for row in rows if published_training.family(row["row"]) not in training_envelope.OTHER]
    end = known.envelope("gpu", "h100-sxm", "any", False).hidden[1]
    assert end == pytest.approx(sorted(hidden)[-2], abs=0.05) and end < max(row["hidden"] for row in rows)


@pytest.mark.slow
def test_leaving_a_family_out_moves_what_is_supported():
    """Context parallelism of few tokens came with no other run; without those runs the limit would be higher. The test above can fail."""
    rows = training_envelope.layouts()
    fewest = min(row["context"] for row in rows if row["kind"] == "gpu")
    families = {published_training.family(row["row"]) for row in rows if row["context"] == fewest}
    rest = tuple(row for row in rows if published_training.family(row["row"]) not in families)
    assert training_envelope.envelope(rest)["kinds"]["gpu"]["context"] > fewest


def test_tensor_parallelism_across_hosts_is_told_and_widens():
    """Llama 70B with tp 16 on hosts of 8: the error of the kind joins the others in quadrature."""
    plan = {
        "devices": 64.0,
        "software": "megatron-bridge",
        "tp": 16.0,
        "pp": 4.0,
        "dp": 1.0,
        "zero": 0,
        "recompute": "full",
        "sequence_parallel": True,
    }
    wide = train("llama-3-70b", "h100", **plan)
    assert any("tensor parallelism over 16 devices" in said for said in wide.extrapolations)
    inside = train("llama-3-70b", "h100", **{**plan, "tp": 4.0, "pp": 16.0})
    assert not inside.extrapolations
    file = yaml.load(training_envelope.FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    error, family = (file["widening"][kind]["dense"] for kind in ("tensor", "family"))
    others = [said for said in wide.extrapolations if "tensor parallelism" not in said]
    if not others:
        stack = file["stacks"]["megatron-bridge"]["dense"]  # known, but no Llama 70B of it in 16 bits on this chip
        base = math.sqrt(stack**2 + family**2 + wide.communication_error_fraction**2)
        assert half_width(wide) == pytest.approx(math.sqrt(base**2 + error**2), rel=1e-6)
    assert half_width(wide) > half_width(inside) + 0.05


@pytest.mark.slow
def test_a_larger_micro_batch_is_told_where_the_exchange_leaves_the_host():
    """Runs with ep 16 on hosts of eight keep to micro-batches of 1, runs with ep 8 do not; tensor ranks between experts count as reach."""
    laid = {"pp": 2, "dp": 32, "devices": 64.0, "batch": 512.0, "seq": 4096.0, "zero": 1, "recompute": "none"}

    def said(**plan) -> list[str]:
        answer = train("gpt-oss-120b", "h100", **(laid | plan))
        return [
            text for text in answer.extrapolations or () if "ep across fast domains with larger micro-batches" in text
        ]

    assert said(ep=16, micro_batch=2)
    assert not said(ep=16, micro_batch=1) and not said(ep=8, micro_batch=2)
    assert said(ep=8, micro_batch=2, tp=2, dp=16, expert_tp=2) and not said(
        ep=8, micro_batch=1, tp=2, dp=16, expert_tp=2
    )
    assert not said(ep=1, micro_batch=2, tp=8, pp=8, dp=1)
    wide, usual = (half_width(train("gpt-oss-120b", "h100", **(laid | {"ep": 16, "micro_batch": b}))) for b in (2, 1))
    assert wide > math.hypot(usual, 0.5)


@pytest.mark.slow
def test_experts_kept_whole_are_told():
    plan = {
        "devices": 256.0,
        "tp": 1.0,
        "pp": 1.0,
        "dp": 256.0,
        "zero": 3,
        "micro_batch": 1.0,
        "batch": 4096.0,
        "dtype": "fp8",
    }
    alone = train("deepseek-v3", "b200", ep=1.0, recompute="full", **plan)
    assert any("256 experts" in said for said in alone.extrapolations)
    spread = train("deepseek-v3", "b200", ep=64.0, recompute="full", **{**plan, "zero": 1})
    assert not any("experts of a layer" in said for said in spread.extrapolations or [])
    error = yaml.load(training_envelope.FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)["widening"]["experts"][
        "mixture"
    ]
    assert half_width(alone) >= math.hypot(error, alone.communication_error_fraction)


def test_a_chip_without_a_fit_is_told_and_the_peak_has_no_interval():
    on = {"devices": 8.0, "tp": 8.0, "pp": 1.0, "dp": 1.0, "batch": 8.0}
    assert any("no published training run on" in said for said in train("llama-3-8b", "mi300x", **on).extrapolations)
    assert not train("llama-3-8b", "mi300x", efficiency="ideal", **on).extrapolations


@pytest.mark.slow
def test_a_search_ranks_by_the_end_that_is_held():
    asked = question({"model": "llama-3-70b", "hw": "h100", "n": "64", "batch": "256", "phase": "train"}, "time", [])
    for hold, place in (("pessimistic", 1), ("expected", None)):
        one = replace(asked, request=replace(asked.request, bound=hold))
        result = report(one, search(one))
        ends = [row["interval_s"][place] if place is not None else row["time_s"] for row in result["results"]]
        assert ends == sorted(ends) and [
            next(iter(row["score_at_bound"].values())) for row in result["results"]
        ] == pytest.approx(ends)


def test_practised_keeps_to_precedent_and_counts_the_rest():
    options = {"model": "llama-3-70b", "hw": "h100", "n": "64", "batch": "256", "phase": "train", "recompute": "none"}
    asked = question(options, "time", [], has_precedent=True)
    found = search(asked)
    result = report(asked, found)
    assert result["results"] and not any(row["extrapolations"] for row in result["results"])
    assert found.rejected["precedent (--precedent-only)"] == found.fitting - found.meeting > 0


@pytest.mark.slow
def test_every_layout_is_a_row_of_its_own_where_asked():
    options = {"model": "llama-3-8b", "hw": "h100", "n": "8", "batch": "16", "phase": "train"}
    asked = question(options, "time", [], every=True)
    rows = search(asked).top(20)
    splits = {tuple(row.layout[k] for k in ("tp", "pp", "cp", "dp", "ep")) for row in rows}
    assert len(rows) == 20 > len(splits)
    plain = question(options, "time", [])
    assert rows[0].layout == search(plain).top(1)[0].layout


@pytest.mark.slow
def test_ties_name_the_simplest():
    options = {"model": "llama-3-8b", "hw": "h100", "n": "16", "batch": "64", "phase": "train"}
    asked = question(options, "time", [])
    found = search(asked)
    tied = report(asked, found)["within_uncertainty"]
    ranked = found.top(None)
    best = ranked[0]
    alike = [e for e in ranked if abs(math.log(e.keys[0] / best.keys[0])) <= math.hypot(e.error, best.error)]
    assert tied["layouts"] == len(alike) > 1
    axes = ("tp", "pp", "cp", "virtual_stages")
    used = min(
        sum(e.layout[k] > 1 for k in axes) + (e.layout["zero"] > 1) + (e.layout["recompute"] != "none") for e in alike
    )
    simple = tied["simplest"]
    assert sum(simple[k] > 1 for k in axes) + (simple["zero"] > 1) + (simple["recompute"] != "none") == used
    assert "measure" in tied["separates"]
