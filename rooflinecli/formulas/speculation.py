"""Speculative decoding: a cheap draft proposes tokens, the target verifies them in one step."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_LEVIATHAN = "Leviathan et al. 2023, Fast Inference from Transformers via Speculative Decoding"


@formula("tau", "tokens", _LEVIATHAN + ", equation 1: one guaranteed token and a geometric run of accepted drafts")
def speculative_tokens(acceptance: Number, draft_length: Number) -> Number:
    """Expected tokens per target step, (1 - a^(g+1)) / (1 - a); g + 1 when every draft is accepted."""
    rejected = num.where(acceptance < 1, 1 - acceptance, 1)
    return num.where(acceptance < 1, (1 - acceptance ** (draft_length + 1)) / rejected, draft_length + 1)


@formula("t_itl", "s", _LEVIATHAN + ", theorem 3.8, with the verifying pass at its own price")
def speculative_token_time(draft: Number, draft_length: Number, verify: Number, tokens: Number) -> Number:
    """(g t_draft + t_verify) / tau: seconds per token of a round of speculation."""
    return (draft_length * draft + verify) / tokens
