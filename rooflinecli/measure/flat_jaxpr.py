"""A jaxpr as a flat list of operations on values: calls inlined, dead code removed, loops kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

CALLS = tuple(
    "jit pjit closed_call core_call remat remat2 checkpoint custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr custom_lin "
    "name xla_call".split()
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


def flatten(jaxpr: Jaxpr | ClosedJaxpr, *, dead: bool = False) -> Flat:
    """The program of an open or closed jaxpr. `dead` keeps operations that no result depends on."""
    jaxpr = opened(jaxpr)
    if not dead:
        from jax.interpreters import partial_eval

        # instantiate keeps every argument in its place, used or not
        jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    known: dict[Var, Value] = {}
    ins = [_bound(known, var) for var in (*jaxpr.constvars, *jaxpr.invars)]
    nodes: list[Node] = []
    _inline(jaxpr, known, nodes)
    return Flat(ins, nodes, [_read(known, var) for var in jaxpr.outvars])


def opened(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """The jaxpr inside a closed one."""
    return jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr


def bodies(params: dict[str, Any]) -> list[Jaxpr | ClosedJaxpr]:
    """The jaxprs an operation carries."""
    found = []
    for value in params.values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if hasattr(item, "eqns") or hasattr(getattr(item, "jaxpr", None), "eqns"):
                found.append(item)
    return found


def _inline(jaxpr: Jaxpr, known: dict[Var, Value], nodes: list[Node]) -> None:
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


def _bound(known: dict[Var, Value], var: Var) -> Value:
    known[var] = _value(var.aval)
    return known[var]


def _read(known: dict[Var, Value], var: Var | Literal) -> Value:
    if hasattr(var, "val"):
        return Value(tuple(getattr(var.aval, "shape", ())), str(getattr(var.aval, "dtype", "")), 0.0)
    return known[var]


def _value(aval: object) -> Value:
    shape = tuple(int(size) for size in getattr(aval, "shape", ()))
    dtype = getattr(aval, "dtype", None)
    return Value(shape, str(dtype), float(math.prod(shape)) * getattr(dtype, "itemsize", 0))
