"""llama4_text: chunked attention on rotary layers, mixtures on every interleave_moe_layer_step-th layer. Source: transformers 5.23 models/llama4."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame, sparse
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields


def llama4(f: ConfigFields) -> dict[str, Any]:
    """Dense layers are intermediate_size_mlp wide; the q/k norm has no parameters; the shared expert is as wide as the others."""
    n, bias = f.whole("num_hidden_layers"), f.flag("attention_bias")
    step = f.whole("interleave_moe_layer_step", null=1)
    chosen = f.items("moe_layers", int)
    where = [i in chosen if chosen is not None else (i + 1) % step == 0 for i in range(n)]
    moe = experts(f, "intermediate_size", ("num_local_experts", "num_experts"), n_shared=1)
    base, mixed = sparse(feedforward(f, "gated", "intermediate_size_mlp"), moe, where)
    return frame(f, attention(f, qkv_bias=bias, out_bias=bias), base, layers=merged(_local(f, n), mixed))


def _local(f: ConfigFields, n: int) -> list[Override]:
    """Rotary layers attend within a chunk; the others (NoPE) see everything. no_rope_layers holds 1 where rotary is used."""
    interval = f.whole("no_rope_layer_interval", null=4)
    rotary = [bool(x) for x in f.items("no_rope_layers", int, n) or [(i + 1) % interval for i in range(n)]]
    chunks = windows(f, rotary, f.optional("attention_chunk_size"), "chunked_attention", "chunk")
    return merged(chunks, [{} if here else {"attention": {"rotary": False}} for here in rotary])
