"""Collected closed-loop runs, simulated: the harness and the flags that each was run with, and what comes out beside what was measured.

InferenceX (github SemiAnalysisAI/InferenceX, benchmarks/*.sh and utils/bench_serving at ad4f6a4a, 7a21380a and c198b20e) starts all
requests of a slot count C at once, 10 C of them, with lengths uniform in [0.8, 1] of the nominal ones. The vendor's runs state
no harness; fixed lengths and 10 prompts a slot fit them best, for vLLM lengths within a fifth of the nominal ones. Budgets and polling follow the scripts where there are scripts.
SGLang's vendor runs of Qwen3-32B state no precision and are simulated as bf16: with prompts first and equal lengths the slots
run in lockstep, and then both times agree with bf16, neither with fp8 (the formula, which knows no lockstep, has it the other way round).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rooflinecli import memory
from rooflinecli.answers.simulate.deployment import pool_tokens
from rooflinecli.engine.forward_step import engine_constant
from rooflinecli.engine.scene import Scene
from rooflinecli.lift import PLAIN
from rooflinecli.simulate.fleet import Fleet, closed
from rooflinecli.simulate.job import Job
from rooflinecli.simulate.lengths import Lengths
from rooflinecli.simulate.prices import Prices
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.residents import Limits
from rooflinecli.specs import ask
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.registry import load
from rooflinecli.specs.scheduler import Scheduler
from rooflinecli.validate import inference, wheel
from rooflinecli.validate.inference import Run
from rooflinecli.validate.stats import Table, half_by_name

PER_SLOT, SPREAD, VARIED = 10, (0.8, 1.0), (0.8, 1.2)
UNLIMITED = 1 << 50  # tokens: a layout whose weights do not fit has a wrong label, not a full cache


@dataclass
class Simulated:
    """A run and what its simulation says, in seconds and tokens per second; `full` where its requests fill the cache."""

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


def simulate(run: Run, **changes: Any) -> Simulated:
    """One collected run under its harness; `changes` replace entries of the scheduler."""
    scene, prices = _prices(_options(run), run.plan)
    assert run.row is not None  # collected runs have one
    prompt, output = float(run.row["isl"]), float(run.row["osl"])
    concurrency = int(run.options["concurrency"])
    spread = SPREAD if public(run) else VARIED if run.engine == "vllm" else (1.0, 1.0)
    whole = (prompt + output) * sum(spread) / 2
    pool = int(pool_tokens(scene, run.plan, whole)) or UNLIMITED
    pool = pool if pool > prompt + output + 64 else UNLIMITED
    limits = Limits(pool, int(engine_constant(scene, "max_sequences", "1")))
    setting = configured(run, scene.engine.scheduler).model_copy(update=changes)
    count = PER_SLOT * concurrency
    sizes = zip(
        Lengths("fixed", (prompt,), spread).draw(count, 0, 2),
        Lengths("fixed", (output,), spread).draw(count, 0, 3),
        strict=True,
    )
    jobs = [Job(i, 0.0, *each) for i, each in enumerate(sizes)]
    ended = closed(
        Fleet([Replica(prices, limits, setting)], load("simulate/routers", "round-robin")), jobs, concurrency
    )
    first = np.array([j.first - j.arrival for j in ended])
    per = np.array([(j.finish - j.first) / max(j.output - 1, 1) for j in ended])
    mean = float(np.mean([j.output for j in ended]))
    rate = concurrency * mean / (first.mean() + (mean - 1) * per.mean())
    name = f"{run.options['model']} {run.options['hw']} {run.engine} {scene.dtype} {run.plan.tp:g} {run.plan.dp:g}"
    return Simulated(
        run,
        name,
        float(first.mean()),
        float(per.mean()),
        float(rate),
        concurrency * (prompt + output) > 0.9 * pool,
        _possible(run, scene, whole),
        setting,
    )


def _options(run: Run) -> tuple[tuple[str, str], ...]:
    """Those that a step's price depends on."""
    own = {name: str(value) for name, value in run.options.items() if name not in ("concurrency", "prompt", "output")}
    if run.engine == "sglang" and not public(run) and run.group == "Qwen3-32B" and not _row(run)["precision"]:
        own["dtype"] = "bf16"
    if public(run) and _narrow_cache(run):
        own["kv_dtype"] = "fp8"
    return tuple(sorted(own.items()))


def _narrow_cache(run: Run) -> bool:
    """Whether the script of an InferenceX run sets an fp8 cache."""
    blackwell = str(run.options["hw"])[:2] in ("b2", "b3", "gb")
    kind = run.group.partition("-")[0]
    if run.engine == "vllm":
        return kind == "Llama" or (blackwell and kind in ("MiniMax", "gpt"))
    return run.engine == "sglang" and blackwell and kind == "DeepSeek"


def _possible(run: Run, scene: Scene, whole: float) -> bool:
    """Whether the caches of the sequences that were decoding at once, by the run's own times, fit into all memory there is."""
    first, per, output = run.measured["ttft"], run.measured["itl"], float(_row(run)["osl"])
    decoding = per * (output - 1) / (first + per * (output - 1)) * run.options["concurrency"]
    cache = memory.kv_cache(scene.book, run.plan, scene.formats, decoding, whole - output / 2, PLAIN)
    held = memory.weights(scene.parameters(run.plan), scene.formats, 1.0)
    return bool(cache + held <= scene.chip.capacity or held > scene.chip.capacity)


@lru_cache(maxsize=512)
def _prices(options: tuple[tuple[str, str], ...], plan: Plan) -> tuple[Scene, Prices]:
    scene = Scene(ask.request(dict(options)))
    return scene, Prices(scene, plan)


def public(run: Run) -> bool:
    """Whether it is one of InferenceX, whose scripts are public."""
    source = run.row["silicon_data_source"] if run.row is not None else ""
    return "db-dump" in source or "source_file=20" in source


def configured(run: Run, own: Scheduler) -> Scheduler:
    """The scheduler with the flags of the run's script, as far as it is known."""
    return own.model_copy(update=_FLAGS[run.engine](run))


def _vllm(run: Run) -> dict[str, Any]:
    if not public(run):
        return {"look_ahead": 0}
    wide = run.group.startswith("MiniMax") and str(run.options["hw"])[:2] in ("b2", "b3", "gb")
    return {"token_budget": 2 * int(float(_row(run)["isl"])) if wide else 8192}


def _trtllm(run: Run) -> dict[str, Any]:
    row, concurrency = _row(run), int(run.options["concurrency"])
    prompt, output = int(float(row["isl"])), int(float(row["osl"]))
    if not public(run):
        return {"token_budget": 2048}
    if run.group.startswith("Llama"):
        held = prompt == output == 1024 and run.plan.tp < 8
        return {"token_budget": 16384, **({"hold_steps": 20, "hold_share": 0.9} if held else {})}
    if run.group.startswith("gpt"):
        return {"token_budget": 20000}
    return {"token_budget": math.ceil((concurrency + prompt + 64) / 64) * 64}


def _sglang(run: Run) -> dict[str, Any]:
    row, concurrency = _row(run), int(run.options["concurrency"])
    if not public(run):
        return {"token_budget": 8192, "mixed": float(row["isl"]) % 1000 == 0}
    if str(run.options["hw"])[:1] == "h":
        return {"token_budget": 32768, "stream_steps": 10}
    fp8 = row["precision"] == "fp8"
    poll = 30 if concurrency >= 16 else 10
    return {"token_budget": 32768 if fp8 else 16384, "poll_steps": poll, "stream_steps": 30 if fp8 else 10}


def _row(run: Run) -> dict[str, str]:
    assert run.row is not None
    return run.row


_FLAGS = {"vllm": _vllm, "trtllm": _trtllm, "sglang": _sglang}


def tables(every: int = 1) -> list[Table]:
    """Errors of first tokens, further tokens and throughput, the formula's beside them; of every so-manieth run."""
    if not wheel.installed():
        return [Table("simulation: collected runs", [], [f"Collected serving runs need the wheel: {wheel.PIP}."])]
    found = [simulate(run) for run in inference.collected_runs()[0][::every]]
    scored = [one for one in found if one.possible]
    said = [
        f"{len(found) - len(scored)} rows left out: more sequences at once than all memory holds.",
        "Held out: cells whose hash kept them from the fit of what a request and a stream cost. Policy, budget and harness were chosen on rows of both halves.",
    ]
    return [_table(name, title, scored, said) for name, title in _TITLES.items()]


_TITLES = {"ttft": "time to first token", "itl": "time per further token", "throughput": "output tokens per second"}
GROUPS: dict[str, Callable[[Simulated], bool]] = {
    "all": lambda one: True,
    "all, held out": lambda one: not one.seen,
    "dense": lambda one: inference.kind(one.run) == "dense",
    "dense, held out": lambda one: inference.kind(one.run) == "dense" and not one.seen,
    "MoE": lambda one: inference.kind(one.run) == "MoE",
    "MoE, held out": lambda one: inference.kind(one.run) == "MoE" and not one.seen,
    "vLLM": lambda one: one.run.engine == "vllm",
    "SGLang": lambda one: one.run.engine == "sglang",
    "TensorRT-LLM": lambda one: one.run.engine == "trtllm",
    "every flag known (TensorRT-LLM, Llama-3.1-70B)": lambda one: (
        one.run.engine == "trtllm" and public(one.run) and one.run.group == "Llama-3.1-70B"
    ),
    "lockstep (SGLang, Qwen3-32B as bf16)": lambda one: (
        one.run.engine == "sglang" and not public(one.run) and one.run.group == "Qwen3-32B"
    ),
    "cache full": lambda one: one.full,
}


def _table(name: str, title: str, found: list[Simulated], notes: list[str]) -> Table:
    rows: list[dict[str, Any]] = []
    formula = {id(one): _formula(one.run, name) for one in found}
    for group, belongs in GROUPS.items():
        chosen = [one for one in found if belongs(one)]
        if not chosen:
            continue
        measured = np.array([_measured(one.run, name) for one in chosen])
        ratio = np.array([getattr(one, name) for one in chosen]) / measured
        other = np.abs(np.array([formula[id(one)] for one in chosen]) / measured - 1)
        error = np.abs(ratio - 1)
        rows.append(
            {
                "group": group,
                "rows": len(chosen),
                "mean": float(error.mean()),
                "median": float(np.median(error)),
                "p90": float(np.quantile(error, 0.9)),
                "bias": float(np.exp(np.log(ratio).mean()) - 1),
                "formula_mean": float(other.mean()),
                "formula_median": float(np.median(other)),
            }
        )
    return Table(f"simulation: {title}", rows, notes)


def _measured(run: Run, name: str) -> float:
    """What was measured; throughput by Little's law from the two times."""
    if name != "throughput":
        return run.measured[name]
    return _rate(run, run.measured["ttft"], run.measured["itl"])


def _formula(run: Run, name: str) -> float:
    """What the estimate says of the run, without a simulation."""
    if name == "throughput":
        return _rate(run, *(_said(id(run), run)[which] for which in ("ttft", "itl")))
    return _said(id(run), run)[name]


def _rate(run: Run, first: float, per: float) -> float:
    output = float(run.options["output"])
    return float(run.options["concurrency"]) * output / (first + (output - 1) * per)


_KNOWN: dict[int, dict[str, float]] = {}


def _said(key: int, run: Run) -> dict[str, float]:
    if key not in _KNOWN:
        _KNOWN[key] = {name: float(found[0]) for name, found in inference.predict(run).items()}
    return _KNOWN[key]
