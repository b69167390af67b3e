"""`--slo ttft=1s,itl=40ms` of questions that have mean latencies and no percentiles."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.slo import limits

LIMITS = ("ttft", "itl")


def joined(given: dict[str, str | None], slo: str | None) -> dict[str, str | None]:
    """The limits of `--ttft` and `--itl` with those of `--slo`, each as text with its unit.

    Raises UsageError for a limit given twice, one that only a simulation knows, and a fraction of requests.
    """
    if slo is None:
        return given
    found = limits(slo).main
    if "@" in slo:
        raise UsageError(
            f"--slo {slo}: search uses mean latencies; remove the @percentile, or use `roofline simulate`", "slo"
        )
    if found.label:
        raise UsageError(f"--slo {slo}: request classes need `roofline simulate`", "slo")
    merged = dict(given)
    for name, seconds in found.seconds:
        if name not in LIMITS:
            raise UsageError(f"--slo {slo}: {name} needs `roofline simulate`; the limits here are ttft and itl", "slo")
        if given.get(name) is not None:
            raise UsageError(f"--slo {slo}: {name} duplicates --{name}; keep one", name)
        merged[name] = f"{seconds!r} s"
    return merged
