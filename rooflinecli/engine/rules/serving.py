"""What must hold in serving: experts over whole replicas, and no sequence split."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.engine.context import Scene
from rooflinecli.engine.rules import Rule, one
from rooflinecli.formulas import constraints
from rooflinecli.specs.layout import Plan


def serving(scene: Scene, plan: Plan) -> Iterator[Rule]:
    if not one(plan.ep):
        whole = constraints.divides(plan.ep, plan.tp * plan.dp) & constraints.divides(plan.tp * plan.dp, plan.ep)
        yield Rule(
            "ep divides dp, or is tp x dp",
            ("tp", "dp", "ep"),
            constraints.divides(plan.ep, plan.dp) | whole,
            lambda: (
                f"--ep {plan.ep:.0f} neither divides --dp {plan.dp:.0f} nor is {plan.tp * plan.dp:.0f}, the ranks of --tp and --dp; "
                "change one"
            ),
            "ep",
        )
    if not one(plan.cp):
        yield Rule(
            "context parallelism is for training",
            ("cp",),
            constraints.within(plan.cp, 1.0),
            lambda: (
                f"--cp {plan.cp:.0f} splits the sequences of training and does nothing for serving; leave it out, or add --phase train"
            ),
        )
