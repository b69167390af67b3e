"""FLOPs of a JAX program, counted from its own equations: an oracle for the ledger that shares none of its text.

XLA's cost analysis also counts elementwise work, counts the body of a scan once, and leaves 'flops' out when it is zero;
so matmuls are counted here from dot_general and ragged_dot, scans by their length, and XLA's count is printed as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax


def matmul_flops(fn: Callable[..., Any], *args: Any) -> int:
    """Two FLOPs per multiply-add of every dot_general and ragged_dot in `fn`, loops included."""
    return _walk(jax.make_jaxpr(fn)(*args).jaxpr)


def _walk(jaxpr: Any) -> int:
    total = 0
    for eqn in jaxpr.eqns:
        times = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
        if eqn.primitive.name == "dot_general":
            total += _dot(eqn)
        elif eqn.primitive.name.startswith("ragged_dot"):
            # each row is multiplied by the weight of its group: rows x inner x outer, whichever side is ragged
            total += 2 * math.prod(eqn.invars[0].aval.shape) * eqn.outvars[0].aval.shape[-1]
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    total += times * _walk(inner)
    return total


def _dot(eqn: Any) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    return 2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(shape[i] for i in contracted)


def xla_flops(lowered: Any) -> float:
    """FLOPs by XLA's cost analysis of a lowered program; 0 where it reports none."""
    analysis = lowered.cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    return float((analysis or {}).get("flops", 0.0))
