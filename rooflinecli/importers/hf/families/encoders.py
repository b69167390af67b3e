"""Encoders of text, with the head of the class that the config names.

Source: transformers 5.23 models of those names, modeling_*.py.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import (
    Block,
    attention,
    feedforward,
    frame,
    set_only,
)
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.importers.hf.vision_encoders import linear, norm
from rooflinecli.specs.field_reader import ConfigFields

Pieces = list[Block]
_HEADS = {
    "ForMaskedLM": "masked",
    "LMHeadModel": "masked",  # of BERT: the same parts
    "ForPreTraining": "pretraining",
    "ForSequenceClassification": "sequence",
    "ForTokenClassification": "token",
    "ForQuestionAnswering": "answer",
    "Model": "",
}


def head_of(f: ConfigFields) -> str:
    """The head that the checkpoint was saved with; a masked language model by default. Raises DataError."""
    classes = f.items("architectures", str) or ["ForMaskedLM"]
    for ending, kind in _HEADS.items():
        if classes[0].endswith(ending):
            return kind
    known = ", ".join(_HEADS)
    raise f.fail("architectures", f"{classes[0]} has a head that is not supported; supported: {known}")


def labels(f: ConfigFields) -> int:
    """Classes of a classifier: as counted, or as named."""
    named = f.raw("id2label")
    return f.integer("num_labels", null=len(named) if isinstance(named, dict) and named else 2)


def masked(f: ConfigFields, width: int, dense: Block, *norm: Block, bias: bool = True) -> Block:
    """The head of a masked language model: dense, norm, and the embedding with a bias; untied, there are two biases."""
    twice = bias and not f.flag("tie_word_embeddings")
    again = [{"kind": "parameters", "name": "second_bias", "width": f.integer("vocab_size")}] if twice else []
    return {"after": [dense, *norm, *again], "lm_head_bias": bias}


def _norm(name: str = "head_norm", **more: Any) -> Block:
    return {"kind": "norm", "name": name, **more}


def _encoder(
    f: ConfigFields, ends: Block, before: Pieces, *, width: int, rows: int, context: int, layers: int
) -> Block:
    """Post-norm layers behind tables of words, positions and token types."""
    f.expect("is_decoder", (False, None), "only its use as an encoder is supported")
    f.expect("position_embedding_type", ("absolute", None), "only absolute positions are supported")
    heads = f.integer("num_attention_heads", "n_heads")
    if width % heads:
        raise f.fail("num_attention_heads", f"{heads} heads do not divide the width {width}; give another count")
    block = {"kind": "mha", "n_heads": heads, "head_dim": width // heads, "causal": False}
    mlp = feedforward(f, "dense", d_ff=f.integer("intermediate_size", "hidden_dim"), bias=True)
    built = frame(
        f,
        block | {"qkv_bias": True, "out_bias": True},
        mlp,
        layers=layers,
        norm="layernorm",
        width=width,
        context=context,
        final_norm=False,
        positions={"kind": "learned", "length": rows},
    )
    return built | {"embedding_norm": True, "before": before, "lm_head": "lm_head_bias" in ends} | ends


def _types(f: ConfigFields, **more: Any) -> Pieces:
    """Tables of token types, where there are any."""
    rows = f.optional("type_vocab_size")
    return [{"kind": "table", "name": "token_types", "rows": rows, **more}] if rows else []


def _ends(f: ConfigFields, kind: str, width: int, masked: Block, *, dense: bool, pooler: bool) -> Block:
    """The output layers of an encoder: the masked head, a pooler, or a classifier of sequences or tokens after a matrix or a pooler."""
    if kind == "pretraining":
        raise f.fail("architectures", "this type has no pretraining class; name the ForMaskedLM one")
    if kind == "masked":
        return masked
    pool = [linear("pooler", width, once=True)] if pooler else []
    if not kind:
        return {"after": pool, "lm_head": False}
    once: Block = {"once": True} if kind == "sequence" else {}
    first = [linear("classifier_dense", width, once=True)] if dense and once else pool if once else []
    return {"after": [*first, linear("classifier", labels(f), **once)], "lm_head": False}


def bert(f: ConfigFields) -> Block:
    """A pooler without another head; after pretraining, next-sentence and masked heads."""
    width, kind = f.integer("hidden_size"), head_of(f)
    language = masked(f, width, linear("head_dense", width), _norm())
    if kind == "pretraining":
        ends = language
        ends["after"] += [linear("pooler", width, once=True), linear("next_sentence", 2, once=True)]
    else:
        ends = _ends(f, kind, width, language, dense=False, pooler=True)
    rows = f.integer("max_position_embeddings")
    return _encoder(f, ends, _types(f), width=width, rows=rows, context=rows, layers=f.integer("num_hidden_layers"))


def roberta(f: ConfigFields) -> Block:
    """bert, but positions start after the padding's; a classifier reads the first token through a separate matrix."""
    width = f.integer("hidden_size")
    language = masked(f, width, linear("head_dense", width), _norm())
    ends = _ends(f, head_of(f), width, language, dense=True, pooler=True)
    rows = f.integer("max_position_embeddings")
    first = f.integer("pad_token_id", null=1, least=0) + 1
    if rows <= first:
        raise f.fail("max_position_embeddings", f"{rows} rows leave none after the padding's {first}; give more")
    layers = f.integer("num_hidden_layers")
    return _encoder(f, ends, _types(f), width=width, rows=rows, context=rows - first, layers=layers)


def mpnet(f: ConfigFields) -> Block:
    """roberta without token types; one table of relative positions, a bias of each head's scores, for all layers."""
    made = roberta(f)
    buckets = {
        "kind": "table",
        "name": "relative_bias",
        "rows": f.integer("relative_attention_num_buckets"),
        "width": f.integer("num_attention_heads"),
    }
    return made | {"before": [*made["before"], buckets]}


def ernie(f: ConfigFields) -> Block:
    """bert, with a table of tasks where use_task_id is on."""
    made = bert(f)
    rows = f.integer("task_type_vocab_size", null=3)
    return made | (
        {"before": [*made["before"], {"kind": "table", "name": "tasks", "rows": rows}]} if f.flag("use_task_id") else {}
    )


def megatron(f: ConfigFields) -> Block:
    """bert with its norms before the blocks: one behind the layers, none behind the embedding."""
    return bert(f) | {"embedding_norm": False, "final_norm": True}


def distilbert(f: ConfigFields) -> Block:
    """bert without token types and pooler, its fields under other names."""
    width = f.integer("dim", "hidden_size")
    language = masked(f, width, linear("head_dense", width), _norm())
    language["after"] = [p for p in language["after"] if p["kind"] != "parameters"]  # it has one bias, tied or not
    ends = _ends(f, head_of(f), width, language, dense=True, pooler=False)
    rows, layers = f.integer("max_position_embeddings"), f.integer("n_layers", "num_hidden_layers")
    return _encoder(f, ends, [], width=width, rows=rows, context=rows, layers=layers)


def electra(f: ConfigFields) -> Block:
    """Tables narrower than the layers, a projection between them; the generator fills masks, the discriminator doubts every token."""
    width, narrow, kind = f.integer("hidden_size"), f.integer("embedding_size"), head_of(f)
    rows, layers = f.integer("max_position_embeddings"), f.integer("num_hidden_layers")
    head_dense = {"kind": "parameters", "name": "head_bias", "width": narrow}  # of the way down to the table
    if narrow == width:
        head_dense = linear("head_dense", narrow)
    language = {"after": [head_dense, _norm(width=narrow)], "lm_head_bias": True}
    if kind == "pretraining":
        ends: Block = {"after": [linear("head_dense", width), linear("doubt", 1)]}
    else:
        ends = _ends(f, kind, width, language, dense=True, pooler=False)
    before = [
        {"kind": "table", "name": "positions", "rows": rows, "width": narrow},
        *_types(f, width=narrow),
        _norm("embedding_norm", width=narrow),
    ]
    built = _encoder(f, ends, before, width=width, rows=rows, context=rows, layers=layers)
    built = {**built, "embedding_norm": False, "positions": {"kind": "none"}}
    if narrow == width:
        return built
    built["before"] += [{"kind": "parameters", "name": "projection_bias"}]
    return built | {"embedding_dim": narrow, "embedding_down": kind == "masked"}


def modernbert(f: ConfigFields) -> Block:
    """Pre-norm, rotary, gated; two of three layers see a window; the first has no norm before its attention."""
    width, n = f.integer("hidden_size"), f.integer("num_hidden_layers")
    bias = f.flag("attention_bias")
    every = f.integer("global_attn_every_n_layers", null=3)
    half = f.integer("local_attention") // 2
    f.expect("sliding_window", (half, None), f"local_attention says {half}; keep one")
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias) | {"causal": False}
    local = windows(f, [i % every != 0 for i in range(n)], 2 * half + 1)
    local[0] = {**local[0], "norms": 1}
    norm = "layernorm" if f.flag("norm_bias") else "layernorm_nobias"
    built = frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=local, norm=norm)
    kind, decoder = head_of(f), f.flag("decoder_bias")
    dense, after = linear("head_dense", width, bias=f.flag("classifier_bias")), _norm(norm=norm)
    if kind == "masked":
        return built | {"embedding_norm": True, "after": [dense, after], "lm_head_bias": decoder}
    if kind == "pretraining":
        raise f.fail("architectures", "ModernBERT has no pretraining class; name ModernBertForMaskedLM")
    ends: Block = {"lm_head": False, "embedding_norm": True}
    if kind:
        once = {"once": True} if kind == "sequence" else {}
        ends["after"] = [{**dense, **once}, {**after, **once}, linear("classifier", labels(f), **once)]
    return built | ends


def modernbert_decoder(f: ConfigFields) -> Block:
    """ModernBERT that writes: two of three layers see a window; a matrix and a norm before the head."""
    n, bias, width = f.integer("num_hidden_layers"), f.flag("attention_bias"), f.integer("hidden_size")
    every = f.integer("global_attn_every_n_layers", null=3)
    half = f.integer("local_attention", null=0, least=0) // 2
    f.used.add("sliding_window")  # always half of local_attention in the class
    local = windows(f, [i % every != 0 for i in range(n)], half or None)
    local[0] = {**local[0], "norms": 1}
    kind = "layernorm" if f.flag("norm_bias") else "layernorm_nobias"
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias)
    after = [linear("head_dense", width, bias=f.flag("classifier_bias")), norm("head_norm", kind)]
    built = frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=local, norm=kind)
    return built | {"embedding_norm": True, "after": after} | set_only({"lm_head_bias": f.flag("decoder_bias")})


def eurobert(f: ConfigFields) -> Block:
    """Bidirectional llama with a separate head over the vocabulary."""
    bias, width = f.flag("attention_bias"), f.integer("hidden_size")
    block = attention(f, qkv_bias=bias, out_bias=bias) | {"causal": False}
    made = frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=f.integer("num_hidden_layers"))
    masked = {"after": [], "lm_head_bias": f.flag("mlp_bias")}  # the class gives its head the bias of the MLPs
    return made | _ends(f, head_of(f), width, masked, dense=True, pooler=False)


def nomic(f: ConfigFields) -> Block:
    """bert with rotary positions, a gated MLP and no biases."""
    width = f.integer("hidden_size")
    block = attention(f, kv=None) | {"causal": False}
    rows = f.integer("max_position_embeddings")
    made = frame(
        f, block, feedforward(f, "gated"), layers=f.integer("num_hidden_layers"), norm="layernorm", context=rows
    )
    language = masked(f, width, linear("head_dense", width), _norm())
    kind = head_of(f)
    ends = _ends(f, kind, width, language, dense=False, pooler=bool(kind))
    return made | {"final_norm": False, "embedding_norm": True, "before": _types(f)} | ends


def _prenorm(f: ConfigFields, embedding_norm: bool) -> Block:
    """roberta with its norms before the blocks, and one behind the layers."""
    made = roberta(f) | {"final_norm": True}
    return made | {"embedding_norm": embedding_norm}


def roberta_prenorm(f: ConfigFields) -> Block:
    return _prenorm(f, True)


def roberta_xl(f: ConfigFields) -> Block:
    return _prenorm(f, False)
