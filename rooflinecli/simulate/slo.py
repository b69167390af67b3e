"""What a service promises. `ttft=2s,itl=50ms,e2e=30s@99` is three limits and the per cent of requests that must keep to all of them.

Several promises follow one another, each closed by its per cent: `ttft=500ms@50,ttft=2s,itl=50ms@99`. One that begins with a class
speaks of its requests alone: `chat:ttft=1s@99,batch:e2e=10min@95`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError

NAMES = ("ttft", "itl", "e2e", "queue")
SHARE = 0.99  # of the requests, where nothing is said
_PROMISE = re.compile(r"([^@]+)(@[^,@]*)?(?:,|$)")


@dataclass(frozen=True)
class Slo:
    """Seconds by name, in the order written, and the share of requests, of one class or of all, that must be inside all of them."""

    seconds: tuple[tuple[str, float], ...]
    share: float
    label: str = ""

    @property
    def text(self) -> str:
        """As a person writes it."""
        said = ",".join(f"{name}={units.duration(value).replace(' ', '')}" for name, value in self.seconds)
        return f"{self.label}{':' if self.label else ''}{said}@{100 * self.share:g}"


@dataclass(frozen=True)
class SloSet:
    """Promises in the order written."""

    promises: tuple[Slo, ...]

    @property
    def text(self) -> str:
        """As a person writes them."""
        return ",".join(promise.text for promise in self.promises)

    @property
    def tightest_slo(self) -> dict[str, Slo]:
        """By class, the promise asked of most requests: what a good request keeps to."""
        found: dict[str, Slo] = {}
        for promise in self.promises:
            held = found.get(promise.label)
            found[promise.label] = promise if held is None or promise.share > held.share else held
        return found

    @property
    def main(self) -> Slo:
        """The one asked of most requests of all."""
        return max(self.promises, key=lambda promise: promise.share)


def limits(written: str) -> SloSet:
    """Raises UsageError for an unknown name, a time without unit, or a share that is none."""
    found: list[Slo] = []
    place = 0
    while place < len(written) or not found:
        match = _PROMISE.match(written, place)
        if match is None:
            raise UsageError(f"--slo {written}: write for example ttft=500ms@50,ttft=2s,itl=50ms,e2e=30s@99", "slo")
        found.append(_promise(written, match[1], match[2]))
        place = match.end()
    return SloSet(tuple(found))


def _promise(written: str, said: str, at: str | None) -> Slo:
    label, colon, rest = said.partition(":")
    found: list[tuple[str, float]] = []
    for item in (rest if colon else said).split(","):
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
    return Slo(tuple(found), _share(written, at), label.strip() if colon else "")


def _share(written: str, at: str | None) -> float:
    try:
        part = float(at[1:].rstrip(" %")) / 100 if at is not None else SHARE
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"--slo {written}: after @ comes a per cent of requests such as 99", "slo")
    return part
