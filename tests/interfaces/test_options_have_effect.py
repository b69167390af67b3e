"""An option that was given changes a number of the answer, or is said to change none, or is refused: on a question of every verb, one after the
other. What only the command line has (files, formats, progress) is no part of a question."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from rooflinecli.core.errors import RooflineError, RooflineWarning
from rooflinecli.core.record import plain
from rooflinecli.interfaces import verbs
from rooflinecli.specs.options import KINDS, Option

# what an answer repeats of its question, and commands that do
ECHO = set("workload load slo_s limits_s deadline_s budget_usd qps tokens seed schema".split())
VALUES = {  # where a value follows from neither the kind nor the default
    "n": [8, 16, 4], "tp": [2, 4], "pp": [2], "dp": [2], "cp": [2], "ep": [2, 4], "zero": [3, 0], "expert-tp": [1, 2], "micro-batch-size": [2],
    "dtype": ["fp8", "fp32"], "kv-dtype": ["fp8"], "ssm-state-dtype": ["bf16", "fp32"], "weight-dtype": ["int4"], "rollout-dtype": ["fp8"],
    "layers-per-stage": ["embedding+loss", "loss"], "recompute-modules": ["mlp"], "offload": ["optimizer"], "expert-offload": ["host"],
    "host-cpu": ["epyc-9654"], "gpu-layers": [8], "image-size": ["512x512"], "doc-lengths": ["512"], "tokens": ["1T"], "price": ["1.23"],
    "device-memory": ["60GB", "20GB"], "region": ["us-east-1"], "electricity": ["0.2 USD/kWh"], "power-cap": ["400W"], "pue": [1.5], "host-factor": [2],
    "utilization": [0.5], "prefix-hit-rate": [0.5], "kv-offload": ["host=256GB@50GB/s"], "gradient-bytes": [2], "optimizer-bytes": [8],
    "optimizer": ["adafactor"], "capacity-factor": [1.5], "lora-rank": [64], "engine": ["vllm", "sglang"], "gpu-memory-utilization": [0.5, 0.3],
    "speculative-method": ["mtp"], "acceptance-rate": [0.6], "max-num-batched-tokens": [512, 128], "scheduler-config": ["poll_steps=30", "token_budget=512"],
    "framework": ["megatron-2022"], "batch": [4, 64], "objective": ["latency", "cost"], "where": ["train.mfu >= 0.9", "serve.itl_s <= 1 ms"],
    "top": [1, 2], "itl": ["1 ms"], "ttft": ["1 ms"], "slo": ["itl=1ms", "ttft=300ms@90"], "rank-by": ["decode.tokens_per_s", "train.mfu"],
    "deadline": ["60d"], "budget": ["1000 USD"], "power": ["2kW", "1kW"], "preempted": ["1h"], "arrivals": ["constant"], "length-range": ["0.5:1"],
    "trace": ["missing.csv"], "trace-window": ["0s:20s"], "warmup": ["1s"], "replicas": [2], "router": ["least-loaded"], "failures": ["1@2s:10s"],
    "autoscale": ["1:2@4"], "startup-time": ["3s"], "measured": ["missing.json"], "mfu": [0.4], "from": ["vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"],
    "set": ["memory.bandwidth=x2"], "columns": ["decode.time_s", "train.time_s"], "shard": ["1/2"], "profile": ["missing.json"], "sensitivity": [True],
    "tool-wait": ["5"], "tool-output": ["100"], "critic": ["llama-3.2-1b"], "reward-model": ["llama-3-8b"], "rollout-devices": [8], "rollout-tp": [2, 8],
    "mini-batch": [32], "max-tokens-per-device": ["8k"], "calibrate-question": ["-n 16"], "log": ["missing.log"], "calibrate": ["missing.log"],
    "mesh": ["x=4,y=4"], "backend": ["one-shot", "deepep"], "library": ["vllm"], "hw": ["h200"], "model": ["llama-3.1-8b", "qwen3-8b"],
    "quantization": ["q4_k_m"], "draft": ["llama-3.2-3b"], "target": ["llama-3-8b"], "storage": ["peer"], "max-nodes-per-token": [2],
}  # fmt: skip
DENSE, MOE = {"model": "llama-3-8b", "hw": "h100"}, {"model": "qwen3-30b-a3b", "hw": "h100"}
TRAIN = {"phase": "train", "batch": 64, "zero": 1, "recompute": "none", "micro-batch-size": 1}
PINNED = {"n": 8, "tp": 2, "pp": 2, "dp": 2}
RANKS = "the layouts that it ranks have the same first"
ALIKE = "every order of the axes is alike inside a host"
MEMORY = "another stage needs the most memory"
STAGES = "the layout that ranks first has no stages"
FITS = "it decides whether the layout fits"
BASES: dict[str, tuple[str, dict[str, object], dict[str, str]]] = {  # name -> verb, question, options without effect and why that is no fault
    "decode": ("estimate", {**DENSE, "n": 8, "phase": "decode"}, {"bound": RANKS}),
    "prefill": ("estimate", {**DENSE, "n": 8, "phase": "prefill"}, {"bound": RANKS}),
    "one": ("estimate", {**DENSE, "n": 1, "phase": "decode"}, {}),
    "layout": ("estimate", {**DENSE, "n": 2, "tp": 2, "pp": 1, "dp": 1, "phase": "decode"}, {}),
    "closed": ("estimate", {**DENSE, "n": 2, "tp": 2, "pp": 1, "dp": 1, "concurrency": 16, "engine": "vllm"}, {}),
    "open": ("estimate", {**DENSE, "n": 2, "tp": 2, "pp": 1, "dp": 1, "qps": 2, "engine": "vllm"}, {}),
    "train": ("estimate", {**DENSE, **TRAIN, **PINNED}, {"loss-chunks": MEMORY}),
    "experts": ("estimate", {**MOE, "n": 8, "phase": "decode"}, {"bound": RANKS}),
    "experts spread": ("estimate", {**MOE, "n": 8, "tp": 1, "pp": 1, "dp": 8, "ep": 8, "phase": "decode"}, {}),
    "experts trained": ("estimate", {**MOE, **TRAIN, "n": 16, "tp": 1, "pp": 2, "dp": 8, "ep": 8}, {"loss-chunks": MEMORY}),
    "no power": ("estimate", {"model": "llama-3-8b", "hw": "tpu-v5e", "n": 8, "phase": "decode"}, {"bound": RANKS}),
    "encoder": ("estimate", {"model": "bert-base", "hw": "h100", "n": 1, "phase": "prefill"}, {}),
    "ops": ("ops", {**DENSE, "n": 1, "phase": "decode"}, {"gpu-memory-utilization": FITS}),
    "ops of training": ("ops", {**DENSE, **TRAIN, **PINNED}, {"loss-chunks": FITS}),
    "compare": ("compare", {"model": "llama-3-8b", "hw": "h100,mi300x", "n": 3, "phase": "decode"}, {}),
    "simulate": ("simulate", {**DENSE, "n": 1, "qps": 2, "num-requests": 60, "interval": False}, {}),
    "closed loop": ("simulate", {**DENSE, "n": 2, "tp": 2, "pp": 1, "dp": 1, "concurrency": 4, "engine": "vllm", "interval": False}, {}),
    "search": ("search", {**DENSE, **TRAIN, "n": 4, "batch": 16, "pp": 1}, {"placement": ALIKE, "pipeline-schedule": STAGES}),
    "search of serving": ("search", {**DENSE, "n": 8, "qps": 4, "phase": "decode", "batch": "16,32"}, {}),
    "plan": ("plan", {**DENSE, **TRAIN, "tokens": "100B", "deadline": "30d", "batch": 256, "pp": 1}, {"placement": ALIKE, "pipeline-schedule": STAGES, "cp-algorithm": "no layout with --cp ranks first", "loss-chunks": MEMORY}),
    "plan of a service": ("plan", {**DENSE, "qps": 4, "batch": "16,32"}, {"bound": RANKS, "n": "it is the most to have", "gpu-memory-utilization": FITS}),
    "rl": ("rl", {**DENSE, "n": 16, "prompts": 16, "samples": 8, "output": "lognormal:500,0.5"}, {}),
    "sweep": ("sweep", {**DENSE, "n": 8, "phase": "decode", "batch": "1,8"},
              {"bound": RANKS, "feasible-only": "every point is feasible", "sensitivity": "the command line answers with it instead of rows"}),
    "goodput": ("goodput", {"n": 1024, "checkpoint": "30 s"}, {}),
    "goodput of a model": ("goodput", {"n": 1024, "params": "70B", "run": "54 days", "spares": 4}, {}),
    "all-reduce": ("collective", {"op": "all-reduce", "size": "128MiB", "hw": "h100", "n": 16}, {}),
    "dispatch": ("collective", {"op": "dispatch", "size": "2MB", "hw": "h100", "n": 64, "backend": "deepep-low-latency"}, {}),
    "speculate": ("speculate", {"acceptance-rate": 0.8, "draft-cost": 0.1}, {}),
    "draft of a target": ("speculate", {"acceptance-rate": 0.8, "draft": "llama-3.2-1b", "target": "llama-3.3-70b"}, {}),
    "fit": ("fit", {"model": "llama-3-8b", "hw": "rtx-4060"}, {}),
    "partitioning": ("partitioning", {"model": "llama70b", "hw": "tpu-v5e", "n": 16}, {}),
}  # fmt: skip


def values(option: Option) -> list[object]:
    """Values that are not the default, until one has an effect."""
    if option.long in VALUES:
        return VALUES[option.long]
    if option.kind == "switch":
        return [True, False] if option.default is None else [not option.default]
    if option.choices:
        return [choice for choice in option.choices if choice != option.default]
    unit, number = KINDS[option.kind].unit, option.default
    amount = 2 * number if isinstance(number, (int, float)) and number else 3
    if option.kind == "fraction":
        return [0.37]
    return [amount if unit in ("1", "tokens", "length") else f"{amount} {unit}"]


def numbers(answer: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every number and switch of an answer by its path, and how many entries a list has."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name not in ECHO:
                yield from numbers(value, f"{path}.{name}")
    elif isinstance(answer, (list, tuple)):
        yield path, len(answer)
        for place, value in enumerate(answer):
            yield from numbers(value, f"{path}.{place}")
    elif not isinstance(answer, str):
        yield path, answer


def asked(verb: str, options: dict[str, object]) -> tuple[dict[str, object], set[str]]:
    """Numbers of an answer, and what is said beside it."""
    kind = verbs.question(verb)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RooflineWarning)
        found = verbs.answer(kind.read(options))
    return dict(numbers(plain(found))), {str(one.message) for one in caught}


def has_effect(verb: str, base: dict[str, object], option: Option, before: tuple[dict[str, object], set[str]]) -> bool:
    own = {name.replace("-", "_") for name in (option.long, option.parameter, option.name, option.field)}
    for value in values(option):
        try:
            after, said = asked(verb, {**base, option.long: value})
        except RooflineError:
            return True
        changed = {path for path in before[0].keys() | after.keys() if before[0].get(path, 0) != after.get(path, 0)}
        if said - before[1] or {path for path in changed if path.rpartition(".")[2] not in own}:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_an_option_has_an_effect_or_is_said_to_have_none(name):
    verb, base, exceptions = BASES[name]
    kind = verbs.question(verb)
    given = {kind.named(option).parameter for option in base}
    before = asked(verb, base)
    others = [option for parameter, option in kind.fields().items() if parameter not in given]
    assert {option.long for option in others if not has_effect(verb, base, option, before)} == set(exceptions)


def test_every_verb_with_options_of_its_own_is_asked():
    """Those left out: what reads files alone, one quantity or a page of an estimate, and formulas, of which every field is an input."""
    asked_of = {verb for verb, _, _ in BASES.values()}
    assert set(verbs.NAMES) - asked_of == {"explain", "fleet", "check", "calibrate", "shard", "quiz"}
