"""Rules of a legal layout: one list for estimate, the choice of a layout, sweep, search and check.

A rule has a name (what must hold, for a sweep's table and a search's counts), the sizes it concerns, a truth value (a mask where
sizes are arrays), and a sentence with the remedy for whoever gave the sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, one
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.explicit_layout import attention_dp_sizes, layout_fields
from rooflinecli.formulas import schedule
from rooflinecli.formulas.constraints import divides, within
from rooflinecli.parallel import pipeline
from rooflinecli.specs.layout import AXES, SIZES, Layout

MIN_CAPACITY = 1e-3  # of an even load: a capacity factor of zero drops every token


@dataclass(slots=True, eq=False, repr=False)
class LegalityRule:
    """`holds` where the layout follows it; `sizes` are the layout fields that decide; `say` is called for a scalar only.

    `option` is the one to change, where it is not the first of `sizes`.
    """

    name: str
    sizes: tuple[str, ...]
    holds: Number
    say: Callable[[], str]
    option: str = ""

    @property
    def refusal(self) -> UsageError:
        """The error for a layout that was asked for, with the option to change."""
        return UsageError(self.say(), self.option or next(iter(self.sizes), "").replace("_", "-"))


def rules(ctx: EstimateContext, layout: Layout, phase: str) -> Iterator[LegalityRule]:
    """Every rule for a layout of `phase` but memory; sizes are scalars or arrays."""
    if not one(layout.tp):
        yield from _tensor(ctx, layout, ctx.pads_heads(layout, phase))
    if not one(layout.pp):
        layers = float(ctx.ledger.n_layers)
        yield LegalityRule(
            f"pp is at most the {layers:.0f} layers",
            ("pp",),
            within(layout.pp, layers),
            lambda: f"--pp {layout.pp:.0f} exceeds the {layers:.0f} layers of {ctx.spec.name}; use fewer stages",
        )
    if not one(layout.ep):
        yield from _experts(ctx, layout)
    if not one(layout.dp):
        yield LegalityRule(
            "the axes multiply to the devices",
            ("dp",),
            divides(1.0, layout.dp) & within(1.0, layout.dp),
            lambda: f"{layout.dp:g} replicas: the axes do not multiply to the devices; change one of them",
        )
    yield from _network(ctx, layout, phase)
    yield from (_training if phase == "train" else _serving)(ctx, layout)
    yield from _encoder_positions(ctx)
    yield from _positions(ctx, phase)


def first_violation(ctx: EstimateContext, layout: Layout, phase: str) -> LegalityRule | None:
    """The first rule that a layout breaks, None where it is legal."""
    return next((rule for rule in rules(ctx, layout, phase) if not num.value(rule.holds)), None)


def all_hold(rules: list[LegalityRule]) -> Number:
    """Where every rule holds."""
    ok: Number = True
    for rule in rules:
        ok = rule.holds & ok
    return num.value(ok)


def most_violated_rule(broken: list[LegalityRule]) -> LegalityRule:
    """Of the rules that candidates broke, the one that most of them did; the first of equals."""
    counts = Counter(rule.name for rule in broken)
    return max(broken, key=lambda rule: counts[rule.name])


def check(ctx: EstimateContext) -> None:
    """Check the sizes that were given, whatever the open ones become. Raises UsageError with the flag and the remedy."""
    r = ctx.request
    given = {name: float(value) for name in SIZES if (value := getattr(r, name)) is not None}
    if r.attention_dp and r.phases != ("train",):
        given |= zip(("tp", "dp", "ep"), attention_dp_sizes(r, r.tp or 1, r.dp or 1, r.ep), strict=True)
        given = {name: float(size) for name, size in given.items() if name != "ep" or r.ep is not None}
    for phase in r.phases if "decode" not in r.phases else (p for p in r.phases if p != "prefill"):
        layout = Layout(**{**given, **layout_fields(r, phase)})
        for rule in rules(ctx, layout, phase):
            if set(rule.sizes) <= set(given) and not num.value(rule.holds):
                raise rule.refusal


# --- any phase: heads, layers and experts divide, the network joins all groups, learned positions suffice --------------------


def _tensor(ctx: EstimateContext, layout: Layout, pads: bool) -> Iterator[LegalityRule]:
    """tp divides the heads, or is at most their number where they are padded, as engines do with those of vision encoders."""
    for heads in ctx.ledger.heads:
        if pads:
            yield _at_most_heads(layout, heads, "", ctx.spec.name)
            continue
        yield LegalityRule(
            f"tp divides the {heads} heads",
            ("tp",),
            divides(layout.tp, float(heads)),
            lambda h=heads: (  # type: ignore[misc]
                f"--tp {layout.tp:.0f} does not divide the {h} attention heads of {ctx.spec.name}; use a divisor of {h}"
            ),
        )
    for tower in ctx.ledger.towers:
        for heads in tower.ledger.heads:
            yield _at_most_heads(layout, heads, f" of {tower.ledger.spec.name}", tower.ledger.spec.name)


def _at_most_heads(layout: Layout, heads: float, of: str, name: str) -> LegalityRule:
    return LegalityRule(
        f"tp is at most the {heads} heads{of}",
        ("tp",),
        within(layout.tp, float(heads)),
        lambda: f"--tp {layout.tp:.0f} exceeds the {heads} attention heads of {name}; use fewer",
    )


def _experts(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    counts, name, copies = ctx.ledger.experts, ctx.spec.name, layout.redundant_experts
    redundant = f" and {num.value(copies):.0f} redundant ones" if num.plain(copies) and num.value(copies) else ""
    for experts in counts:
        yield LegalityRule(
            f"ep divides the {experts} experts{redundant}",
            ("ep",),
            divides(layout.ep, float(experts) + copies),
            lambda e=experts: (
                f"--ep {layout.ep:.0f} does not divide the {e} experts{redundant} of {name}; use a divisor"
            ),  # type: ignore[misc]
        )
    if not counts:
        yield LegalityRule(
            "a dense model has no experts to split",
            ("ep",),
            within(layout.ep, 1.0),
            lambda: f"--ep {layout.ep:.0f}: {name} has no experts; leave --ep out",
        )


def _network(ctx: EstimateContext, layout: Layout, phase: str) -> Iterator[LegalityRule]:
    """The chip's network joins the widest group with anything to communicate; serving replicas communicate nothing.

    No group is wider than all devices, so the rule holds where the network joins those.
    """
    levels, devices = ctx.chip.levels, layout.devices
    reach = levels[-1].size if levels else 1.0
    if devices.__class__ is float and devices <= reach:
        return
    widest: Number = 1.0
    stride = layout.stride
    for axis in AXES if phase == "train" else ("tp", "pp", "ep"):
        n = getattr(layout, axis)
        if axis == "ep" and phase != "train":
            n, stride["ep"] = layout.expert_replicas, layout.tp * layout.cp
        widest = num.maximum(widest, num.where(n > 1, n * stride[axis], 1.0))
    chip = ctx.chip.spec.name
    yield LegalityRule(
        f"the network joins {reach:.0f} device{'s' * (reach != 1)}",
        AXES,
        within(widest, reach),
        lambda: (
            f"{num.value(widest):.0f} devices: {chip} describes a network of {reach:.0f}; use fewer, or add an outer level to its file"
            if levels
            else f"{chip}: its file describes no network, so a plan has one device; add `network:` to it"
        ),
    )


def _positions(ctx: EstimateContext, phase: str) -> Iterator[LegalityRule]:
    """Explicit lengths stay within the learned positions."""
    r, limit = ctx.request, ctx.spec.max_context
    if ctx.spec.positions.kind != "learned" or not limit:
        return
    flag, length = ("--seq", ctx.seq) if phase == "train" else ("--prompt plus --output", ctx.prompt + ctx.output)
    if (r.seq if phase == "train" else r.prompt if r.prompt is not None else r.output) is None:
        return
    yield LegalityRule(
        f"{limit} learned positions",
        (),
        within(length, float(limit)),
        lambda: f"{flag} {num.value(length):g} exceeds the {limit} learned positions of {ctx.spec.name}; shorten it",
        "seq" if phase == "train" else "prompt",
    )


def _encoder_positions(ctx: EstimateContext) -> Iterator[LegalityRule]:
    """An explicit prompt stays within the learned positions of the encoder that reads it."""
    for tower in ctx.ledger.towers:
        spec, limit = tower.ledger.spec, tower.ledger.spec.max_context
        if spec.reads == "source" and limit and spec.positions.kind == "learned" and ctx.request.prompt is not None:
            yield LegalityRule(
                f"{limit} learned positions of the encoder",
                (),
                within(tower.length, float(limit)),
                lambda t=tower, most=limit: (  # type: ignore[misc]
                    f"--prompt {num.value(t.length):g} exceeds the {most} learned positions of the encoder of {ctx.spec.name}; shorten it"
                ),
                "prompt",
            )


# --- serving -----------------------------------------------------------------------------------------------------------------


def _serving(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    """Experts over whole replicas or over tensor ranks too, and no context parallelism."""
    if layout.expert_tp is not None:
        yield from _expert_ranks(layout)
    elif not one(layout.ep):
        ranks = layout.tp * layout.dp
        yield LegalityRule(
            "ep divides dp, or is tp x dp",
            ("tp", "dp", "ep"),
            divides(layout.ep, layout.dp) | (divides(layout.ep, ranks) & divides(ranks, layout.ep)),
            lambda: (
                f"--ep {layout.ep:.0f} neither divides --dp {layout.dp:.0f} nor is {ranks:.0f}, the ranks of --tp and --dp; "
                "change one"
            ),
            "ep",
        )
    if not one(layout.cp) and ctx.spec.denoising is None:
        yield LegalityRule(
            "context parallelism is for training and for models that make images",
            ("cp",),
            within(layout.cp, 1.0),
            lambda: (
                f"--cp {layout.cp:.0f} splits the sequences of training and of models that make images, and does nothing for serving; leave it out, or add --phase train"
            ),
        )


# --- training: sequences, replicas, shard groups, expert ranks, interleaved stages, and the schedule's own needs --------------


def _training(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    if not one(layout.ep) or layout.expert_tp is not None:
        yield from _expert_ranks(layout)
    yield from _expert_options(ctx, layout)
    if not one(layout.cp):
        yield LegalityRule(
            "cp divides the sequence",
            ("cp",),
            divides(layout.cp, ctx.seq),
            lambda: f"--cp {layout.cp:.0f} does not divide --seq {num.value(ctx.seq):g}; use a divisor",
        )
    yield LegalityRule(
        "every replica has a microbatch",
        ("dp", "micro_batch"),
        within(layout.dp * layout.micro_batch, ctx.train_batch),
        lambda: (
            f"{layout.dp:.0f} replicas of --micro-batch-size {layout.micro_batch:.0f} need more than the {num.value(ctx.train_batch):g} sequences "
            "of the batch: every replica needs a sequence of the batch; raise --batch, lower --micro-batch-size, --dp or -n"
        ),
    )
    if layout.zero > 1 and layout.zero > (most := most_zero(ctx, layout)):
        yield LegalityRule(
            f"the framework has ZeRO stages up to {most}",
            ("zero",),
            False,
            lambda: (
                f"--zero {layout.zero}: {layout.software} has ZeRO stages up to {most}; use {most}, or another --framework"
            ),
        )
    if layout.shard is not None:
        yield LegalityRule(
            "shard divides dp",
            ("dp",),
            divides(layout.shard, layout.dp),
            lambda: f"--shard {num.value(layout.shard):.0f} does not divide --dp {layout.dp:.0f}; use a divisor",
            "shard",
        )
        if not one(layout.ep):
            yield LegalityRule(
                "a shard group holds every expert",
                ("dp", "ep"),
                divides(layout.ep, layout.partition * layout.apart),
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


def most_zero(ctx: EstimateContext, layout: Layout) -> int:
    """The highest ZeRO stage of the layout's framework."""
    return int(num.value(ctx.training_constants("framework", layout).sharding))


def _expert_options(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    """A capacity factor needs routed experts with room for some token, and overlap of shared experts needs such experts."""
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
            within(MIN_CAPACITY, layout.capacity_factor),
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
    if layout.ep_overlap:
        yield LegalityRule(
            "an overlap of the expert all-to-all needs experts",
            (),
            any(block.kind == "moe" for block in blocks),
            lambda: f"--ep-overlap: {name} has no experts; leave it out",
            "ep-overlap",
        )


def _expert_ranks(layout: Layout) -> Iterator[LegalityRule]:
    """Experts are spread over the replicas, and where tp does not split them over its ranks too, as in Megatron-LM."""
    ranks = layout.replicas * layout.apart
    if layout.expert_tp is not None:
        yield LegalityRule(
            "expert tensor parallelism divides tp",
            ("tp",),
            divides(layout.expert_tp, layout.tp),
            lambda: (
                f"--expert-tp {num.value(layout.expert_tp):.0f} does not divide --tp {layout.tp:.0f}; use a divisor"
            ),
            "expert-tp",
        )
    yield LegalityRule(
        "ep divides dp x cp, or tp x dp x cp",
        ("tp", "dp", "ep"),
        divides(layout.ep, ranks),
        lambda: (
            f"--ep {layout.ep:.0f} does not divide the {num.value(ranks):.0f} ranks that share a layer's experts; "
            "use a divisor, or other --tp, --dp or --cp"
        ),
        "ep",
    )


def _interleaving(ctx: EstimateContext, layout: Layout) -> Iterator[LegalityRule]:
    """Every chunk of a stage has a layer, the embedding or the loss; chunks may be uneven (Megatron-LM's pipeline layouts)."""
    layers, name = float(ctx.ledger.n_layers), ctx.spec.name
    chunks, interleaved = layout.pp * layout.virtual_stages, layout.virtual_stages > 1
    yield LegalityRule(
        "virtual stages need at least two stages",
        ("pp", "virtual_stages"),
        within(num.where(interleaved, 2.0, 1.0), layout.pp),
        lambda: (
            f"--virtual-stages {layout.virtual_stages:.0f} interleaves pipeline stages; give --pp at least 2, or leave it out"
        ),
    )
    yield LegalityRule(
        f"pp times virtual stages is at most the {layers:.0f} layers and both ends",
        ("pp", "virtual_stages"),
        within(num.where(interleaved, chunks, 1.0), layers + 2),
        lambda: (
            f"--pp {layout.pp:.0f} x --virtual-stages {layout.virtual_stages:.0f} exceeds the {layers:.0f} layers of {name} with embedding and loss; use fewer"
        ),
    )
