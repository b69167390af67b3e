"""Speculative decoding: a cheap draft proposes tokens, the target verifies them in one step."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_LEVIATHAN = "Leviathan et al. 2023, Fast Inference from Transformers via Speculative Decoding"
_SIMPLE = "every draft token counted as accepted on its own; Scaling Book workbook, chapter 7"


@formula("tau", "tokens", _LEVIATHAN + ", equation 1: one guaranteed token and a geometric run of accepted drafts")
def speculative_tokens(acceptance: Number, draft_length: Number) -> Number:
    """Expected tokens per target step, (1 - a^(g+1)) / (1 - a); g + 1 when every draft is accepted."""
    rejected = num.where(acceptance < 1, 1 - acceptance, 1)
    return num.where(acceptance < 1, (1 - acceptance ** (draft_length + 1)) / rejected, draft_length + 1)


@formula("c_step", "1", _LEVIATHAN + ", theorem 3.8: g draft steps and one target step, in plain decode steps")
def speculative_step_cost(draft_length: Number, draft_cost: Number, verify_cost: Number) -> Number:
    """Cost of one speculative step over a plain decode step; verifying costs 1 while decode is memory-bound."""
    return draft_length * draft_cost + verify_cost


@formula("x", "1", _LEVIATHAN + ", theorem 3.8")
def speculative_speedup(tokens: Number, step_cost: Number) -> Number:
    """Tokens per step over the cost of a step: the gain in decode speed."""
    return tokens / step_cost


@formula("tau_simple", "tokens", _SIMPLE)
def speculative_tokens_simple(acceptance: Number, draft_length: Number) -> Number:
    """Tokens per step as acceptance times draft length: no stop at the first rejection, no bonus token."""
    return acceptance * draft_length


@formula("a*", "1", _SIMPLE + "; a k / (k c + 1) = x solved for a")
def break_even_acceptance_simple(speedup: Number, step_cost: Number, draft_length: Number) -> Number:
    """Acceptance that gives a wanted speedup in the simplified convention."""
    return speedup * step_cost / draft_length


@formula("ops", "1", _LEVIATHAN + ", theorem 3.11")
def speculative_operations(tokens: Number, draft_length: Number, draft_flops_ratio: Number) -> Number:
    """Arithmetic per generated token over plain decoding: drafts, and g + 1 target positions, per token kept."""
    return (draft_length * draft_flops_ratio + draft_length + 1) / tokens


@formula("c", "1", "decode streams each model's active weights once; memory-bound, KV cache left out")
def draft_cost_of_sizes(draft_params: Number, target_params: Number) -> Number:
    """Time of a draft step over a target step from the two models' active parameters."""
    return draft_params / target_params


@formula("t_itl", "s", _LEVIATHAN + ", theorem 3.8, with the verifying pass at its own price")
def speculative_token_time(draft: Number, draft_length: Number, verify: Number, tokens: Number) -> Number:
    """(g t_draft + t_verify) / tau: seconds per token of a round of speculation."""
    return (draft_length * draft + verify) / tokens
