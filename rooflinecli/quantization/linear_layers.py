"""The linear layers of a model by the names that a checkpoint on the Hugging Face Hub gives them, one by one where they are split.

Names: model.layers.N.self_attn.q_proj, .mlp.gate_proj, .mlp.experts.0.up_proj, .mlp.shared_experts.down_proj, .mlp.gate (the
router). Source: transformers 5.23 modeling files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rooflinecli.core.expressions import Scope
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.model import AttentionSpec, FeedForwardSpec
from rooflinecli.specs.snapshots import packaged

# kinds of mixers whose projections checkpoints keep one by one
NAMED_KINDS = "gqa mha mqa mla shared-kv sparse-gqa sparse-mla gated-delta mamba2 short-conv".split()


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
    """The projections of a mixer whose matrices are known by name."""
    kind = a.kind if a.kind in packaged(__file__) else "gqa"
    yield from _expanded(packaged(__file__)[kind], Scope({"d": d}, packaged(__file__)["let"], a), layer)


def _expanded(rows: list[Any], scope: Scope, layer: str) -> Iterator[Linear]:
    for row in rows:
        if isinstance(row, str):
            yield from _expanded(packaged(__file__)[row], scope, layer)
            continue
        name, inputs, outputs, *conditions = row
        if all(map(scope.value, conditions)):
            yield Linear(f"{layer}.{name}", scope.value(inputs), scope.value(outputs))


def feedforward(d: int, f: FeedForwardSpec, layer: str, shared_is_mlp: bool = False) -> Iterator[Linear]:
    """The matrices of a feed-forward block: dense, or experts with the shared one and the router; `shared_is_mlp`: the shared
    expert is called mlp (Gemma 4)."""
    block, ff = f"{layer}.mlp", f.d_ff or 0
    if shared_is_mlp and f.kind == "moe":
        yield from _mlp(f"{layer}.experts.0", d, ff, f.gated, "experts", f.n_experts or 0)
        yield from _mlp(block, d, f.shared_d_ff or f.n_shared * ff, f.gated, "layers", 1)
        yield Linear(f"{layer}.router.proj", d, f.n_experts or 0, "router")
        return
    if f.kind == "moe":
        inner = f.latent_dim or d
        if f.latent_dim:
            yield Linear(f"{block}.fc1_latent_proj", d, inner)
            yield Linear(f"{block}.fc2_latent_proj", inner, d)
        yield from _mlp(f"{block}.experts.0", inner, ff, f.gated, "experts", f.n_experts or 0)
        shared = f.shared_d_ff or f.n_shared * ff
        if shared:
            yield from _mlp(f"{block}.shared_experts", d, shared, f.gated, "layers", 1)
        yield Linear(f"{block}.gate", d, f.n_experts or 0, "router")
    elif f.kind in ("gated", "dense"):
        yield from _mlp(block, d, ff, f.kind == "gated", "layers", 1)


def _mlp(block: str, d: int, ff: int, gated: bool, part: str, copies: int) -> Iterator[Linear]:
    for name in ("gate_proj", "up_proj") if gated else ("up_proj",):
        yield Linear(f"{block}.{name}", d, ff, part, copies)
    yield Linear(f"{block}.down_proj", ff, d, part, copies)


_NUMBERED = re.compile(r"^(?!re:|.*(?:mtp|vis|audio)).*?\b(?=layers\.\d)")


@lru_cache(maxsize=65536)
def _normalized(pattern: str) -> str:
    """Normalize a pattern to the names used here; the prefix of `layers.3` becomes model (language_model.model, backbone)."""
    for usual, spelling in packaged(__file__)["spelled"].items():
        pattern = re.sub(spelling, usual, pattern)
    return _NUMBERED.sub("model.", pattern)


def matches(pattern: str, name: str) -> bool:
    """Whether a module named `name` is meant: by an expression after re:, by its whole name, or by parts of it between dots.

    Raises re.error for an expression that is none.
    """
    pattern = _normalized(pattern)
    if pattern.startswith("re:"):
        return re.match(pattern[3:], name) is not None
    bare = pattern.removesuffix(".*").removeprefix("*").removesuffix("*").strip(".")
    for shared, own in packaged(__file__)["alike"].items():
        name = re.sub(own, shared, name) if shared in bare else name
    return bool(bare) and f".{bare}." in f".{name}."
