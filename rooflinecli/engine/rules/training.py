"""What must hold in training: sequences, replicas, shards, the ranks of experts, interleaved stages and the schedule's own needs."""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.rules import LegalityRule, one
from rooflinecli.formulas import constraints, schedule
from rooflinecli.parallel import pipeline
from rooflinecli.specs.layout import Layout

CAPACITY = 1e-3  # least share of an even load: a factor of nothing drops every token


def training(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    if not one(layout.ep) or layout.expert_tp is not None:
        yield from _expert_ranks(layout)
    if layout.capacity_factor is not None or layout.shared_overlap:
        yield from _experts_there(ctx, layout)
    if not one(layout.cp):
        yield LegalityRule(
            "cp divides the sequence",
            ("cp",),
            constraints.divides(layout.cp, ctx.seq),
            lambda: f"--cp {layout.cp:.0f} does not divide --seq {num.value(ctx.seq):g}; use a divisor",
        )
    yield LegalityRule(
        "every replica has a microbatch",
        ("dp", "micro_batch"),
        constraints.within(layout.dp * layout.micro_batch, ctx.train_batch),
        lambda: (
            f"{layout.dp:.0f} replicas of --micro-batch-size {layout.micro_batch:.0f} need more than the {num.value(ctx.train_batch):g} sequences "
            "of the batch: every replica needs a sequence of the batch; raise --batch, lower --micro-batch-size, --dp or -n"
        ),
    )
    if layout.shard is not None:
        yield LegalityRule(
            "shard divides dp",
            ("dp",),
            constraints.divides(layout.shard, layout.dp),
            lambda: f"--shard {num.value(layout.shard):.0f} does not divide --dp {layout.dp:.0f}; use a divisor",
            "shard",
        )
        if not one(layout.ep):
            yield LegalityRule(
                "a shard group holds every expert",
                ("dp", "ep"),
                constraints.divides(layout.ep, layout.partition * layout.apart),
                lambda: (
                    f"--ep {layout.ep:.0f} does not divide the {num.value(layout.partition * layout.apart):.0f} ranks of a shard group; "
                    "use a divisor, or a larger --shard"
                ),
                "shard",
            )
    if not one(layout.virtual_stages):
        yield from _interleaving(ctx, layout)
    count = schedule.microbatch_count(ctx.train_batch, layout.dp, layout.micro_batch)
    for need in pipeline.needs(layout, count):
        yield LegalityRule(need.name, ("pp", "virtual_stages", "dp", "micro_batch"), need.holds, need.say)


def _experts_there(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    """A capacity needs routed experts with room for some token, and an overlap of shared experts needs such experts."""
    blocks, name = [layer.feedforward for layer in ctx.spec.layers], ctx.spec.name
    if layout.capacity_factor is not None:
        yield LegalityRule(
            "a capacity factor needs experts",
            (),
            any(block.kind == "moe" for block in blocks),
            lambda: f"--capacity-factor: {name} has no experts; leave it out",
            "capacity-factor",
        )
        yield LegalityRule(
            "experts take some tokens",
            (),
            constraints.within(CAPACITY, layout.capacity_factor),
            lambda: (
                f"--capacity-factor {num.value(layout.capacity_factor):g}: an expert takes no tokens; give more than 0, such as 1.25"
            ),
            "capacity-factor",
        )
    if layout.shared_overlap:
        yield LegalityRule(
            "an overlap of shared experts needs them",
            (),
            any(block.kind == "moe" and bool(block.n_shared or block.shared_d_ff) for block in blocks),
            lambda: f"--shared-expert-overlap: {name} has no shared experts; leave it out",
            "shared-expert-overlap",
        )


def _expert_ranks(layout: Layout) -> Iterator[LegalityRule]:
    """Experts are spread over the replicas, and where they are whole on every tensor rank over those too, as Megatron-LM lays them."""
    ranks = layout.replicas * layout.apart
    if layout.expert_tp is not None:
        yield LegalityRule(
            "expert tensor parallelism divides tp",
            ("tp",),
            constraints.divides(layout.expert_tp, layout.tp),
            lambda: (
                f"--expert-tp {num.value(layout.expert_tp):.0f} does not divide --tp {layout.tp:.0f}; use a divisor"
            ),
            "expert-tp",
        )
    yield LegalityRule(
        "ep divides dp x cp, or tp x dp x cp",
        ("tp", "dp", "ep"),
        constraints.divides(layout.ep, ranks),
        lambda: (
            f"--ep {layout.ep:.0f} does not divide the {num.value(ranks):.0f} ranks that share a layer's experts; "
            "use a divisor, or other --tp, --dp or --cp"
        ),
        "ep",
    )


def _interleaving(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    """Every chunk of a stage holds a layer or an end; frameworks cut unevenly too (Megatron-LM's pipeline layouts)."""
    layers, name = float(ctx.ledger.n_layers), ctx.spec.name
    pieces, interleaved = layout.pp * layout.virtual_stages, layout.virtual_stages > 1
    yield LegalityRule(
        "virtual stages need at least two stages",
        ("pp", "virtual_stages"),
        constraints.within(num.where(interleaved, 2.0, 1.0), layout.pp),
        lambda: (
            f"--virtual-stages {layout.virtual_stages:.0f} interleaves pipeline stages; give --pp at least 2, or leave it out"
        ),
    )
    yield LegalityRule(
        f"pp times virtual stages is at most the {layers:.0f} layers and both ends",
        ("pp", "virtual_stages"),
        constraints.within(num.where(interleaved, pieces, 1.0), layers + 2),
        lambda: (
            f"--pp {layout.pp:.0f} x --virtual-stages {layout.virtual_stages:.0f} exceeds the {layers:.0f} layers of {name} with embedding and loss; use fewer"
        ),
    )
