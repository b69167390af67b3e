"""What must hold in training: sequences, replicas, shards, the ranks of experts, interleaved stages and the schedule's own needs."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.engine.context import Scene
from rooflinecli.engine.rules import Rule, one
from rooflinecli.formulas import constraints, schedule
from rooflinecli.parallel import pipeline
from rooflinecli.specs.layout import Plan

CAPACITY = 1e-3  # least share of an even load: a factor of nothing drops every token


def training(scene: Scene, plan: Plan) -> Iterator[Rule]:
    if not one(plan.ep) or plan.expert_tp is not None:
        yield from _expert_ranks(plan)
    if plan.capacity_factor is not None or plan.shared_overlap:
        yield from _experts_there(scene, plan)
    if not one(plan.cp):
        yield Rule(
            "cp divides the sequence",
            ("cp",),
            constraints.divides(plan.cp, scene.seq),
            lambda: f"--cp {plan.cp:.0f} does not divide --seq {num.value(scene.seq):g}; use a divisor",
        )
    yield Rule(
        "every replica has a microbatch",
        ("dp", "micro_batch"),
        constraints.within(plan.dp * plan.micro_batch, scene.train_batch),
        lambda: (
            f"{plan.dp:.0f} replicas of --micro-batch {plan.micro_batch:.0f} need more than the {num.value(scene.train_batch):g} sequences "
            "of the batch: every replica needs a sequence of the batch; raise --batch, lower --micro-batch, --dp or -n"
        ),
    )
    if plan.shard is not None:
        yield Rule(
            "shard divides dp",
            ("dp",),
            constraints.divides(plan.shard, plan.dp),
            lambda: f"--shard {num.value(plan.shard):.0f} does not divide --dp {plan.dp:.0f}; use a divisor",
            "shard",
        )
        if not one(plan.ep):
            yield Rule(
                "a shard group holds every expert",
                ("dp", "ep"),
                constraints.divides(plan.ep, plan.partition * plan.apart),
                lambda: (
                    f"--ep {plan.ep:.0f} does not divide the {num.value(plan.partition * plan.apart):.0f} ranks of a shard group; "
                    "use a divisor, or a larger --shard"
                ),
                "shard",
            )
    if not one(plan.virtual_stages):
        yield from _interleaving(scene, plan)
    count = schedule.microbatch_count(scene.train_batch, plan.dp, plan.micro_batch)
    for need in pipeline.needs(plan, count):
        yield Rule(need.name, ("pp", "virtual_stages", "dp", "micro_batch"), need.holds, need.say)


def _experts_there(scene: Scene, plan: Plan) -> Iterator[Rule]:
    """A capacity needs routed experts with room for some token, and an overlap of shared experts needs such experts."""
    blocks, name = [layer.feedforward for layer in scene.spec.layers], scene.spec.name
    if plan.capacity_factor is not None:
        yield Rule(
            "a capacity factor needs experts",
            (),
            any(block.kind == "moe" for block in blocks),
            lambda: f"--capacity-factor: {name} has no experts; leave it out",
            "capacity-factor",
        )
        yield Rule(
            "experts take some tokens",
            (),
            constraints.within(CAPACITY, plan.capacity_factor),
            lambda: (
                f"--capacity-factor {num.value(plan.capacity_factor):g}: an expert takes no tokens; give more than 0, such as 1.25"
            ),
            "capacity-factor",
        )
    if plan.shared_overlap:
        yield Rule(
            "an overlap of shared experts needs them",
            (),
            any(block.kind == "moe" and bool(block.n_shared or block.shared_d_ff) for block in blocks),
            lambda: f"--shared-expert-overlap: {name} has no shared experts; leave it out",
            "shared-expert-overlap",
        )


def _expert_ranks(plan: Plan) -> Iterator[Rule]:
    """Experts are spread over the replicas, and where they are whole on every tensor rank over those too, as Megatron-LM lays them."""
    ranks = plan.replicas * plan.apart
    if plan.expert_tp is not None:
        yield Rule(
            "expert tensor parallelism divides tp",
            ("tp",),
            constraints.divides(plan.expert_tp, plan.tp),
            lambda: f"--expert-tp {num.value(plan.expert_tp):.0f} does not divide --tp {plan.tp:.0f}; use a divisor",
            "expert-tp",
        )
    yield Rule(
        "ep divides dp x cp, or tp x dp x cp",
        ("tp", "dp", "ep"),
        constraints.divides(plan.ep, ranks),
        lambda: (
            f"--ep {plan.ep:.0f} does not divide the {num.value(ranks):.0f} ranks that share a layer's experts; "
            "use a divisor, or other --tp, --dp or --cp"
        ),
        "ep",
    )


def _interleaving(scene: Scene, plan: Plan) -> Iterator[Rule]:
    """Every chunk of a stage holds a layer or an end; frameworks cut unevenly too (Megatron-LM's pipeline layouts)."""
    layers, name = float(scene.book.n_layers), scene.spec.name
    pieces, interleaved = plan.pp * plan.virtual_stages, plan.virtual_stages > 1
    yield Rule(
        "virtual stages need at least two stages",
        ("pp", "virtual_stages"),
        constraints.within(num.where(interleaved, 2.0, 1.0), plan.pp),
        lambda: (
            f"--virtual-stages {plan.virtual_stages:.0f} interleaves pipeline stages; give --pp at least 2, or leave it out"
        ),
    )
    yield Rule(
        f"pp times virtual stages is at most the {layers:.0f} layers and both ends",
        ("pp", "virtual_stages"),
        constraints.within(num.where(interleaved, pieces, 1.0), layers + 2),
        lambda: (
            f"--pp {plan.pp:.0f} x --virtual-stages {plan.virtual_stages:.0f} exceeds the {layers:.0f} layers of {name} with embedding and loss; use fewer"
        ),
    )
