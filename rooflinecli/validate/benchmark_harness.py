"""Harness of collected runs: the options of their estimate, their lengths and the flags of their servers, as far as known.

InferenceX (github SemiAnalysisAI/InferenceX, benchmarks/*.sh and utils/bench_serving at ad4f6a4a, 7a21380a, 1cb92d21 and c198b20e; what
changed since at the commits and dates below) starts all
requests of a slot count C at once, 10 C of them, with lengths uniform in [0.8, 1] of the nominal ones. The vendor's runs state
no harness; fixed lengths and 10 prompts a slot fit them best, for vLLM lengths within a fifth of the nominal ones. Budgets, polling, holding
and memory follow the scripts where there are scripts, else the engines' documented defaults.
SGLang's vendor runs of Qwen3-32B state no precision and are simulated as bf16: with prompts first and equal lengths the slots
run in lockstep, and then both times agree with bf16, neither with fp8 (the formula, which knows no lockstep, has it the other way round).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rooflinecli.specs.scheduler import MEANS
from rooflinecli.validate.stats import Row

if TYPE_CHECKING:  # inference imports this module
    from rooflinecli.validate.inference import Run

MINIMAX_TUNED = "2026-04-03"  # bddbf403: budget of two prompts, graphs of 2048 tokens, fp8 cache (B200; 340d7854, 79bd988e, 22d0f12f for the others)
KIMI_TUNED = "2026-04-20"  # 6c3acebf: the same for its fp4 on B200
ROOMY_TRTLLM = "2026-01-21"  # 64af5a77: max_num_tokens of 8192 at least
CAPTURED = 2048  # --max-cudagraph-capture-size, cuda-graph-sizes
AT_ONCE = ("0.5.9", "0.5.10")  # SGLang images that send a first token by itself: scheduler_output_processor_mixin.py
WARMED = "2026-01-21"  # d053ae24: warm-up requests
NO_WAITS = {"poll_steps": 1, "stream_steps": 1}
DEFAULT_TIMEOUT = 50  # timeout_iters of AttentionDpConfig, tensorrt_llm/llmapi/llm_args.py
DEFAULT_SHARE = 0.9  # gpu_memory_utilization of vLLM, free_gpu_memory_fraction of TensorRT-LLM


def public(run: Run) -> bool:
    """Whether it is one of InferenceX, whose scripts are public."""
    source = run.row["silicon_data_source"] if run.row is not None else ""
    return "db-dump" in source or "source_file=20" in source


def is_warmed_up(run: Run) -> bool:
    """Whether requests preceded the timed ones of a public run."""
    return measured_on(run) >= WARMED


def measured_on(run: Run) -> str:
    """The day of a run, empty where the source does not state it."""
    return row(run)["silicon_data_source"].partition("measured=")[2][:10]


def is_tuned(run: Run) -> bool:
    """Whether a script of vLLM sets a budget of two prompts, graphs that hold them, and an fp8 cache."""
    kind, day = run.group.partition("-")[0], measured_on(run)
    if kind == "MiniMax":
        return public(run) and is_blackwell(run) and day >= MINIMAX_TUNED
    return (
        public(run)
        and kind == "Kimi"
        and row(run)["system"].startswith("b200")
        and row(run)["precision"] == "fp4"
        and day >= KIMI_TUNED
    )


def flags(run: Run) -> str:
    """The flags of a run's script as --scheduler takes them; no delays where it sets none."""
    found = {**NO_WAITS, **{name: value for name, value in SCRIPTS[run.engine](run).items() if name in MEANS}}
    return ",".join(f"{name}={value}" for name, value in found.items())


def _vllm(run: Run) -> Row:
    if not public(run):
        return {"memory_share": DEFAULT_SHARE}
    if is_tuned(run):
        return {
            "token_budget": 2 * int(float(row(run)["isl"])),
            "graph_tokens": CAPTURED,
            "memory_share": DEFAULT_SHARE,
        }
    roomy = run.group.startswith("MiniMax") and not str(run.options["hw"]).startswith("h100")
    roomy = roomy or (run.group.startswith("Kimi") and row(run)["precision"] == "int4")
    graph = {"graph_tokens": CAPTURED} if run.group.startswith("gpt") else {}
    return {"token_budget": 8192, "memory_share": 0.95 if roomy else DEFAULT_SHARE, **graph}


def _trtllm(run: Run) -> Row:
    prompt, output = int(float(row(run)["isl"])), int(float(row(run)["osl"]))
    concurrency = round(run.options["concurrency"] * run.layout.dp)
    if not public(run):
        return {"token_budget": 2048, "cache_share": DEFAULT_SHARE}
    if run.group.startswith("Llama"):
        delayed = prompt == output == 1024 and run.layout.tp < 8
        hold = {"hold_steps": 20, "hold_share": 0.9} if delayed else {}
        return {"token_budget": 16384, "cache_share": DEFAULT_SHARE, **hold}
    if run.group.startswith("gpt"):
        return {"token_budget": 20000, "cache_share": 0.85, **_balanced(run, DEFAULT_TIMEOUT)}
    share = 0.75 if str(run.options["hw"])[:1] == "h" else 0.8
    least = 8192 if measured_on(run) >= ROOMY_TRTLLM else 0
    return {
        "token_budget": max(math.ceil((concurrency + prompt + 64) / 64) * 64, least),
        "cache_share": share,
        **_balanced(run, 60),
    }


def _balanced(run: Run, steps: int) -> Row:
    """attention_dp_config with enable_balance: ranks wait until each has a prompt before any prefills, up to timeout_iters."""
    return {"hold_steps": steps, "hold_share": 1.0} if run.layout.dp > 1 else {}


def _sglang(run: Run) -> Row:
    if not public(run):
        return {"token_budget": 8192, "mixed": float(row(run)["isl"]) % 1000 == 0}
    at_once = row(run)["backend_version"].startswith(AT_ONCE)
    if str(run.options["hw"])[:1] == "h":
        return {"token_budget": 32768, "stream_steps": 1 if at_once else 10, "memory_share": 0.82}
    fp8, few = row(run)["precision"] == "fp8", run.layout.tp < 8
    budget, share = (8192 if few else 32768, 0.95 if few else 0.82) if fp8 else (16384, 0.85)
    poll = 30 if run.options["concurrency"] >= 16 and not (fp8 and few) else 10
    stream = 1 if at_once else 30 if fp8 else 10
    return {"token_budget": budget, "poll_steps": poll, "stream_steps": stream, "memory_share": share}


def row(run: Run) -> dict[str, str]:
    """The row of the wheel that it was."""
    assert run.row is not None  # collected runs have one
    return run.row


def is_blackwell(run: Run) -> bool:
    return str(run.options["hw"])[:2] in ("b2", "b3", "gb")


SCRIPTS = {"vllm": _vllm, "trtllm": _trtllm, "sglang": _sglang}
