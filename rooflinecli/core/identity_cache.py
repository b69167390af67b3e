"""Caches of what follows from a spec, by its identity: to hash a large spec would take longer than most of what follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

C = TypeVar("C", bound=Callable[..., Any])


class IdentityKey:
    """Hashes a spec by identity."""

    __slots__ = ("spec",)

    def __init__(self, spec: Any):
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.spec is self.spec


def cached_by_identity(compute: C) -> C:
    """`compute` of a spec and hashable arguments, kept for the latest 64."""

    @lru_cache(maxsize=64)
    def kept(key: IdentityKey, *more: Any) -> Any:
        return compute(key.spec, *more)

    return cast(C, wraps(compute)(lambda spec, *more: kept(IdentityKey(spec), *more)))
