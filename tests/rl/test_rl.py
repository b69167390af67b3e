"""`roofline rl`: a step is its parts, each from the simulator or the estimate; modes, memory of roles, dollars, the search."""

from __future__ import annotations

import itertools
import math

import pytest
from conftest import run_cli

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.questions.rl import parts
from rooflinecli.questions.rl.answer import PUBLISHED, compose
from rooflinecli.questions.rl.parts import rollout, samples_of
from rooflinecli.questions.rl.question import Rl
from rooflinecli.questions.simulate.deployment import deployment

SMALL = {
    "model": "llama-3-8b",
    "hw": "h100",
    "n": 8,
    "prompts": 32,
    "samples": 8,
    "prompt": "512",
    "output": "lognormal:1k,0.6",
    "max_output": "4k",
}


def small(**more: object) -> Rl:
    return Rl(**{**SMALL, **more})


def seconds(answer, part: str) -> float:
    return next(p.time_s for p in answer.parts if p.part == part)


def test_a_synchronous_step_is_the_sum_of_its_parts():
    a = small().answer()
    assert [p.part for p in a.parts] == ["rollout", "log-probabilities", "reference", "update", "weight sync", "fixed"]
    assert a.step.time_s == pytest.approx(sum(p.time_s for p in a.parts))
    assert a.step.floor_s == pytest.approx(sum(p.floor_s for p in a.parts))
    for part in a.parts:
        assert part.floor_s <= part.time_s and part.interval_s[0] <= part.time_s <= part.interval_s[1]
    updated = next(p for p in a.parts if p.part == "update")
    assert 0 < a.trainer.mfu <= updated.floor_s / updated.time_s  # the floor has all of the matmuls at their peak
    assert a.step.tokens == sum(s.tokens for s in samples_of(small()))
    assert a.step.usd == pytest.approx(a.step.time_s / 3600 * 8 * float(compose(small()).rollout.engine.ctx.price))


def test_the_rollout_lasts_as_long_as_its_longest_sample_alone():
    """One sample on one engine: its decode steps one by one, at the price of each context."""
    q = small(prompts=1, samples=1, n=1, rollout_tp=1, output="300", prompt="64")
    one = deployment(q.rollout_options(1, 1), 182, 182)
    steps = sum(one.prices.decode(1, 64 + i) for i in range(1, 300))
    assert rollout(q, 1).part.time_s == pytest.approx(steps, rel=0.05)


def test_a_longer_tail_lengthens_the_rollout_and_idles_engines():
    even, tailed = (rollout(small(output=o), 8, 1) for o in ("1k", "lognormal:1k,1.2"))
    assert tailed.part.time_s > 1.5 * even.part.time_s
    assert tailed.idle_fraction > even.idle_fraction + 0.03


def test_samples_of_a_prompt_share_its_cache():
    together, apart = (
        rollout(small(prompt="8k", output="64", prompts=p, samples=s), 8, 1) for p, s in ((8, 32), (256, 1))
    )
    assert together.part.time_s < 0.5 * apart.part.time_s


@pytest.mark.slow
def test_algorithms_have_their_roles():
    names = {
        name: {p.part for p in small(algorithm=name, samples=8).answer().parts}
        for name in ("grpo", "ppo", "dapo", "rloo", "reinforce++")
    }
    assert "reference" not in names["dapo"] and {"values", "critic update"} <= names["ppo"]
    assert names["grpo"] == names["rloo"] == names["reinforce++"]


@pytest.mark.slow
def test_split_sides_overlap_once_samples_may_be_stale():
    split = {"rollout_devices": 4}
    at_once, one_off = (small(**split, staleness=k).answer() for k in (0, 1))
    sides = {s: sum(p.time_s for p in one_off.parts if p.side == s) for s in ("rollout", "trainer", "both")}
    assert one_off.step.time_s == pytest.approx(max(sides["rollout"], sides["trainer"]) + sides["both"])
    assert at_once.step.time_s == pytest.approx(sum(sides.values()))
    assert {p.part for p in one_off.parts if p.hidden} and not any(p.hidden for p in at_once.parts)


@pytest.mark.slow
def test_more_steps_in_flight_hide_the_tail():
    tail = {"output": "lognormal:1k,1.2", "max_output": "16k", "rollout_devices": 4, "rollout_tp": 1}
    times = [seconds(small(**tail, staleness=k).answer(), "rollout") for k in (1, 2, 8)]
    assert times[0] > times[1] > times[2]


def test_tools_add_their_waits_and_their_tokens():
    plain = small(n=1, prompts=1, samples=1, output="400", rollout_tp=1)
    waiting = plain.replace(turns=5, tool_wait="10", tool_output="100")
    first, second = rollout(plain, 1), rollout(waiting, 1)
    assert second.part.time_s - first.part.time_s == pytest.approx(40.0, rel=0.05)
    assert samples_of(waiting)[0].tokens == 512 + 400 + 400


@pytest.mark.slow
def test_roles_that_do_not_fit_together_leave_for_the_host():
    a = Rl("qwen3-30b-a3b", "h100", n=16, prompts=16, samples=8, output="1k", rollout_tp=1).answer()
    assert a.memory.offloaded and seconds(a, "offload") > 0
    assert next(r for r in a.memory.roles if r["role"] == "policy weights and optimizer")["rollout_bytes"] == 0
    kept = small(n=8, hw="b200").answer()
    assert not kept.memory.offloaded and kept.memory.host_bytes == 0


def test_what_does_not_fit_exits_with_1_and_says_so():
    ran = run_cli(
        "rl",
        "llama-3-70b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--prompts",
        "8",
        "--samples",
        "4",
        "--no-offload-state",
        "--recompute",
        "none",
    )
    assert ran.code == 1 and "the roles need" in ran.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rollout_devices": 8}, "leaves none of -n 8"),
        ({"critic": "llama-3-8b"}, "--critic belongs to ppo"),
        ({"tool_wait": "2"}, "--tool-wait requires several turns"),
        ({"mini_batch": 512}, "a step has 256 sequences"),
        ({"calibrate_question": "-n 4"}, "add --calibrate LOG"),
    ],
)
def test_contradictions_are_refused(more, message):
    with pytest.raises(UsageError, match=message):
        small(**more)


def test_an_engine_larger_than_the_rollout_is_refused():
    with pytest.raises(Infeasible, match="lower --rollout-tp"):
        rollout(small(), 4, 8)


@pytest.mark.slow
def test_the_search_is_near_the_best_of_every_split_engine_and_trainer():
    """Brute force: each split, engine size, mode and trainer layout on its own, at the pessimistic bound."""
    q = small(search=True)
    best = q.answer()
    found = []
    sizes = [{}, *({"tp": tp, "pp": pp} for tp, pp in itertools.product((1, 2, 4), (1, 2)))]
    for split, tp, trainer in itertools.product((None, 1, 2, 3, 4, 5, 6, 7), (1, 2, 4, 8), sizes):
        if tp <= (split or 8):
            stale = 0 if split is None else 1
            try:
                composed = compose(small(rollout_devices=split, rollout_tp=tp, staleness=stale, **trainer))
            except (Infeasible, UsageError):  # sizes that do not divide the trainer's devices
                continue
            if composed.memory.fits:
                found.append(composed.step(PUBLISHED)[1].interval_s[1])
    assert len(found) > 60
    assert best.step.interval_s[1] <= 1.1 * min(found)
    assert best.candidates[0]["interval_s"][1] == best.step.interval_s[1]
    assert all(a["interval_s"][1] <= b["interval_s"][1] for a, b in itertools.pairwise(best.candidates))


@pytest.mark.slow
def test_every_format_and_interface_answers():
    flags = (
        "rl",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--prompts",
        "8",
        "--samples",
        "4",
        "--output",
        "256",
        "--steps",
        "10",
    )
    ran = run_cli(*flags, "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["schema"] == "roofline/rl/1" and ran.json["run"]["time_s"] == pytest.approx(
        10 * ran.json["step"]["time_s"]
    )
    for format in ("table", "csv", "markdown"):
        assert run_cli(*flags, "--format", format).code == 0


def test_fewer_samples_at_once_take_longer():
    times = [rollout(small(rollout_batch=b), 8, 1).part.time_s for b in (4, 16, None)]
    assert times[0] > 1.5 * times[1] > 1.5 * times[2]


def test_samples_that_are_carried_over_hide_the_tail_of_shared_devices():
    tail = small(output="lognormal:1k,1.2", max_output="16k", rollout_tp=1)
    drained, carried = (rollout(q, 8, 1) for q in (tail, tail.replace(staleness=1)))
    assert carried.part.time_s < 0.7 * drained.part.time_s


def test_what_is_under_way_after_the_timed_ends_changes_nothing(monkeypatch):
    """The ends of a step's samples are those of following every sample that was given to the engine."""
    asked = small(rollout_tp=1, staleness=1, prompts=16, samples=4, turns=2, output="lognormal:200,0.6")
    cut = rollout(asked, 2, 1)

    def followed(cluster, jobs, follow, first, last, limit):
        run = parts.run_open_loop(cluster, jobs, follow)
        ends = sorted(job.finish for job in run if job.label == parts.LAST_TURN)
        assert len(ends) > last + 1  # more end than are timed
        return ends[last] - ends[first]

    monkeypatch.setattr(parts, "_between_ends", followed)
    parts._timed.cache_clear()
    whole = rollout.__wrapped__(asked, 2, 1)
    parts._timed.cache_clear()
    assert (whole.part, whole.idle_fraction) == (cut.part, cut.idle_fraction)


def test_engine_sizes_that_lose_have_no_floor_and_are_not_followed_to_their_end(monkeypatch):
    asked, ran = small(prompts=16, samples=4, seed=5), []
    real = parts._simulated

    def counted(question, one, samples, engines, mean, limit=math.inf):
        seconds, idle = real(question, one, samples, engines, mean, limit)
        ran.append((int(one.layout.tp), "ideal" in str(one.ctx.request.efficiency), limit, seconds))
        return seconds, idle

    monkeypatch.setattr(parts, "_simulated", counted)
    chosen = rollout(asked, 8)
    timed = [(size, limit, seconds) for size, ideal, limit, seconds in ran if not ideal]
    best = min(timed, key=lambda row: row[2])
    assert int(chosen.engine.layout.tp) == best[0] and chosen.part.time_s == best[2] and len(timed) > 1
    assert [(size, ideal) for size, ideal, *_ in ran if ideal] == [(best[0], True)]
    assert [limit for _, limit, _ in timed] == [math.inf, *(min(t[2] for t in timed[:i]) for i in range(1, len(timed)))]


@pytest.mark.slow
def test_changes_are_counted_as_they_are_tried():
    heard = []
    answer = small(changes=True, prompts=8, samples=2, rollout_tp=1).answer(lambda done, of: heard.append((done, of)))
    assert answer.changes and len({of for _, of in heard}) == 1
    assert len(heard) == heard[0][1] > 5 and sum(done for done, _ in heard) == len(heard) - 1


@pytest.mark.slow
def test_the_search_takes_another_trainer_where_the_fastest_does_not_fit(monkeypatch):
    from rooflinecli.questions.rl import variants

    real = variants._candidate
    monkeypatch.setattr(variants, "_candidate", lambda q, *more: None if q.tp is None or q.tp == 1 else real(q, *more))
    asked, best = variants._fitting(small(n=8, rollout_tp=1), PUBLISHED, 8)
    assert best is not None and asked.tp == best["tp"] > 1
    assert variants._fitting(small(n=8, rollout_tp=1, tp=1), PUBLISHED, 8)[1] is None


def test_default_group_sizes() -> None:
    """512 prompts of 16 samples; PPO has a critic in the place of a group."""
    assert (Rl("qwen3-8b", hw="h100").sequences, Rl("qwen3-8b", hw="h100", algorithm="ppo").sequences) == (8192, 512)


@pytest.mark.slow
def test_an_engine_beside_a_trainer_keeps_its_reserve() -> None:
    """vLLM takes 0.9 of memory at most for weights, cache and its reserve, so that roles that stay never fill a device to the last byte."""
    asked = small(n=8, hw="h100", prompts=512, samples=32, offload_state=False)
    memory = asked.answer().memory
    held = sum(role["rollout_bytes"] for role in memory.roles)
    assert next(role for role in memory.roles if role["role"] == "KV cache")["rollout_bytes"] > 0
    assert held <= 0.9 * memory.capacity_bytes
