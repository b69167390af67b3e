"""Closed loops of short answers and of equal lengths: an estimate counts them by the rules that a simulation follows."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from conftest import run_cli

from rooflinecli.formulas.counted_loop import LoopPrices, count
from rooflinecli.interfaces import verbs

PRICES = LoopPrices(
    front=0, per_token=0, per_stream=0, prompt=100, steps=4, spread=0, budget=1000, pieces=1, stages=1, factor=1, look_ahead=False, whole=False, rides=True, room=0, replayed=1, starts=0,
    launches=0, decode_1=1, decode_4=1, decode_32=1, pass_1=10, pass_4=34, pass_32=258,
)  # fmt: skip


def two(policy: str, **changed: float) -> Any:
    """(first tokens of the burst, later ones, a token's decode step, prompts in it, sequences) of two clients."""
    rules = {"whole": policy == "trtllm", "rides": policy != "sglang"}
    return pytest.approx(count(PRICES._replace(**rules, **changed), 2), rel=0.05)


def test_two_clients_in_lockstep_by_hand() -> None:
    """Both prompts in one pass of 18 s, three steps of 1 s for both, and again."""
    assert two("vllm") == (18, 18, 1, 0, 2)


def test_whole_prompts_take_turns() -> None:
    """The first prompt takes 10 s; the second 10 s and a step of the first client, 1 s."""
    assert two("trtllm", budget=101).expected[0] == pytest.approx((10 + 21) / 2)


def test_prompts_first_stall_the_others() -> None:
    """The second prompt stalls the first client for 10 s, three of the six tokens of a round; then three steps for both."""
    assert two("sglang", budget=100) == (15, 15, 1, 10 / 6, 2)


def test_a_prompt_beyond_the_budget_is_read_in_pieces() -> None:
    """60 tokens take 6.8 s and 40 take 5.2: 4 s of a prompt's 12 are fixed, half for each piece; the second also waits for two steps."""
    assert two("vllm", budget=60, pieces=2, pass_1=12, pass_4=36).expected[0] == pytest.approx((12 + 26) / 2, rel=0.05)


def test_answers_of_one_token_are_passes_alone() -> None:
    assert two("sglang", steps=1, front=3) == (21, 21, 0, 0, 1)


def test_a_pipeline_takes_the_next_prompt_before_the_last_is_finished() -> None:
    """Two stages of 9 s for both prompts: the first tokens after 18 s, and the replica is free after 9."""
    assert two("vllm", stages=2, steps=1) == (18, 18, 0, 0, 1)


def test_launches_are_the_least_of_a_step_that_decodes() -> None:
    assert two("vllm", budget=101, launches=50).expected[3] > two("vllm", budget=101).expected[3] + 10


def test_a_graph_holds_short_prompts() -> None:
    """After the burst a prompt that comes while the other decodes takes 1 s in a graph, not 10."""
    alone, graph = (count(PRICES._replace(budget=101, room=room), 2)[3] for room in (0, 101))
    assert graph < alone / 5


def ask(verb: str, options: dict[str, Any]) -> Any:
    return verbs.answer(verbs.question(verb).read(options))


@pytest.mark.parametrize(
    "load",
    [
        {"model": "phi-3-mini-4k", "hw": "h200", "engine": "sglang", "prompt": 128, "output": 1, "concurrency": 4},
        {"model": "qwen3-8b", "hw": "b200", "engine": "vllm", "prompt": 1830, "output": 16, "concurrency": 2},
        {"model": "gemma-2-9b", "hw": "b200", "engine": "sglang", "prompt": 900, "output": 16, "concurrency": 4},
        {"model": "llama-3.1-8b", "hw": "h200", "engine": "python-server", "prompt": 1644, "output": 16, "concurrency": 32},
        {"model": "mixtral-8x7b", "hw": "a100", "n": 4, "tp": 4, "engine": "trtllm", "prompt": 700, "output": 16, "concurrency": 8},
        {"model": "llama-3.1-8b", "hw": "h100", "engine": "sglang", "prompt": 900, "output": 300, "concurrency": 16, "equal_lengths": True},
        {"model": "mistral-7b-v0.1", "hw": "mi300x", "engine": "vllm", "prompt": 600, "output": 398, "concurrency": 16, "equal_lengths": True},
    ],
)  # fmt: skip
def test_an_estimate_and_a_simulation_agree(load: dict[str, Any]) -> None:
    load = {"n": 1} | load | {"requests_per_client": 40}
    asked, run = ask("estimate", load | {"phase": "prefill,decode"}), ask("simulate", load | {"interval": False})
    first, further, seen = asked["phases"]["prefill"], asked["phases"]["decode"], run["simulate"]
    assert first["time_s"] == pytest.approx(seen["ttft_mean_s"], rel=0.2)
    if load["output"] > 1:
        assert further["time_s"] == pytest.approx(seen["tpot_mean_s"], rel=0.1)
    assert further["tokens_per_s"] == pytest.approx(seen["output_tokens_per_s"], rel=0.1)
    assert sum(further["breakdown_s"].values()) == pytest.approx(further["time_s"])
    assert not any("simulate" in note for note in asked.get("notes", ()))


def test_more_clients_make_more_tokens_in_a_sweep_as_in_an_estimate() -> None:
    clients = (1, 2, 3, 7, 8, 20, 27, 28, 32, 40, 100)
    for output in (16, 200):  # the last with equal lengths
        load = {"model": "gpt-oss-120b", "hw": "h200", "engine": "sglang", "prompt": 700, "output": output}
        more = {"equal_lengths": True} if output > 16 else {}
        asked = [part for key in ("hw", "engine", "prompt", "output") for part in (f"--{key}", str(load[key]))]
        asked += ["--equal-lengths", "yes"] if more else []
        points = run_cli("sweep", str(load["model"]), *asked, "-n", "1", "--concurrency", ",".join(map(str, clients)),
                         "--phase", "prefill,decode", "--columns", "prefill.time_s,decode.tokens_per_s", "--format", "json").json["points"]  # fmt: skip
        rates = [point["decode.tokens_per_s"] for point in points]
        assert all(more >= fewer * (1 - 1e-9) for fewer, more in itertools.pairwise(rates))
        for point, users in list(zip(points, clients, strict=True))[::3]:
            one = ask("estimate", load | more | {"n": 1, "concurrency": users, "phase": "prefill,decode"})["phases"]
            assert point["prefill.time_s"] == pytest.approx(one["prefill"]["time_s"], rel=1e-9)
            assert point["decode.tokens_per_s"] == pytest.approx(one["decode"]["tokens_per_s"], rel=1e-9)
