"""ModelSpec -> Ledger. Kinds of attention, feed-forward and components are rows of YAML (kinds.py)."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core import num
from rooflinecli.core.errors import DataError
from rooflinecli.core.identity_cache import cached_by_identity
from rooflinecli.core.num import Number
from rooflinecli.layers import kinds
from rooflinecli.ledger.ledger import EVEN, MEMORY, Block, Encoder, Layer, Ledger, Row, TensorSplit, norm
from rooflinecli.ledger.mixer import CompositeMixer
from rooflinecli.specs.model import AttentionSpec, ComponentSpec, LayerSpec, ModelSpec


@cached_by_identity
def ledger(spec: ModelSpec) -> Ledger:
    """Ledger of a model, built once per spec."""
    known: list[tuple[AttentionSpec, Block]] = []
    layers = tuple(_layer(spec, group, i, known) for i, group in enumerate(spec.layers))
    axes = {"D": spec.d_model, "V": spec.vocab_size or 1, "one": 1}
    if spec.streams > 1:
        axes |= {"streams": spec.streams, "gates": spec.streams}
    if spec.embedding_dim:
        axes["W"] = spec.embedding_dim
    before, after = (
        _components(given, where, spec, axes) for given, where in ((spec.before, "before"), (spec.after, "after"))
    )
    derived = tuple(rule for block in (*before, *after) for rule in block.derived)
    stem, head = (
        kinds.outside(part, spec, components=[row for block in blocks for row in block.rows])
        for part, blocks in (("stem", before), ("head", after))
    )
    axes |= stem.axes | head.axes
    towers = tuple(  # with the longest inputs they are built for; of images there are none by default
        Encoder(ledger(tower), float(tower.max_context or 1), 0.0 if tower.reads == "images" else 1.0)
        for tower in spec.towers
    )
    longest = sum(tower.length for tower in towers if tower.ledger.spec.reads != "its own") or 1.0
    return with_cross_attention(Ledger(spec, stem.rows, layers, head.rows, axes, derived, towers), longest)


def split(ledger: Ledger, over: TensorSplit) -> Ledger:
    """The ledger as an engine splits it over a tensor-parallel group, built once."""
    return ledger if over == EVEN else _split(ledger, over)


@cached_by_identity
def _split(ledger: Ledger, over: TensorSplit) -> Ledger:
    return replace(ledger, layers=tuple(replace(layer, over=over) for layer in ledger.layers), over=over)


def _mixing(group: LayerSpec, model: ModelSpec, known: list[tuple[AttentionSpec, Block]]) -> list[Block]:
    """Blocks of a layer's attention; layers with equal attention share theirs, so that a pass counts its kernels once."""
    blocks = []
    for spec in (group.attention, group.cross):
        if spec is not None:
            block = next((block for seen, block in known if seen == spec), None)
            if block is None:
                _check_sizes(spec, model)
                rotated = spec.rotary and model.positions.kind == "rotary"
                block = kinds.block("attention", spec, {"model": model, "rotated": rotated})
                known.append((spec, block))
            blocks.append(block)
    return blocks


def _check_sizes(spec: AttentionSpec, model: ModelSpec) -> None:
    """Raises DataError for a size that the kind needs and has not, or does not read."""
    kind = kinds.kind("attention", spec.kind)
    wanted, optional = kind.get("sizes", {}), kind.get("optional", {})
    for name in sorted((set(spec.sizes) ^ set(wanted)) - set(optional)):
        reads = ", ".join(f"{size} ({what})" for size, what in (wanted | optional).items()) or "none"
        fault = "needs" if name in wanted else "does not read"
        raise DataError(
            f"{model.document.location('attention', 'sizes')}: kind {spec.kind} {fault} sizes.{name}; its sizes are: {reads}"
        )


def with_cross_attention(ledger: Ledger, tokens: Number) -> Ledger:
    """The ledger with cross-attention over a number of tokens; unchanged where no layer has cross-attention.

    Without tokens such a layer has parameters and no pass goes through it (Mllama without an image).
    """
    if not any(layer.has_cross_attention for layer in ledger.layers):
        return ledger
    layers = []
    for layer in ledger.layers:
        if layer.has_cross_attention and num.present(tokens):
            layer = replace(layer, asked=((MEMORY, tokens),))
        elif layer.has_cross_attention:
            idle = tuple(Row(row.name, "elementwise", params=row.params) for row in layer.rows)
            layer = replace(layer, rows=idle, mixer=None)
        layers.append(layer)
    return replace(ledger, layers=tuple(layers))


def _components(components: list[ComponentSpec], where: str, spec: ModelSpec, axes: dict[str, int]) -> list[Block]:
    """Blocks of components, in order; their axes are added to `axes`."""
    blocks: list[Block] = []
    for i, component in enumerate(components):
        called = f"{where}.{component.name or component.kind}"
        blocks.append(kinds.component(component, called, f"{where}{i}", spec.d_model))
        axes |= blocks[-1].axes
    return blocks


def _layer(spec: ModelSpec, group: LayerSpec, index: int, known: list[tuple[AttentionSpec, Block]]) -> Layer:
    blocks = _mixing(group, spec, known)
    mixers = sum(len(block.rows) for block in blocks)
    blocks.append(kinds.block("feedforward", group.feedforward, {"model": spec}))
    branches = sum(bool(block.rows) for block in blocks)
    entries = [kinds.outside("entry", spec, branch=i + 1) for i in range(branches if spec.streams > 1 else 0)]
    rows = [row for entry in entries for row in entry.rows]
    rows += [norm(f"norm.{i + 1}", spec.norm) for i in range(group.norms)]
    mixed = len(rows) + mixers
    rows += [row for block in blocks for row in block.rows]
    rows += kinds.outside("residual", spec, branches=branches).rows
    axes: dict[str, int] = {"D": spec.d_model, "one": 1}
    for entry in entries[:1]:
        axes |= entry.axes
    components = _components(group.pieces, "layer", spec, axes)
    rows += [row for block in components for row in block.rows]
    blocks += components
    mixing = [row.mixer for row in rows if row.mixer is not None]
    mixer = mixing[0] if len(mixing) == 1 else CompositeMixer(tuple(mixing)) if mixing else None  # Falcon-H1, Zamba2
    for block in blocks:
        axes |= block.axes
    return Layer(
        group.repeat, tuple(rows), axes, derived=tuple(rule for block in blocks for rule in block.derived),
        split=tuple(dict.fromkeys(axis for block in blocks for axis in block.split)),
        shared=tuple(dict.fromkeys(axis for block in blocks for axis in block.shared)), moe=group.feedforward.kind == "moe", mixer=mixer,
        index=index, mixed=mixed,
    )  # fmt: skip
