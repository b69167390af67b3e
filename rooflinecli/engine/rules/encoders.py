"""What stacks that read for a decoder ask of a layout: a vision tower's heads, an encoder's positions."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.rules import LegalityRule
from rooflinecli.formulas import constraints
from rooflinecli.specs.layout import Layout


def heads(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    """A tower's heads are padded where tp does not divide them, as engines do; more devices than heads hold nothing."""
    for tower in ctx.ledger.towers:
        for count in tower.ledger.heads:
            yield LegalityRule(
                f"tp is at most the {count} heads of {tower.ledger.spec.name}",
                ("tp",),
                constraints.within(layout.tp, float(count)),
                lambda h=count, name=tower.ledger.spec.name: (  # type: ignore[misc]
                    f"--tp {layout.tp:.0f} exceeds the {h} attention heads of {name}; use fewer"
                ),
            )


def sources(ctx: EstimateContext) -> Iterator[LegalityRule]:
    """An encoder that reads the prompt for a decoder ends where its learned positions end."""
    for tower in ctx.ledger.towers:
        spec, limit = tower.ledger.spec, tower.ledger.spec.max_context
        if spec.reads == "source" and limit and spec.positions.kind == "learned" and ctx.request.prompt is not None:
            yield LegalityRule(
                f"{limit} learned positions of the encoder",
                (),
                constraints.within(tower.length, float(limit)),
                lambda t=tower, most=limit: (  # type: ignore[misc]
                    f"--prompt {num.value(t.length):g} exceeds the {most} learned positions of the encoder of {ctx.spec.name}; shorten it"
                ),
                "prompt",
            )
