"""FLOPs and bytes of a program, counted from its jaxpr: matmuls exactly, loops by their trips, elementwise work as fused passes.

XLA's own analysis counts a loop's body once and omits what it removed; this walk multiplies, and counts the
program with or without dead code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rooflinecli.core.record import Json

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var


CALLS = tuple(
    "jit pjit closed_call core_call remat remat2 checkpoint custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr custom_lin "
    "name xla_call".split()
)


@dataclass(eq=False, slots=True)
class ArrayValue:
    """An array: its shape and element type. Literals take no memory."""

    shape: tuple[int, ...]
    dtype: str
    bytes: float


@dataclass(eq=False, slots=True)
class Operation:
    """One operation."""

    name: str
    params: Json
    ins: list[ArrayValue]
    outs: list[ArrayValue]


@dataclass(eq=False, slots=True)
class FlatProgram:
    """A program: arguments (captured constants among them), operations in order, results."""

    ins: list[ArrayValue]
    nodes: list[Operation]
    outs: list[ArrayValue]


def flatten(jaxpr: Jaxpr | ClosedJaxpr, *, dead: bool = False) -> FlatProgram:
    """The program of an open or closed jaxpr. `dead` keeps operations that no result depends on."""
    jaxpr = open_jaxpr(jaxpr)
    if not dead:
        from jax.interpreters import partial_eval

        # instantiate keeps every argument in its place, used or not
        jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    known: dict[Var, ArrayValue] = {}
    ins = [_bind(known, var) for var in (*jaxpr.constvars, *jaxpr.invars)]
    nodes: list[Operation] = []
    _inline(jaxpr, known, nodes)
    return FlatProgram(ins, nodes, [_read(known, var) for var in jaxpr.outvars])


def open_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """The jaxpr inside a closed one."""
    return jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr


def inner_jaxprs(params: Json) -> list[Jaxpr | ClosedJaxpr]:
    """The jaxprs an operation carries."""
    found = []
    for value in params.values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if hasattr(item, "eqns") or hasattr(getattr(item, "jaxpr", None), "eqns"):
                found.append(item)
    return found


def _inline(jaxpr: Jaxpr, known: dict[Var, ArrayValue], nodes: list[Operation]) -> None:
    for eqn in jaxpr.eqns:
        inner = inner_jaxprs(eqn.params)
        body = open_jaxpr(inner[0]) if inner else None
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
        nodes.append(Operation(eqn.primitive.name, eqn.params, ins, [_bind(known, var) for var in eqn.outvars]))


def _bind(known: dict[Var, ArrayValue], var: Var) -> ArrayValue:
    shape = tuple(int(size) for size in getattr(var.aval, "shape", ()))
    dtype = getattr(var.aval, "dtype", None)
    known[var] = ArrayValue(shape, str(dtype), float(math.prod(shape)) * getattr(dtype, "itemsize", 0))
    return known[var]


def _read(known: dict[Var, ArrayValue], var: Var | Literal) -> ArrayValue:
    if hasattr(var, "val"):
        return ArrayValue(tuple(getattr(var.aval, "shape", ())), str(getattr(var.aval, "dtype", "")), 0.0)
    return known[var]


REDUCTIONS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin cumsum cumprod cummax cummin "
    "cumlogsumexp".split()
)
MATH = REDUCTIONS - {"reduce_and", "reduce_or"} | frozenset(
    "add sub mul div max min neg abs sign exp exp2 log log1p expm1 tanh sin cos tan sinh cosh asin acos atan atan2 sqrt rsqrt "
    "cbrt logistic erf erfc erf_inv pow integer_pow square rem add_any floor ceil round clamp select_n is_finite nextafter "
    "lgamma digamma".split()
)
VIEWS = frozenset(
    "reshape squeeze expand_dims broadcast_in_dim broadcast transpose convert_element_type bitcast_convert_type copy "
    "stop_gradient iota rev slice concatenate pad copy_p sharding_constraint optimization_barrier eq ne lt le gt ge and or not "
    "xor reduce_precision real imag complex pvary random_bits random_seed random_wrap random_unwrap shift_left "
    "shift_right_logical shift_right_arithmetic".split()
)
SCALARS = 64.0  # bytes: smaller passes are loop counters or scales, which other passes absorb


@dataclass(frozen=True, slots=True)
class Dot:
    """Matmuls of one shape: g copies of [m, k] . [k, n]."""

    m: int
    k: int
    n: int
    g: int
    dtype: str
    exact: bool  # asked for in full precision, so that no narrower format serves
    flops: float
    bytes: float


@dataclass
class OpCounts:
    """Counts of a program: matmuls with how often they run, passes of elementwise work, loops, and what could not be counted."""

    dots: dict[Dot, float] = field(default_factory=dict)
    passes: dict[float, float] = field(default_factory=dict)
    math_flops: float = 0.0
    loops: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def flops(self) -> float:
        """FLOPs of all matmuls."""
        return sum(dot.flops * times for dot, times in self.dots.items())


@dataclass(frozen=True)
class CountingRules:
    """once: loop bodies count once, as XLA counts them. trips: of loops whose trip count is not static. dead: include dead code.
    least: a lower bound, with the cheapest branch and no trip of a loop that may have none."""

    once: bool = False
    trips: float | None = None
    dead: bool = False
    least: bool = False


def count_operations(jaxpr: Jaxpr | ClosedJaxpr, rules: CountingRules) -> OpCounts:
    """Count a traced program."""
    found = OpCounts()
    _count(flatten(jaxpr, dead=rules.dead), 1.0, found, rules)
    return found


def _count(flat: FlatProgram, times: float, found: OpCounts, rules: CountingRules) -> None:
    for node in flat.nodes:
        if matmul := _MATMULS.get(node.name):
            dot = matmul(node)
            found.dots[dot] = found.dots.get(dot, 0.0) + times
        elif node.name in MATH:
            sized = node.ins[0] if node.name in REDUCTIONS else node.outs[0]
            if "float" in sized.dtype:
                found.math_flops += times * math.prod(sized.shape)
        elif inner_jaxprs(node.params) and not node.name.startswith(("scatter", "reduce", "sort", "select_and")):
            _count_inner(node, times, found, rules)
        elif node.name in ("custom_call", "ffi_call", "pure_callback", "io_callback"):
            found.unknown.append(node.name)
    for moved in _passes(flat):
        if moved > SCALARS:
            found.passes[moved] = found.passes.get(moved, 0.0) + times


def _count_inner(node: Operation, times: float, found: OpCounts, rules: CountingRules) -> None:
    """Loops, branches and what else carries a program."""
    if node.name == "scan":
        trips = float(node.params["length"])
        found.loops.append(f"scan of {trips:g} trips")
        _count(flatten(node.params["jaxpr"], dead=rules.dead), times * (1.0 if rules.once else trips), found, rules)
    elif node.name == "while":
        found.loops.append(
            "while loop"
            + (f", {rules.trips:g} trips given" if rules.trips else ", trips unknown before it runs: counted once")
        )
        often = 1.0 if rules.once else (0.0 if rules.least else 1.0) if rules.trips is None else rules.trips
        _count(flatten(node.params["body_jaxpr"], dead=rules.dead), times * often, found, rules)
    elif node.name == "cond":
        branches = [OpCounts() for _ in node.params["branches"]]
        for branch, one in zip(node.params["branches"], branches, strict=True):
            _count(flatten(branch, dead=rules.dead), times, one, rules)
        found.loops.append(f"branch: the costliest of {len(branches)} counted")
        _merge(found, (min if rules.least else max)(branches, key=lambda one: (one.flops, one.math_flops)))
    else:
        for body in inner_jaxprs(node.params)[:1]:
            inside = OpCounts()
            _count(
                flatten(open_jaxpr(body), dead=True),
                times * (1 if rules.once else _parallel_copies(node)),
                inside,
                rules,
            )
            if node.name == "pallas_call":
                inside.passes.clear()  # what a kernel does with its blocks stays on the chip
            _merge(found, inside)


def _parallel_copies(node: Operation) -> int:
    """Number of parallel copies of an operation's body: the grid of a kernel, the devices of a mesh."""
    if node.name == "shard_map":
        return int(node.params["mesh"].size)
    return math.prod(getattr(node.params.get("grid_mapping"), "grid", None) or (1,))


def _merge(into: OpCounts, other: OpCounts) -> None:
    for dot, times in other.dots.items():
        into.dots[dot] = into.dots.get(dot, 0.0) + times
    for moved, times in other.passes.items():
        into.passes[moved] = into.passes.get(moved, 0.0) + times
    into.math_flops += other.math_flops
    into.loops += other.loops
    into.unknown += other.unknown


def _dot(node: Operation) -> Dot:
    (contract, _), (batch, _) = node.params["dimension_numbers"]
    x, w, y = node.ins[0], node.ins[1], node.outs[0]
    k, g = math.prod(x.shape[i] for i in contract), math.prod(x.shape[i] for i in batch)
    m = math.prod(x.shape) // max(k * g, 1)
    n = math.prod(w.shape) // max(k * g, 1)
    return Dot(m, k, n, g, x.dtype, _exact(node), 2.0 * g * m * k * n, x.bytes + w.bytes + y.bytes)


def _convolution(node: Operation) -> Dot:
    """A convolution as the matmul it is: every output element contracts a window of one channel group."""
    x, w, y = node.ins[0], node.ins[1], node.outs[0]
    channels = w.shape[node.params["dimension_numbers"].rhs_spec[0]]
    k = math.prod(w.shape) // channels
    m = math.prod(y.shape) // channels
    return Dot(m, k, channels, 1, x.dtype, _exact(node), 2.0 * m * k * channels, x.bytes + w.bytes + y.bytes)


def _ragged(node: Operation) -> Dot:
    """Each row is multiplied by the weight of its group: rows x inner x outer, whichever side is ragged."""
    x, w, y = node.ins[0], node.ins[1], node.outs[0]
    m, k, n = math.prod(x.shape[:-1]), x.shape[-1], y.shape[-1]
    return Dot(m, k, n, 1, x.dtype, _exact(node), 2.0 * m * k * n, x.bytes + w.bytes + y.bytes)


def _exact(node: Operation) -> bool:
    return "HIGHEST" in str(node.params.get("precision"))


_MATMULS: dict[str, Callable[[Operation], Dot]] = {
    "dot_general": _dot, "conv_general_dilated": _convolution, "ragged_dot": _ragged, "ragged_dot_general": _ragged,
}  # fmt: skip


def _passes(flat: FlatProgram) -> list[float]:
    """Bytes of each fused pass: one per result of elementwise work that must be written, with all it must read."""
    made = {id(out): node for node in flat.nodes for out in node.outs}
    needed = {id(v) for v in flat.outs} | {id(v) for node in flat.nodes if not _is_fusible(node) for v in node.ins}
    needed |= {id(out) for node in flat.nodes if node.name in REDUCTIONS for out in node.outs}
    found = []
    for node in flat.nodes:
        if _is_fusible(node):
            for out in node.outs:
                if id(out) in needed:
                    read, works = _reads(node, made, needed)
                    found += [out.bytes + sum(v.bytes for v in read)] if works else []
        elif node.name.startswith(("scatter", "dynamic_update_slice")):
            found.append(2 * (node.ins[-1] if node.name.startswith("scatter") else node.ins[1]).bytes)
        elif node.name in ("gather", "dynamic_slice"):
            found.append(2 * node.outs[0].bytes)
        elif not inner_jaxprs(node.params) and node.name not in _MATMULS:
            found.append(sum(v.bytes for v in (*node.ins, *node.outs)))
    return found


def _is_fusible(node: Operation) -> bool:
    return node.name in MATH or node.name in VIEWS


def _reads(root: Operation, made: dict[int, Operation], needed: set[int]) -> tuple[list[ArrayValue], bool]:
    """Inputs of a fused pass, and whether it computes anything besides views."""
    found: dict[int, ArrayValue] = {}
    stack, seen, works = [root], set(), False
    while stack:
        node = stack.pop()
        works = works or node.name in MATH
        for value in node.ins:
            producer = made.get(id(value))
            if producer is not None and _is_fusible(producer) and id(value) not in needed:
                if id(producer) not in seen:
                    seen.add(id(producer))
                    stack.append(producer)
            else:
                found[id(value)] = value
    return list(found.values()), works


SLICING = ("gather", "dynamic_slice", "slice")


def compulsory_traffic(jaxpr: Jaxpr | ClosedJaxpr, donated: bool) -> tuple[float, float]:
    """(bytes that must be read, bytes that must be written); `donated` when results may overwrite arguments."""
    flat = flatten(jaxpr)
    read = sum(_least_bytes_read(flat, value, donated) for value in flat.ins)
    return read, sum({id(v): v.bytes for v in flat.outs}.values())


def _least_bytes_read(flat: FlatProgram, value: ArrayValue, donated: bool) -> float:
    """Bytes of a value that its program reads at least."""
    total = value.bytes if any(v is value for v in flat.outs) and not donated else 0.0
    for node in flat.nodes:
        places = [i for i, v in enumerate(node.ins) if v is value]
        for i in places:
            if i == 0 and node.name in SLICING:
                total += node.outs[0].bytes
            elif i == 0 and donated and node.name.startswith(("dynamic_update_slice", "scatter")):
                continue
            elif node.name in ("cond", "while"):
                continue  # which branch is taken, and how often, is not known
            elif node.name == "scan" and i < node.params["num_consts"]:
                body = flatten(node.params["jaxpr"])
                total += node.params["length"] * _least_bytes_read(
                    body, body.ins[len(body.ins) - len(node.ins) + i], False
                )
            else:
                total += value.bytes
    return min(total, value.bytes)
