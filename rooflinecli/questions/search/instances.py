"""Every serving instance (TP, PP, DP, EP) at every batch, as arrays: rows are instances, columns are batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from rooflinecli.core.num import Number, divisors
from rooflinecli.engine import explicit_layout
from rooflinecli.engine import legality as legal
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer, prefill_share_under_load
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.formulas import serving
from rooflinecli.questions.search.question import InstanceSizes
from rooflinecli.specs.layout import Layout, OpenValues
from rooflinecli.specs.request import Request


@dataclass
class InstanceGrid:
    """Arrays of shape (instances, batches): what each instance does at each batch, and where it may run at all."""

    layouts: list[InstanceSizes]
    batches: np.ndarray
    phases: dict[str, PhaseAnswer]
    serve: dict[str, np.ndarray]
    legal: np.ndarray
    fits: np.ndarray
    prefill_share: Number = 0.0  # of the server time, where an instance does both phases

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.layouts), len(self.batches)

    def whole(self, value: Number) -> np.ndarray:
        return np.broadcast_to(value, self.shape)


def layouts(ctx: EstimateContext, open: OpenValues, most: int) -> list[InstanceSizes]:
    """Instances of at most `most` devices: TP divides the heads, PP divides the layers; dp replicas of a mixture share its experts.

    Experts are split over the replicas, each over its tensor ranks (tp 1 is attention data parallelism), or over all ranks;
    with --attention-dp every rank attends for itself.
    """
    heads, experts = ctx.ledger.heads, ctx.ledger.experts
    tps = [t for t in divisors(min(heads, default=1)) if all(h % t == 0 for h in heads)]
    if ctx.request.attention_dp:
        tps = [1]
    shared = [e for e in divisors(min(experts)) if all(x % e == 0 for x in experts)] if experts else [1]
    found = []
    for tp, pp, dp in product(tps, divisors(ctx.ledger.n_layers), shared):
        if tp * pp * dp > most:
            continue
        for ep in sorted({dp, tp * dp} & set(shared)):
            layout = InstanceSizes(tp=tp, pp=pp, dp=dp, ep=ep)
            if all(layout[name] in open[name] for name in ("tp", "pp", "ep") if name in open):
                found.append(layout)
    return found


def request_of(request: Request, sizes: InstanceSizes, **load: float) -> Request:
    """The request of one instance under a load, as its command asks for it."""
    axes = {axis: float(sizes[axis]) for axis in ("tp", "pp", "dp", "ep")}
    return replace(request, devices=float(sizes.ranks), **axes, **load)  # type: ignore[arg-type]


def evaluate(request: Request, found: list[InstanceSizes], batches: np.ndarray, disaggregated: bool) -> InstanceGrid:
    """Prefill and decode of every instance at every batch: one closed loop of both, or each in a pool of its own (`disaggregated`)."""
    columns = batches.reshape(1, -1)
    asked = replace(request, phases=("prefill", "decode"))
    ctx = EstimateContext(replace(asked, batch=columns) if disaggregated else replace(asked, concurrency=columns))
    tp, pp, dp, ep = (
        np.array([f[k] for f in found], dtype=np.float64).reshape(-1, 1) for k in ("tp", "pp", "dp", "ep")
    )
    given = explicit_layout.layout_fields(request, "decode") | {"sequence_parallel": bool(request.sequence_parallel)}
    plan = Layout(tp=tp, pp=pp, dp=dp, ep=ep, zero=0, flash=request.flash, **given)
    with np.errstate(all="ignore"):
        phases = {phase: answer(ctx, plan, phase) for phase in ("prefill", "decode")}
        rules = [rule for phase in phases for rule in legal.rules(ctx, plan, phase)]
        shape = (len(found), len(batches))
        fits = np.ones(shape, dtype=bool)
        for result in phases.values():
            fits = fits & result.memory.fits
        serve = offered(phases, plan.devices, plan.dp, ctx.prompt, ctx.output)
        share = 0.0 if disaggregated else prefill_share_under_load(ctx, plan)
    ok = np.broadcast_to(legal.all_hold(rules), shape)
    offers = {k: np.broadcast_to(v, shape) for k, v in serve.items()}
    return InstanceGrid(found, batches, phases, offers, ok, np.broadcast_to(fits, shape), share)


def offered(
    phases: Mapping[str, PhaseAnswer], devices: Number, replicas: Number, prompt: Number, output: Number
) -> dict[str, Number]:
    """What one instance offers: latencies, request rates of its two jobs, devices."""
    prefill, decode = phases["prefill"], phases["decode"]
    return {
        "instance_devices": devices,
        "instance_replicas": replicas,
        "ttft_s": prefill.time_s,
        "itl_s": decode.time_s,
        "prefill_requests_per_s": serving.request_rate(prefill.tokens_per_s, prompt),
        "decode_requests_per_s": serving.request_rate(decode.tokens_per_s, output),
        "instance_tokens_per_s": decode.tokens_per_s,
    }
