"""t5, mt5, umt5, bart and its relatives, whisper: an encoder, and a decoder that attends to what it made. Source: transformers 5.23 models/{t5,mt5,umt5,bart,whisper}.

The encoder is a tower that reads the source; keys and values of the decoder's cross-attention are computed once for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.importers.hf.decoder import Block, feedforward
from rooflinecli.importers.hf.layer_pattern import Override, stack
from rooflinecli.specs.field_reader import ConfigFields, Family


@dataclass(frozen=True)
class _EncoderDecoderForm:
    """How BART and its relatives differ: rows of positions before the first token's, a norm behind each embedding, and one behind each side's layers."""

    stem: str
    rows_before: int = 0
    embedding_norm: bool = False
    final_norm: bool = False


_BART_FORM = _EncoderDecoderForm("Bart", rows_before=2, embedding_norm=True)
FORMS = {
    "mbart": _EncoderDecoderForm("MBart", rows_before=2, embedding_norm=True, final_norm=True),
    "plbart": _EncoderDecoderForm("PLBart", rows_before=2, embedding_norm=True),
    "pegasus": _EncoderDecoderForm("Pegasus", final_norm=True),  # positions are sinusoids, kept as a table
    "marian": _EncoderDecoderForm("Marian"),  # the same
    "blenderbot": _EncoderDecoderForm("Blenderbot", final_norm=True),
    "blenderbot-small": _EncoderDecoderForm("BlenderbotSmall", embedding_norm=True),
}
_WHISPER_PREFIX = 4  # start of transcript, language, task, no timestamps


def _head(f: ConfigFields, stem: str) -> str:
    """generation, or a model without a head; of T5 the encoder alone too. Raises DataError."""
    classes = f.items("architectures", str) or [f"{stem}ForConditionalGeneration"]
    ends = {"ForConditionalGeneration": "generation", "MTModel": "generation", "EncoderModel": "encoder", "Model": ""}
    for end, kind in ends.items():
        if classes[0].endswith(end) and (kind != "encoder" or stem == "T5"):
            return kind
    raise f.fail(
        "architectures", f"{classes[0]} has a head this importer does not read; name {stem}ForConditionalGeneration"
    )


def _attention(f: ConfigFields, heads: str, width: int, dim: int | None = None, **more: Any) -> Block:
    n = f.whole(heads)
    if dim is None and width % n:
        raise f.fail(heads, f"{n} heads do not divide the width {width}; give another count")
    return {"kind": "mha", "n_heads": n, "head_dim": dim or width // n, **more}


def _cross(block: Block, **more: Any) -> Block:
    """Cross-attention of the same heads."""
    kept = {k: v for k, v in block.items() if k in ("n_heads", "head_dim", "qkv_bias", "out_bias", "key_bias")}
    return {"kind": "cross", "n_kv_heads": block["n_heads"], **kept, **more}


def t5(f: ConfigFields, every: bool = False) -> Block:
    """RMSNorm, no biases; a table of relative positions in the first layer of each side, or in every one (umt5)."""
    width, vocab = f.whole("d_model", "hidden_size"), f.whole("vocab_size")
    heads, dim = f.whole("num_heads", "num_attention_heads"), f.whole("d_kv")
    said = f.text("feed_forward_proj", default="relu")
    gated = f.flag("is_gated_act") if "is_gated_act" in f.data else said.startswith("gated-")
    mlp = {"kind": "gated" if gated else "dense", "d_ff": f.whole("d_ff"), "activation": said.removeprefix("gated-")}
    block: Block = {"kind": "mha", "n_heads": heads, "head_dim": dim, "rotary": False}
    bias = [
        {"kind": "table", "name": "relative_bias", "rows": f.whole("relative_attention_num_buckets"), "width": heads}
    ]

    def layers(n: int) -> int | list[dict[str, Any]]:
        listed: list[Override] = [{"pieces": bias} if every or i == 0 else {} for i in range(n)]
        return stack(listed)

    deep = f.whole("num_layers", "num_hidden_layers")
    both: Block = {
        "d_model": width,
        "vocab_size": vocab,
        "norm": "rmsnorm",
        "positions": {"kind": "none"},
        "feedforward": mlp,
    }
    encoder = both | {"attention": block | {"causal": False}, "layers": layers(deep), "lm_head": False}
    kind = _head(f, "T5")
    below = f.whole("num_decoder_layers", null=deep)
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


def umt5(f: ConfigFields) -> Block:
    return t5(f, every=True)


def _side(f: ConfigFields, side: str, width: int, **more: Any) -> tuple[Block, Block]:
    """Attention and MLP of one side, biased throughout."""
    block = _attention(f, f"{side}_attention_heads", width, qkv_bias=True, out_bias=True, rotary=False, **more)
    return block, feedforward(f, "dense", f"{side}_ffn_dim", bias=True)


def bart(f: ConfigFields, form: _EncoderDecoderForm = _BART_FORM) -> Block:
    """A table of positions on both sides; norms around the layers as `form` says."""
    width, rows = f.whole("d_model", "hidden_size"), f.whole("max_position_embeddings")
    f.expect("tie_word_embeddings", (True,), "untied tables of its two sides are not read")
    if form is _BART_FORM:  # switches of old files; the classes of its relatives have one form each, whatever these say
        for name, only in (
            ("normalize_before", False),
            ("normalize_embedding", True),
            ("static_position_embeddings", False),
        ):
            f.expect(name, (only, None), "only BART's own form is read")
        for name in ("add_bias_logits", "add_final_layer_norm"):
            f.expect(name, (False, None), "only BART's own form is read")
    f.expect("share_encoder_decoder_embeddings", (True, None), "tables apart for its two sides are not read")
    f.expect("decoder_vocab_size", (f.whole("vocab_size"), None), "a vocabulary of the decoder's own is not read")
    both: Block = {
        "d_model": width,
        "vocab_size": f.whole("vocab_size"),
        "norm": "layernorm",
        "final_norm": form.final_norm,
        "embedding_norm": form.embedding_norm,
        "positions": {"kind": "learned", "length": rows + form.rows_before},
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
        "layers": f.whole("encoder_layers", "num_hidden_layers"),
    }
    decoder = both | {
        "attention": block,
        "cross": _cross(block),
        "feedforward": mlp,
        "norms": 3,
        "layers": f.whole("decoder_layers"),
    }
    return decoder | {"towers": [encoder], "tied_embeddings": True, "lm_head": _head(f, form.stem) == "generation"}


def whisper(f: ConfigFields) -> Block:
    """Two convolutions over the mel frames, the second of stride 2; a window of 30 s whatever was said; keys without a bias."""
    width, frames = f.whole("d_model", "hidden_size"), f.whole("max_source_positions")
    rows = f.whole("max_target_positions")
    f.expect("tie_word_embeddings", (True, None), "an untied head is not read")
    taps = 3
    before = [
        {"kind": "linear", "name": "conv1", "input": taps * f.whole("num_mel_bins"), "spread": 2},
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
        "layers": f.whole("encoder_layers", "num_hidden_layers"),
    }
    encoder |= {"attention": above | {"causal": False}, "feedforward": first}
    decoder = both | {
        "vocab_size": f.whole("vocab_size"),
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
    decoder |= {"norms": 3, "layers": f.whole("decoder_layers"), "towers": [encoder]}
    return decoder | {"lm_head": _head(f, "Whisper") == "generation"}


_T5 = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "feed_forward_proj": "relu",
}
_MT5 = _T5 | {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
_T5_IGNORED = frozenset(
    "relative_attention_max_distance dropout_rate dense_act_fn n_positions output_past scale_decoder_outputs tie_word_embeddings "
    "hidden_act".split()
)
_SIDES = {"encoder_layers": 12, "encoder_ffn_dim": 4096, "decoder_layers": 12, "decoder_ffn_dim": 4096, "d_model": 1024}
_BART = {
    **_SIDES,
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "tie_word_embeddings": True,
}
_WHISPER = {
    **_SIDES,
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "vocab_size": 51865,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "activation_function": "gelu",
}
_LAYERDROP = frozenset("encoder_layerdrop decoder_layerdrop init_std scale_embedding".split())
_OLD = _LAYERDROP | frozenset(
    "classif_dropout normalize_before normalize_embedding static_position_embeddings add_bias_logits add_final_layer_norm num_hidden_layers "
    "extra_pos_embeddings force_bos_token_to_be_generated do_blenderbot_90_layernorm layernorm_variant variant unk_id".split()
)
_SMALL = {"encoder_layers": 8, "decoder_layers": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "d_model": 512}
_PLBART = {"encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "d_model": 768}
_BLENDERBOT = {
    "vocab_size": 8008, "max_position_embeddings": 128, "encoder_layers": 2, "decoder_layers": 24, "encoder_ffn_dim": 10240,
    "decoder_ffn_dim": 10240, "encoder_attention_heads": 32, "decoder_attention_heads": 32, "d_model": 2560,
}  # fmt: skip
_RELATIVES: dict[str, Block] = {
    "mbart": {},
    "pegasus": {},
    "marian": {"vocab_size": 58101},
    "plbart": _PLBART | {"vocab_size": 50005, "encoder_attention_heads": 12, "decoder_attention_heads": 12},
    "blenderbot": _BLENDERBOT,
    "blenderbot-small": _SMALL | {"max_position_embeddings": 512},
}
FAMILIES = {
    "t5": Family(t5, _T5, _T5_IGNORED, own_head=True, pair=True),
    "mt5": Family(t5, _MT5, _T5_IGNORED, own_head=True, pair=True),
    "umt5": Family(umt5, _MT5 | {"vocab_size": 250112}, _T5_IGNORED, own_head=True, pair=True),
    "bart": Family(
        bart,
        _BART,
        _LAYERDROP | {"classif_dropout"},
        own_head=True,
        pair=True,
    ),
    **{
        name: Family(partial(bart, form=FORMS[name]), _BART | more, _OLD, own_head=True, pair=True)
        for name, more in _RELATIVES.items()
    },
    "whisper": Family(
        whisper,
        _WHISPER,
        _LAYERDROP
        | frozenset(
            "apply_spec_augment mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length mask_time_min_masks "
            "mask_time_prob median_filter_width use_weighted_layer_sum classifier_proj_size alignment_heads lang_to_id task_to_id "
            "is_multilingual no_timestamps_token_id max_initial_timestamp_index".split()
        ),
        own_head=True,
        pair=True,
    ),
}
