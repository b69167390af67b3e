"""Kernels of a profile -> rows of a model's ledger, by shape where the trace has it, else by name."""

from __future__ import annotations

import math
import re

from rooflinecli.core.lift import PLAIN
from rooflinecli.formulas import profiling
from rooflinecli.importers.profiles.kernel import Kernel
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ops import Op
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.quantization.formats import Formats, size_of
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

# what frameworks call the matrix products of a layer -> how the ledger's row name ends; the first that matches decides
_WORD = r"(?:^|[_\W])(?:{})(?:[_\W\d]|$)"
_NAMES = [
    (re.compile(pattern, re.IGNORECASE), row)
    for pattern, row in (
        (r"qkv|query_key_value|in_proj|c_attn", "attention.qkv"),
        (r"shared.*(up|gate|w1|fc1)", "moe.shared_up"),
        (r"shared.*(down|w2|fc2)", "moe.shared_down"),
        (r"(expert|grouped|moe).*(up|gate|w1|fc1)", "moe.experts_up"),
        (r"(expert|grouped|moe).*(down|w2|fc2)", "moe.experts_down"),
        (r"router|gating", "moe.router"),
        (r"lm_?head|logits|unembed", "lm_head"),
        (r"(attn|attention|o)_?(out|proj)|out_proj|" + _WORD.format("wo"), "attention.out"),
        (
            r"gate_?up|up_?gate|up_proj|gate_proj|mlp.?(1|up|gate|in)|fc_?1|c_fc|ffn.?(1|up|gate)|"
            + _WORD.format("w13|up"),
            "up",
        ),
        (r"down_proj|mlp.?(2|down|out)|fc_?2|ffn.?(2|down)|" + _WORD.format("down|w2"), "feedforward.down"),
    )
]


def expected_ops(model: str, dtype: str, batch: float, queries: float, keys: float, tp: float) -> list[Op]:
    """What one layer of each kind, and what surrounds the layers, does on one device in a forward pass."""
    spec, width = load_model(model), size_of(dtype)
    formats = Formats(width, width, width, max(width, 2.0), max(width, 2.0), dtype, dtype, dtype)
    forward, book, plan = ForwardPass(formats, decode=queries == 1), ledger(spec), Layout(tp=tp)
    work = pass_axis_sizes(batch, queries, keys, queries, plan)
    ops = [
        op
        for group in book.layers
        for op in forward.ops(group.rows, layer_sizes(group, work, plan, spec.document, PLAIN))
    ]
    return ops + forward.ops(book.head, stem_head_axis_sizes(book, work, plan, spec.document, PLAIN), outer=True)


def match(kernels: list[Kernel], ops: list[Op]) -> dict[int, Op]:
    """id of a kernel -> the row it runs. Elementwise rows are left out: frameworks fuse them as they like."""
    found = {}
    for kernel in kernels:
        op = _by_shape(kernel, ops) or _by_name(kernel, ops)
        if op is not None:
            found[id(kernel)] = op
    return found


def _by_shape(kernel: Kernel, ops: list[Op]) -> Op | None:
    """The matrix product with these sizes; libraries also run it transposed."""
    if not (kernel.m and kernel.k and kernel.n):
        return None
    for op in ops:
        if op.kind == "matmul" and math.isclose(op.k, kernel.k):
            sides = {round(profiling.matmul_rows(op.flops, op.k, op.n)), round(op.n)}
            if any(sides == {round(kernel.m), round(columns)} for columns in (kernel.n, kernel.n / kernel.shards)):
                return op
    return None


def named_row(kernel: Kernel) -> str | None:
    """How the ledger's name of a matrix product ends, by what frameworks call it; None where the name says nothing."""
    if kernel.kind != "gemm":
        return None
    return next((row for pattern, row in _NAMES if pattern.search(kernel.name)), None)


def _by_name(kernel: Kernel, ops: list[Op]) -> Op | None:
    if kernel.kind == "attention":
        cores = [op for op in ops if op.kind.endswith("attention")]
        return cores[0] if len({op.flops for op in cores}) == 1 else None
    row = named_row(kernel)
    if row is None:
        return None
    named = [op for op in ops if op.name.endswith(row) and "matmul" in op.kind]
    return named[0] if len({op.flops for op in named}) == 1 else None
