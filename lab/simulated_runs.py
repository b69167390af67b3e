"""Simulation of collected closed-loop runs under their benchmark harness, and its errors."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lab.fit import half_by_name
from lab.show import show
from rooflinecli import memory
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import engine_constant, forward_step
from rooflinecli.engine.residency import kv_pool_tokens
from rooflinecli.formulas import roofline
from rooflinecli.simulate.cluster import Cluster, run_closed_loop
from rooflinecli.simulate.replica import Replica, ReplicaLimits
from rooflinecli.simulate.request import SimRequest
from rooflinecli.simulate.request_load import Lengths
from rooflinecli.simulate.step_times import StepTimeTable
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.registry import load
from rooflinecli.specs.scheduler import Scheduler
from rooflinecli.validate import inference
from rooflinecli.validate.inference import Run
from rooflinecli.validate.stats import Row, Table, errors, notes

SPREAD, VARIED = (0.8, 1.0), (0.8, 1.2)
GPT_NARROW = "2025-12-05"  # 25506e87: fp8 cache on B200
PER_SLOT = 10  # requests per concurrent client
UNLIMITED = 1 << 50  # tokens: a layout whose weights do not fit has a wrong label, not a full cache


def lengths(run: Run) -> tuple[float, float]:
    """Shares of the nominal lengths between which they were drawn."""
    return SPREAD if inference.is_inferencex(run) else VARIED if run.engine == "vllm" else (1.0, 1.0)


def options(run: Run) -> tuple[tuple[str, str], ...]:
    """Options that a step's price depends on."""
    own = {
        name: str(value)
        for name, value in run.options.items()
        if name not in ("concurrency", "prompt", "output", "scheduler")
    }
    if (
        run.engine == "sglang"
        and not inference.is_inferencex(run)
        and run.group == "Qwen3-32B"
        and not inference.source_row(run)["precision"]
    ):
        own["dtype"] = "bf16"
    if _narrow_cache(run):
        own["kv_dtype"] = "fp8"
    return tuple(sorted(own.items()))


def _narrow_cache(run: Run) -> bool:
    """Whether a script sets an fp8 cache, or the checkpoint asks for one (NVIDIA's NVFP4 files of Kimi: model card of decart-ai/Kimi-K2.7-Code-NVFP4)."""
    kind, blackwell = run.group.partition("-")[0], str(run.options["hw"])[:2] in ("b2", "b3", "gb")
    if run.engine == "vllm" and kind == "Kimi":
        return inference.source_row(run)["precision"] == "fp4"
    if run.engine == "vllm":
        return inference.is_inferencex(run) and (
            kind == "Llama"
            or inference.rule_inputs(run)["tuned"]
            or (blackwell and kind == "gpt" and inference.measured_on(run) >= GPT_NARROW)
        )
    return inference.is_inferencex(run) and run.engine == "sglang" and blackwell and kind == "DeepSeek"


def configured(run: Run, own: Scheduler) -> Scheduler:
    """The scheduler with the flags of the run's script, as far as it is known."""
    return own.with_changes(**inference.server_settings(run))


@dataclass
class Simulated:
    """A run and its simulated seconds and tokens per second; `full` where its requests fill the cache."""

    run: Run
    cell: str
    ttft: float
    itl: float
    throughput: float
    full: bool
    possible: bool
    setting: Scheduler

    @property
    def seen(self) -> bool:
        """Whether a fit may see the cell."""
        return half_by_name(self.cell)


def simulate(run: Run, **changes: object) -> Simulated:
    """One collected run under its harness; `changes` replace entries of the scheduler."""
    ctx, prices = _prices(options(run), run.layout)
    row = inference.source_row(run)
    prompt, output = float(row["isl"]), float(row["osl"])
    concurrency = int(run.options["concurrency"])
    spread = lengths(run)
    whole = (prompt + output) * sum(spread) / 2
    setting = configured(run, ctx.engine.scheduler).with_changes(**changes)
    pool = int(kv_pool_tokens(ctx, run.layout, whole, setting)) or UNLIMITED
    pool = pool if pool > prompt + output + 64 else UNLIMITED
    limits = ReplicaLimits(pool, int(engine_constant(ctx, "max_sequences", "1")))
    count = PER_SLOT * concurrency
    sizes = zip(
        Lengths("fixed", (prompt,), spread).draw(count, 0, 2),
        Lengths("fixed", (output,), spread).draw(count, 0, 3),
        strict=True,
    )
    jobs = [SimRequest(i, 0.0, *each) for i, each in enumerate(sizes)]
    ended = run_closed_loop(
        Cluster([Replica(prices, limits, setting)], load("simulate/routers", "round-robin")), jobs, concurrency
    )
    first = np.array([j.first - j.arrival for j in ended])
    per = np.array([(j.finish - j.first) / max(j.output - 1, 1) for j in ended])
    mean = float(np.mean([j.output for j in ended]))
    rate = concurrency * mean / (first.mean() + (mean - 1) * per.mean())
    name = f"{run.options['model']} {run.options['hw']} {run.engine} {ctx.dtype} {run.layout.tp:g} {run.layout.dp:g}"
    return Simulated(
        run,
        name,
        float(first.mean()),
        float(per.mean()),
        float(rate),
        concurrency * (prompt + output) > 0.9 * pool,
        _possible(run, ctx, whole),
        setting,
    )


def _possible(run: Run, ctx: EstimateContext, whole: float) -> bool:
    """Whether the sequences decoding at once, by the run's own times, fit into memory and decode above their floor."""
    first, per, output = run.measured["ttft"], run.measured["itl"], float(inference.source_row(run)["osl"])
    decoding = per * (output - 1) / (first + per * (output - 1)) * run.options["concurrency"]
    context = whole - output / 2
    cache = memory.kv_cache(ctx.ledger, run.layout, ctx.formats, decoding, context, PLAIN)
    weights = memory.weights(ctx.parameters(run.layout), ctx.formats, 1.0)
    costs = forward_step(ctx, run.layout, max(decoding, 1.0), 1.0, context, decode=True, engine=False).costs
    fits = cache + weights <= ctx.chip.capacity or weights > ctx.chip.capacity
    return bool(fits and per >= roofline.floor_time(costs.t_compute, costs.t_memory))


@lru_cache(maxsize=512)
def _prices(options: tuple[tuple[str, str], ...], plan: Layout) -> tuple[EstimateContext, StepTimeTable]:
    ctx = EstimateContext(build_request.request(dict(options)))
    return ctx, StepTimeTable(ctx, plan)


def tables(every: int = 1) -> list[Table]:
    """Errors of TTFT, TPOT and throughput, simulated and by formula, of every `every`-th run."""
    runs = [simulate(run) for run in inference.collected_runs()[0][::every]]
    scored = [one for one in runs if one.possible]
    excluded = f"{len(runs) - len(scored)} rows excluded: more sequences at once than all memory holds, or decoded below their floor."
    formula = [{name: values[0] for name, values in inference.predict(one.run).items()} for one in scored]
    return [
        _table(name, title, scored, formula, [excluded, *notes("simulated runs")]) for name, title in _TITLES.items()
    ]


_TITLES = {"ttft": "time to first token", "itl": "time per further token", "throughput": "output tokens per second"}
ENGINES = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm"}


def _groups(one: Simulated) -> dict[str, bool]:
    """All lines of a table, and whether the run counts in each."""
    run, kind = one.run, inference.kind(one.run)
    public = inference.is_inferencex(run)
    return {
        "all": True,
        "all, held out": not one.seen,
        "dense": kind == "dense",
        "dense, held out": kind == "dense" and not one.seen,
        "MoE": kind == "MoE",
        "MoE, held out": kind == "MoE" and not one.seen,
        **{title: run.engine == engine for title, engine in ENGINES.items()},
        "every flag known (TensorRT-LLM, Llama-3.1-70B)": run.engine == "trtllm"
        and public
        and run.group == "Llama-3.1-70B",
        "lockstep (SGLang, Qwen3-32B as bf16)": run.engine == "sglang" and not public and run.group == "Qwen3-32B",
        "cache full": one.full,
    }


def _table(name: str, title: str, runs: list[Simulated], formula: list[dict[str, float]], notes: list[str]) -> Table:
    """Errors of one quantity, simulated and by formula, by group; throughput by Little's law from the two times."""
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one, predicted in zip(runs, formula, strict=True):
        measured, estimated = (
            _rate(one.run, times["ttft"], times["itl"]) if name == "throughput" else times[name]
            for times in (one.run.measured, predicted)
        )
        for group, belongs in _groups(one).items():
            if belongs:
                ratios[group].append((getattr(one, name) / measured, estimated / measured))
    rows: list[Row] = []
    for group in _groups(runs[0]) if runs else ():
        if group in ratios:
            simulated, estimated = np.array(ratios[group]).T
            off = np.abs(estimated - 1)
            by_formula = {"formula_mean": float(off.mean()), "formula_median": float(np.median(off))}
            rows.append({"group": group, "rows": len(off), **errors(simulated), **by_formula})
    return Table(f"simulation: {title}", rows, notes)


def _rate(run: Run, first: float, per: float) -> float:
    output = float(run.options["output"])
    return float(run.options["concurrency"]) * output / (first + (output - 1) * per)


if __name__ == "__main__":
    show(tables())
