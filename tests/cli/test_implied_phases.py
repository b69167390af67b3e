"""Phases that options imply where --phase is left out: the same in every verb that takes both."""

from __future__ import annotations

import json

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.questions.search.question import Search
from rooflinecli.specs.options import OPTIONS

BASE = {"model": "llama-3-8b", "hw": "h100"}


@pytest.mark.parametrize(
    ("given", "phases"),
    [
        ({}, ("prefill", "decode", "train")),
        ({"n": 8, "dtype": "fp8"}, ("prefill", "decode", "train")),
        ({"qps": 1}, ("prefill", "decode")),
        ({"engine": "vllm"}, ("prefill", "decode")),
        ({"weight-dtype": "q4_k_m"}, ("prefill", "decode")),
        ({"weight-dtype": "nf4"}, ("prefill", "decode", "train")),
        ({"zero": 3, "n": 8}, ("train",)),
        ({"tokens": "1T"}, ("train",)),
        ({"tokens": "1T", "qps": 1}, ("prefill", "decode", "train")),
        ({"phase": "train", "qps": 1}, ("train",)),
    ],
)
def test_what_the_options_mean(given, phases):
    assert build_request.request({**BASE, **given}).phases == phases


def test_a_layout_that_holds_no_training_serves_all_the_same():
    """A deployment is asked for, so what training would need decides nothing."""
    deployment = ("llama-3.3-70b", "--hw", "h100", "-n", "8", "--tp", "8")
    assert run_cli("estimate", *deployment, "--engine", "vllm").code == 0
    assert run_cli("estimate", *deployment, "--engine", "vllm", "--phase", "train").code == 1
    bare = run_cli("estimate", *deployment, "-f", "json")
    assert bare.code == 0 and not bare.json["feasible"], "training was not asked"
    assert run_cli("estimate", *deployment, "--tokens", "1T").code == 1


@pytest.mark.slow
@pytest.mark.parametrize("limits", [("--qps", "4"), ("--qps", "4", "--slo", "itl=50ms")], ids=str)
@pytest.mark.parametrize("verb", ["plan", "search"])
def test_a_rate_asks_for_a_service(verb, limits):
    implied = run_cli(verb, "llama-3-8b", "--hw", "h100", *limits, "--format", "json")
    asked = run_cli(verb, "llama-3-8b", "--hw", "h100", *limits, "--phase", "decode", "--format", "json")
    assert implied.code == 0 and json.loads(implied.out) == json.loads(asked.out)


@pytest.mark.parametrize(
    ("more", "trains"),
    [
        ({"where": ["decode.time_s <= 40 ms"]}, False),
        ({"objective": "itl"}, False),
        ({"objective": "serve.itl_s"}, False),
        ({"where": ["train.mfu >= 0.4"]}, True),
        ({"objective": "latency"}, True),
    ],
    ids=str,
)
def test_a_quantity_that_is_named_implies_its_phase(more, trains):
    assert Search.read({**BASE, **more}).training is trains
    assert (
        build_request.implied((), ["train.mfu"]) == "train" and build_request.implied({"qps": 1}, ["train.mfu"]) == ""
    )


def test_every_serving_option_is_of_one_side():
    sides = {name: option.phase for name, option in OPTIONS.items()}
    assert {"qps", "engine", "prompt", "output", "acceptance"} <= {n for n, side in sides.items() if side == "serve"}
    assert set(sides.values()) == {"", "train", "serve"}
