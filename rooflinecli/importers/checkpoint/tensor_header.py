"""Header of a checkpoint: tensors with their shapes, formats and bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import field
from pathlib import Path

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Json

_TABLE = re.compile(r"(^|\.)(rope_freqs|rope_factors_\w+|rotary_emb\.inv_freq)\b")  # angles, no parameters of the model


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: elements along each axis (outermost first), how they are stored, the bytes they take."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """All tensors of a checkpoint, over all its files, and its metadata."""

    path: Path
    kind: str
    tensors: tuple[Tensor, ...]
    metadata: Json = field(default_factory=dict)
    files: int = 1

    @property
    def elements(self) -> int:
        return sum(t.elements for t in self.tensors)

    @property
    def bytes(self) -> int:
        """Bytes of the tensors, headers and padding aside."""
        return sum(t.bytes for t in self.tensors)

    def by_dtype(self) -> dict[str, dict[str, int]]:
        """Tensors, elements and bytes by format, the largest first."""
        rows: dict[str, dict[str, int]] = {}
        for t in self.tensors:
            row = rows.setdefault(t.dtype, {"tensors": 0, "elements": 0, "bytes": 0})
            row["tensors"] += 1
            row["elements"] += t.elements
            row["bytes"] += t.bytes
        return dict(sorted(rows.items(), key=lambda item: -item[1]["bytes"]))

    def facts(self) -> Json:
        """The `checkpoint:` of a model."""
        return {
            "file": self.path.name,
            "format": self.kind,
            "files": self.files,
            "tensors": len(self.tensors),
            "elements": sum(t.elements for t in self.tensors if not _TABLE.search(t.name)),
            "bytes": self.bytes,
            "dtypes": {name: row["bytes"] for name, row in self.by_dtype().items()},
        }

    def where(self, chosen: Callable[[str], bool]) -> tuple[int, int]:
        """Elements and bytes of the tensors whose names are chosen."""
        picked: Iterable[Tensor] = [t for t in self.tensors if chosen(t.name)]
        return sum(t.elements for t in picked), sum(t.bytes for t in picked)
