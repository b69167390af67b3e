"""The header of a GGUF file, version 2 and 3: metadata and tensor infos, no data. Source: ggml-org/ggml docs/gguf.md@01f0d4da3e."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.importers.checkpoint.tensor_header import Header, Tensor
from rooflinecli.quantization.gguf import tensor_bytes, types
from rooflinecli.specs.name_lookup import display_path

MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST = 1 << 28  # entries, characters, tensors: beyond it a count is a damaged file, not a model
_DEEPEST = 8
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class _Reader:
    """Sequential reader of values. Raises DataError past the end of the file."""

    def __init__(self, stream: BinaryIO, path: Path):
        self.stream, self.path, self.order = stream, path, "<"

    def fail(self, problem: str) -> DataError:
        return DataError(f"{display_path(self.path)}: {problem}; give a whole GGUF file of version 2 or 3")

    def raw(self, length: int) -> bytes:
        data = self.stream.read(length) if length <= _MOST else b""
        if len(data) != length:
            raise self.fail(f"the header ends after {self.stream.tell()} bytes, in the middle of a value")
        return data

    def scalar(self, code: str) -> Any:
        return struct.unpack(self.order + code, self.raw(struct.calcsize(code)))[0]

    def count(self, what: str) -> int:
        value = int(self.scalar("Q"))
        if value > _MOST:
            raise self.fail(f"{value} {what} are more than any file has")
        return value

    def text(self) -> str:
        return self.raw(self.count("characters")).decode("utf-8", errors="replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            if depth > _DEEPEST:
                raise self.fail("arrays nest too deeply")
            inner, length = self.scalar("I"), self.count("values")
            if inner in _SCALARS:
                code = _SCALARS[inner]
                return list(struct.unpack(f"{self.order}{length}{code}", self.raw(length * struct.calcsize(code))))
            return [self.value(inner, depth + 1) for _ in range(length)]
        if kind not in _SCALARS:
            raise self.fail(f"a value of unknown type {kind}")
        return self.scalar(_SCALARS[kind])


def read(path: Path) -> Header:
    """The header of a GGUF file, with those of its further parts where it was split. Raises DataError."""
    first = _one(path)
    count = first.metadata.get("split.count", 1)
    split = isinstance(count, int) and count > 1
    parts = [first, *(_one(part) for part in _others(path, count))] if split else [first]
    tensors = tuple(t for part in parts for t in part.tensors)
    seen: set[str] = set()
    for name in (t.name for t in tensors):
        if name in seen:  # its bytes would count twice; llama.cpp refuses such a file too
            raise DataError(f"{display_path(path)}: tensor {name[:60]!a} is there twice; give a whole GGUF file")
        seen.add(name)
    return Header(path, "gguf", tensors, first.metadata, len(parts))


def _others(path: Path, count: int) -> Iterator[Path]:
    match = _SPLIT.search(path.name)
    if match is None or int(match[1]) != 1 or int(match[2]) != count:
        raise DataError(f"{display_path(path)}: one of {count} parts; give the first, NAME-00001-of-{count:05d}.gguf")
    for number in range(2, count + 1):
        part = path.with_name(_SPLIT.sub(f"-{number:05d}-of-{count:05d}.gguf", path.name))
        if not part.is_file():
            raise DataError(f"{display_path(path)}: its part {part.name} is missing; put it in the same folder")
        yield part


def _one(path: Path) -> Header:
    try:
        with path.open("rb") as stream:
            return _parse(_Reader(stream, path))
    except OSError as error:
        raise DataError(f"{display_path(path)}: cannot be read ({error.strerror}); give a GGUF file") from None


def _parse(r: _Reader) -> Header:
    if r.raw(4) != MAGIC:
        raise r.fail("not a GGUF file: it does not start with 'GGUF'")
    version = r.scalar("I")
    if version & 0xFFFF == 0:  # written by a machine of the other byte order
        r.order, version = ">", version >> 24
    if version not in (2, 3):
        raise r.fail(f"GGUF version {version} is not supported")
    tensors, pairs = r.count("tensors"), r.count("keys")
    metadata = {}
    for _ in range(pairs):
        key = r.text()
        metadata[key] = r.value(r.scalar("I"))
    return Header(r.path, "gguf", tuple(_tensor(r) for _ in range(tensors)), metadata)


def _tensor(r: _Reader) -> Tensor:
    name, axes = r.text(), r.scalar("I")
    if axes > _DEEPEST:
        raise r.fail(f"tensor {name[:60]!a} has {axes} axes")
    shape = tuple(reversed([r.count("values") for _ in range(axes)]))
    kind = r.scalar("I")
    r.scalar("Q")  # where its data starts
    dtype = next((name for name, (number, _, _) in types().items() if number == kind), None)
    if dtype is None:
        raise r.fail(f"tensor {name[:60]!a} is of type {kind}, which is not known here")
    try:
        return Tensor(name, shape, dtype, tensor_bytes(dtype, shape))
    except ValueError as error:
        raise r.fail(f"tensor {name[:60]!a}: {error}") from None


@dataclass
class GgufMetadata:
    """The metadata of one file; `name` is its architecture, the prefix of the keys."""

    header: Header
    name: str
    file: str

    def fail(self, problem: str, remedy: str = "give the model's config.json") -> DataError:
        return DataError(f"{self.file}: {problem}; {remedy}")

    def get(self, key: str) -> Any:
        return self.header.metadata.get(f"{self.name}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; of an array by layer, the one value that its layers with any share. Raises DataError."""
        value = self.get(key)
        if isinstance(value, list):
            distinct = {v for v in value if v}
            value = distinct.pop() if len(distinct) == 1 else value
        if value is None:
            if default is None:
                raise self.fail(f"the key {self.name}.{key} is missing", "convert the model again")
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(f"{self.name}.{key} is {str(value)[:60]}, and only one whole number for all layers is read")
        return value

    @cached_property
    def _named(self) -> dict[str, tuple[int, ...]]:
        return {t.name: t.shape for t in self.header.tensors}

    def has(self, tensor: str) -> bool:
        return tensor in self._named

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor, outermost axis first. Raises DataError where there is none."""
        if tensor in self._named:
            return self._named[tensor]
        raise self.fail(f"the tensor {tensor} is missing", "give a whole GGUF file")

    @cached_property
    def layers(self) -> int:
        """Layers without those that only predict further tokens. Raises DataError for more than a file has tensors."""
        count = self.integer("block_count") - self.integer("nextn_predict_layers", 0)
        if not 0 < count <= len(self.header.tensors):
            says = f"{self.name}.block_count says {count} layers, and the file has {len(self.header.tensors)} tensors"
            raise self.fail(says, "give a whole GGUF file")
        return count

    def layers_with(self, tensor: str) -> list[bool]:
        """Which layers have a tensor."""
        return [self.has(f"blk.{i}.{tensor}") for i in range(self.layers)]

    def first(self, tensor: str, what: str) -> tuple[int, ...]:
        """The shape of a tensor in the first layer that has it. Raises DataError where none has."""
        here = self.layers_with(tensor)
        if not any(here):
            raise self.fail(f"no layer has {tensor}, so {what} is not known", "give a whole GGUF file")
        return self.shape(f"blk.{here.index(True)}.{tensor}")

    def divided(self, whole: str, parts: str) -> int:
        """The quotient of two keys. Raises DataError where the second does not divide the first."""
        total, n = self.integer(whole), self.integer(parts)
        if not n or total % n:
            raise self.fail(
                f"{self.name}.{parts} {n} does not divide the inner size {total}", "convert the model again"
            )
        return total // n
