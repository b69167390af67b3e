"""Shapes of the matrix products that XLA compiled, from the HLO that jax.profiler keeps next to its trace (*.xplane.pb).

A trace names the operation of a kernel but not its sizes. The file is a protobuf (tsl/profiler/protobuf/xplane.proto): the plane
/host:metadata holds an HloProto of each module (xla/service/hlo.proto), of which the fields below are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt, prod
from pathlib import Path
from typing import Any

Shapes = Mapping[tuple[str, str], tuple[float, float, float]]  # (module, operation) -> m, k, n
LARGEST = 2**30  # bytes of a file that is read
_PLANES, _NAME, _EVENT_METADATA = 1, 2, 4  # XSpace.planes, XPlane.name, XPlane.event_metadata
_ENTRY_VALUE, _STATS, _BYTES = 2, 5, 6  # of the map's entry; XEventMetadata.stats, XStat.bytes_value
_MODULE, _COMPUTATIONS, _INSTRUCTIONS, _COMPUTATION_ID = 1, 3, 2, 5  # HloProto to HloComputationProto
_OP_NAME, _OPCODE, _SHAPE, _TARGET, _DOT, _ID, _OPERANDS, _CALLED = 1, 2, 3, 28, 30, 35, 36, 38  # HloInstructionProto
_DIMENSIONS, _TUPLE = 3, 4  # ShapeProto
_GEMMS = ("gemm", "matmul")  # in the targets of cuBLAS, hipBLAS and oneDNN


def gemm_shapes(trace: Path) -> Shapes:
    """m, k and n of every product of two matrices, alone or in a fusion; empty where no file is next to the trace, or it is none.

    Operations of one name with different sizes, in modules of one name, are left out.
    """
    file = trace.with_name(f"{trace.name.partition('.trace.json')[0]}.xplane.pb")
    found: dict[tuple[str, str], tuple[float, float, float] | None] = {}
    try:
        data = file.read_bytes() if file.stat().st_size <= LARGEST else b""
        for key, sizes in _products(memoryview(data)):
            found[key] = sizes if found.get(key, sizes) == sizes else None
    except (OSError, IndexError, KeyError, ValueError, TypeError):
        return {}
    return {key: sizes for key, sizes in found.items() if sizes is not None}


def _products(data: memoryview) -> Iterator[tuple[tuple[str, str], tuple[float, float, float]]]:
    for number, plane in _fields(data):
        if number != _PLANES or bytes(_message(plane).get(_NAME, [b""])[0]) != b"/host:metadata":
            continue
        for entry in _message(plane).get(_EVENT_METADATA, []):
            for stat in _message(_message(entry)[_ENTRY_VALUE][0]).get(_STATS, []):
                for proto in _message(stat).get(_BYTES, []):
                    yield from _module(_message(_message(proto)[_MODULE][0]))


def _module(module: dict[int, list[Any]]) -> Iterator[tuple[tuple[str, str], tuple[float, float, float]]]:
    name = bytes(module[1][0]).decode()
    computations = [_message(one) for one in module.get(_COMPUTATIONS, [])]
    inside = {c[_COMPUTATION_ID][0]: [_message(op) for op in c.get(_INSTRUCTIONS, [])] for c in computations}
    shapes = {op[_ID][0]: _dimensions(op[_SHAPE][0]) for ops in inside.values() for op in ops}
    for ops in inside.values():
        for op in ops:
            fused = [each for called in _numbers(op, _CALLED) for each in inside.get(called, [])]
            is_fusion = bytes(op[_OPCODE][0]) == b"fusion"
            products = [sizes for each in (fused if is_fusion else [op]) if (sizes := _product(each, shapes))]
            if len(products) == 1:
                yield (name, bytes(op[_OP_NAME][0]).decode()), products[0]


def _product(op: dict[int, list[Any]], shapes: dict[int, list[int]]) -> tuple[float, float, float] | None:
    """m (batches included), k and n of a dot, or of a library call on two matrices."""
    opcode, operands = bytes(op[_OPCODE][0]), _numbers(op, _OPERANDS)
    if opcode == b"dot":
        left, right = (shapes[operand] for operand in operands[:2])
        dims = _message(op[_DOT][0])
        k = prod(left[i] for i in _numbers(dims, 1))
        batch = prod(left[i] for i in _numbers(dims, 3))
        return prod(left) / k, k, prod(right) / (k * batch)
    target = bytes(op.get(_TARGET, [b""])[0]).decode()
    if opcode == b"custom-call" and any(word in target for word in _GEMMS) and len(operands) >= 2:
        left, right, out = shapes[operands[0]], shapes[operands[1]], _dimensions(op[_SHAPE][0])
        k = isqrt(prod(left) * prod(right) // prod(out)) if all(len(s) == 2 for s in (left, right, out)) else 0
        if k and k in left and k in right:
            return prod(left) / k, k, prod(right) / k
    return None


def _dimensions(shape: memoryview) -> list[int]:
    """Dimensions of a shape, of the first one of a tuple."""
    fields = _message(shape)
    return _dimensions(fields[_TUPLE][0]) if _TUPLE in fields else _numbers(fields, _DIMENSIONS)


def _numbers(fields: dict[int, list[Any]], number: int) -> list[int]:
    """A repeated number, packed or not."""
    found: list[int] = []
    for value in fields.get(number, []):
        at = 0
        while not isinstance(value, int) and at < len(value):
            one, at = _varint(value, at)
            found.append(one)
        found += [value] if isinstance(value, int) else []
    return found


def _message(data: memoryview) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message: an integer, or its bytes (protobuf.dev, encoding)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value: Any
            value, at = _varint(data, at)
        else:
            length, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at
