"""Header of a checkpoint: tensors with their shapes, formats and bytes."""

from __future__ import annotations

import math
import re
from collections import Counter
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
    def bytes(self) -> int:
        """Bytes of the tensors, headers and padding aside."""
        return sum(t.bytes for t in self.tensors)

    def facts(self) -> Json:
        """The `checkpoint:` of a model; formats by their bytes, the largest first."""
        formats = Counter[str]()
        for t in self.tensors:
            formats[t.dtype] += t.bytes
        return {
            "file": self.path.name,
            "format": self.kind,
            "files": self.files,
            "tensors": len(self.tensors),
            "elements": sum(t.elements for t in self.tensors if not _TABLE.search(t.name)),
            "bytes": self.bytes,
            "dtypes": dict(formats.most_common()),
        }
