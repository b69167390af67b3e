"""What an engine's scheduler does is written once: the formula of a first token and the simulation read the same entries."""

from __future__ import annotations

import math

import pytest
from conftest import run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request, counted_loop, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import forward_step
from rooflinecli.engine.serving_load import prefill_interference_s
from rooflinecli.interfaces.python import api
from rooflinecli.questions.simulate.deployment import scheduler_of
from rooflinecli.specs.engine import CONSTANTS, ServingEngine, engines, load_engine
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.scheduler import Scheduler

LOAD = {"model": "llama-3.1-8b", "hw": "h100", "n": 1, "prompt": 1000, "output": 100, "concurrency": 8}


def ctx(**more):
    return EstimateContext(build_request.request({**LOAD, **more}))


def test_no_entry_stands_in_two_places():
    assert set(ServingEngine.__dataclass_fields__) & set(Scheduler.__dataclass_fields__) == {"source"}


def test_formula_and_simulation_read_the_same():
    assert len(engines()) > 20
    for name, engine in engines().items():
        own = scheduler_of(ctx(engine=name), ())
        for shared in CONSTANTS.keys() & Scheduler.__dataclass_fields__.keys():
            assert engine.constant(shared) == getattr(own, shared), name


def test_an_engine_may_have_other_constants_on_another_vendors_chips():
    """`--engine sglang` on an Instinct is the build for ROCm, with the options of a scheduler on top; elsewhere it is itself."""
    amd, own = ctx(engine="sglang", hw="mi300x", scheduler="poll_steps=4"), ctx(engine="sglang")
    assert amd.engine.name == "SGLang (ROCm)" and amd.engine.constant("skipped_looks") == 3
    assert own.engine.name == "SGLang" and own.engine.constant("launch") > amd.engine.constant("launch")
    assert own.chip.constants("serving", "matmul", "fp8").tau == 0 < amd.chip.constants("serving", "matmul", "fp8").tau


def test_routing_inside_the_experts_kernel_takes_its_starts_off_decode_steps():
    """gpt-oss on B200 (mxfp4 experts): 36 layers x 16 us less in a decode step, none in a prompt, none where its experts are in another format."""

    def seconds(decode, **more):
        found = ctx(engine="vllm", hw="b200", **{"model": "gpt-oss-120b", **more})
        plain = ctx(engine="vllm", hw="b200", **{"model": "gpt-oss-120b", **more})
        plain.engine = plain.engine.with_changes(routing_inside_formats=())
        without, inside = (forward_step(c, Layout(), 4.0, 1.0, 1000.0, decode=decode).seconds for c in (plain, found))
        return without - inside

    assert seconds(True) == pytest.approx(36 * 16e-6)
    assert seconds(False) == 0 == seconds(True, model="qwen3-30b-a3b")


def test_what_is_overridden_reaches_both():
    """Ten milliseconds more of front end: in the mean first token of the formula, and in front of the simulated scheduler."""
    front = engines()["vllm"].scheduler.front
    plain, moved = (
        EstimateContext(build_request.request({**LOAD, "engine": "vllm"}), override=override)
        for override in (None, {"engine.front": front + 0.01})
    )
    assert scheduler_of(moved, ()).front == pytest.approx(front + 0.01)
    first = [inference.prefill(each, Layout(zero=0)).time_s for each in (plain, moved)]
    assert first[1] - first[0] == pytest.approx(0.01)


def first(**more):
    return inference.prefill(ctx(**more), Layout(zero=0)).time_s


def test_a_message_that_waits_for_ten_tokens_more_comes_ten_steps_later():
    itl = inference.decode(ctx(engine="vllm"), Layout(zero=0)).time_s
    later = first(engine="vllm", scheduler="stream_steps=11") - first(engine="vllm", scheduler="stream_steps=1")
    assert later == pytest.approx(10 * itl)


def test_a_poll_of_ten_steps_costs_half_of_those_skipped_and_what_came_meanwhile():
    """9 steps skipped, 4.5 of them waited for in the mean; 8/100 of a prompt comes with each, in nine turns of ten."""
    plan, loaded_ctx = (
        Layout(zero=0),
        ctx(engine="vllm", scheduler="poll_steps=1,launch=0 s,graph_tokens=0,prompt_factor=1"),
    )
    itl, cost = inference.decode(loaded_ctx, plan).time_s, prefill_interference_s(loaded_ctx, plan)
    share = 0.08 / itl * cost
    expected = 0.9 * (4.5 * itl + 9 * 0.08 * cost * (1 + share / 2))
    slow = first(engine="vllm", scheduler="poll_steps=10,launch=0 s,graph_tokens=0,prompt_factor=1")
    assert slow - inference.prefill(loaded_ctx, plan).time_s == pytest.approx(expected, rel=1e-6)


def test_a_token_of_the_prompt_costs_the_front_end_its_share():
    bare, more = (first(engine="vllm", scheduler=f"per_token={us} us") for us in (0, 5))
    assert more - bare == pytest.approx(1000 * 5e-6)


def test_an_explanation_says_that_it_was_told():
    loaded_ctx = ctx(engine="sglang", scheduler="stream_steps=10").engine
    assert loaded_ctx.written("late_tokens") == "--scheduler-config"
    assert "sglang.yaml" in loaded_ctx.written("front")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("mixed=true", "only `roofline simulate` follows mixed"),
        ("pol_steps=3", "poll_steps"),
        ("poll_steps", "write poll_steps=VALUE"),
        ("poll_steps=0", "poll_steps"),
    ],
)
def test_a_setting_that_no_formula_follows_is_refused(written, why):
    with pytest.raises(UsageError, match=why):
        ctx(engine="sglang", scheduler=written)
    asked = run_cli(
        "estimate", "llama-3.1-8b", "--hw", "h100", "--concurrency", "8", "--engine", "sglang", "--scheduler", written
    )
    assert asked.code == 2 and why in asked.err and "Traceback" not in asked.err


def test_one_slot_waits_for_nobody():
    """The pass of its prompt, the front end and its own stream: no step of others to wait for, no factor, no launches."""
    one = ctx(engine="vllm", concurrency=1)
    engine = one.engine.scheduler
    alone = inference.prefill(ctx(engine="vllm", concurrency=None), Layout(zero=0)).time_s
    in_front = engine.front + 1000 * engine.per_token + engine.per_stream
    assert inference.prefill(one, Layout(zero=0)).time_s == pytest.approx(alone + in_front)


BARE = "poll_steps=1,look_ahead=0,launch=0 s,front=0 s,per_token=0 s,per_stream=0 s,prompt_factor=1,prompt_factor_moe=1"


def turn_of(engine, settings, **more):
    """(first token of a slot's later requests, whole seconds of the step that holds the prompt)."""
    loaded_ctx = ctx(engine=engine, scheduler=settings, prompts_per_slot="inf", **more)
    plan = Layout(zero=0)
    itl, cost = inference.decode(loaded_ctx, plan).time_s, prefill_interference_s(loaded_ctx, plan)
    first = inference.prefill(loaded_ctx, plan).time_s
    under_way = itl / 2 * (loaded_ctx.uncached_prompt <= loaded_ctx.engine.scheduler.graph_tokens)
    return first, (first - under_way) / (1 + 0.08 / itl * cost / 2)


def test_decodes_ride_under_vllm_and_stand_still_under_sglang():
    plan = Layout(zero=0)
    for engine, rides in (("vllm", 1), ("sglang", 0)):
        quiet = ctx(engine=engine, concurrency=None, batch=8)
        alone, step = inference.prefill(quiet, plan).time_s, inference.decode(quiet, plan).time_s
        assert turn_of(engine, f"{BARE},graph_tokens=0")[1] == pytest.approx(alone + rides * step)


def test_a_graph_that_holds_prompt_and_decodes_reads_weights_once(monkeypatch):
    """1000 tokens and 8 decodes fit into 1008: a decode step, and what 1008 tokens take more than 8; no other prompt came with it, e^-0.08."""
    monkeypatch.setattr(counted_loop, "counted", lambda *_: None)
    plan, quiet = Layout(zero=0), ctx(engine="vllm", concurrency=None, batch=8)
    whole, after = (forward_step(quiet, plan, 1.0, n, k, False).seconds for n, k in ((1008.0, 1000.0), (8.0, 1.0)))
    step = inference.decode(quiet, plan).time_s
    alone = inference.prefill(quiet, plan).time_s
    fits, alone_in_it = step + whole - after, math.exp(-0.08)
    mixed = alone_in_it * fits + (1 - alone_in_it) * (step + alone)
    assert turn_of("vllm", f"{BARE},graph_tokens=1008", equal_lengths=True)[1] == pytest.approx(mixed)
    assert turn_of("vllm", f"{BARE},graph_tokens=1007", equal_lengths=True)[1] == pytest.approx(step + alone)


def test_launches_replace_what_a_prompt_adds_to_the_start_of_experts():
    """vLLM's 0.3 ms for each of gpt-oss' 36 layers is inside the launches where those are counted."""
    moe = {"model": "gpt-oss-120b", "hw": "b200"}
    counted, apart = (
        turn_of("vllm", BARE.replace("launch=0 s", f"launch={launch}") + ",graph_tokens=0", **moe)[1]
        for launch in ("1e-9 s", "0 s")
    )
    assert apart - counted == pytest.approx(36 * 0.3e-3)


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("sequences", [1, 2, 3, 8, 64])
def test_a_first_token_through_a_pipeline_takes_its_pass(stages: int, sequences: int) -> None:
    """However few sequences share the stages, a prompt passes all of them."""
    asked = {"hw": "h100", "n": stages, "pp": stages, "tp": 1, "phase": ["prefill"]}
    alone = api.estimate("llama-3-8b", batch=1, **asked)["phases"]["prefill"]
    found = api.estimate("llama-3-8b", concurrency=sequences, **asked)["phases"]["prefill"]
    assert found["time_s"] >= alone["time_s"] and found["interval_s"][0] >= found["floor_s"]


@pytest.mark.parametrize("engine", ["sglang", "vllm", "trtllm"])
def test_where_a_constant_stands_is_the_line_that_has_it(engine):
    spec = load_engine(engine)
    for name, key in (("late_tokens", "stream_steps"), ("skipped_looks", "poll_steps"), ("front", "front"), ("per_step", "per_step")):  # fmt: skip
        place, _, why = spec.written(name).partition("; ")
        file, _, line = place.rpartition(":")
        text = spec.document.path.read_text(encoding="utf-8").splitlines()
        stated = [number for number, each in enumerate(text, 1) if each.strip().startswith(f"{key}:")]
        assert file.endswith(f"{engine}.yaml") and int(line) in (stated or range(1, len(text))), name
        assert why == (spec.source if key == "per_step" else spec.scheduler.source)
