"""Models: the list, and one model's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rooflinecli.core.units import count
from rooflinecli.questions.models.answer import LayerGroup, ModelList, ModelSheet, Tower
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, page, records
from rooflinecli.render.numbers import NONE, text

_SOURCES = ("family", "layers", "context", "source", "  published", "  active, without it", "  input embedding")
_MAX_ITEMS, _MAX_CHARACTERS = 4, 60  # items of a list that a page shows, and characters of one
_COLUMNS = (
    Column("model", "name", text=True),
    Column("family", lambda m: m.family or "other", text=True, drop=1),
    Column("parameters", lambda m: count(m.parameters["total"])),
    Column(
        "active",
        lambda m: count(m.parameters["active"]) if m.parameters["active"] != m.parameters["total"] else NONE,
        drop=5,
    ),
    Column("layers", lambda m: str(m.layers), drop=3),
    Column("d_model", lambda m: str(m.d_model), drop=2),
    Column("context", lambda m: str(m.max_context or NONE), drop=4),
)
Row = tuple[str, str]


def view(answer: ModelList | ModelSheet) -> Page:
    """Every model on a line, or one of them."""
    if isinstance(answer, ModelSheet):
        return sheet(answer)
    about = f"{len(answer.models)} models. active: parameters a token meets, input embedding included. `roofline models NAME` shows one."
    return page([records(_COLUMNS, answer.models)], [Note(about)])


def sheet(model: ModelSheet) -> Page:
    """One model: what it is, its parameters by each convention, its cache, its layers."""
    p, cache = model.parameters, model.kv_cache
    active = f", {count(p.active)} active per token" if p.active != p.total else ""
    context = f", context {model.max_context:,}" if model.max_context else ""
    head = f"{model.title}: {count(p.total)} parameters{active}, {model.layers} layers{context}, KV cache {text(cache['bytes_per_token'], 'bytes')} per token in bf16"
    notes = [Note(f"note: {note}") for note in model.notes]
    read = not model.file.endswith(
        ".yaml"
    )  # notes of a checkpoint that was read are warnings, those of a model file are sources
    return page(
        [Headline(head)],
        [Pairs([row for row in _parts(model) if row[0] not in _SOURCES])],
        notes if read else [],
        details=[[Pairs([row for row in _parts(model) if row[0] in _SOURCES])], [] if read else notes],
        about="sources, published parameters" + ("" if read else ", notes"),
    )


def _parts(m: ModelSheet) -> list[Row]:
    p, cache = m.parameters, m.kv_cache
    rows = [
        ("name", ", ".join([m.name, *m.aliases])),
        ("family", m.family or NONE),
        ("file", m.file),
        ("source", m.source),
        ("parameters", _exact(p.total)),
        *([("  published", _exact(p.published))] if p.published else []),
        ("  active, with input embedding", _exact(p.active)),
        ("  active, without it", _exact(p.active_without_embedding)),
        ("  input embedding", _exact(p.embedding)),
        *(row for tower in m.towers for row in _tower(tower)),
        ("layers", str(m.layers)),
        ("d_model", str(m.d_model)),
        ("vocabulary", f"{m.vocab_size}{', tied' if m.tied_embeddings else ''}"),
        ("context", str(m.max_context or NONE)),
        ("KV cache, bf16, per token", text(cache["bytes_per_token"], "bytes")),
    ]
    if cache["state_bytes_per_sequence"]:
        rows.append(
            ("  state of a sequence", f"{text(cache['state_bytes_per_sequence'], 'bytes')}, whatever its length")
        )
        rows.append(("  of 4,096 tokens, state included", text(cache["bytes_at_4096"], "bytes")))
    if cache["bytes_at_max_context"]:
        rows.append(("  of one full context", text(cache["bytes_at_max_context"], "bytes")))
    if m.quantization:
        rows.append(("checkpoint", _block_text({k: v for k, v in m.quantization.items() if k != "widths"})))
    if m.checkpoint:
        rows += _header(m.checkpoint, p.total)
    rows.append(("layer pattern", m.pattern))
    return rows + [("layers of one kind", said) for said in _groups(m.groups)]


def _tower(t: Tower) -> list[Row]:
    """A further tower, and what an image becomes in it."""
    rows = [(f"  {t.title}", _exact(t.parameters["total"]))]
    if t.reads != "its own":
        rows.append(("    its layers", f"{t.pattern}, d_model {t.d_model}"))
        rows.append(("    it reads", t.reads))
    if t.image is not None:
        i = t.image
        many = f"{i.inputs} x " if i.inputs > 1 else ""
        rows.append((f"    an image of {i.pixels}", f"{many}{i.positions:,} positions, {i.tokens:,} prompt tokens"))
    return rows


def _header(c: Mapping[str, object], parameters: int) -> list[Row]:
    """What the file's header says, and whether it holds as many parameters as the model has."""
    files, elements, dtypes = c["files"], c["elements"], c["dtypes"]
    assert isinstance(files, int) and isinstance(elements, int) and isinstance(dtypes, dict)
    size = text(c["bytes"], "bytes")
    rows = [("file", f"{c['file']}, {c['tensors']} tensors in {files} file{'s' if files > 1 else ''}, {size}")]
    rows += [(f"  {name}", text(size, "bytes")) for name, size in dtypes.items()]
    off = elements - parameters
    more = f"the header holds {abs(off):,} {'more' if off > 0 else 'fewer'} than the model"
    return [*rows, ("  elements", f"{elements:,}: {more if off else 'header and model agree'}")]


def _groups(groups: list[LayerGroup]) -> list[str]:
    """Each kind of layer once, with how many there are, in the order in which they are met."""
    kinds = Counter[str]()
    for group in groups:
        attention, join = (
            _block_text(group.attention or {"kind": "no attention"}),
            " in parallel with " if group.parallel else "; ",
        )
        said = f"{count(group.parameters_per_layer)}: {attention}{join}{_block_text(group.feedforward or {})}"
        kinds[said] += group.layers
    return [f"{times} x {said}" for said, times in kinds.items()]


def _block_text(block: Mapping[str, object]) -> str:
    """A block as words: 'gqa, n_heads 64, head_dim 128'; flags that are on by name alone."""
    words = [str(block["kind"])] if "kind" in block else []
    for key, value in block.items():
        if isinstance(value, dict):
            words.append(f"{key}: {_block_text(value)}")
        elif isinstance(value, list) and value:
            words.append(f"{key} {_shortened(value)}")
        elif key != "kind" and value not in (None, False, "", []):
            words.append(key if value is True else f"{key} {value}")
    return ", ".join(words)


def _shortened(items: Sequence[object]) -> str:
    """A list as far as a line of a page bears it: a quantized checkpoint names hundreds of modules. JSON has all of them."""
    words = [_block_text(x) if isinstance(x, dict) else str(x) for x in items[:_MAX_ITEMS]]
    said = [
        x if len(x) <= _MAX_CHARACTERS or isinstance(item, dict) else f"{x[:_MAX_CHARACTERS]}..."
        for x, item in zip(words, items, strict=False)
    ]
    more = [f"and {len(items) - _MAX_ITEMS:,} more"] if len(items) > _MAX_ITEMS else []
    return f"[{', '.join([*said, *more])}]"


def _exact(value: float) -> str:
    return f"{value:,} ({count(value)})" if value >= 1000 else str(value)
