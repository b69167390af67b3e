"""mllama_text_model: a llama some of whose layers attend to the image instead of the text. Source: transformers 5.23 models/mllama."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields

_MORE_ROWS = 8  # of the embedding over the head: the image's token and its neighbors


def mllama(f: ConfigFields) -> dict[str, Any]:
    """cross_attention_layers hold no self-attention; two gates of one number each, norms of q and k by head."""
    n, crossing = f.whole("num_hidden_layers"), f.items("cross_attention_layers", int) or []
    if any(i < 0 or i >= n for i in crossing):
        raise f.fail("cross_attention_layers", f"names a layer outside the {n}; give indices from 0")
    f.expect("tie_word_embeddings", (False, None), "its table has rows that its head has not")
    block = attention(f)
    seen = {"kind": "cross", **{k: v for k, v in block.items() if k != "kind"}, "qk_norm": "head"}
    seen.setdefault("n_kv_heads", block["n_heads"])
    gates = [{"kind": "parameters", "name": "gates", "rows": 2, "width": 1}]
    reads: Override = {"attention": None, "cross": seen, "pieces": gates}
    layers = [reads if i in crossing else {} for i in range(n)]
    rows = [{"kind": "parameters", "name": "image_rows", "rows": _MORE_ROWS}]
    return frame(f, block, feedforward(f, "gated"), layers=layers) | {"before": rows}
