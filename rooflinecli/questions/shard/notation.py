"""Sharded arrays as the Scaling Book writes them: `X[I_x, J] W[J_y, K] -> Y[I_x, K]` on a mesh `x=4,y=2`."""

from __future__ import annotations

import re

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass

Axes = tuple[str, ...]
_ARRAY = re.compile(r"([A-Za-z]\w*)\s*\[([^\]]*)\]")
_EXAMPLE = 'write it as "X[I_x, J] W[J_y, K]"'


@dataclass(frozen=True)
class Array:
    """An array by dimension; `over` names the mesh axes each dimension is split over."""

    name: str
    dims: tuple[str, ...]
    over: dict[str, Axes]

    def used(self) -> Axes:
        return tuple(a for d in self.dims for a in self.over[d])

    def text(self) -> str:
        """As written: X[I_x, J]."""
        return f"{self.name}[{', '.join(d + ('_' + ''.join(self.over[d]) if self.over[d] else '') for d in self.dims)}]"


def mesh(text: str) -> dict[str, float]:
    """`x=4,y=2` -> sizes by axis, outermost first. Raises UsageError."""
    sizes = assignments(text, "--mesh")
    for name in sizes:
        if not name.isalpha():
            raise UsageError(f"--mesh {text}: axis '{name}' should be a word such as x")
    return sizes


def assignments(text: str, flag: str) -> dict[str, float]:
    """`I=1024,J=4096` -> numbers, 4k and 4096 alike. Raises UsageError."""
    sizes: dict[str, float] = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, _, value = part.partition("=")
        factor = {"k": 1024.0, "K": 1024.0, "M": 1048576.0}.get(value[-1:], 1.0)
        try:
            size = float(value.rstrip("kKM")) * factor
        except ValueError:
            raise UsageError(f"{flag} {text}: expected name=number pairs such as x=4,y=2") from None
        if size < 1 or size != int(size):
            raise UsageError(f"{flag} {part}: a size is a whole number of at least 1")
        if size > 1e12:
            raise UsageError(f"{flag} {part}: exceeds the supported maximum of 1e+12")
        sizes[name] = size
    if not sizes:
        raise UsageError(f"{flag} is empty; give name=number pairs such as x=4,y=2")
    return sizes


def arrays(text: str, axes: dict[str, float]) -> list[Array]:
    """The two operands of a matmul, and its result when one is asked for. Raises UsageError."""
    found = [Array(name, *_dims(inside, axes, text)) for name, inside in _ARRAY.findall(text)]
    if len(found) not in (2, 3) or (len(found) == 3) != ("->" in text):
        raise UsageError(f"{text!r} is not a matmul of two arrays; {_EXAMPLE}")
    for array in found:
        used = array.used()
        if len(set(used)) != len(used):
            raise UsageError(f"{array.text()}: a mesh axis can split one dimension only; take it from the other")
    first, second = found[:2]
    shared = [d for d in first.dims if d in second.dims]
    if len(first.dims) != 2 or len(second.dims) != 2 or len(shared) != 1:
        raise UsageError(f"{text!r}: two arrays of two dimensions that share one; {_EXAMPLE}")
    if len(found) == 3 and set(found[2].dims) != set(first.dims) ^ set(second.dims):
        raise UsageError(f"{found[2].text()}: the result has the dimensions that are not shared")
    return found


def _dims(inside: str, axes: dict[str, float], text: str) -> tuple[tuple[str, ...], dict[str, Axes]]:
    """`I_x, J` -> names, and mesh axes by name; I_xy and I_{x,y} split over two axes."""
    dims, over = [], {}
    for part in re.sub(r"\{([^}]*)\}", lambda m: m.group(1).replace(",", ""), inside).split(","):
        name, _, split = part.strip().partition("_")
        if not name or name in over:
            raise UsageError(f"{text!r}: every dimension has a name of its own; {_EXAMPLE}")
        dims.append(name)
        over[name] = (split,) if split in axes else tuple(split)
        for axis in over[name]:
            if axis not in axes:
                raise UsageError(f"{part.strip()}: the mesh has no axis '{axis}'; it has {', '.join(axes)}")
    return tuple(dims), over
