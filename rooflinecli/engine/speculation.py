"""Speculation inside a decode step: a draft writes some tokens, the target verifies them all in one pass, and keeps a run of them.

Drafts: a model of its own; `mtp`, the target's own layers for further tokens (DeepSeek-V3, section 2.2); `eagle`, a head of one
layer over the target's features (Li et al. 2024). A head is priced as one more layer of the target's last kind, with a
projection from two widths to one, and shares embedding and LM head.
"""

from __future__ import annotations

from dataclasses import replace

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine.context import Scene
from rooflinecli.engine.forward_step import Step, forward_step
from rooflinecli.engine.phase_answer import SpeculationAnswer
from rooflinecli.engine.weight_formats import as_kept
from rooflinecli.formulas import counts, serving, speculation
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ops import Op
from rooflinecli.specs.layout import Plan
from rooflinecli.specs.model import ModelSpec, load_model

HEADS = ("mtp", "eagle")
SEARCHED = 4096.0  # sequences; a break-even beyond this is not looked for
_MODULES: dict[int, tuple[ModelSpec, ModelSpec]] = {}


@dataclass(slots=True)
class Round:
    """One step of draft and verification: its bill per token written, and seconds of its parts."""

    step: Step
    draft: Number
    verify: Number
    tokens: Number


def check(scene: Scene) -> None:
    """Raises UsageError for a draft that does not exist or does not fit the target, and for half of a question."""
    r = scene.request
    if r.speculate is None:
        for name in ("draft_tokens", "acceptance"):
            if getattr(r, name) is not None:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} belongs to speculation; add --speculate mtp, eagle or a draft model", flag)
        return
    if r.acceptance is None:
        raise UsageError(
            "--speculate needs --acceptance, the share of draft tokens that the target keeps", "acceptance"
        )
    if r.speculate == "mtp" and not scene.spec.mtp_layers:
        raise UsageError(
            f"--speculate mtp: {scene.spec.name} has no layers for further tokens; use a draft model", "speculate"
        )
    if any(group.mixer is not None and not isinstance(group.mixer, Softmax) for group in scene.book.layers):
        raise UsageError(
            f"--speculate: {scene.spec.name} keeps a state, which no rejected token may have changed", "speculate"
        )
    if r.speculate not in HEADS and load_model(r.speculate).vocab_size != scene.spec.vocab_size:
        raise UsageError(
            f"--speculate {r.speculate}: its vocabulary is not that of {scene.spec.name}; a draft must write the same tokens",
            "speculate",
        )


def token_step(scene: Scene, plan: Plan, batch: Number, context: Number) -> Step:
    """A decode step per token written: a plain one, or what a round of speculation comes to."""
    if scene.request.speculate is None:
        return forward_step(scene, plan, batch, 1.0, context, decode=True)
    return speculated(scene, plan, batch, context).step


def round_time(scene: Scene, seconds: Number) -> Number:
    """Seconds of a whole engine step, from those per token."""
    return seconds if scene.request.speculate is None else seconds * _tokens(scene)


def speculated(scene: Scene, plan: Plan, batch: Number, context: Number) -> Round:
    """g steps of the draft, one pass of the target over g + 1 positions of each sequence; (1 - a^(g+1)) / (1 - a) tokens."""
    g, tokens = _length(scene), _tokens(scene)
    verify = forward_step(scene, plan, batch, g + 1, context, decode=True, logits=g + 1)
    draft = _draft_step(scene, plan, batch, context)
    bill, seconds = verify.bill, verify.seconds
    bill.beside("draft", draft.bill, draft.seconds, g)
    bill.share(tokens)
    per_token = label(speculation.speculative_token_time(draft.seconds, g, seconds, tokens), "t_decode")
    return Round(Step(bill, per_token), draft.seconds * g, seconds, tokens)


def answer(scene: Scene, plan: Plan, batch: Number) -> SpeculationAnswer | None:
    """What speculation brings at a batch, and up to which batch it pays; None where nobody speculates."""
    if scene.request.speculate is None:
        return None
    context = serving.mean_context(scene.prompt, scene.output)
    found = speculated(scene, plan, batch, context)
    plain = forward_step(scene, plan, batch, 1.0, context, decode=True).seconds
    return SpeculationAnswer(
        tokens_per_step=found.tokens,
        draft_s=found.draft,
        verify_s=found.verify,
        speedup=plain / found.step.seconds,
        pays_up_to_batch=_break_even(scene, plan, batch) if _single(scene, plan, found) else None,
    )


def _single(scene: Scene, plan: Plan, found: Round) -> bool:
    """Whether this is one question rather than a sweep of them."""
    return num.plain(found.step.seconds) and num.plain(plan.devices) and num.plain(scene.prompt)


def _break_even(scene: Scene, plan: Plan, asked: Number) -> float | None:
    """The largest batch at which a token comes sooner than without speculation: 0 where none up to the asked one does, None above SEARCHED."""
    plain = scene if not scene.lift.traced else Scene(scene.request)
    bare = Plan(**{key: num.value(value) for key, value in plan.__dict__.items()})
    context = serving.mean_context(plain.prompt, plain.output)

    def pays(batch: float) -> bool:
        without = forward_step(plain, bare, batch, 1.0, context, decode=True).seconds
        return bool(speculated(plain, bare, batch, context).step.seconds < without)

    low = high = max(float(int(num.value(asked))), 1.0)
    if not pays(high):
        low = 1.0 if high > 1 and pays(1.0) else 0.0
    while low == high:
        if low >= SEARCHED:
            return None
        low, high = (2 * high, 2 * high) if pays(2 * high) else (high, 2 * high)
    while low and high - low > 1:
        middle = float(int((low + high) / 2))
        low, high = (middle, high) if pays(middle) else (low, middle)
    return low


def held(scene: Scene, plan: Plan, batch: Number, tokens: Number) -> tuple[Number, Number]:
    """Bytes of the draft's weights and of its cache of `batch` sequences of `tokens` tokens; nothing where nobody speculates."""
    if scene.request.speculate is None:
        return 0.0, 0.0
    draft, beside = _drafter(scene), _plan(plan)
    params = memory.device_parameters(draft.book, beside, draft.lift)
    if scene.request.speculate in HEADS:
        inner = params.inner + 2 * float(scene.spec.d_model) ** 2 / plan.tp
        params = memory.DeviceParameters(inner, 0.0, params.experts, params.has_experts)
    cache = memory.kv_cache(draft.book, beside, draft.formats, batch, tokens, draft.lift)
    return memory.weights(params, draft.formats, 1.0), cache


def _draft_step(scene: Scene, plan: Plan, batch: Number, context: Number) -> Step:
    """One token of the draft for every sequence."""
    draft, beside = _drafter(scene), _plan(plan)
    step = forward_step(draft, beside, batch, 1.0, context, decode=True, engine=False)
    if scene.request.speculate in HEADS:
        step.bill.add([_projection(draft, beside, batch)], 1.0)
    return Step(step.bill, label(step.bill.total, "t_draft"))


def _projection(scene: Scene, plan: Plan, batch: Number) -> Op:
    """Features and embedding of a token, side by side, to one width."""
    f, d = scene.formats, float(scene.spec.d_model)
    k, n = 2 * d, d / plan.tp
    flops = counts.matmul_flops(batch, k, n)
    moved = counts.matmul_bytes(batch, k, n, f.matmul_input, f.weight, f.activation)
    return Op(
        name="draft.projection",
        kind="matmul",
        dtype=f.compute,
        flops=flops,
        bytes=moved,
        k=k,
        n=n,
        quantised=batch * k,
        ramp=1 / k,
        variant=f.variant,
    )


def _drafter(scene: Scene) -> Scene:
    """The draft as a scene of its own on the same chip, built once."""
    if scene.draft is None:
        name = scene.request.speculate
        model = _module(scene.spec) if name in HEADS else load_model(str(name))
        scene.draft = Scene(replace(scene.request, model=model, speculate=None, adapters=None), scene.lift)
        scene.draft.chip = scene.chip
    return scene.draft


def _module(spec: ModelSpec) -> ModelSpec:
    """A model of the target's last layer alone, with its embedding and head."""
    known = _MODULES.get(id(spec))
    if known is None:
        last = spec.layers[-1].model_copy(update={"repeat": 1})
        stored = as_kept(spec)  # as the target's layers are in the mean
        known = _MODULES[id(spec)] = (spec, spec.but(layers=[last], towers=[], quantization=stored))
    return known[1]


def _plan(plan: Plan) -> Plan:
    """The draft is split like the target inside a stage, and not over stages or experts' replicas."""
    return plan.but(pp=1.0)


def _length(scene: Scene) -> Number:
    asked = scene.request.draft_tokens
    return scene.flag("g", 1.0 if asked is None else asked, "tokens", "--draft-tokens", asked is None)


def _tokens(scene: Scene) -> Number:
    kept = scene.flag("a", scene.request.acceptance, "1", "--acceptance")
    return speculation.speculative_tokens(kept, _length(scene))
