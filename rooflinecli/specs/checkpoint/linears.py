"""The linear layers of a model by the names that a checkpoint on the Hugging Face Hub gives them, one by one where they are split.

Names: model.layers.N.self_attn.q_proj, .mlp.gate_proj, .mlp.experts.0.up_proj, .mlp.shared_experts.down_proj, .mlp.gate (the
router). Source: transformers 5.23 modeling files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rooflinecli.dataclass import dataclass
from rooflinecli.specs.blocks import AttentionSpec, FeedForwardSpec

SOFTMAX = ("gqa", "mha", "mqa", "mla", "reused")
# Other names of the same modules, as families write them
_SPELLED = (
    (re.compile(r"block_sparse_moe|feed_forward"), "mlp"),
    (re.compile(r"\bw1\b"), "gate_proj"),
    (re.compile(r"\bw3\b"), "up_proj"),
    (re.compile(r"\bw2\b"), "down_proj"),
    (re.compile(r"shared_expert(?=\.|$|\\)"), "shared_experts"),
)


@dataclass(frozen=True)
class Linear:
    """A linear layer: its name, how many there are of it (experts), inputs and outputs, and the part of the model it is in."""

    name: str
    inputs: int
    outputs: int
    part: str = "layers"
    copies: int = 1

    @property
    def elements(self) -> int:
        return self.copies * self.inputs * self.outputs


def attention(d: int, a: AttentionSpec, layer: str) -> Iterator[Linear]:
    """The projections of softmax attention, latent or not."""
    at, h = f"{layer}.self_attn", a.head_dim or 0
    if a.kind == "mla":
        yield from _latent(d, a, at)
        return
    if a.kind == "reused":
        yield Linear(f"{at}.q_proj", d, a.n_heads * h)
        yield Linear(f"{at}.o_proj", a.n_heads * h, d)
        return
    kv = a.n_kv_heads or a.n_heads
    yield Linear(f"{at}.q_proj", d, a.n_heads * h * (2 if a.out_gate else 1))
    yield Linear(f"{at}.k_proj", d, kv * h)
    if not a.same_values:
        yield Linear(f"{at}.v_proj", d, kv * h)
    yield Linear(f"{at}.o_proj", a.n_heads * h, d)


def _latent(d: int, a: AttentionSpec, at: str) -> Iterator[Linear]:
    nope, rope, v, rank = (x or 0 for x in (a.qk_nope_head_dim, a.qk_rope_head_dim, a.v_head_dim, a.kv_lora_rank))
    if a.q_lora_rank:
        yield Linear(f"{at}.q_a_proj", d, a.q_lora_rank)
        yield Linear(f"{at}.q_b_proj", a.q_lora_rank, a.n_heads * (nope + rope))
    else:
        yield Linear(f"{at}.q_proj", d, a.n_heads * (nope + rope))
    yield Linear(f"{at}.kv_a_proj_with_mqa", d, rank + rope)
    yield Linear(f"{at}.kv_b_proj", rank, a.n_heads * (nope + v))
    yield Linear(f"{at}.o_proj", a.n_heads * v, d)


def feedforward(d: int, f: FeedForwardSpec, layer: str) -> Iterator[Linear]:
    """The matrices of a feed-forward block: dense, or experts with the shared one and the router."""
    at, ff = f"{layer}.mlp", f.d_ff or 0
    if f.kind == "moe":
        inner = f.latent_dim or d
        if f.latent_dim:
            yield Linear(f"{at}.fc1_latent_proj", d, inner)
            yield Linear(f"{at}.fc2_latent_proj", inner, d)
        yield from _three(f"{at}.experts.0", inner, ff, f.gated, "experts", f.n_experts or 0)
        shared = f.shared_d_ff or f.n_shared * ff
        if shared:
            yield from _three(f"{at}.shared_experts", d, shared, f.gated, "layers", 1)
        yield Linear(f"{at}.gate", d, f.n_experts or 0, "router")
    elif f.kind in ("gated", "dense"):
        yield from _three(at, d, ff, f.kind == "gated", "layers", 1)


def _three(at: str, d: int, ff: int, gated: bool, part: str, copies: int) -> Iterator[Linear]:
    for name in ("gate_proj", "up_proj") if gated else ("up_proj",):
        yield Linear(f"{at}.{name}", d, ff, part, copies)
    yield Linear(f"{at}.down_proj", ff, d, part, copies)


def matches(pattern: str, name: str) -> bool:
    """Whether a module named `name` is meant: by an expression after re:, by its whole name, or by parts of it between dots.

    Raises re.error for an expression that is none.
    """
    for spelling, usual in _SPELLED:
        pattern = spelling.sub(usual, pattern)
    if pattern.startswith("re:"):
        return re.match(pattern[3:], name) is not None
    bare = pattern.removesuffix(".*").removeprefix("*").removesuffix("*").strip(".")
    return bool(bare) and f".{bare}." in f".{name}."
