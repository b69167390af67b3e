"""KV offload tiers, which keep the caches of idle sessions: `host=256GB@50GB/s,disk=2TB@7GB/s`."""

from __future__ import annotations

import re

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass

EXAMPLE = "host=256GB@50GB/s,disk=2TB@7GB/s"
MOST = 8


@dataclass(frozen=True)
class KvTierSpec:
    """Bytes that a device keeps in a tier, and bytes per second in which it has them back."""

    name: str
    size: float
    rate: float


def tiers(written: str | None) -> tuple[KvTierSpec, ...]:
    """Tiers as written, the nearest first; commas or plus signs between them. Raises UsageError."""
    found: list[KvTierSpec] = []
    for item in re.split(r"[,+]", written) if written is not None else ():
        name, equals, rest = item.strip().partition("=")
        size, at, rate = rest.partition("@")
        if not (name and equals and at):
            raise UsageError(f"--kv-offload {written}: {item.strip()!r} is no tier; write {EXAMPLE}", "kv-tier")
        if name in {tier.name for tier in found} or name == "device":
            raise UsageError(f"--kv-offload {written}: the name {name!r} is taken; write {EXAMPLE}", "kv-tier")
        try:
            tier = KvTierSpec(name, units.parse(size, "B"), units.parse(rate, "B/s"))
        except ValueError as error:
            raise UsageError(f"--kv-offload {written}: {name}: {error}; write {EXAMPLE}", "kv-tier") from None
        if not (0 < tier.size < 1e18 and 0 < tier.rate < 1e18):
            raise UsageError(f"--kv-offload {written}: {name}: size and rate must be above zero", "kv-tier")
        found.append(tier)
    if len(found) > MOST:
        raise UsageError(f"--kv-offload {written}: at most {MOST} tiers", "kv-tier")
    return tuple(found)
