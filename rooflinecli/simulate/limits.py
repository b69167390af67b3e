"""What a service promises: `ttft=2s,itl=50ms,e2e=30s@99` is three limits and the per cent of requests that must keep to all of them."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli import units
from rooflinecli.errors import UsageError

NAMES = ("ttft", "itl", "e2e", "queue")
SHARE = 0.99  # of the requests, where nothing is said


@dataclass(frozen=True)
class Limits:
    """Seconds by name, in the order written, and the share of requests that must be inside all of them."""

    seconds: tuple[tuple[str, float], ...]
    share: float

    @property
    def text(self) -> str:
        """As a person writes it."""
        said = ",".join(f"{name}={units.duration(value).replace(' ', '')}" for name, value in self.seconds)
        return f"{said}@{100 * self.share:g}"


def limits(written: str) -> Limits:
    """Raises UsageError for an unknown name, a time without unit, or a share that is none."""
    said, at, share = written.partition("@")
    found: list[tuple[str, float]] = []
    for item in said.split(","):
        name, equals, value = item.strip().partition("=")
        if not equals or name not in NAMES:
            raise UsageError(
                f"--slo {written}: {item!r} is no limit; write for example ttft=2s,itl=50ms,e2e=30s@99", "slo"
            )
        try:
            seconds = units.parse(value, "s")
        except ValueError as error:
            raise UsageError(f"--slo {written}: {name}: {error}", "slo") from None
        if seconds <= 0 or name in dict(found):
            raise UsageError(f"--slo {written}: {name} must be one time above zero", "slo")
        found.append((name, seconds))
    try:
        part = float(share.rstrip(" %")) / 100 if at else SHARE
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"--slo {written}: after @ comes a per cent of requests such as 99", "slo")
    return Limits(tuple(found), part)
