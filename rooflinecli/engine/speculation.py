"""Speculative decoding: a draft proposes tokens, the target verifies them all in one pass and accepts a run of them.

Drafts: a model of its own; `mtp`, the target's own layers for further tokens (DeepSeek-V3, section 2.2); `eagle`, a head of one
layer over the target's features (Li et al. 2024). A head is priced as one more layer of the target's last kind, with a
projection from two widths to one, and shares embedding and LM head.
"""

from __future__ import annotations

from dataclasses import replace

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.identity_cache import cached_by_identity
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import PricedPass, forward_step
from rooflinecli.engine.phase_answer import SpeculationAnswer
from rooflinecli.formulas import counts, serving, speculation
from rooflinecli.ledger.ops import Op, matmul
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ModelSpec, load_model

HEADS = ("mtp", "eagle")
SEARCHED = 4096.0  # sequences; a break-even beyond this is not looked for


@dataclass(slots=True)
class SpeculationRound:
    """One step of draft and verification: its time per token written, and seconds of its parts."""

    step: PricedPass
    draft: Number
    verify: Number
    tokens: Number


def token_step(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> PricedPass:
    """A decode step per token written: a plain one, or a step of speculative decoding over its accepted tokens."""
    if ctx.request.speculate is None:
        return forward_step(ctx, layout, batch, 1.0, context, decode=True)
    return speculative_step(ctx, layout, batch, context).step


def engine_step_time(ctx: EstimateContext, seconds: Number) -> Number:
    """Seconds of a whole engine step, from those per token."""
    return seconds if ctx.request.speculate is None else seconds * _accepted_tokens(ctx)


def speculative_step(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> SpeculationRound:
    """g steps of the draft, one pass of the target over g + 1 positions of each sequence; (1 - a^(g+1)) / (1 - a) tokens."""
    g, tokens = _draft_tokens(ctx), _accepted_tokens(ctx)
    verify = forward_step(ctx, layout, batch, g + 1, context, decode=True, logits=g + 1)
    draft = _draft_step(ctx, layout, batch, context)
    costs, seconds = verify.costs, verify.seconds
    costs.add_group("draft", draft.costs, draft.seconds, g)
    costs.divide_by(tokens)
    per_token = label(speculation.speculative_token_time(draft.seconds, g, seconds, tokens), "t_decode")
    return SpeculationRound(PricedPass(costs, per_token), draft.seconds * g, seconds, tokens)


def answer(ctx: EstimateContext, layout: Layout, batch: Number) -> SpeculationAnswer | None:
    """Speedup of speculation at a batch, and the break-even batch; None without speculation."""
    if ctx.request.speculate is None:
        return None
    context = serving.mean_context(ctx.prompt, ctx.output)
    result = speculative_step(ctx, layout, batch, context)
    plain = forward_step(ctx, layout, batch, 1.0, context, decode=True).seconds
    scalar = num.plain(result.step.seconds) and num.plain(layout.devices) and num.plain(ctx.prompt)  # not a sweep
    return SpeculationAnswer(
        mean_accepted_length=result.tokens,
        draft_s=result.draft,
        verify_s=result.verify,
        speedup=plain / result.step.seconds,
        break_even_batch=_break_even(ctx, layout, batch) if scalar else None,
    )


def _break_even(ctx: EstimateContext, layout: Layout, asked: Number) -> float | None:
    """The largest batch at which ITL is lower than without speculation: 0 where it is at none up to the asked one, None above SEARCHED."""
    plain, bare = ctx.without_trace(layout)
    context = serving.mean_context(plain.prompt, plain.output)

    def pays(batch: float) -> bool:
        without = forward_step(plain, bare, batch, 1.0, context, decode=True).seconds
        return bool(speculative_step(plain, bare, batch, context).step.seconds < without)

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


def draft_weight_bytes(ctx: EstimateContext, layout: Layout) -> Number:
    """Bytes per device of the draft's weights; none without speculation."""
    if ctx.request.speculate is None:
        return 0.0
    draft = _draft(ctx)
    params = memory.device_parameters(draft.ledger, _draft_layout(layout), draft.lift)
    if ctx.request.speculate in HEADS:
        inner = params.inner + 2 * float(ctx.spec.d_model) ** 2 / layout.tp
        params = memory.DeviceParameters(inner, 0.0, params.experts, params.has_experts)
    return memory.weights(params, draft.formats, 1.0)


def draft_kv_bytes(ctx: EstimateContext, layout: Layout, batch: Number, tokens: Number) -> Number:
    """Bytes per device of the draft's cache of `batch` sequences of `tokens` tokens; none without speculation."""
    if ctx.request.speculate is None:
        return 0.0
    draft = _draft(ctx)
    return memory.kv_cache(draft.ledger, _draft_layout(layout), draft.formats, batch, tokens, draft.lift)


def _draft_step(ctx: EstimateContext, layout: Layout, batch: Number, context: Number) -> PricedPass:
    """One token of the draft for every sequence."""
    draft, split = _draft(ctx), _draft_layout(layout)
    step = forward_step(draft, split, batch, 1.0, context, decode=True, engine=False)
    if ctx.request.speculate in HEADS:
        step.costs.add([_projection(draft, split, batch)], 1.0)
    return PricedPass(step.costs, label(step.costs.total, "t_draft"))


def _projection(ctx: EstimateContext, layout: Layout, batch: Number) -> Op:
    """Projection of features and embedding of a token, concatenated, to one width."""
    f, d = ctx.formats, float(ctx.spec.d_model)
    k, n = 2 * d, d / layout.tp
    flops = counts.matmul_flops(batch, k, n)
    moved = counts.matmul_bytes(batch, k, n, f.matmul_input, f.weight, f.activation)
    return matmul("draft.projection", f.compute, flops, moved, batch, k, n, 1 / k, f.variant)


def _draft(ctx: EstimateContext) -> EstimateContext:
    """The context of the draft on the same chip, built once."""
    if ctx.draft is None:
        name = ctx.request.speculate
        model = _last_layer(ctx.spec) if name in HEADS else load_model(str(name))
        ctx.draft = EstimateContext(replace(ctx.request, model=model, speculate=None, adapters=None), ctx.lift)
        ctx.draft.chip = ctx.chip
    return ctx.draft


@cached_by_identity
def _last_layer(spec: ModelSpec) -> ModelSpec:
    """A model of the target's last layer alone, with its embedding and head."""
    last, stored = spec.layers[-1].with_changes(repeat=1), spec.quantization
    if stored is not None:
        from rooflinecli.engine.stored_weights import checkpoint_format

        stored = checkpoint_format(spec)  # the mean over the target's layers
    return spec.with_changes(layers=[last], towers=[], quantization=stored)


def _draft_layout(layout: Layout) -> Layout:
    """The draft is split like the target inside a stage, and not over stages."""
    return layout.with_changes(pp=1.0)


def _draft_tokens(ctx: EstimateContext) -> Number:
    count = ctx.request.draft_tokens
    return ctx.from_flag("g", 1.0 if count is None else count, "tokens", "--num-speculative-tokens", count is None)


def _accepted_tokens(ctx: EstimateContext) -> Number:
    rate = ctx.from_flag("a", ctx.request.acceptance, "1", "--acceptance-rate")
    return speculation.speculative_tokens(rate, _draft_tokens(ctx))
