"""Logs of RL post-training by verl, NeMo RL, OpenRLHF, slime, AReaL and DeepSpeed-Chat: the seconds of every stage of a step, one record for all.

`steps(source)` and `median_step` are for what forecasts such a step; `calibrate` refuses these logs, since a step mixes generation with training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from rooflinecli.core.errors import DataError
from rooflinecli.core.units import duration
from rooflinecli.importers.source import MeasuredRow, Source, patterns
from rooflinecli.importers.source import number as as_number
from rooflinecli.specs.snapshots import table

_P = patterns("rl")
TOOL = "verl / NeMo RL / OpenRLHF / slime / AReaL / DeepSpeed-Chat"
WARM_UP = 1  # steps in which engines start and kernels are compiled
_TABLE = table(Path(__file__).with_suffix(".yaml"))
_NAMES: dict[str, list[str]] = _TABLE["figures"]
_TOOLS: dict[str, str] = _TABLE["tools"]
_WAITS = ("perf/train_wait_time", "perf/train_time")  # of slime, which state a step where it states none


@dataclass(frozen=True)
class RlStep:
    """A step as a log states it, in seconds of wall time; None for what it leaves out.

    log_probs_s: of the policy, and of all forward passes over finished sequences where the framework does not separate them;
    weights_s: from the trainer to the generating engines; other_s: stages by the log's own names; tokens: prompts and answers
    of a step; prompt, output: mean lengths; tokens_per_s_per_device: over the whole step (slime: over its rollout).
    """

    where: str
    tool: str
    number: int | None = None
    step_s: float | None = None
    generation_s: float | None = None
    log_probs_s: float | None = None
    reference_s: float | None = None
    values_s: float | None = None
    rewards_s: float | None = None
    actor_s: float | None = None
    critic_s: float | None = None
    weights_s: float | None = None
    tokens: float | None = None
    tokens_per_s_per_device: float | None = None
    prompt: float | None = None
    output: float | None = None
    other_s: dict[str, float] = field(default_factory=dict)


def claims(source: Source) -> bool:
    return any(re.search(mark, source.plain) for mark in _TABLE["marks"])


def read(source: Source) -> list[MeasuredRow]:
    """Raise DataError that says what a step took: no row of one phase."""
    found = steps(source)
    if not found:
        return []
    middle = median_step(found)
    stages = {"step": middle.step_s, "generation": middle.generation_s, "the actor's update": middle.actor_s}
    said = ", ".join(f"{name} {duration(seconds)}" for name, seconds in stages.items() if seconds)
    raise DataError(
        f"{middle.where}: {middle.tool}, {len(found)} steps of reinforcement learning, medians: {said}; calibrate fits serving and "
        "training apart: give logs of either"
    )


def steps(source: Source) -> list[RlStep]:
    """Every step of a log, in its order. Lines that several workers print of one step are one."""
    found: list[tuple[int, int | None, dict[str, float]]] = []
    last: dict[int | None, dict[str, float]] = {}  # figures of the latest step of each number
    nemo = "Total step time:" in source.plain
    for line, number, pairs in _blocks(source) if nemo or "│ timeperf/" in source.plain else _lines(source):
        before = last.get(number)
        if number is not None and before is not None and all(before.get(k, v) == v for k, v in pairs.items()):
            before.update(pairs)
        else:
            last[number] = pairs
            found.append((line, number, pairs))
    made = [_step(source.at(line), number, pairs, nemo) for line, number, pairs in found]
    return [step for step in made if step.step_s or step.generation_s or step.actor_s]


def median_step(of: list[RlStep]) -> RlStep:
    """The median of each figure after the first step, cited at the step whose time is nearest."""
    kept = of[WARM_UP:] or of
    middle: dict[str, float] = {}
    for name in _NAMES:
        values = [value for step in kept if (value := getattr(step, name)) is not None]
        if values:
            middle[name] = float(median(values))
    names = dict.fromkeys(name for step in kept for name in step.other_s)
    others = {name: float(median([s.other_s[name] for s in kept if name in s.other_s])) for name in names}
    near = min(kept, key=lambda step: abs((step.step_s or 0.0) - middle.get("step_s", 0.0)))
    return replace(near, number=None, other_s=others, **middle)  # type: ignore[arg-type]


def _lines(source: Source) -> Iterator[tuple[int, int | None, dict[str, float]]]:
    """(line, step, its figures) of lines that hold times: key:value pairs, a printed dictionary, or JSON."""
    if source.looks_like_json:
        for line, record in source.objects:
            data = record.get("data")
            flat = {**record, **data} if isinstance(data, dict) else record
            pairs = {k: float(v) for k, v in flat.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            number = next((int(pairs[k]) for k in ("step", "training/global_step", "_step") if k in pairs), None)
            yield line, number, pairs
        return
    for line, text in enumerate(source.lines, start=1):
        if any(prefix in text for prefix in (*_TOOLS, "rollout/")):
            start = _P.step.search(text)
            number = int(start[1]) if start else None
            figures = [(k, as_number(v.rstrip("."))) for k, v in _P.pair.findall(text) + _P.chat.findall(text)]
            yield line, number, {k: value for k, value in figures if value is not None}


def _blocks(source: Source) -> Iterator[tuple[int, int | None, dict[str, float]]]:
    """The same of NeMo RL and AReaL, which print a figure on each line: a step goes on up to a banner, or a name that comes again."""
    number, pairs, at = None, dict[str, float](), 0
    for line, text in enumerate([*source.lines, "Training Results"], start=1):
        banner, end = _P.banner.match(text.strip()) or "Training Results" in text, _P.areal.search(text)
        figures = [*_P.nemo.findall(text), *(_P.cell.findall(text) if "│" in text else ())]
        if banner or end or any(name in pairs and name.startswith("timeperf/") for name, *_ in figures):
            if at and pairs:
                yield at, number, pairs
            marked = end or (banner if isinstance(banner, re.Match) else None)
            number = int(marked[1]) if marked else None if at else number
            pairs, at = {}, line if end else 0
        for name, value, *_ in figures:
            at = line if name == "Total step time" or not (at or "/" not in name) else at
            pairs.setdefault(name, as_number(value) or 0.0)


def _step(where: str, number: int | None, pairs: dict[str, float], nemo: bool) -> RlStep:
    prefix = "" if nemo else next((p for p in _TOOLS if any(name.startswith(p) for name in pairs)), "perf/")
    own = {key: next((pairs[n] for n in names if n in pairs), None) for key, names in _NAMES.items()}
    if own["step_s"] is None and all(name in pairs for name in _WAITS):
        own["step_s"] = sum(pairs[name] for name in _WAITS)
    if prefix == "timeperf/":  # its stages follow each other, and its sequences have prompts in them
        own["step_s"] = sum(value for name, value in pairs.items() if name.startswith(prefix))
        if own["prompt"] is not None and "ppo_actor/seq_len/avg" in pairs:
            own["output"] = pairs["ppo_actor/seq_len/avg"] - own["prompt"]
    known = {name for names in _NAMES.values() for name in names}
    stage = re.compile(rf"{prefix}[a-z_]+{'_time' if prefix == 'perf/' else '(?:/total)?'}")
    others = {name: value for name, value in pairs.items() if name not in known and stage.fullmatch(name)}
    return RlStep(where, "NeMo RL" if nemo else _TOOLS[prefix], number, other_s=others, **own)
