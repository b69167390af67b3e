"""What a legal layout is: one list of rules, read by estimate, the chooser, sweep, search and check alike.

A rule has a name (what must hold, for a sweep's table and a search's count), the sizes it speaks of, a mask (a truth value,
or one per point of an array), and a sentence with the remedy for whoever gave the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rooflinecli import num
from rooflinecli.engine.scene import Scene
from rooflinecli.errors import UsageError
from rooflinecli.formulas import constraints, schedule
from rooflinecli.num import Number
from rooflinecli.parallel import pipeline
from rooflinecli.specs.plan import AXES, SIZES, Plan
from rooflinecli.specs.request import Request


@dataclass(slots=True, eq=False, repr=False)
class Rule:
    """`holds` where the layout keeps to it; `sizes` are the fields of the plan that decide; `say` is called for a scalar only.

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


def rules(scene: Scene, plan: Plan, phase: str) -> Iterator[Rule]:
    """Every rule for a layout of `phase` besides memory; sizes are scalars or arrays.

    Nothing is split by the scalar 1, so no rule of it can be broken.
    """
    if not _one(plan.tp):
        yield from _tensor(scene, plan, scene.engine.pads_heads and phase != "train")
        yield from _towers(scene, plan)
    if not _one(plan.pp):
        yield from _pipeline(scene, plan)
    if not _one(plan.ep):
        yield from _experts(scene, plan, phase)
    yield _whole(plan)
    yield _network(scene, plan, phase)
    yield from (_training if phase == "train" else _serving)(scene, plan)
    yield from _lengths(scene, phase)


def _one(size: Number) -> bool:
    return num.plain(size) and bool(num.value(size) == 1)


def broken(scene: Scene, plan: Plan, phase: str) -> Rule | None:
    """The first rule that a layout breaks, None where it is legal."""
    return next((rule for rule in rules(scene, plan, phase) if not num.value(rule.holds)), None)


def all_of(found: list[Rule]) -> Number:
    """Where every rule holds."""
    ok: Number = True
    for rule in found:
        ok = rule.holds & ok
    return num.value(ok)


def check(scene: Scene) -> None:
    """Refuse the sizes that were given, whatever the open ones become. Raises UsageError with the flag and the remedy."""
    r = scene.request
    given = {name: float(value) for name in SIZES if (value := getattr(r, name)) is not None}
    if r.attention_dp and r.phases != ("train",):
        given = {
            **given,
            **dict(zip(("tp", "dp", "ep"), attention_parallel(r, r.tp or 1, r.dp or 1, r.ep), strict=True)),
        }
        given = {name: float(size) for name, size in given.items() if name != "ep" or r.ep is not None}
    for phase in r.phases if "decode" not in r.phases else (p for p in r.phases if p != "prefill"):
        plan = Plan(**{**given, **layout(r, phase)})
        for rule in rules(scene, plan, phase):
            if set(rule.sizes) <= set(given) and not num.value(rule.holds):
                raise rule.refusal


def attention_parallel(request: Request, tp: Number, dp: Number, ep: Number | None) -> tuple[Number, Number, Number]:
    """tp, dp and ep of a serving plan: with --attention-dp all ranks attend to tokens of their own and share the experts."""
    if not request.attention_dp:
        return tp, dp, 1.0 if ep is None else ep
    return 1.0 + 0.0 * tp, tp * dp, tp * dp if ep is None else ep


def layout(request: Request, phase: str) -> dict[str, Any]:
    """What a plan takes from a request as it is: schedule, ring, shard group, framework, recipe; how experts are served."""
    names = _AS_GIVEN if phase == "train" else (*_AS_GIVEN, *_SERVED)
    given = {name: value for name in names if (value := getattr(request, name)) is not None}
    if request.recompute_modules is not None:
        given["recompute_modules"] = tuple(request.recompute_modules.split(","))
    if request.stages is not None:
        given["stages"] = _stages(request)
    if request.offload is not None:
        given["offload"], _, layers = str(request.offload).partition(":")
        given |= {"offload_layers": float(layers)} if layers else {}
    return given


_AS_GIVEN = (
    "schedule",
    "ring",
    "shard",
    "imbalance",
    "dropout",
    "loss_chunks",
    "expert_tp",
    "software",
    "recipe",
    "lora_rank",
    "lora_targets",
    "recompute_layers",
)


_SERVED = ("redundant_experts", "exchange", "overlap")


def _stages(request: Request) -> tuple[float, ...]:
    """Layers per stage, in numbers or by a framework's rule. Raises UsageError unless they are whole and add up to the model."""
    if request.stages in ENDS:
        return _counting_ends(request, *ENDS[str(request.stages)])
    try:
        counts = tuple(float(int(part)) for part in str(request.stages).split(","))
    except ValueError:
        raise UsageError(
            f"--stages {request.stages}: expected whole numbers such as 11,12,12,11, or {', '.join(ENDS)}", "stages"
        ) from None
    layers = request.model.n_layers
    if sum(counts) != layers or min(counts) < 0:
        raise UsageError(
            f"--stages {request.stages} adds up to {sum(counts):g}, but {request.model.name} has {layers} layers",
            "stages",
        )
    if request.pp is not None and len(counts) != int(request.pp):
        raise UsageError(f"--stages names {len(counts)} stages and --pp {int(request.pp)}; make them agree", "stages")
    return counts


# Megatron-LM's --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split: an end counts as a layer.
ENDS = {"embedding": (1, 0), "loss": (0, 1), "embedding+loss": (1, 1)}


def _counting_ends(request: Request, first: int, last: int) -> tuple[float, ...]:
    """Equal stages of layers and the ends that count as one. Raises UsageError where pp is not given or does not divide them."""
    layers, pp = request.model.n_layers + first + last, int(request.pp or 0)
    if pp < 2 or layers % pp:
        raise UsageError(
            f"--stages {request.stages} counts {layers} layers and ends; give a --pp of at least 2 that divides them",
            "stages",
        )
    counts = [layers // pp] * pp
    counts[0], counts[-1] = counts[0] - first, counts[-1] - last
    return tuple(float(count) for count in counts)


def _tensor(scene: Scene, plan: Plan, pads: bool) -> Iterator[Rule]:
    for heads in scene.book.heads:
        if pads:
            yield Rule(
                f"tp is at most the {heads} heads",
                ("tp",),
                constraints.within(plan.tp, float(heads)),
                lambda h=heads: f"--tp {plan.tp:.0f} exceeds the {h} attention heads of {scene.spec.name}; use fewer",  # type: ignore[misc]
            )
            continue
        yield Rule(
            f"tp divides the {heads} heads",
            ("tp",),
            constraints.divides(plan.tp, float(heads)),
            lambda h=heads: (  # type: ignore[misc]
                f"--tp {plan.tp:.0f} does not divide the {h} attention heads of {scene.spec.name}; use a divisor of {h}"
            ),
        )


def _towers(scene: Scene, plan: Plan) -> Iterator[Rule]:
    """A tower's heads are padded where tp does not divide them, as engines do; more devices than heads hold nothing."""
    for tower in scene.book.towers:
        for heads in tower.book.heads:
            yield Rule(
                f"tp is at most the {heads} heads of {tower.book.spec.name}",
                ("tp",),
                constraints.within(plan.tp, float(heads)),
                lambda h=heads, name=tower.book.spec.name: (  # type: ignore[misc]
                    f"--tp {plan.tp:.0f} exceeds the {h} attention heads of {name}; use fewer"
                ),
            )


def _pipeline(scene: Scene, plan: Plan) -> Iterator[Rule]:
    layers, name = float(scene.book.n_layers), scene.spec.name
    yield Rule(
        f"pp is at most the {layers:.0f} layers",
        ("pp",),
        constraints.within(plan.pp, layers),
        lambda: f"--pp {plan.pp:.0f} exceeds the {layers:.0f} layers of {name}; use fewer stages",
    )


def _experts(scene: Scene, plan: Plan, phase: str) -> Iterator[Rule]:
    counts, name, copies = scene.book.experts, scene.spec.name, plan.redundant_experts
    more = f" and {num.value(copies):.0f} redundant ones" if num.plain(copies) and num.value(copies) else ""
    for experts in counts:
        yield Rule(
            f"ep divides the {experts} experts{more}",
            ("ep",),
            constraints.divides(plan.ep, float(experts) + copies),
            lambda e=experts: f"--ep {plan.ep:.0f} does not divide the {e} experts{more} of {name}; use a divisor",  # type: ignore[misc]
        )
    if not counts:
        yield Rule(
            "a dense model has no experts to split",
            ("ep",),
            constraints.within(plan.ep, 1.0),
            lambda: f"--ep {plan.ep:.0f}: {name} has no experts; leave --ep out",
        )


def _whole(plan: Plan) -> Rule:
    return Rule(
        "the axes multiply to the devices",
        ("dp",),
        constraints.divides(1.0, plan.dp) & constraints.within(1.0, plan.dp),
        lambda: f"{plan.dp:g} replicas: the axes do not multiply to the devices; change one of them",
    )


def _network(scene: Scene, plan: Plan, phase: str) -> Rule:
    """The widest group with anything to exchange is joined by the chip's network; serving replicas exchange nothing."""
    widest: Number = 1.0
    stride = plan.stride
    for axis in AXES if phase == "train" else ("tp", "pp", "ep"):
        n = getattr(plan, axis)
        if axis == "ep" and phase != "train":
            n, stride["ep"] = plan.expert_replicas, plan.tp * plan.cp
        widest = num.maximum(widest, num.where(n > 1, n * stride[axis], 1.0))
    levels, chip = scene.chip.levels, scene.chip.spec.name
    reach = levels[-1].size if levels else 1.0
    return Rule(
        f"the network joins {reach:.0f} device{'s' * (reach != 1)}",
        AXES,
        constraints.within(widest, reach),
        lambda: (
            f"{num.value(widest):.0f} devices: {chip} describes a network of {reach:.0f}; use fewer, or add an outer level to its file"
            if levels
            else f"{chip}: its file describes no network, so a plan has one device; add `network:` to it"
        ),
    )


def _training(scene: Scene, plan: Plan) -> Iterator[Rule]:
    if not _one(plan.ep) or plan.expert_tp is not None:
        yield from _expert_ranks(plan)
    if not _one(plan.cp):
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
    if not _one(plan.virtual_stages):
        yield from _interleaving(scene, plan)
    count = schedule.microbatch_count(scene.train_batch, plan.dp, plan.micro_batch)
    for need in pipeline.needs(plan, count):
        yield Rule(need.name, ("pp", "virtual_stages", "dp", "micro_batch"), need.holds, need.say)


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


def _serving(scene: Scene, plan: Plan) -> Iterator[Rule]:
    if not _one(plan.ep):
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
    if not _one(plan.cp):
        yield Rule(
            "context parallelism is for training",
            ("cp",),
            constraints.within(plan.cp, 1.0),
            lambda: (
                f"--cp {plan.cp:.0f} splits the sequences of training and does nothing for serving; leave it out, or add --phase train"
            ),
        )


def _lengths(scene: Scene, phase: str) -> Iterator[Rule]:
    """Learned positions end where they end; only lengths that someone gave are held against them."""
    yield from _sources(scene, phase)
    r, limit = scene.request, scene.spec.max_context
    if scene.spec.positions.kind != "learned" or not limit:
        return
    flag, length = ("--seq", scene.seq) if phase == "train" else ("--prompt plus --output", scene.prompt + scene.output)
    if (r.seq if phase == "train" else r.prompt if r.prompt is not None else r.output) is None:
        return
    yield Rule(
        f"{limit} learned positions",
        (),
        constraints.within(length, float(limit)),
        lambda: f"{flag} {num.value(length):g} exceeds the {limit} learned positions of {scene.spec.name}; shorten it",
        "seq" if phase == "train" else "prompt",
    )


def _sources(scene: Scene, phase: str) -> Iterator[Rule]:
    """The same of an encoder that reads the prompt for a decoder."""
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


def most_in_the_way(found: list[Rule]) -> Rule:
    """Of the rules that candidates broke, the one that most of them did; the first of equals."""
    counts: dict[str, int] = {}
    for rule in found:
        counts[rule.name] = counts.get(rule.name, 0) + 1
    return max(found, key=lambda rule: counts[rule.name])


def product_of_given(request: Request) -> tuple[int, str]:
    """What the sizes given multiply to, and how they were written."""
    given = {axis: int(value) for axis in ("tp", "pp", "dp", "cp") if (value := getattr(request, axis)) is not None}
    return math.prod(given.values()), " ".join(f"--{axis} {size}" for axis, size in given.items())
