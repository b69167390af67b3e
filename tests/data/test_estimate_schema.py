"""docs/schema/estimate.json is generated from the contract's classes, and every kind of answer keeps to it."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from rooflinecli.interfaces.python import api
from rooflinecli.interfaces.schemas import estimate_answer

ROOT = Path(__file__).resolve().parents[2]
VALID = jsonschema.Draft202012Validator(estimate_answer())
ASKED = (
    {"model": "llama-3-8b", "hw": "h100", "tokens": "1T"},
    {"model": "deepseek-v3", "hw": "b200", "n": 64, "ep": 8, "dp": 8, "phase": "prefill,decode", "qps": 1},
    {"model": "gpt3-175b", "hw": "a100", "n": 8, "phase": "train"},
    {"model": "gpt2", "hw": "epyc-9654", "concurrency": "max", "phase": "decode"},
    {"model": "vit-l-16", "hw": "tpu-v5e"},
)


@pytest.mark.slow
def test_the_checked_in_schema_is_current():
    assert (ROOT / "docs/schema/estimate.json").read_text() == json.dumps(
        estimate_answer(), indent=2, ensure_ascii=False
    ) + "\n", "run python docs/generate.py"
    jsonschema.Draft202012Validator.check_schema(estimate_answer())


@pytest.mark.parametrize("options", ASKED, ids=lambda o: o["model"])
def test_answers_keep_to_it(cli, options):
    args = [
        w
        for k, v in options.items()
        if k not in ("model", "phase")
        for w in (f"{'-' if k == 'n' else '--'}{k}", str(v))
    ]
    phases = [w for p in options.get("phase", "prefill,decode,train").split(",") for w in ("--phase", p)]
    ran = cli("estimate", options["model"], *args, *phases, "--format", "json")
    assert ran.code in (0, 1), ran.err
    VALID.validate(json.loads(ran.out))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r["phases"]["prefill"].pop("time_s"),
        lambda r: r["phases"]["decode"].update(speed=1.0),
        lambda r: r["phases"]["decode"]["interval_s"].append(1.0),
        lambda r: r.update(schema="roofline/estimate/1"),
        lambda r: r["cost"].update(training_usd="much"),
    ],
)
def test_a_spoilt_answer_is_refused(spoil):
    result = copy.deepcopy(api.estimate("gpt2", "h100"))
    result = json.loads(json.dumps(result))
    VALID.validate(result)
    spoil(result)
    assert not VALID.is_valid(result)
