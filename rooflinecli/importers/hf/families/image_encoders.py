"""Image encoders, alone or paired with a text encoder (CLIP, SigLIP).

Source: transformers 5.23 models of those names, modeling_*.py.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf import rows as registry
from rooflinecli.importers.hf.decoder import (
    Block,
    feedforward,
)
from rooflinecli.importers.hf.families.encoders import labels
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.importers.hf.vision_encoders import linear, mha, patches, side, table, values
from rooflinecli.specs.field_reader import ConfigFields, Family


def _head(f: ConfigFields, known: dict[str, str]) -> str:
    """What the class that the checkpoint was saved from ends in. Raises DataError."""
    classes = f.items("architectures", str) or [f"{next(iter(known))}"]
    for ending, kind in known.items():
        if classes[0].endswith(ending):
            return kind
    raise f.fail("architectures", f"{classes[0]} has a head that is not supported; supported: {', '.join(known)}")


def _stack(f: ConfigFields, mlp: Block, before: list[Block], rows: int, **more: Any) -> Block:
    width = f.integer("hidden_size")
    block = mha(f, "num_attention_heads", width, qkv_bias=f.flag("qkv_bias", True), out_bias=True)
    made: Block = {
        "d_model": width,
        "norm": "layernorm",
        "lm_head": False,
        "positions": {"kind": "none"},
        "max_context": rows,
    }
    return (
        made
        | {"attention": block, "feedforward": mlp, "layers": f.integer("num_hidden_layers"), "before": before}
        | more
    )


def _patched(f: ConfigFields) -> tuple[list[Block], int]:
    """Patches, a class token and a table of positions; how many there are."""
    rows = (side(f, "image_size") // side(f, "patch_size")) ** 2 + 1
    cut = patches(f, f.integer("hidden_size"), bias=True, less=1)
    return [cut, values("class_token"), table("positions", rows)], rows


def vit(f: ConfigFields) -> Block:
    """A classifier of the class token, or a pooler where there is none."""
    before, rows = _patched(f)
    kind = _head(f, {"ForImageClassification": "classes", "Model": ""})
    width = f.integer("hidden_size")
    end = (
        linear("classifier", labels(f), once=True)
        if kind
        else linear("pooler", f.integer("pooler_output_size", null=width), once=True)
    )
    return _stack(f, feedforward(f, "dense", bias=True), before, rows, after=[end])


def dinov2(f: ConfigFields) -> Block:
    """Two learned scales a layer; an optional mask token; SwiGLU of two thirds of the width, rounded up to a multiple of 8."""
    before, rows = _patched(f)
    before += [values("mask_token")] if f.flag("use_mask_token", True) else []
    width, ratio = f.integer("hidden_size"), f.raw("mlp_ratio")
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


def _part(f: ConfigFields, name: str, family: Family) -> tuple[Block, ConfigFields]:
    """One of two towers, read from its part of the config."""
    given = f.raw(name)
    if not isinstance(given, dict):
        raise f.fail(name, "required; add it")
    part = ConfigFields(given, family.defaults, f.where, (name,))
    part.used.add("model_type")
    part.expect("is_encoder_decoder", (False, None), "an encoder has no decoder")
    part.expect("add_cross_attention", (False, None), "an encoder has no cross-attention")
    made = family.convert(part)
    part.finish(NOISE | family.ignored | {"hidden_act"})
    return made, part


def _pair(f: ConfigFields, vision: str, text: str, title: str) -> tuple[Block, Block, ConfigFields]:
    """An image encoder with its positions, and a text encoder."""
    image_model, v = _part(f, "vision_config", registry.family("vision_encoders", vision))
    text_model, t = _part(f, "text_config", registry.family("vision_encoders", text))
    extra = 1 if vision == "clip_vision_model" else 0
    rows = (side(v, "image_size") // side(v, "patch_size")) ** 2 + extra
    image_model |= {"lm_head": False, "max_context": rows}
    text_model = {"name": f"{title} text tower", "source": "text_config of the same config"} | text_model
    return image_model, text_model, t


def clip(f: ConfigFields) -> Block:
    """Both towers end in a projection without a bias; one learned temperature."""
    _ = _head(f, {"CLIPModel": ""})
    projection = f.integer("projection_dim", null=512)
    image_model, text_model, _ = _pair(f, "clip_vision_model", "clip_text_model", "CLIP")
    image_model["after"] = [*image_model.get("after", []), values("temperature", width=1)]
    return image_model | {"projection_dim": projection, "towers": [text_model | {"projection_dim": projection}]}


def siglip(f: ConfigFields) -> Block:
    """The image tower pools by a learned query, the text tower ends in a matrix; a learned temperature and a bias."""
    _ = _head(f, {"SiglipModel": ""})
    image_model, text_model, t = _pair(f, "siglip_vision_model", "siglip_text_model", "SigLIP")
    image_model["after"] = [*image_model.get("after", []), values("temperature", 2, width=1)]
    width = t.integer("projection_size", null=text_model["d_model"])
    return image_model | {"towers": [text_model | {"after": [linear("head", width, once=True)]}]}


def image_tower(f: ConfigFields, name: str, class_tokens: int) -> Block:
    """An image encoder as a standalone model."""
    made = registry.family("vision_encoders", name).convert(f)
    return made | {
        "lm_head": False,
        "max_context": (side(f, "image_size") // side(f, "patch_size")) ** 2 + class_tokens,
    }


def deit(f: ConfigFields) -> Block:
    """vit with a second token that learns from a teacher."""
    saved = (f.items("architectures", str) or ["DeiTForImageClassification"])[0]
    data = {**f.data, "architectures": [saved.removesuffix("WithTeacher")]}
    made = vit(ConfigFields(data, f.defaults, f.where, f.prefix, f.used, f.assumed))
    rows = (side(f, "image_size") // side(f, "patch_size")) ** 2 + 2
    width = f.integer("hidden_size")
    made["before"] = [patches(f, width, bias=True, less=2), values("class_tokens", 2), table("positions", rows)]
    if saved.endswith("WithTeacher"):
        made["after"] = [linear("classifier", 2 * labels(f), once=True)]
    return made | {"max_context": rows}


def ijepa(f: ConfigFields) -> Block:
    """vit without a class token: a classifier of the mean of the patches."""
    made = vit(f)
    rows, width = (side(f, "image_size") // side(f, "patch_size")) ** 2, f.integer("hidden_size")
    made["before"] = [patches(f, width, bias=True), table("positions", rows)]
    made["after"] = [piece for piece in made["after"] if piece["name"] != "pooler"]
    return made | {"max_context": rows}


def registers(f: ConfigFields) -> Block:
    """dinov2 with learned tokens behind the class token."""
    made, extra = dinov2(f), f.integer("num_register_tokens", null=4, least=0)
    width, rows = f.integer("hidden_size"), (side(f, "image_size") // side(f, "patch_size")) ** 2 + 1
    before = [
        patches(f, width, bias=True, less=1 + extra),
        values("class_token"),
        values("mask_token"),
        table("positions", rows),
    ]
    return made | {"before": [*before, *([values("registers", extra)] if extra else [])], "max_context": rows + extra}
