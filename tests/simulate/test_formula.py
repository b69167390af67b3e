"""The closed form of a first token beside the simulation, under the same scheduler: where lengths vary and the cache is not full."""

from __future__ import annotations

import pytest

from rooflinecli.engine import inference
from rooflinecli.engine.scene import Scene
from rooflinecli.simulate.fleet import Fleet, closed
from rooflinecli.simulate.job import Job
from rooflinecli.simulate.lengths import Lengths
from rooflinecli.simulate.prices import Prices
from rooflinecli.simulate.replica import Replica
from rooflinecli.simulate.residents import Limits
from rooflinecli.specs import ask
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.registry import load

BARE = {
    "gather_steps": 0.0,
    "unexplained": 0.0,
}  # what the formula needs beside a scheduler's rules to agree with measured runs
CELLS = [(1024, 1024, c) for c in (4, 16, 64)] + [(8192, 1024, c) for c in (4, 16)] + [(1024, 4096, 32)]


def both(prompt, output, concurrency):
    """(first token, time per further token) of the formula and of ten prompts a slot, lengths uniform in [0.8, 1].

    Without a front end, which the formula adds to the mean and a simulation rounds up to whole steps.
    """
    asked = ask.request(
        {"model": "llama70b", "hw": "h100", "tp": 4, "n": 4, "dtype": "fp8", "kv-dtype": "fp8", "engine": "vllm",
         "prompt": round(0.9 * prompt), "output": round(0.9 * output), "concurrency": concurrency}
    )  # fmt: skip
    scene, plan = Scene(asked), Plan(tp=4.0, zero=0)
    setting = scene.engine.scheduler.model_copy(
        update={"prompt_factor": 1.0, "graph_tokens": 0, "front": 0.0, "per_stream": 0.0}
    )
    scene.engine = scene.engine.model_copy(update={**BARE, "scheduler": setting})
    formula = inference.prefill(scene, plan).time_s, inference.decode(scene, plan).time_s
    sizes = (
        Lengths("fixed", (float(n),), (0.8, 1.0)).draw(10 * concurrency, 0, i) for i, n in enumerate((prompt, output))
    )
    jobs = [Job(i, 0.0, *each) for i, each in enumerate(zip(*sizes, strict=True))]
    replica = Replica(Prices(scene, plan), Limits(10**9, 2048), setting)
    ended = closed(Fleet([replica], load("simulate/routers", "round-robin")), jobs, concurrency)
    first = sum(j.first - j.arrival for j in ended) / len(ended)
    further = sum((j.finish - j.first) / (j.output - 1) for j in ended) / len(ended)
    return formula, (first, further)


def test_the_closed_form_is_within_eight_per_cent():
    errors = []
    for cell in CELLS:
        (formula_first, formula_itl), (first, itl) = both(*cell)
        errors.append(formula_first / first - 1)
        assert formula_itl == pytest.approx(itl, rel=0.08), cell
        assert abs(errors[-1]) < 0.12, (cell, errors[-1])
    assert sum(map(abs, errors)) / len(errors) < 0.08, errors
