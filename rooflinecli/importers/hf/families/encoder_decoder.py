"""t5, mt5, umt5, bart and its relatives, whisper: an encoder, and a decoder that attends to what it made. Source: transformers 5.23 models/{t5,mt5,umt5,bart,whisper}.

The encoder is a tower that reads the source; keys and values of the decoder's cross-attention are computed once for it.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import Block, feedforward
from rooflinecli.importers.hf.layer_pattern import Override, stack
from rooflinecli.specs.field_reader import ConfigFields

_WHISPER_PREFIX = 4  # start of transcript, language, task, no timestamps


def _head(f: ConfigFields, stem: str) -> str:
    """generation, or a model without a head; of T5 the encoder alone too. Raises DataError."""
    classes = f.items("architectures", str) or [f"{stem}ForConditionalGeneration"]
    ends = {"ForConditionalGeneration": "generation", "MTModel": "generation", "EncoderModel": "encoder", "Model": ""}
    for end, kind in ends.items():
        if classes[0].endswith(end) and (kind != "encoder" or stem == "T5"):
            return kind
    raise f.fail("architectures", f"{classes[0]} has a head that is not supported; name {stem}ForConditionalGeneration")


def _attention(f: ConfigFields, heads: str, width: int, dim: int | None = None, **more: Any) -> Block:
    n = f.integer(heads)
    if dim is None and width % n:
        raise f.fail(heads, f"{n} heads do not divide the width {width}; give another count")
    return {"kind": "mha", "n_heads": n, "head_dim": dim or width // n, **more}


def _cross(block: Block, **more: Any) -> Block:
    """Cross-attention of the same heads."""
    kept = {k: v for k, v in block.items() if k in ("n_heads", "head_dim", "qkv_bias", "out_bias", "key_bias")}
    return {"kind": "cross", "n_kv_heads": block["n_heads"], **kept, **more}


def t5(f: ConfigFields, every: bool = False) -> Block:
    """RMSNorm, no biases; a table of relative positions in the first layer of each side, or in every one (umt5)."""
    width, vocab = f.integer("d_model", "hidden_size"), f.integer("vocab_size")
    heads, dim = f.integer("num_heads", "num_attention_heads"), f.integer("d_kv")
    activation = f.text("feed_forward_proj", default="relu")
    gated = f.flag("is_gated_act") if "is_gated_act" in f.data else activation.startswith("gated-")
    mlp = {
        "kind": "gated" if gated else "dense",
        "d_ff": f.integer("d_ff"),
        "activation": activation.removeprefix("gated-"),
    }
    block: Block = {"kind": "mha", "n_heads": heads, "head_dim": dim, "rotary": False}
    bias = [
        {"kind": "table", "name": "relative_bias", "rows": f.integer("relative_attention_num_buckets"), "width": heads}
    ]

    def layers(n: int) -> int | list[dict[str, Any]]:
        listed: list[Override] = [{"pieces": bias} if every or i == 0 else {} for i in range(n)]
        return stack(listed)

    deep = f.integer("num_layers", "num_hidden_layers")
    both: Block = {
        "d_model": width,
        "vocab_size": vocab,
        "norm": "rmsnorm",
        "positions": {"kind": "none"},
        "feedforward": mlp,
    }
    encoder = both | {"attention": block | {"causal": False}, "layers": layers(deep), "lm_head": False}
    kind = _head(f, "T5")
    below = f.integer("num_decoder_layers", null=deep)
    if kind == "encoder":
        return encoder
    tower = {"name": "encoder", "source": "the same config", "reads": "source", "shared_embedding": True} | encoder
    decoder = both | {
        "attention": block,
        "cross": _cross(block),
        "norms": 3,
        "layers": layers(below),
        "towers": [tower],
    }
    return decoder | {"tied_embeddings": True, "lm_head": kind == "generation"}


def _side(f: ConfigFields, side: str, width: int, **more: Any) -> tuple[Block, Block]:
    """Attention and MLP of one side, biased throughout."""
    block = _attention(f, f"{side}_attention_heads", width, qkv_bias=True, out_bias=True, rotary=False, **more)
    return block, feedforward(f, "dense", f"{side}_ffn_dim", bias=True)


def bart(f: ConfigFields, *, stem: str, rows_before: int, embedding_norm: bool, final_norm: bool) -> Block:
    """A table of positions on both sides, with `rows_before` rows before the first token's; norms behind each embedding and each side's layers."""
    width, rows = f.integer("d_model", "hidden_size"), f.integer("max_position_embeddings")
    f.expect("tie_word_embeddings", (True,), "untied embeddings of encoder and decoder are not supported")
    if stem == "Bart":  # switches of old files, which the classes of its relatives ignore
        for name, only in (
            ("normalize_before", False),
            ("normalize_embedding", True),
            ("static_position_embeddings", False),
        ):
            f.expect(name, (only, None), "only BART's form is supported")
        for name in ("add_bias_logits", "add_final_layer_norm"):
            f.expect(name, (False, None), "only BART's form is supported")
    f.expect(
        "share_encoder_decoder_embeddings", (True, None), "separate embeddings of encoder and decoder are not supported"
    )
    f.expect(
        "decoder_vocab_size", (f.integer("vocab_size"), None), "a separate vocabulary of the decoder is not supported"
    )
    both: Block = {
        "d_model": width,
        "vocab_size": f.integer("vocab_size"),
        "norm": "layernorm",
        "final_norm": final_norm,
        "embedding_norm": embedding_norm,
        "positions": {"kind": "learned", "length": rows + rows_before},
        "max_context": rows,
    }
    above, first = _side(f, "encoder", width)
    block, mlp = _side(f, "decoder", width)
    encoder = {
        "name": "encoder",
        "source": "the same config",
        "reads": "source",
        "shared_embedding": True,
        "lm_head": False,
    }
    encoder |= both | {
        "attention": above | {"causal": False},
        "feedforward": first,
        "layers": f.integer("encoder_layers", "num_hidden_layers"),
    }
    decoder = both | {
        "attention": block,
        "cross": _cross(block),
        "feedforward": mlp,
        "norms": 3,
        "layers": f.integer("decoder_layers"),
    }
    return decoder | {"towers": [encoder], "tied_embeddings": True, "lm_head": _head(f, stem) == "generation"}


def whisper(f: ConfigFields) -> Block:
    """Two convolutions over the mel frames, the second of stride 2; always a window of 30 s; keys without a bias."""
    width, frames = f.integer("d_model", "hidden_size"), f.integer("max_source_positions")
    rows = f.integer("max_target_positions")
    f.expect("tie_word_embeddings", (True, None), "an untied head is not supported")
    taps = 3
    before = [
        {"kind": "linear", "name": "conv1", "input": taps * f.integer("num_mel_bins"), "spread": 2},
        {"kind": "linear", "name": "conv2", "input": taps * width},
        {"kind": "table", "name": "sinusoids", "rows": frames},
    ]
    above, first = _side(f, "encoder", width, key_bias=False)
    block, mlp = _side(f, "decoder", width, key_bias=False)
    both: Block = {"d_model": width, "norm": "layernorm"}
    encoder = both | {
        "name": "encoder",
        "source": "the same config",
        "reads": "window",
        "lm_head": False,
        "max_context": frames,
    }
    encoder |= {
        "positions": {"kind": "none"},
        "before": before,
        "layers": f.integer("encoder_layers", "num_hidden_layers"),
    }
    encoder |= {"attention": above | {"causal": False}, "feedforward": first}
    decoder = both | {
        "vocab_size": f.integer("vocab_size"),
        "tied_embeddings": True,
        "max_context": rows,
        "prefix": _WHISPER_PREFIX,
    }
    decoder |= {
        "positions": {"kind": "learned", "length": rows},
        "attention": block,
        "cross": _cross(block),
        "feedforward": mlp,
    }
    decoder |= {"norms": 3, "layers": f.integer("decoder_layers"), "towers": [encoder]}
    return decoder | {"lm_head": _head(f, "Whisper") == "generation"}
