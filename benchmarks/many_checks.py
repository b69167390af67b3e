"""A plan file's worth of checks, which `against.py` times and a test holds to a few starts of the process."""

from __future__ import annotations

from typing import Any

CHIPS = ("h100", "h200", "b200", "mi300x", "tpu-v5p")


def plans(limit: str) -> dict[str, Any]:
    """200 plans of one model on five chips, whose token may take `limit`."""
    checks = {
        f"c{i}": {
            "hw": CHIPS[i % 5],
            "devices": (4, 8)[i % 2],
            "batch": 1 + i // 4,
            "prompt": 1024 + 16 * i,
            "output": 512,
            "require": {"decode.time_s": limit, "prefill.time_s": "<= 20 s", "feasible": True},
        }
        for i in range(200)
    }
    return {"defaults": {"model": "llama-3.3-70b"}, "checks": checks}
