"""Loads that a formula of means does not follow are said to be so, with the command that does; others say nothing."""

from __future__ import annotations

import pytest

from rooflinecli.interfaces.python import api
from rooflinecli.validate import inference

ASKED = {"devices": 1, "prompt": 2048, "output": 256, "phase": ["prefill", "decode"], "dtype": "fp8"}


def notes(**options: object) -> str:
    return " ".join(api.estimate("llama-3-8b", "h100", **{**ASKED, **options}).get("notes") or [])


def test_full_caches_point_at_the_simulation() -> None:
    room = api.estimate("llama-3-8b", "h100", **ASKED, concurrency="max")["phases"]["decode"]["max_batch"]
    assert "queues or preempts" in notes(concurrency=int(0.95 * room)) and "simulate" in notes(
        concurrency=int(0.95 * room)
    )
    assert "preempts" not in notes(concurrency=int(0.5 * room)) and not notes(batch=4)


def test_lockstep_is_recognised() -> None:
    assert "lockstep" in notes(engine="sglang", concurrency=8, equal_lengths=True)
    assert "lockstep" not in notes(engine="vllm", concurrency=8, equal_lengths=True)
    assert "lockstep" not in notes(engine="sglang", concurrency=8)


def test_answers_of_a_few_tokens_are_said_to_bunch_up_clients() -> None:
    assert "in bunches" in notes(engine="sglang", concurrency=8, output=16) and "simulate" in notes(
        engine="sglang", concurrency=8, output=16
    )
    for other in ({"concurrency": 1}, {"concurrency": 8, "output": 256}, {"qps": 1}, {"batch": 8}):
        assert "in bunches" not in notes(**{"engine": "sglang", "output": 16, **other})


@pytest.mark.filterwarnings("ignore")
def test_the_layout_that_no_page_states_is_scored_both_ways() -> None:
    read = {run.group for run in inference.layouts()}
    assert len(read) == 4 and len(inference.layouts()) == 2 * 52
