"""A study: the product of everything that was given several values, a simulation each, spread over as many hands as there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.parallel_map import Spread
from rooflinecli.questions.simulate.answer import simulate
from rooflinecli.questions.simulate.min_replicas import min_replicas
from rooflinecli.questions.simulate.question import SimulateQuestion, check, whole
from rooflinecli.questions.simulate.run import run
from rooflinecli.specs import parse_values
from rooflinecli.specs.options import find

SCHEMA = "roofline/simulate-study/1"
_LISTED = ("model", "hw", "engine", "dtype", "kv-dtype", "tp", "pp", "dp", "ep", "n")
MOST = 10_000


@dataclass(frozen=True)
class StudyCell:
    """A question, whether the fewest replicas are sought, and the values that set it apart from the others."""

    question: SimulateQuestion
    fewest: bool
    apart: tuple[tuple[str, str], ...] = ()


def cells(options: dict[str, Any], given: dict[str, Any], varied: dict[str, str | None]) -> list[StudyCell]:
    """Every combination, the last option fastest. Raises UsageError for what cannot be read."""
    plain = {
        name: str(value) if not isinstance(value, bool) else ("yes" if value else "no")
        for name, value in options.items()
    }
    lists = {name: _split(plain[name]) for name in _LISTED if name in plain}
    lists |= {name: _split(str(value)) for name, value in varied.items() if value is not None}
    fixed = {name: value for name, value in plain.items() if name not in lists}
    combinations = list(itertools.islice(itertools.product(*lists.values()), MOST + 1))
    if len(combinations) > MOST:
        raise UsageError(f"more than {MOST:,} simulations; give fewer values")
    several = [name for name, values in lists.items() if len(values) > 1]
    return [_cell(dict(zip(lists, values, strict=True)), fixed, given, several) for values in combinations]


def _split(text: str) -> list[str]:
    found = [item.strip() for item in text.split(",") if item.strip()]
    return list(dict.fromkeys(found)) or [text]


def _cell(one: dict[str, str], fixed: dict[str, str], given: dict[str, Any], several: list[str]) -> StudyCell:
    options = {**fixed, **{name: value for name, value in one.items() if name in _LISTED}}
    replicas = one.get("replicas", "1")
    own = {name: value for name, value in given.items() if value is not None}
    for name in (option for option, field in OWN.items() if own.get(field) == ""):
        raise UsageError(f"--{name} is empty; leave it out, or give it a value", name)
    if own.get("warmup") is not None:
        own["warmup"] = parse_values.seconds("--warmup", own["warmup"])
    if own.get("requests") is not None:
        own["requests"] = whole("requests", own["requests"])
    if "qps" in one:
        own["qps"] = parse_values.number("--qps", one["qps"], "rate", "qps")
        if own["qps"] <= 0:
            raise UsageError(f"--qps {one['qps']}: must be above zero", "qps")
    if "concurrency" in one:
        own["concurrency"] = whole("concurrency", one["concurrency"])
    if replicas != "min":
        own["replicas"] = whole("replicas", replicas)
    question = SimulateQuestion(tuple(sorted(options.items())), **own)
    check(question)
    return StudyCell(question, replicas == "min", tuple((name, one[name]) for name in several))


OWN = {
    "trace": "trace", "arrivals": "arrivals", "prompts-per-slot": "per_slot", "prompt": "prompt", "output": "output", "lengths": "spread",
    "requests": "requests", "speed": "speed", "window": "window", "skip-bad": "skip_bad", "warmup": "warmup", "lose": "lose", "autoscale": "autoscale", "start-up": "start_up", "slo": "slo", "router": "router",
    "prefill-pool": "prefill_pool", "decode-pool": "decode_pool", "kv-link": "link", "prefix-cache": "prefix_cache",
    "scheduler": "settings", "seed": "seed",
}  # fmt: skip
VARIED = ("qps", "concurrency", "replicas")


def one(written: dict[str, Any]) -> StudyCell:
    """The cell of options and entries of the load together, by their names on the command line, dashes or underscores.

    Raises UsageError for several values, and for what does not exist.
    """
    named = {name.replace("_", "-"): value for name, value in written.items() if value is not None}
    varied: dict[str, str | None] = {name: str(named[name]) for name in VARIED if name in named}
    given = {OWN[name]: _read(name, value) for name, value in named.items() if name in OWN}
    options = {find(name).name: value for name, value in named.items() if name not in (*VARIED, *OWN)}
    found = cells(options, given, varied)
    if len(found) > 1:
        raise UsageError("this asks for one simulation; give one value of each option")
    return found[0]


def asked(written: dict[str, Any]) -> SimulateQuestion:
    """The question of them. Raises UsageError for `replicas: min`, which is a search."""
    found = one(written)
    if found.fewest:
        raise UsageError("replicas=min is a search; use the command line, or give a count", "replicas")
    return found.question


def simulated(written: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What `roofline simulate --format json` prints of them, and the times of each request. Raises UsageError for several values of an
    option, and for a search."""
    found = run(asked(written))
    return simulate(found, None, None, None), found.every


def _read(name: str, value: Any) -> Any:
    """An entry in the form that the question keeps it in."""
    if name == "scheduler":
        return tuple(map(str, value)) if isinstance(value, (list, tuple)) else (str(value),)
    if name in ("skip-bad", "prefix-cache"):
        return bool(value)
    if name in ("prompts-per-slot", "prefill-pool", "decode-pool", "seed"):
        return whole(name, value, 0)
    return parse_values.number(f"--{name}", value, "rate", name) if name == "speed" else str(value)


def answered(cell: StudyCell) -> dict[str, Any]:
    """The numbers of a cell; what does not fit has its reason instead."""
    try:
        found = min_replicas(cell.question)[0] if cell.fewest else run(cell.question)
    except Infeasible as error:
        return {**dict(cell.apart), "feasible": False, "violation": str(error)}
    if found.cut:
        raise KeyboardInterrupt  # a part of a cell is no cell
    return {**dict(cell.apart), **found.values, "feasible": True, "violation": ""}


def study(found: list[StudyCell], spread: Spread, tell: Callable[[int], None] | None = None) -> dict[str, Any]:
    """A row per cell, in the order of the cells; of those that had ended where it was interrupted, if any had."""
    rows: list[dict[str, Any]] = []
    try:
        for row in spread(answered, found):
            rows.append(row)
            if tell is not None:
                tell(1)
    except KeyboardInterrupt:
        if not rows:
            raise
    limits = found[0].question.limits
    kept = all(row["feasible"] and (limits is None or row["slo_margin_share"] >= 0) for row in rows)
    return {
        "schema": SCHEMA,
        "axes": [name for name, _ in found[0].apart],
        "slo": limits.text if limits else None,
        "rows": rows,
        "kept": kept,
    }
