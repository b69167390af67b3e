"""What is inside its limits: shares of requests by promise, goodput, and percentiles by class of requests."""

from __future__ import annotations

from typing import Any

from rooflinecli.simulate.request_latencies import RequestLatencies, percentiles
from rooflinecli.simulate.slo import Slo, SloSet


def _asked(found: RequestLatencies, label: str) -> Any:
    """Which requests are of a class; all are of none."""
    import numpy as np

    return found.label == label if label else np.ones(len(found.arrival), dtype=bool)


def _kept(found: RequestLatencies, name: str, limit: float) -> Any:
    """Which requests keep to a limit in seconds. The itl of a request is its mean time per further token."""
    return getattr(found, "tpot" if name == "itl" else name) <= limit


def _all_kept(found: RequestLatencies, promise: Slo) -> Any:
    import numpy as np

    return np.all([_kept(found, name, limit) for name, limit in promise.seconds], axis=0)


def held(found: RequestLatencies, limits: SloSet) -> list[dict[str, Any]]:
    """Per promise what was asked, of how many requests, and which share of them kept to it: 1 where there are none."""
    answer = []
    for promise in limits.promises:
        asked = _asked(found, promise.label)
        share = float(_all_kept(found, promise)[asked].mean()) if asked.any() else 1.0
        answer.append(
            {
                "text": promise.text,
                "label": promise.label or None,
                "limits": dict(promise.seconds),
                "requests": int(asked.sum()),
                "target": promise.share,
                "attainment": share,
                "met": share >= promise.share,
            }
        )
    return answer


def slo_mask(found: RequestLatencies, limits: SloSet) -> tuple[Any, Any]:
    """(requests that some promise speaks of, those that keep to the strictest for their class and for all)."""
    import numpy as np

    spoken = np.zeros(len(found.arrival), dtype=bool)
    kept = np.ones(len(found.arrival), dtype=bool)
    for label, promise in limits.tightest_slo.items():
        asked = _asked(found, label)
        spoken |= asked
        kept &= ~asked | _all_kept(found, promise)
    return spoken, spoken & kept


def shares(found: RequestLatencies, limits: SloSet, seconds: float, devices: float) -> dict[str, float]:
    """Shares of requests inside each limit of the main promise, and inside all; goodput; by how much the tightest promise is kept."""
    main, parts = limits.main, {}
    asked = _asked(found, main.label)
    for name, limit in main.seconds:
        inside = _kept(found, name, limit)[asked]
        parts[f"slo_attainment_{name}"] = float(inside.mean()) if len(inside) else 1.0
    spoken, kept = slo_mask(found, limits)
    rate = float(kept.sum()) / seconds
    return {
        **parts,
        "slo_attainment": float(kept[spoken].mean()) if spoken.any() else 1.0,
        "slo_attainment_margin": min(one["attainment"] - one["target"] for one in held(found, limits)),
        "goodput_requests_per_s": rate,
        "goodput_requests_per_s_per_device": rate / devices,
    }


def classes(found: RequestLatencies, limits: SloSet | None) -> list[dict[str, Any]]:
    """Percentiles of each class of requests, the most frequent first; empty where the load names none."""
    import numpy as np

    names, counts = np.unique(found.label, return_counts=True)
    if not any(names):
        return []
    kept = slo_mask(found, limits)[1] if limits is not None else None
    answer = []
    for name, count in sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0])):
        asked = found.label == name
        row: dict[str, Any] = {"class": name, "requests": count, "prompt_mean": float(found.prompt[asked].mean())}
        row["output_mean"] = float(found.output[asked].mean())
        for time in ("ttft", "tpot", "e2e", "queue"):
            of = asked & (found.output > 1) if time == "tpot" else asked
            row |= percentiles(time, getattr(found, time)[of])
        if limits is not None and kept is not None and {"", name} & set(limits.tightest_slo):
            row["slo_attainment"] = float(kept[asked].mean())
        answer.append(row)
    return answer
