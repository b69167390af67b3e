"""No feed-forward at all (attention-only toy models)."""

from __future__ import annotations

from rooflinecli.ledger.ledger import Block
from rooflinecli.specs.model import FeedForwardSpec, ModelSpec


def block(spec: FeedForwardSpec, model: ModelSpec) -> Block:
    return Block((), {})
