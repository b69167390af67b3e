"""Speculative decoding: what a draft of some acceptance and cost buys, the best draft length, where it breaks even."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.core.solve import decreasing_root, solved_value
from rooflinecli.formulas import speculation as spec

LONGEST = 256  # drafts beyond this are not searched


def speculate(
    acceptance: Number,
    draft_cost: Number,
    draft_length: Number = None,
    verify_cost: Number = 1.0,
    plain_s: Number = None,
) -> dict[str, Any]:
    """Tokens per step and speedup at a draft length and at the best one, exact and simplified."""
    longest = best_length(num.value(acceptance), num.value(draft_cost), num.value(verify_cost))
    best = solved_value(longest, acceptance, "g*", "tokens", "the draft length with the largest speedup, by search")
    lengths = {"best": best} if draft_length is None else {"as_given": draft_length, "best": best}
    rows = {name: _gain(acceptance, draft_cost, length, verify_cost) for name, length in lengths.items()}
    chosen = next(iter(rows.values()))
    answer = {
        "acceptance": acceptance,
        "draft_cost": draft_cost,
        "draft_length": chosen["draft_length"],
        "tokens_per_step": chosen["tokens_per_step"],
        "speedup": chosen["speedup"],
        "best_draft_length": best,
    }
    if plain_s is not None:
        answer["itl_s"] = spec.speculative_latency(plain_s, chosen["speedup"])
    notes = [
        "speedup: exact, a run of accepted tokens ends at the first rejection (Leviathan et al. 2023)",
        "speedup simplified: acceptance x draft length, as the Scaling Book workbook counts; it overstates long drafts",
        "operations: arithmetic per token over plain decoding, with draft FLOPs per token in the ratio of --draft-cost",
    ]
    if longest == LONGEST:
        notes.append(f"still rising at {LONGEST} draft tokens, the longest searched")
    return answer | {"lengths": rows, "notes": notes}


def written(flag: str, name: str) -> None:
    """Raises UsageError for a model, by name, that writes no tokens one by one; a number of parameters passes."""
    if name[:1].isdigit() or name[:1] in ".+-":
        return
    from rooflinecli.specs.model import load_model

    spec = load_model(name)
    if not spec.writes:
        raise UsageError(f"{flag} {name}: {spec.name} writes no tokens one by one, so it drafts none; name a decoder")


def draft_cost(draft_params: Number, target_params: Number) -> Number:
    """The draft's cost by the sizes of the models. Raises UsageError when the draft is not the smaller one."""
    if num.value(draft_params) >= num.value(target_params):
        raise UsageError("the draft is not smaller than the target; swap --draft and --target")
    return spec.draft_cost_of_sizes(draft_params, target_params)


def _gain(acceptance: Number, draft_cost: Number, length: Number, verify_cost: Number) -> dict[str, Any]:
    tokens, cost = (
        spec.speculative_tokens(acceptance, length),
        spec.speculative_step_cost(length, draft_cost, verify_cost),
    )
    simple = spec.speculative_tokens_simple(acceptance, length)
    return {
        "draft_length": length,
        "tokens_per_step": tokens,
        "step_cost": cost,
        "speedup": spec.speculative_speedup(tokens, cost),
        "tokens_per_step_simplified": simple,
        "speedup_simplified": spec.speculative_speedup(simple, cost),
        "operations": spec.speculative_operations(tokens, length, draft_cost),
    }


def best_length(acceptance: float, draft_cost: float, verify_cost: float) -> int:
    """The draft length with the highest exact speedup, up to LONGEST; 0: do not speculate.

    Extra tokens gain a^(g+1) and cost c, so the speedup has one peak; the search stops behind it.
    """

    def speedup(length: int) -> float:
        tokens, cost = (
            spec.speculative_tokens(acceptance, length),
            spec.speculative_step_cost(length, draft_cost, verify_cost),
        )
        return float(num.value(spec.speculative_speedup(tokens, cost)))

    best = max(range(1, LONGEST + 1), key=speedup)
    return best if speedup(best) > 1 else 0


def break_even(
    draft_length: Number, draft_cost: Number, speedup: Number = 1.0, verify_cost: Number = 1.0
) -> dict[str, Any]:
    """The acceptance that a wanted speedup takes, exact and simplified. Raises UsageError when none does."""
    cost = spec.speculative_step_cost(draft_length, draft_cost, verify_cost)
    k, c, x = num.value(draft_length), num.value(cost), num.value(speedup)
    most = spec.speculative_speedup(spec.speculative_tokens(1.0, k), c)
    if most < x:
        raise UsageError(
            f"no acceptance gives {x:g}x with {k:g} draft tokens: all accepted gives {most:.4g}x; "
            "take a cheaper draft, or another draft length"
        )

    def short_of(acceptance: float) -> float:
        return float(x - spec.speculative_speedup(spec.speculative_tokens(acceptance, k), c))

    exact = decreasing_root(short_of, 1e-12, 1.0) if short_of(1e-12) > 0 else 0.0
    simple = spec.break_even_acceptance_simple(speedup, cost, draft_length)
    notes = [
        "acceptance: exact, (1 - a^(k+1)) / (1 - a) = speedup x (k c + 1)",
        "acceptance simplified: a k = speedup x (k c + 1), as the Scaling Book workbook counts",
    ]
    if num.value(simple) > 1:
        notes.append("above 100 % the simplified convention has no solution: it leaves out the target's own token")
    return {
        "draft_length": draft_length,
        "draft_cost": draft_cost,
        "speedup": speedup,
        "break_even_acceptance": solved_value(exact, speedup, "a*", "1", "root of speculative_speedup = wanted"),
        "break_even_simplified_acceptance": simple,
        "notes": notes,
    }
