"""What an instance takes of a group's devices, so that instances of several sizes go whole into its hosts or slices."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rooflinecli.core.num import divisors


def taken(size: int, domain: int, chain: bool) -> int:
    """Devices that an instance of `size` takes: a part of a fast domain that divides it, or whole domains.

    chain: only parts of which each divides the next, so that any mix whose parts do not exceed the devices goes in.
    """
    if size > domain:
        return math.ceil(size / domain) * domain
    return min(part for part in (links(domain) if chain else divisors(domain)) if part >= size)


def links(domain: int) -> list[int]:
    """Parts of a domain, each a divisor of the next: by its smallest primes first, 1, 2, 4, 8, 24, 72."""
    found = [1]
    while found[-1] < domain:
        rest = domain // found[-1]
        found.append(found[-1] * next(p for p in divisors(rest) if p > 1))
    return found


def pack(parts: Iterable[tuple[int, int]], devices: int, domain: int) -> bool:
    """Whether (part, how many) instances go into whole domains and what is left of one, the largest first into the fullest that holds it."""
    whole, rest = divmod(devices, domain)
    rooms = {domain: whole}
    rooms[rest] = rooms.get(rest, 0) + 1
    for part, count in sorted(parts, reverse=True):
        if part >= domain:
            rooms[domain] -= count * (part // domain)
            if rooms[domain] < 0:
                return False
            continue
        for room in sorted(rooms):
            most = min(rooms[room] * (room // part), count)
            if most <= 0:
                continue
            full, over = divmod(most, room // part)
            rooms[room] -= full + bool(over)
            left = room - room // part * part
            rooms[left] = rooms.get(left, 0) + full
            if over:
                rooms[room - over * part] = rooms.get(room - over * part, 0) + 1
            count -= most
        if count:
            return False
    return True
