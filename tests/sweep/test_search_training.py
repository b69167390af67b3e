"""Training search against brute force with `estimate`, and against hand-written plans."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.search.search_request import question
from rooflinecli.questions.search.training import report, request_of, search
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

SMALL = [
    ("gpt2", "a100", 4, 6, 1024, {}),
    ("gpt2", "a100", 8, 12, 1024, {}),
    ("llama-3-8b", "h100", 8, 8, 4096, {"zero": "1,3", "recompute": "none,full"}),
    ("mixtral-8x7b", "h100", 16, 16, 2048, {"zero": "3", "recompute": "full", "sequence_parallel": "yes"}),
    ("gemma-2-9b", "tpu-v5p", 8, 6, 512, {"zero": "0,1", "recompute": "none"}),
]


def shard_groups(zero: int, ranks: int, dp: int, ep: int) -> list[int | None]:
    """All replicas, and with ZeRO-3 those of one and of two domains of eight (all that the cases with it have)."""
    if zero != 3 or ep > 1:
        return [None]
    largest = {max((d for d in range(1, dp + 1) if dp % d == 0 and d * ranks <= many), default=1) for many in (8, 16)}
    return [None, *sorted(d for d in largest if 1 < d < dp)]


def brute_force(model: str, chip: str, n: int, batch: int, seq: int, fixed: dict[str, str]) -> tuple[float, int]:
    """Least step time and the number of layouts that fit, by asking `estimate` about every legal layout one at a time."""
    spec, hardware = load_model(model), load_hardware(chip)
    layers = sum(g.repeat for g in spec.layers)
    heads = {g.attention.n_heads for g in spec.layers if g.attention}
    experts = {g.feedforward.n_experts for g in spec.layers if g.feedforward.kind == "moe"}
    best, fitting = math.inf, 0
    zeros = [int(z) for z in fixed.get("zero", "0,1,2,3").split(",")]
    recomputes = fixed.get("recompute", "none,selective,full").split(",")
    parallels = [p == "yes" for p in fixed.get("sequence_parallel", "no,yes").split(",")]
    for tp, pp, cp, ep, mb, v in itertools.product(
        range(1, n + 1),
        range(1, n + 1),
        range(1, n + 1),
        range(1, n + 1),
        range(1, batch + 1),
        range(1, layers // 2 + 2),
    ):
        dp, rest = divmod(n, tp * pp * cp)
        if rest or dp < 1 or any(h % tp for h in heads) or pp > layers or seq % cp or batch % (dp * mb):
            continue
        if dp % ep or (ep > 1 and (not experts or any(e % ep for e in experts))):
            continue
        if v > 1 and (pp == 1 or pp * v > layers + 2 or batch // (dp * mb) % pp):
            continue
        if layers % pp == 0 and layers % (pp * v):  # of chunks that could be equal
            continue
        for zero, recompute, parallel in itertools.product(zeros, recomputes, parallels):
            if ("zero" not in fixed and zero and dp * cp == 1) or (
                "sequence_parallel" not in fixed and parallel and tp == 1
            ):
                continue
            for shard in shard_groups(zero, tp * cp, dp, ep):
                result = estimate(
                    Request(
                        spec,
                        hardware,
                        phases=("train",),
                        devices=n,
                        tp=tp,
                        pp=pp,
                        cp=cp,
                        dp=dp,
                        ep=ep,
                        micro_batch=mb,
                        virtual_stages=v,
                        zero=zero,
                        shard=shard,
                        recompute=recompute,
                        sequence_parallel=parallel,
                        batch=float(batch),
                        seq=float(seq),
                    )
                )
                if result.feasible:
                    fitting += 1
                    best = min(best, result.phases["train"].time_s)
    return best, fitting


def ask(
    model: str,
    chip: str,
    n: int,
    batch: Any,
    seq: int,
    fixed: dict[str, str],
    objective: str = "time",
    where: tuple[str, ...] = (),
) -> Any:
    options = {
        "model": model,
        "hw": chip,
        "n": n,
        "batch": batch,
        "seq": seq,
        "phase": "train",
        "bound": "expected",
        **fixed,
    }
    asked = question(options, objective, list(where))
    return asked, search(asked)


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL, ids=lambda c: f"{c[0]}-{c[2]}")
def test_search_equals_brute_force(case: tuple[Any, ...]) -> None:
    best, fitting = brute_force(*case)
    _, found = ask(*case)
    assert found.fitting == fitting
    assert math.isclose(found.top(1)[0].keys[0], best, rel_tol=4 * 2.0**-52)


@pytest.mark.slow
def test_equals_at_the_bound_are_ranked_by_their_expected_values() -> None:
    """Many layouts have one floor, to the rounding of its last digits; the fastest of them is best, for an estimate too."""
    options = {
        "model": "gpt2-xl",
        "hw": "mi300x",
        "phase": "train",
        "n": 16,
        "batch": 64,
        "seq_len": 512,
        "bound": "floor",
    }
    asked = question(options, "time", [], every=True)
    first, *others = search(asked).top(200)
    equal = [other for other in others if math.isclose(other.keys[0], first.keys[0], rel_tol=1e-9)]
    assert len(equal) > 20 and all(first.expected <= other.expected for other in equal)
    chosen = estimate(build_request.request(options)).phases["train"]
    assert chosen.floor_s == pytest.approx(first.keys[0]) and chosen.time_s <= 1.05 * first.expected[0]


def test_counts_add_up() -> None:
    asked, found = ask("llama-3-8b", "h100", 16, 64, 4096, {}, where=("train.mfu >= 0.3",))
    rejected = {r["constraint"]: r["layouts"] for r in report(asked, found)["rejected"]}
    assert found.layouts - rejected["memory"] == found.fitting
    assert found.fitting - rejected["train.mfu >= 0.3"] == found.meeting > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        {
            "tp": 8,
            "pp": 4,
            "dp": 64,
            "zero": 1,
            "micro_batch": 1,
            "virtual_stages": 5,
            "sequence_parallel": True,
            "recompute": "none",
        },
        {"tp": 8, "pp": 8, "dp": 32, "zero": 1, "micro_batch": 1, "sequence_parallel": True, "recompute": "selective"},
        {"tp": 1, "dp": 1024, "cp": 2, "zero": 3, "recompute": "full"},  # pure FSDP: a sequence per replica and no more
        {"tp": 2, "dp": 1024, "zero": 3, "sequence_parallel": True, "recompute": "full"},
        {"tp": 2, "pp": 8, "dp": 128, "zero": 1, "sequence_parallel": True, "recompute": "full"},
    ],
    ids=str,
)
def test_the_winner_never_loses_to_a_plan_by_hand(plan: dict[str, Any]) -> None:
    """Llama 3 70B on 2048 H100, 4M tokens (workbook 4.4)."""
    _, found = ask("llama-3-70b", "h100", 2048, "4M-tokens", 4096, {})
    request = Request(
        load_model("llama-3-70b"),
        load_hardware("h100"),
        phases=("train",),
        devices=2048.0,
        batch=4e6 / 4096,
        seq=4096.0,
        **{**dict.fromkeys(("tp", "pp", "cp", "dp", "ep", "micro_batch", "virtual_stages"), 1.0), **plan},
    )
    try:
        result = estimate(request)
    except UsageError:
        return  # a plan that cannot be laid out cannot win
    by_hand = result.phases["train"].time_s if result.feasible else math.inf
    assert found.top(1)[0].keys[0] <= by_hand


@pytest.mark.slow
def test_modest_tensor_and_pipeline_parallelism_beats_pure_fsdp_and_tp2() -> None:
    """Workbook 4.4: on 2048 H100 TP=8 with modest PP beats pure FSDP and TP=2."""

    def least(**fixed: Any) -> float:
        _, found = ask("llama-3-70b", "h100", 2048, 1024, 4096, fixed)
        return found.top(1)[0].keys[0]

    modest = least(tp=8, pp="1,2,4,8")
    assert modest < least(tp=1, pp=1)
    assert modest < least(tp=2, pp=1)


@pytest.mark.slow
def test_a_pareto_front_is_not_dominated_and_holds_both_winners() -> None:
    _, found = ask("llama-3-8b", "h100", "8,16,32", 64, 4096, {}, objective="cost,time")
    front = found.front
    for a, b in itertools.permutations(front, 2):
        assert not (a.keys[0] <= b.keys[0] and a.keys[1] <= b.keys[1])
    for i, name in enumerate(("cost", "time")):
        _, alone = ask("llama-3-8b", "h100", "8,16,32", 64, 4096, {}, objective=name)
        assert min(e.keys[i] for e in front) == alone.top(1)[0].keys[0]


@pytest.mark.slow
def test_nothing_feasible_names_the_nearest_miss() -> None:
    asked, found = ask("llama-3-405b", "h100", 8, 8, 4096, {})
    result = report(asked, found)
    assert not result["feasible"]
    assert "per device of 85.9 GB" in result["nearest_miss"]["shortfall"]
    asked, found = ask("llama-3-8b", "h100", 8, 8, 4096, {}, where=("train.time_s <= 1 us",))
    miss = report(asked, found)["nearest_miss"]
    fastest = ask("llama-3-8b", "h100", 8, 8, 4096, {})[1].top(1)[0].keys[0]
    assert estimate(request_of(asked, miss["layout"])).phases["train"].time_s == pytest.approx(fastest, rel=1e-12)


@pytest.mark.slow
def test_the_report_reproduces_with_estimate() -> None:
    asked, found = ask("mixtral-8x7b", "h100", 64, 256, 4096, {})
    for row, entry in zip(report(asked, found)["results"], found.top(5), strict=True):
        assert math.isclose(row["time_s"], entry.keys[0], rel_tol=4 * 2.0**-52)
        assert row["memory"]["total_bytes"] <= row["memory"]["capacity_bytes"]


def test_restrictions_hold() -> None:
    _, found = ask(
        "llama-3-8b", "h100", 32, 64, 4096, {"tp": "2,4", "zero": "1", "micro_batch": "2", "recompute": "full"}
    )
    assert found.ranking
    for entry in found.ranking.values():
        assert (
            entry.layout["tp"] in (2, 4)
            and entry.layout["zero"] == 1
            and entry.layout["micro_batch"] == 2
            and entry.layout["recompute"] == "full"
        )


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("llama-3-8b", {"pp": "4", "virtual_stages": "3"}),  # 32 layers over 12 chunks: uneven, as frameworks cut them
        ("mixtral-8x7b", {"tp": "8", "ep": "8", "dp": "2"}),  # experts over tensor ranks and replicas
    ],
)
def test_what_is_given_is_judged_by_the_rules_alone(model: str, given: dict[str, str]) -> None:
    """A size that a search would not have tried by itself is legal there where an estimate answers it."""
    _, found = ask(model, "h100", 16, 64, 4096, {**given, "zero": "1", "recompute": "full"})
    sizes = {name: int(value) for name, value in given.items()}
    request = Request(
        load_model(model), load_hardware("h100"), phases=("train",), devices=16, batch=64, seq=4096, **sizes
    )
    assert estimate(request).layout.devices == 16
    assert found.layouts > 0


def test_options_of_full_recomputation_are_held_against_the_recomputation_asked_for() -> None:
    asked = {"model": "llama-3-8b", "hw": "h100", "n": 8, "batch": 64, "seq": "8k", "mlp-chunks": 4, "zero": "3"}
    found = search(question({**asked, "recompute": "full"}, "train.time_s", []))
    assert found.ranking
    with pytest.raises(UsageError, match="--recompute full"):
        search(question(asked, "train.time_s", []))
    with pytest.raises(UsageError, match="--recompute full"):
        search(question({**asked, "recompute": "none"}, "train.time_s", []))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "chip", "devices"), [("gemma-2-9b", "tpu-v5e", 32), ("qwen3-14b", "a100", 64)])
def test_no_virtual_stage_count_given_by_hand_is_better_than_the_search(model: str, chip: str, devices: int) -> None:
    """Equal chunks are tried where stages split the layers, else all: others that a user may give are within a thousandth."""
    options = {"model": model, "hw": chip, "n": str(devices), "batch": "64", "bound": "expected"}
    best = search(question(options, "time", [])).top(1)[0].keys[0]
    for chunks in (2, 3, 4, 5, 6, 7, 9, 11, 20):
        given = search(question({**options, "virtual-stages": str(chunks)}, "time", [])).top(1)
        assert not given or best <= 1.001 * given[0].keys[0], chunks
