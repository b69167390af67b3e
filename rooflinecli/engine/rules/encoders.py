"""What stacks that read for a decoder ask of a layout: a vision tower's heads, an encoder's positions."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.engine.context import Scene
from rooflinecli.engine.rules import Rule
from rooflinecli.formulas import constraints
from rooflinecli.specs.layout import Plan


def heads(scene: Scene, plan: Plan) -> Iterator[Rule]:
    """A tower's heads are padded where tp does not divide them, as engines do; more devices than heads hold nothing."""
    for tower in scene.book.towers:
        for count in tower.book.heads:
            yield Rule(
                f"tp is at most the {count} heads of {tower.book.spec.name}",
                ("tp",),
                constraints.within(plan.tp, float(count)),
                lambda h=count, name=tower.book.spec.name: (  # type: ignore[misc]
                    f"--tp {plan.tp:.0f} exceeds the {h} attention heads of {name}; use fewer"
                ),
            )


def sources(scene: Scene) -> Iterator[Rule]:
    """An encoder that reads the prompt for a decoder ends where its learned positions end."""
    for tower in scene.book.towers:
        spec, limit = tower.book.spec, tower.book.spec.max_context
        if spec.reads == "source" and limit and spec.positions.kind == "learned" and scene.request.prompt is not None:
            yield Rule(
                f"{limit} learned positions of the encoder",
                (),
                constraints.within(tower.length, float(limit)),
                lambda t=tower, most=limit: (  # type: ignore[misc]
                    f"--prompt {num.value(t.length):g} exceeds the {most} learned positions of the encoder of {scene.spec.name}; shorten it"
                ),
                "prompt",
            )
