"""Plans the tests share, and how they are run."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from conftest import Ran, run_cli

GOOD: dict[str, Any] = {
    "defaults": {"model": "llama-3.3-70b", "hw": "h100"},
    "checks": {
        "chat": {
            "devices": 8,
            "tp": 8,
            "batch": 32,
            "prompt": 2048,
            "output": 512,
            "require": {"feasible": True, "decode.time_s": "<= 400 ms", "memory.headroom_fraction": ">= 5 %"},
        }
    },
}


def plan(**changes: Any) -> dict[str, Any]:
    """The good plan with fields of its one check replaced; None removes one."""
    made = copy.deepcopy(GOOD)
    check = made["checks"]["chat"]
    for key, value in changes.items():
        check[key.replace("_", "-")] = value
        if value is None:
            del check[key.replace("_", "-")]
    return made


def requiring(quantity: str, limit: Any, **changes: Any) -> dict[str, Any]:
    return plan(require={quantity: limit}, **changes)


def written(folder: Path, made: Any, name: str = "plan.yaml") -> Path:
    """JSON is YAML, with one line per field."""
    path = folder / name
    path.write_text(made if isinstance(made, str) else json.dumps(made, indent=1), encoding="utf-8")
    return path


def check(folder: Path, made: Any, *args: str) -> Ran:
    return run_cli("check", str(written(folder, made)), *args)


def report(folder: Path, made: Any, *args: str) -> dict[str, Any]:
    ran = check(folder, made, "--format", "json", *args)
    assert ran.code in (0, 1), ran.err
    return json.loads(ran.out)


def row(folder: Path, made: Any, *args: str) -> dict[str, Any]:
    """The one requirement of a plan that has one; nobody asks it for fixes."""
    (found,) = report(folder, made, "--fix-budget", "0", *args)["checks"][0]["requirements"]
    return found
