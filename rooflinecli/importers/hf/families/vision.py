"""vit, dinov2, clip, siglip: encoders of images, alone or beside one of text. Source: transformers 5.23 models/{vit,dinov2,clip,siglip}/modeling_*.py."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import Block, feedforward
from rooflinecli.importers.hf.families.encoder import labels
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.importers.hf.vision_encoders import EncoderFamily, linear, mha, patches, side, table, values
from rooflinecli.importers.hf.vision_encoders.clip_siglip import TOWERS
from rooflinecli.specs.field_reader import ConfigFields, Family


def _head(f: ConfigFields, known: dict[str, str]) -> str:
    """What the class that the checkpoint was saved from ends in. Raises DataError."""
    classes = f.items("architectures", str) or [f"{next(iter(known))}"]
    for ending, kind in known.items():
        if classes[0].endswith(ending):
            return kind
    raise f.fail("architectures", f"{classes[0]} has a head this importer does not read; known: {', '.join(known)}")


def _stack(f: ConfigFields, mlp: Block, before: list[Block], rows: int, **more: Any) -> Block:
    width = f.whole("hidden_size")
    block = mha(f, "num_attention_heads", width, qkv_bias=f.flag("qkv_bias", True), out_bias=True)
    made: Block = {
        "d_model": width,
        "norm": "layernorm",
        "lm_head": False,
        "positions": {"kind": "none"},
        "max_context": rows,
    }
    return (
        made | {"attention": block, "feedforward": mlp, "layers": f.whole("num_hidden_layers"), "before": before} | more
    )


def _patched(f: ConfigFields) -> tuple[list[Block], int]:
    """Patches, a class token and a table of positions; how many there are."""
    rows = (side(f, "image_size") // side(f, "patch_size")) ** 2 + 1
    cut = patches(f, f.whole("hidden_size"), bias=True, less=1)
    return [cut, values("class_token"), table("positions", rows)], rows


def vit(f: ConfigFields) -> Block:
    """A classifier of the class token, or a pooler where there is none."""
    before, rows = _patched(f)
    kind = _head(f, {"ForImageClassification": "classes", "Model": ""})
    width = f.whole("hidden_size")
    end = (
        linear("classifier", labels(f), once=True)
        if kind
        else linear("pooler", f.whole("pooler_output_size", null=width), once=True)
    )
    return _stack(f, feedforward(f, "dense", bias=True), before, rows, after=[end])


def dinov2(f: ConfigFields) -> Block:
    """Two learned scales a layer; a mask token where asked for; SwiGLU of two thirds of the width, rounded up to eights."""
    before, rows = _patched(f)
    before += [values("mask_token")] if f.flag("use_mask_token", True) else []
    width, ratio = f.whole("hidden_size"), f.raw("mlp_ratio")
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio <= 0:
        raise f.fail("mlp_ratio", f"expected a number above zero, got {str(ratio)[:60]!r}")
    inner = int(width * ratio)
    gated = f.flag("use_swiglu_ffn")
    mlp = feedforward(
        f, "gated" if gated else "dense", d_ff=(int(inner * 2 / 3) + 7) // 8 * 8 if gated else inner, bias=True
    )
    kind = _head(f, {"ForImageClassification": "classes", "Model": ""})
    ends = {"after": [linear("classifier", labels(f), input=2 * width, once=True)]} if kind else {}
    return _stack(f, mlp, before, rows, pieces=[{"kind": "scale", "name": "scale", "rows": 2}], **ends)


def _part(f: ConfigFields, name: str, family: EncoderFamily) -> tuple[Block, ConfigFields]:
    """One of two towers, read from its part of the config."""
    given = f.raw(name)
    if not isinstance(given, dict):
        raise f.fail(name, "required; add it")
    part = ConfigFields(given, family.defaults, f.where, (name,))
    part.used.add("model_type")
    part.expect("is_encoder_decoder", (False, None), "a tower has no decoder")
    part.expect("add_cross_attention", (False, None), "a tower attends to nothing else")
    made = family.convert(part)
    part.finish(NOISE | family.ignored | {"hidden_act"})
    return made, part


def _text(causal: bool) -> Any:
    def convert(t: ConfigFields) -> Block:
        width, rows = t.whole("hidden_size"), t.whole("max_position_embeddings")
        block = mha(t, "num_attention_heads", width, qkv_bias=True, out_bias=True) | {"causal": causal}
        made: Block = {"d_model": width, "vocab_size": t.whole("vocab_size"), "norm": "layernorm", "lm_head": False}
        made |= {"positions": {"kind": "learned", "length": rows}, "max_context": rows, "attention": block}
        return made | {"feedforward": feedforward(t, "dense", bias=True), "layers": t.whole("num_hidden_layers")}

    return convert


def _pair(f: ConfigFields, vision: str, text: EncoderFamily, title: str) -> tuple[Block, Block, ConfigFields]:
    """A tower of images with its positions, and one of text beside it."""
    seen, v = _part(f, "vision_config", TOWERS[vision])
    said, t = _part(f, "text_config", text)
    extra = 1 if vision == "clip_vision_model" else 0
    rows = (side(v, "image_size") // side(v, "patch_size")) ** 2 + extra
    seen |= {"lm_head": False, "max_context": rows}
    said = {"name": f"{title} text tower", "source": "text_config of the same config"} | said
    return seen, said, t


def clip(f: ConfigFields) -> Block:
    """Both towers end in a projection without a bias; one learned temperature."""
    _ = _head(f, {"CLIPModel": ""})
    wide = f.whole("projection_dim", null=512)
    seen, said, _ = _pair(f, "clip_vision_model", CLIP_TEXT, "CLIP")
    seen["after"] = [*seen.get("after", []), values("temperature", width=1)]
    return seen | {"projection_dim": wide, "towers": [said | {"projection_dim": wide}]}


def siglip(f: ConfigFields) -> Block:
    """The image tower pools by a learned query, the text tower ends in a matrix; a learned temperature and a bias."""
    _ = _head(f, {"SiglipModel": ""})
    seen, said, t = _pair(f, "siglip_vision_model", SIGLIP_TEXT, "SigLIP")
    seen["after"] = [*seen.get("after", []), values("temperature", 2, width=1)]
    width = t.whole("projection_size", null=said["d_model"])
    return seen | {"towers": [said | {"after": [linear("head", width, once=True)]}]}


_TEXT = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
}
CLIP_TEXT = EncoderFamily(
    _text(True), _TEXT | {"max_position_embeddings": 77, "hidden_act": "quick_gelu"}, frozenset({"projection_dim"})
)
SIGLIP_TEXT = EncoderFamily(
    _text(False),
    _TEXT
    | {
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "max_position_embeddings": 64,
        "hidden_act": "gelu_pytorch_tanh",
    },
    frozenset({"projection_size"}),
)
_VIT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
}
_OUT = frozenset(
    "out_features out_indices stage_names reshape_hidden_states apply_layernorm drop_path_rate layerscale_value".split()
)
FAMILIES = {
    "vit": Family(vit, _VIT, frozenset({"encoder_stride", "pooler_act", "pooler_output_size"}), own_head=True),
    "dinov2": Family(dinov2, _VIT | {"patch_size": 14, "mlp_ratio": 4}, _OUT, own_head=True),
    "clip": Family(
        clip, {}, frozenset({"logit_scale_init_value", "text_config_dict", "vision_config_dict"}), own_head=True
    ),
    "siglip": Family(siglip, {}, frozenset({"text_config_dict", "vision_config_dict"}), own_head=True),
}
