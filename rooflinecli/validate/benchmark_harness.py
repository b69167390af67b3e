"""Harness of collected runs: the flags of their servers, as far as known, by the rules of aiconfigurator.yaml.

InferenceX starts all requests of a slot count C at once, 10 C of them, with lengths uniform in [0.8, 1] of the nominal ones. The
vendor's runs state no harness; fixed lengths and 10 prompts a slot fit them best, for vLLM lengths within a fifth of the nominal ones.
SGLang's vendor runs of Qwen3-32B state no precision and are simulated as bf16: with prompts first and equal lengths the slots
run in lockstep, and then both times agree with bf16, neither with fp8 (the formula, which knows no lockstep, has it the other way round).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rooflinecli.specs.scheduler import MEANS
from rooflinecli.validate.aiconfigurator_tables import DATA, matches
from rooflinecli.validate.stats import Row

if TYPE_CHECKING:  # inference imports this module
    from rooflinecli.validate.inference import Run

WARMED_UP_SINCE = "2026-01-21"  # d053ae24: warm-up requests
SGLANG_056 = "2025-12"  # from then on its runs are of v0.5.6 and later
COMPILED_TTFT_S = 5.0  # seconds of a mean first token, ten times as long as those of the same page without a compiler in its first wave
NO_WAITS = {"poll_steps": 1, "stream_steps": 1}


def is_inferencex(run: Run) -> bool:
    """Whether it is one of InferenceX, whose scripts are public."""
    source = run.row["silicon_data_source"] if run.row is not None else ""
    return "db-dump" in source or "source_file=20" in source


def is_warmed_up(run: Run) -> bool:
    """Whether requests preceded the timed ones of a public run."""
    return measured_on(run) >= WARMED_UP_SINCE


def exclusion(run: Run) -> str:
    """Why a public run does not time the engine, by its own figures; empty where it does."""
    if not is_warmed_up(run) and run.measured["ttft"] > COMPILED_TTFT_S:
        return "first wave compiled (at fault)"
    # the same script has B200, a slower chip, read prompts four to eight times as fast three weeks before
    return (
        "fp8 prompts on B300 (at fault)" if (run.options["hw"], run.options.get("dtype")) == ("b300-sxm", "fp8") else ""
    )


def measured_on(run: Run) -> str:
    """The day of a run, empty where the source does not state it."""
    return row(run)["silicon_data_source"].partition("measured=")[2][:10]


def rule_inputs(run: Run) -> Row:
    """What the rules of the scripts ask about a run, and the values that they compute; `tuned`: whether a script of vLLM sets a budget of
    two prompts, graphs that hold them, and an fp8 cache."""
    given, concurrency = row(run), run.options["concurrency"]
    prompt, output = int(float(given["isl"])), int(float(given["osl"]))
    wave = math.ceil((round(concurrency * run.layout.dp) + prompt + 64) / 64) * 64
    found = {
        "public": is_inferencex(run), "group": run.group, "system": given["system"], "precision": given["precision"], "hw": run.options["hw"],
        "day": measured_on(run), "version": given["backend_version"], "prompt": prompt, "output": output, "two_prompts": 2 * prompt,
        "one_wave": wave, "roomy_wave": max(wave, 8192), "round_prompt": float(given["isl"]) % 1000 == 0,
        "few": run.layout.tp < 8, "ranks": run.layout.dp > 1, "busy": concurrency >= 16,
    }  # fmt: skip
    return {**found, "tuned": any(matches(found, patterns) for patterns in DATA["tuned"])}


def server_settings(run: Run) -> Row:
    """The settings of a run's server."""
    known, settings = rule_inputs(run), Row()
    for rule in DATA["scripts"][run.engine]:
        if matches(known, rule.get("when", {})) and not ("unless" in rule and matches(known, rule["unless"])):
            settings |= {name: known.get(value, value) for name, value in rule["set"].items()}
    return settings


def flags(run: Run) -> str:
    """The flags of a run's script as --scheduler takes them; no delays where it sets none."""
    found = {**NO_WAITS, **{name: value for name, value in server_settings(run).items() if name in MEANS}}
    return ",".join(f"{name}={value}" for name, value in found.items())


def row(run: Run) -> dict[str, str]:
    """The row of aiconfigurator that it was."""
    assert run.row is not None  # collected runs have one
    return run.row
