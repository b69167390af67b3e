"""What must hold in serving: experts over whole replicas, and no sequence split."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.rules import LegalityRule, one
from rooflinecli.formulas import constraints
from rooflinecli.specs.layout import Layout


def serving(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    if not one(layout.ep):
        whole = constraints.divides(layout.ep, layout.tp * layout.dp) & constraints.divides(
            layout.tp * layout.dp, layout.ep
        )
        yield LegalityRule(
            "ep divides dp, or is tp x dp",
            ("tp", "dp", "ep"),
            constraints.divides(layout.ep, layout.dp) | whole,
            lambda: (
                f"--ep {layout.ep:.0f} neither divides --dp {layout.dp:.0f} nor is {layout.tp * layout.dp:.0f}, the ranks of --tp and --dp; "
                "change one"
            ),
            "ep",
        )
    if not one(layout.cp):
        yield LegalityRule(
            "context parallelism is for training",
            ("cp",),
            constraints.within(layout.cp, 1.0),
            lambda: (
                f"--cp {layout.cp:.0f} splits the sequences of training and does nothing for serving; leave it out, or add --phase train"
            ),
        )
