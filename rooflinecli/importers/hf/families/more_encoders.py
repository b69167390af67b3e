"""Encoders near BERT and ViT: eurobert, nomic_bert, roberta-prelayernorm, xlm-roberta-xl, bert-generation, deit, ijepa,
dinov2_with_registers, and the towers of CLIP and SigLIP as models of their own. Source: transformers 5.23 models of those names."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import Block, attention, feedforward, frame
from rooflinecli.importers.hf.families import encoder, vision
from rooflinecli.importers.hf.families.encoder import head_of, labels, linear
from rooflinecli.importers.hf.vision_encoders import patches, side, table, values
from rooflinecli.specs.field_reader import ConfigFields


def _ends(f: ConfigFields, kind: str, width: int, masked: Block, dense: bool, pooler: bool) -> Block:
    """What stands behind an encoder: the masked head, a pooler, or a classifier with a matrix or a pooler before it."""
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


def eurobert(f: ConfigFields) -> Block:
    """llama both ways, with a head of its own over the vocabulary."""
    bias, width = f.flag("attention_bias"), f.whole("hidden_size")
    block = attention(f, qkv_bias=bias, out_bias=bias) | {"causal": False}
    made = frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=f.whole("num_hidden_layers"))
    masked = {"after": [], "lm_head_bias": f.flag("mlp_bias")}  # the class gives its head the bias of the MLPs
    return made | _ends(f, head_of(f), width, masked, dense=True, pooler=False)


def nomic(f: ConfigFields) -> Block:
    """bert with rotary positions, a gated MLP and no biases."""
    width = f.whole("hidden_size")
    block = attention(f, kv=None) | {"causal": False}
    rows = f.whole("max_position_embeddings")
    made = frame(f, block, feedforward(f, "gated"), layers=f.whole("num_hidden_layers"), norm="layernorm", context=rows)
    masked = encoder.masked(f, width, linear("head_dense", width), {"kind": "norm", "name": "head_norm"})
    kind = head_of(f)
    ends = _ends(f, kind, width, masked, dense=False, pooler=bool(kind))
    return made | {"final_norm": False, "embedding_norm": True, "before": encoder._types(f)} | ends


def _prenorm(f: ConfigFields, embedding_norm: bool) -> Block:
    """roberta with its norms before the blocks, and one behind the layers."""
    made = encoder.roberta(f) | {"final_norm": True}
    return made | {"embedding_norm": embedding_norm}


def roberta_prenorm(f: ConfigFields) -> Block:
    return _prenorm(f, True)


def roberta_xl(f: ConfigFields) -> Block:
    return _prenorm(f, False)


def deit(f: ConfigFields) -> Block:
    """vit with a second token that learns from a teacher."""
    saved = (f.items("architectures", str) or ["DeiTForImageClassification"])[0]
    data = {**f.data, "architectures": [saved.removesuffix("WithTeacher")]}
    made = vision.vit(ConfigFields(data, f.defaults, f.where, f.prefix, f.used, f.assumed))
    rows = (side(f, "image_size") // side(f, "patch_size")) ** 2 + 2
    width = f.whole("hidden_size")
    made["before"] = [patches(f, width, bias=True, less=2), values("class_tokens", 2), table("positions", rows)]
    if saved.endswith("WithTeacher"):
        made["after"] = [linear("classifier", 2 * labels(f), once=True)]
    return made | {"max_context": rows}


def ijepa(f: ConfigFields) -> Block:
    """vit without a class token: a classifier of the mean of the patches."""
    made = vision.vit(f)
    rows, width = (side(f, "image_size") // side(f, "patch_size")) ** 2, f.whole("hidden_size")
    made["before"] = [patches(f, width, bias=True), table("positions", rows)]
    made["after"] = [piece for piece in made["after"] if piece["name"] != "pooler"]
    return made | {"max_context": rows}


def registers(f: ConfigFields) -> Block:
    """dinov2 with learned tokens behind the class token."""
    made, extra = vision.dinov2(f), f.whole("num_register_tokens", null=4, least=0)
    width, rows = f.whole("hidden_size"), (side(f, "image_size") // side(f, "patch_size")) ** 2 + 1
    before = [
        patches(f, width, bias=True, less=1 + extra),
        values("class_token"),
        values("mask_token"),
        table("positions", rows),
    ]
    return made | {"before": [*before, *([values("registers", extra)] if extra else [])], "max_context": rows + extra}
