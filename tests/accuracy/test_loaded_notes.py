"""Loads that a formula of means does not follow are said to be so, with the command that does; others say nothing."""

from __future__ import annotations

import pytest

from rooflinecli.interfaces.python import api
from rooflinecli.validate import inference

ASKED = {"devices": 1, "prompt": 2048, "output": 256, "phase": ["prefill", "decode"], "dtype": "fp8"}


def notes(**options: object) -> str:
    return " ".join(api.estimate("llama-3-8b", "h100", **{**ASKED, **options}).get("notes") or [])


def test_full_caches_point_at_the_simulation() -> None:
    """Clients of a closed loop have room for their caches, but where an engine sets aside what a long one may need; arrivals come together."""
    room = api.estimate("llama-3-8b", "h100", **ASKED, concurrency="max")["phases"]["decode"]["max_batch"]
    assert all(
        "on average the KV caches" in notes(concurrency=full) for full in ("max", room)
    )  # and half of the time do not
    assert not notes(concurrency=room // 2) and not notes(batch=4)
    reserved = api.estimate("llama-3-8b", "h100", **ASKED, engine="trtllm", concurrency="max")
    assert "on average the KV caches" in " ".join(reserved["notes"])
    assert "on average the KV caches" not in notes(engine="trtllm", concurrency="max", equal_lengths=True)
    assert not notes(engine="trtllm", concurrency=8, max_num_seqs=4)
    assert "queue at times" in notes(qps=4.7, max_num_seqs=8) and not notes(qps=4.7, max_num_seqs=32)


def test_short_answers_and_equal_lengths_are_counted_up_to_64_clients() -> None:
    for more in ({"output": 16}, {"equal_lengths": True}):
        assert not notes(engine="sglang", concurrency=40, **more)
        assert "up to 64 clients" in notes(engine="sglang", concurrency=80, **more)
    assert "up to 64 clients" not in notes(engine="sglang", concurrency=80)
    assert "pipeline" in notes(engine="sglang", concurrency=8, output=16, devices=2, pp=2)


def test_an_open_loop_of_few_tokens_says_that_prompts_take_the_time() -> None:
    assert "prompts take 65% of the time" in notes(engine="vllm", qps=20, output=4)
    assert not notes(engine="vllm", qps=12, output=4)
    assert not notes(engine="vllm", qps=12, output=1)  # passes of prompts alone


@pytest.mark.filterwarnings("ignore")
def test_the_layout_that_no_page_states_is_scored_both_ways() -> None:
    read = {run.group for run in inference.layouts()}
    assert len(read) == 4 and len(inference.layouts()) == 2 * 52
