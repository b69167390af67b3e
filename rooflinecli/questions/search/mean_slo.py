"""`--slo ttft=1s,itl=40ms` where a question has means and no percentiles: two limits said at once."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.slo import limits

HELD = ("ttft", "itl")


def joined(said: dict[str, str | None], slo: str | None) -> dict[str, str | None]:
    """The limits of `--ttft` and `--itl` with those of `--slo`, each as text with its unit.

    Raises UsageError for a limit said twice, one that only a simulation knows, and a share of requests.
    """
    if slo is None:
        return said
    found = limits(slo)
    if "@" in slo:
        raise UsageError(
            f"--slo {slo}: no percentiles here, only means; leave the @ out, or ask `roofline simulate`", "slo"
        )
    merged = dict(said)
    if found.main.label:
        raise UsageError(f"--slo {slo}: no classes of requests here; ask `roofline simulate`", "slo")
    for name, seconds in found.main.seconds:
        if name not in HELD:
            raise UsageError(f"--slo {slo}: {name} is known to `roofline simulate` only; here are ttft and itl", "slo")
        if said.get(name) is not None:
            raise UsageError(f"--slo {slo}: {name} is also said by --{name}; keep one", name)
        merged[name] = f"{seconds!r} s"
    return merged
