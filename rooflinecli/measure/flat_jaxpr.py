"""A jaxpr as a flat list of operations on values: calls inlined, what nobody uses removed, loops kept as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "custom_lin",
    "name",
    "xla_call",
)


@dataclass(eq=False, slots=True)
class Value:
    """An array: its shape and element type. Literals take no memory."""

    shape: tuple[int, ...]
    dtype: str
    bytes: float


@dataclass(eq=False, slots=True)
class Node:
    """One operation."""

    name: str
    params: dict[str, Any]
    ins: list[Value]
    outs: list[Value]


@dataclass(eq=False, slots=True)
class Flat:
    """A program: arguments (captured constants among them), operations in order, results."""

    ins: list[Value]
    nodes: list[Node]
    outs: list[Value]


def flatten(jaxpr: Any, *, dead: bool = False) -> Flat:
    """The program of an open or closed jaxpr. `dead` keeps what no result depends on."""
    jaxpr = opened(jaxpr)
    if not dead:
        from jax.interpreters import partial_eval

        # instantiate keeps every argument in its place, used or not
        jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    known: dict[Any, Value] = {}
    ins = [_bound(known, var) for var in (*jaxpr.constvars, *jaxpr.invars)]
    nodes: list[Node] = []
    _inline(jaxpr, known, nodes)
    return Flat(ins, nodes, [_read(known, var) for var in jaxpr.outvars])


def opened(jaxpr: Any) -> Any:
    """The jaxpr inside a closed one."""
    return jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr


def bodies(params: dict[str, Any]) -> list[Any]:
    """The jaxprs an operation carries."""
    found = []
    for value in params.values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if hasattr(item, "eqns") or hasattr(getattr(item, "jaxpr", None), "eqns"):
                found.append(item)
    return found


def _inline(jaxpr: Any, known: dict[Any, Value], nodes: list[Node]) -> None:
    for eqn in jaxpr.eqns:
        inner = bodies(eqn.params)
        body = opened(inner[0]) if inner else None
        if (
            eqn.primitive.name in CALLS
            and body is not None
            and len(body.invars) == len(eqn.invars)
            and not body.constvars
        ):
            for var, given in zip(body.invars, eqn.invars, strict=True):
                known[var] = _read(known, given)
            _inline(body, known, nodes)
            for var, made in zip(eqn.outvars, body.outvars, strict=True):
                known[var] = _read(known, made)
            continue
        ins = [_read(known, var) for var in eqn.invars]
        nodes.append(Node(eqn.primitive.name, eqn.params, ins, [_bound(known, var) for var in eqn.outvars]))


def _bound(known: dict[Any, Value], var: Any) -> Value:
    known[var] = _value(var.aval)
    return known[var]


def _read(known: dict[Any, Value], var: Any) -> Value:
    if hasattr(var, "val"):
        return Value(tuple(getattr(var.aval, "shape", ())), str(getattr(var.aval, "dtype", "")), 0.0)
    return known[var]


def _value(aval: Any) -> Value:
    shape = tuple(int(size) for size in getattr(aval, "shape", ()))
    dtype = getattr(aval, "dtype", None)
    return Value(shape, str(dtype), float(math.prod(shape)) * getattr(dtype, "itemsize", 0))
