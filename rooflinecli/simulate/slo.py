"""SLOs of a simulation, and their attainment. `ttft=2s,itl=50ms,e2e=30s@99`: three limits, and the percentage of requests to meet all.

Several SLOs follow one another, each closed by its percentage: `ttft=500ms@50,ttft=2s,itl=50ms@99`. One that begins with a request
class covers that class alone: `chat:ttft=1s@99,batch:e2e=10min@95`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.simulate.request import RequestLatencies, percentiles

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAMES = ("ttft", "itl", "e2e", "queue")
DEFAULT_TARGET = 0.99  # of the requests
_TARGET = re.compile(r"([^@]+)(@[^,@]*)?(?:,|$)")


@dataclass(frozen=True)
class Slo:
    """Limits in seconds by name, in the order written, and the fraction of requests, of one class or of all, that must meet all of them."""

    seconds: tuple[tuple[str, float], ...]
    share: float
    label: str = ""

    @property
    def text(self) -> str:
        """As a person writes it."""
        limits = ",".join(f"{name}={units.duration(value).replace(' ', '')}" for name, value in self.seconds)
        return f"{self.label}{':' if self.label else ''}{limits}@{100 * self.share:g}"

    def requests(self, times: RequestLatencies) -> NDArray[np.bool_]:
        """Mask of the requests it covers."""
        covered: NDArray[np.bool_] = (times.label == self.label) | (not self.label)
        return covered

    def attained(self, times: RequestLatencies) -> NDArray[np.bool_]:
        """Mask of the requests that meet every limit. The ITL of a request is its TPOT."""
        import numpy as np

        met: NDArray[np.bool_] = np.all([times.of(name) <= limit for name, limit in self.seconds], axis=0)
        return met


@dataclass(frozen=True)
class SloSet:
    """SLOs in the order written."""

    slos: tuple[Slo, ...]

    @property
    def text(self) -> str:
        """As a person writes them."""
        return ",".join(slo.text for slo in self.slos)

    @property
    def tightest_slo(self) -> dict[str, Slo]:
        """By request class, the SLO with the highest target; of equals the first."""
        tightest: dict[str, Slo] = {}
        for slo in self.slos:
            if slo.label not in tightest or slo.share > tightest[slo.label].share:
                tightest[slo.label] = slo
        return tightest

    @property
    def main(self) -> Slo:
        """The SLO with the highest target of all."""
        return max(self.slos, key=lambda slo: slo.share)


def limits(written: str) -> SloSet:
    """Parse --slo. Raises UsageError for an unknown name, a time without unit, or a target that is no percentage."""
    slos: list[Slo] = []
    place = 0
    while place < len(written) or not slos:
        match = _TARGET.match(written, place)
        if match is None:
            raise UsageError(f"--slo {written}: write for example ttft=500ms@50,ttft=2s,itl=50ms,e2e=30s@99", "slo")
        slos.append(_slo(written, match[1], match[2]))
        place = match.end()
    return SloSet(tuple(slos))


def _slo(written: str, text: str, at: str | None) -> Slo:
    label, colon, rest = text.partition(":")
    seconds: dict[str, float] = {}
    for item in (rest if colon else text).split(","):
        name, equals, value = item.strip().partition("=")
        name = "itl" if name == "tpot" else name  # of one request they are the same
        if not equals or name not in NAMES:
            raise UsageError(
                f"--slo {written}: {item!r} is no limit; write for example ttft=2s,itl=50ms,e2e=30s@99", "slo"
            )
        try:
            limit = units.parse(value, "s")
        except ValueError as error:
            raise UsageError(f"--slo {written}: {name}: {error}", "slo") from None
        if limit <= 0 or name in seconds:
            raise UsageError(f"--slo {written}: {name} has to be above zero and given once", "slo")
        seconds[name] = limit
    try:
        target = float(at[1:].rstrip(" %")) / 100 if at is not None else DEFAULT_TARGET
    except ValueError:
        target = 0.0
    if not 0 < target <= 1:
        raise UsageError(f"--slo {written}: after @ comes a percentage of requests such as 99", "slo")
    return Slo(tuple(seconds.items()), target, label.strip() if colon else "")


def attainment(times: RequestLatencies, slo: Slo) -> float:
    """Fraction of the requests of an SLO that meet it: 1 where there are none."""
    covered = slo.requests(times)
    return float(slo.attained(times)[covered].mean()) if covered.any() else 1.0


def slo_mask(times: RequestLatencies, limits: SloSet) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(mask of the requests that some SLO covers, of those that meet the tightest for their class and for all)."""
    import numpy as np

    covered = np.zeros(len(times.arrival), dtype=bool)
    attained = np.ones(len(times.arrival), dtype=bool)
    for slo in limits.tightest_slo.values():
        requests = slo.requests(times)
        covered |= requests
        attained &= ~requests | slo.attained(times)
    return covered, covered & attained


def goodput(
    times: RequestLatencies, limits: SloSet, share: NDArray[np.float64], seconds: float, devices: float
) -> dict[str, float]:
    """SLO attainment of each limit of the main SLO and of all, the smallest margin to a target, and goodput.

    `share`: the fraction of each request that lies in the `seconds` over which goodput is a rate.
    """
    main = limits.main
    requests = main.requests(times)
    by_limit = {}
    for name, limit in main.seconds:
        inside = (times.of(name) <= limit)[requests]
        by_limit[f"slo_attainment_{name}"] = float(inside.mean()) if len(inside) else 1.0
    covered, attained = slo_mask(times, limits)
    rate = float(share[attained].sum()) / seconds
    return {
        **by_limit,
        "slo_attainment": float(attained[covered].mean()) if covered.any() else 1.0,
        "slo_attainment_margin": min(attainment(times, slo) - slo.share for slo in limits.slos),
        "goodput_requests_per_s": rate,
        "goodput_requests_per_s_per_device": rate / devices,
    }


def classes(times: RequestLatencies, limits: SloSet | None) -> list[dict[str, float | str]]:
    """Percentiles of each request class, the most frequent first; empty where the load names none."""
    import numpy as np

    names, counts = np.unique(times.label, return_counts=True)
    if not any(names):
        return []
    attained = slo_mask(times, limits)[1] if limits is not None else None
    rows = []
    for name, count in sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0])):
        requests = times.label == name
        row: dict[str, float | str] = {
            "class": name,
            "requests": count,
            "prompt_mean": float(times.prompt[requests].mean()),
        }
        row["output_mean"] = float(times.output[requests].mean())
        for time in ("ttft", "tpot", "e2e", "queue"):
            row |= percentiles(time, times.of(time)[requests & (times.output > 1) if time == "tpot" else requests])
        if limits is not None and attained is not None and {"", name} & set(limits.tightest_slo):
            row["slo_attainment"] = float(attained[requests].mean())
        rows.append(row)
    return rows
