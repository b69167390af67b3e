"""Image encoders from the vision_config of a Hugging Face config; their types are rows of towers.yaml.

projectors.py has the projectors, and how an image becomes tokens.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rooflinecli.importers.hf import rows
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.specs.field_reader import MISSING, ConfigFields

Block = dict[str, Any]
_TEXT = {"clip_text_model", "siglip_text_model"}  # of CLIP and SigLIP, not of a wrapper


def tower(outer: ConfigFields, name: str, text_width: int) -> Block | None:
    """Read the image encoder of a wrapper with its projector; None without a vision_config. Raises DataError."""
    given = outer.raw("vision_config")
    if given is MISSING or given is None:
        return None
    if not isinstance(given, dict):
        raise outer.fail("vision_config", "expected an object of fields")
    kind = str(given.get("model_type") or name)  # empty in some files
    wrapper = rows.row("wrappers.yaml", name)
    kind = wrapper["encoder"] if kind == name else wrapper.get("renamed", {}).get(kind, kind)
    known = rows.texts("vision_encoders").keys() - _TEXT
    if kind not in known:
        raise outer.fail(
            "vision_config", f"is a '{kind}', not a supported image encoder; supported: {', '.join(sorted(known))}"
        )
    family = rows.family("vision_encoders", kind)
    v = ConfigFields(given, family.defaults, outer.where, ("vision_config",))
    v.used.add("model_type")
    made = family.convert(v)
    join = getattr(import_module("rooflinecli.importers.hf.projectors"), wrapper["projector"])
    after, images = join(outer, v, made, text_width)
    made["after"] = [*made.get("after", []), *after]
    made |= {"reads": "images", "images": images, "lm_head": False}
    for off in ("is_encoder_decoder", "add_cross_attention"):
        v.expect(off, (False, None), "an image encoder has neither a decoder nor cross-attention")
    v.finish(NOISE | family.ignored | {"hidden_act"})
    title = {"name": f"{name} image tower", "source": f"vision_config of the config, model_type {kind}"}
    return title | made


def mha(v: ConfigFields, heads: str, width: int, **more: Any) -> Block:
    """Bidirectional attention whose heads fill the width."""
    n = v.integer(heads)
    if width % n:
        raise v.fail(heads, f"{n} heads do not divide the width {width}; give another count")
    block = {"kind": "mha", "n_heads": n, "head_dim": width // n, "causal": False}
    return block | {key: value for key, value in more.items() if value not in (False, "none")}


def linear(name: str, width: int, **more: Any) -> Block:
    return {"kind": "linear", "name": name, "width": width, **{k: v for k, v in more.items() if v not in (None, 0)}} | (
        {"bias": False} if more.get("bias") is False else {}
    )


def side(v: ConfigFields, name: str) -> int:
    """Read the side of a square: a number, or two equal ones. Raises DataError."""
    value = v.raw(name)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(s, int) and s > 0 for s in value):
        if value[0] != value[1]:
            raise v.fail(name, f"{value[0]} by {value[1]} is no square, and only squares are supported")
        return int(value[0])
    return v.integer(name)


def patches(
    v: ConfigFields, width: int, *, bias: bool, channels: str = "num_channels", deep: int = 1, less: int = 0
) -> Block:
    """The convolution that makes a token of each patch."""
    return linear("patches", width, input=side(v, "patch_size") ** 2 * v.integer(channels) * deep, bias=bias, less=less)


def table(name: str, rows: int, **more: Any) -> Block:
    return {"kind": "table", "name": name, "rows": rows, **more}


def values(name: str, rows: int = 1, **more: Any) -> Block:
    """Bare parameters."""
    return {"kind": "parameters", "name": name, "rows": rows, **more}


def norm(name: str, kind: str, **more: Any) -> Block:
    return {"kind": "norm", "name": name, "norm": kind, **more}
