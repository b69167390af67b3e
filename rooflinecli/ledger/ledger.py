"""The ledger: a model as rows of named-axis contractions, which give parameters, FLOPs, bytes and sharding.

A row such as `x[B S D] . Wqkv[D A H] -> qkv[B S A H]` is a complete matmul: axes in both operands
and not in the result are contracted (k), axes of x that survive are rows (m), axes of W that survive are columns (n),
axes in all three are independent copies (g). Rows that are not contractions (norms, activations, a sequence mixer)
list what they read, write and save instead.

Axes: B sequences, S query tokens, T keys, O positions with logits, Z tokens outside tensor parallelism (S, or S/tp
under sequence parallelism), D d_model, N query heads, K key/value heads, H head_dim, A = N + 2K projected heads,
F d_ff, U columns of the first feed-forward matmul, V vocabulary, E experts, X experts of a device, C tokens per expert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number

if TYPE_CHECKING:
    from rooflinecli.ledger.mixer import Mixer

MEMORY = "M_x"  # tokens that cross-attention reads, which the request decides
Axes = tuple[str, ...]
Sizes = dict[str, Number]


@dataclass(frozen=True, eq=False, repr=False)
class Contraction:
    """x . W -> y by axis name; `weight` when the second operand is a parameter (its name starts with W)."""

    text: str
    x: Axes
    w: Axes
    y: Axes
    weight: bool
    m: Axes
    k: Axes
    n: Axes
    g: Axes


@cache
def contraction(text: str) -> Contraction:
    """Parse `x[B S D] . W[D F] -> y[B S F]`. Raises ValueError when the axes do not fit."""
    left, _, result = text.partition("->")
    first, _, second = left.partition(".")
    (_, x), (w_name, w), (_, y) = (_operand(part, text) for part in (first, second, result))
    g = tuple(a for a in x if a in w and a in y)
    k = tuple(a for a in x if a in w and a not in y)
    m = tuple(a for a in x if a not in w)
    n = tuple(a for a in w if a not in x)
    if not k or set(y) != {*g, *m, *n}:
        raise ValueError(f"not a contraction: {text}")
    return Contraction(text, x, w, y, w_name.startswith("W"), m, k, n, g)


def _operand(part: str, text: str) -> tuple[str, Axes]:
    name, bracket, rest = part.strip().partition("[")
    if not bracket or not rest.endswith("]"):
        raise ValueError(f"expected name[axes] in: {text}")
    return name, tuple(rest[:-1].split())


@dataclass(frozen=True, eq=False, repr=False)
class Row:
    """One operation of a layer.

    kind: matmul | grouped_matmul | attention | elementwise | gather. params: parameter tensors by axes (a matmul's W
    included unless tied). saves: activations kept for the backward pass (per-element activation bytes); masks: one-byte
    tensors kept (dropout). reads/writes: traffic of rows that are not contractions. linear: its backward needs no input.
    kept: its result is kept for the decode steps, which do not run it again. parts: matrices of the checkpoint that run as one matmul.
    """

    name: str
    kind: str
    contraction: Contraction | None = None
    params: tuple[Axes, ...] = ()
    reads: tuple[Axes, ...] = ()
    writes: tuple[Axes, ...] = ()
    saves: tuple[Axes, ...] = ()
    masks: tuple[Axes, ...] = ()
    mixer: Mixer | None = None
    linear: bool = False
    is_saved: bool = False
    parts: int = 1

    @property
    def routed(self) -> bool:
        """Whether it belongs to routed experts: it works on rows of X experts."""
        return "X" in (self.contraction.g if self.contraction else (axis for axes in self.reads for axis in axes))


def matmul(
    name: str, text: str, *, bias: bool = False, saves: tuple[Axes, ...] = (), tied: bool = False, kind: str = "matmul"
) -> Row:
    """A row for a weight matmul; a tied one has no parameters."""
    parsed = contraction(text)
    bias_axes = (*parsed.g, *parsed.n)
    params = (() if tied else (parsed.w,)) + ((bias_axes,) if bias else ())
    return Row(name, kind, parsed, params, saves=saves)


@cache
def norm(name: str, kind: str, width: Axes = ("D",), tokens: Axes = ("B", "Z"), saved: bool = True) -> Row:
    """A norm over `width`: one scale (rmsnorm), scale and shift (layernorm), or nothing."""
    tensors = {"rmsnorm": 1, "layernorm_nobias": 1, "layernorm": 2, "none": 0}[kind]
    whole = (*tokens, *width)
    return Row(
        name, "elementwise", params=(width,) * tensors, reads=(whole,), writes=(whole,), saves=(whole,) if saved else ()
    )


def product(axes: Axes, sizes: Mapping[str, Number]) -> Number:
    """The number of elements of a tensor with these axes."""
    if not axes:
        return 1
    result = sizes[axes[0]]
    for axis in axes[1:]:
        result = result * sizes[axis]
    return result


def elements(tensors: Iterable[Axes], sizes: Mapping[str, Number]) -> Number:
    """The number of elements of several tensors."""
    total: Number = 0
    for axes in tensors:
        if not axes:
            total = total + 1
            continue
        one = sizes[axes[0]]  # the product, in place: a pass asks for dozens
        for axis in axes[1:]:
            one = one * sizes[axis]
        total = total + one
    return total


Derived = tuple[tuple[str, Callable[[Sizes], Number]], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Rows and axes that an attention or feed-forward kind adds to a layer.

    split: axes that tensor parallelism divides. shared: those it divides until one is left on each device (key/value heads).
    """

    rows: tuple[Row, ...]
    axes: dict[str, int]
    derived: Derived = ()
    split: Axes = ()
    shared: Axes = ()


@dataclass(frozen=True)
class TensorSplit:
    """How an engine splits a model over a tensor-parallel group, where that is not evenly over its devices.

    ranks: parts of a device, such as one for each of its cores; every part has whole heads, equally many. copies: KV heads
    that the ranks do not divide are copied, one for each query head ("queries"), or for each rank where they divide the ranks ("ranks").
    replicates_lm_head: every device has the whole embedding and head.
    """

    ranks: float = 1.0
    copies: str = ""
    replicates_lm_head: bool = False


EVEN = TensorSplit()


@dataclass(frozen=True, eq=False, repr=False)
class Layer:
    """`repeat` identical layers: rows, axis sizes, sizes that follow from others, the axes that are split, the mixer,
    sizes that the request decides (the tokens that cross-attention reads), and the number of rows before the feed-forward ones."""

    repeat: int
    rows: tuple[Row, ...]
    axes: dict[str, int]
    derived: Derived
    split: Axes
    shared: Axes
    moe: bool
    mixer: Mixer | None
    index: int
    asked: tuple[tuple[str, Number], ...] = ()
    over: TensorSplit = EVEN
    mixed: int = 0

    @cached_property
    def mixing(self) -> tuple[Row, ...]:
        """Norms and the rows of its mixers: the same objects in every layer with the same mixer, whatever its feed-forward."""
        return self.rows[: self.mixed]

    @cached_property
    def rows_after_mixer(self) -> tuple[Row, ...]:
        """The rows after its mixers."""
        return self.rows[self.mixed :]

    @cached_property
    def unrouted(self) -> tuple[Row, ...]:
        """The rows after its mixers but those of routed experts."""
        return tuple(row for row in self.rows_after_mixer if not row.routed) if self.moe else self.rows_after_mixer

    @cached_property
    def has_cross_attention(self) -> bool:
        """Whether it attends to the output of an encoder."""
        return any(MEMORY in axes for row in self.rows for axes in ((row.contraction.x,) if row.contraction else ()))

    def sizes(self, base: Sizes) -> Sizes:
        """`base` (B, S, ... and the sharded axes of this layer) with the sizes of the request and the derived axes filled in."""
        base.update(self.asked)
        for name, rule in self.derived:
            base[name] = rule(base)
        return base


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """An encoder of a model: its ledger, the length of an input and the number of inputs per sequence."""

    ledger: Ledger
    length: Number
    count: Number = 1.0

    def inputs(self, batch: Number) -> Number:
        """Inputs in a pass over `batch` sequences."""
        return batch if self.count.__class__ is float and self.count == 1.0 else batch * self.count

    @property
    def positions(self) -> Number:
        """Output positions per sequence."""
        one = self.count.__class__ is float and self.count == 1.0
        return self.length if one else self.length * self.count


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """A whole model: stem, layers, head, and its encoders."""

    spec: Any
    stem: tuple[Row, ...]
    layers: tuple[Layer, ...]
    head: tuple[Row, ...]
    axes: dict[str, int]
    derived: Derived = ()
    towers: tuple[Encoder, ...] = ()
    over: TensorSplit = EVEN

    @property
    def reading(self) -> tuple[Encoder, ...]:
        """The encoders that have inputs."""
        return tuple(tower for tower in self.towers if num.present(tower.count))

    def head_rows(self, logits: Number) -> tuple[Row, ...]:
        """Rows behind the layers of a pass by its logits per sequence: with none, its embeddings are wanted."""
        wanted = logits.__class__ is not float or logits != 0.0
        return self.head if wanted else tuple(row for row in self.head if row.name == "final_norm")

    @cached_property
    def n_layers(self) -> int:
        return sum(layer.repeat for layer in self.layers)

    @cached_property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return sum(layer.repeat for layer in self.layers if layer.moe)

    @cached_property
    def mtp_block(self) -> tuple[Layer, ...]:
        """Layers of a multi-token prediction module: the last one, behind the last attention layer where layers mix or feed forward
        but do not do both (Nemotron 3's mtp_hybrid_override_pattern "*E")."""
        last, kinds = self.layers[-1], self.spec.layers
        if last.mixer is not None:
            return (last,)
        attention = [
            layer
            for layer in self.layers
            if layer.mixer is not None and "mamba" not in kinds[layer.index].attention.kind
        ]
        return (*attention[-1:], last)

    @cached_property
    def operations(self) -> int:
        """Rows in all layers, each a kernel launch."""
        return sum(layer.repeat * len(layer.rows) for layer in self.layers)

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """The numbers of attention heads that layers have, each once."""
        return tuple(sorted({layer.axes["N"] for layer in self.layers if "N" in layer.axes}))

    @cached_property
    def experts(self) -> tuple[int, ...]:
        """The numbers of routed experts that layers have, each once; empty for a dense model."""
        return tuple(sorted({layer.axes["E"] for layer in self.layers if layer.moe}))

    @cached_property
    def document(self) -> Any:
        """The file the model was read from."""
        return self.spec.document


def row_parameters(rows: tuple[Row, ...], sizes: Mapping[str, Number]) -> Number:
    """Parameters of some rows; exact integers when the sizes are."""
    total: Number = 0
    for row in rows:
        for axes in row.params:
            total = total + product(axes, sizes)
    return total
