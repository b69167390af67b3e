"""Notes on answers that no measured run supports."""

from __future__ import annotations

from collections.abc import Mapping

from rooflinecli.core import num
from rooflinecli.engine.context import UNNAMED, EstimateContext
from rooflinecli.engine.forward_step import lone_prefill_s
from rooflinecli.engine.inference import decode_seconds
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.engine.serving_load import frontend_latency, is_lockstep, load, restart_fraction, steady_itl
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import MOST

RESTARTED = 0.07  # of the time between tokens, in a closed loop: a simulation's ITL is longer than the mean's by this much, within 2 %
# taken by prompts of others in the long run: below it means of 260 random open loops are those of a simulation
FLOODED, FLOODED_SHORT, FEW = 0.5, 0.3, 20  # the second where answers have a few tokens, each of which differs
SHORT = 8  # idle first tokens: where a closed loop writes an answer in less, its clients move in bunches that no mean describes
FULL = 0.9  # of the sequences whose caches fit: beyond it arrivals wait for room


def unsupported(ctx: EstimateContext, phases: dict[str, PhaseAnswer], layouts: Mapping[str, Layout]) -> list[str]:
    """One sentence for every answer beyond published runs, or beyond what a formula of means follows."""
    train = phases.get("train")
    if ctx.chip.ideal:
        return []
    found, prefill = foreign(ctx), phases.get("prefill")
    if isinstance(train, TrainAnswer):
        from rooflinecli.engine.extrapolation import size_notes

        if train.extrapolations:
            found.append(f"train: {'; '.join(train.extrapolations)}; the interval is wider for it")
        size = size_notes(ctx.chip.spec.kind, float(num.value(layouts["train"].devices)))
        found += [f"train: {note}, so no run supports its interval" for note in size]
        found += [*_stack(ctx, train), *_beyond(ctx, train)]
    found += _loaded(ctx, phases.get("decode"), layouts.get("decode"))
    if ctx.request.kv_tier is not None and isinstance(prefill, PrefillAnswer):
        from rooflinecli.engine import kv_tiers

        found += kv_tiers.eviction_note(ctx, prefill.sessions)
    return found


def foreign(ctx: EstimateContext) -> list[str]:
    """An engine asked for on a chip of a maker or kind that it is not known on: ExLlamaV2 on a Mac, TensorRT-LLM on an MI300X."""
    engine, chip = ctx.engine, ctx.chip.spec
    if ctx.request.engine is None or not engine.known_on or f"{chip.vendor} {chip.kind}" in engine.known_on:
        return []
    return [
        f"no run of {engine.name} is known here but on {', '.join(engine.known_on)}: nothing shows that it runs on "
        f"{chip.name}, and the times are those of kernels carried over"
    ]


def _loaded(ctx: EstimateContext, decode: PhaseAnswer | None, layout: Layout | None) -> list[str]:
    """Loads in which requests meet each other: slots that begin together, and caches so full that an engine queues or preempts."""
    if not isinstance(decode, DecodeAnswer) or layout is None or decode.load_kind == "static":
        return []
    found = []
    if decode.load_kind == "closed" and ctx.request.equal_lengths and num.value(decode.batch) > 1:
        runs = (
            f"run in lockstep under {ctx.engine.name}: these are the means of a round"
            if is_lockstep(ctx)
            else "bunch up"
        )
        found.append(f"serving: requests of equal length {runs}; `roofline simulate` follows it step by step")
    else:
        taken = float(num.value(decode.breakdown_s["prefill_interference"])) / float(num.value(decode.time_s))
        restarted, short = 0.0, False
        if decode.load_kind == "open":
            alone = decode_seconds(ctx, layout, load(ctx, layout))
            steady = steady_itl(ctx, layout, alone, load(ctx, layout).share)
            taken = float(num.value((1 - alone / steady) * (ctx.output > 1)))
        if decode.load_kind == "closed" and num.value(decode.batch) > 1:
            busy = load(ctx, layout)
            alone = decode_seconds(ctx, layout, busy)
            restarted = float(num.value(restart_fraction(ctx, layout, busy, alone)))
            first = lone_prefill_s(ctx, layout) + frontend_latency(ctx)
            short = bool(num.value((ctx.output - 1) * alone < SHORT * first))
        if short:
            found.append(
                f"serving: an answer is written in less than {SHORT} idle first tokens, so clients move in bunches and means are rough: half of "
                "such loops differ by more than 8% in throughput and 18% in TTFT, a tenth by more than 28% and 50%; `roofline simulate` "
                "follows them step by step"
            )
        elif restarted >= RESTARTED:
            found.append(
                f"serving: steps that take in a prompt start kernels and read weights again, {restarted:.0%} of the time between tokens "
                "that measured saturated servers do not show and this mean leaves out; `roofline simulate` has it in its steps"
            )
        elif taken >= (FLOODED_SHORT if decode.load_kind == "open" and num.value(ctx.output) <= FEW else FLOODED):
            found.append(
                f"serving: prompts of others take {taken:.0%} of the time between tokens, so requests bunch up and means are rough; "
                "`roofline simulate` follows them step by step"
            )
    held, most = float(num.value(decode.batch)), float(num.value(decode.max_batch))
    asked = ctx.request.concurrency is None or num.value(ctx.request.concurrency) is not MOST
    if asked and most >= 1 and held >= FULL * most:
        found.append(
            f"decode: {held:,.0f} sequences in flight where caches of {most:,.0f} fit: an engine then queues or preempts, which no formula here "
            "follows; `roofline simulate` does"
        )
    return found


def _stack(ctx: EstimateContext, train: TrainAnswer) -> list[str]:
    """Which training software an unnamed stack was priced as."""
    if train.layout is None or ctx.request.software is not None:
        return []
    stack = ctx.training_stack(Layout(zero=train.layout.zero))
    if stack == UNNAMED:
        return []
    return [f"train: no --framework: priced as {stack}; naming it narrows the interval"]


def _beyond(ctx: EstimateContext, train: TrainAnswer) -> list[str]:
    """An MFU that no published run reached on this chip in this format, else on this chip, else on any of its kind."""
    from rooflinecli.specs.snapshots import published

    mfu, spec, rows = float(num.value(train.mfu)), ctx.chip.spec, published("highest_mfu")["rows"]
    same = [row for row in rows if row["chip"] == spec.id]
    alike = [row for row in same if row["dtype"] == ctx.dtype] or same or [r for r in rows if r["kind"] == spec.kind]
    best = max(alike, key=lambda row: row["mfu"], default=None)
    if best is None or mfu <= best["mfu"]:
        return []
    return [
        f"train: an MFU of {mfu:.1%} is above every published run known here ({best['mfu']:.1%}, {best['row']}, {best['chip']} in "
        f"{best['dtype']}), so no run supports its interval; take the time as a lower bound"
    ]
