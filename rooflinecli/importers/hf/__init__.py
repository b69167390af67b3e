"""Import of a Hugging Face config.json as a model spec, without transformers. Model types are rows of families/*.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError, unknown
from rooflinecli.core.record import Json
from rooflinecli.importers.hf import rows
from rooflinecli.importers.hf.blocks import IGNORED
from rooflinecli.importers.hf.config_json import read_config
from rooflinecli.importers.hf.rows import NOISE
from rooflinecli.quantization.hf_config import NAMES, stored
from rooflinecli.specs.document import Document, KeyPath
from rooflinecli.specs.field_reader import MISSING, ConfigFields, Family, Where

TYPES = rows.texts("families")  # model type -> the text of its row
WRAPPED = rows.texts("wrappers")  # a model with a vision tower
_TEXT_ENCODERS = {"clip_text_model", "siglip_text_model"}  # of CLIP and SigLIP, not of a wrapper
# What a causal language model ends in; a bare *Model has no head
_HEADS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
# Sizes that decide the count of parameters
_DECISIVE = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads")
# Fields of a wrapper around a decoder that change nothing, those of older files, and those inside text_config
_WRAPPER = frozenset(IGNORED["wrapper"].split())
_TOWER = _WRAPPER | frozenset(IGNORED["tower"].split())
_INSIDE = frozenset(IGNORED["inside"].split())
# Where the lines of a converted model's fields are, for errors and explanations
_LINES = {tuple(place.split(".")): names.split() for place, names in IGNORED["lines"].items()}


def from_config(config: Mapping[str, Any], where: Where | str = "config.json") -> Json:
    """A Hugging Face config -> the fields of a ModelSpec. `where` names file:line for a key path.

    Raises DataError for an unknown model_type, a wrong value, or a field that could change a shape and is not known.
    """
    at: Where = (lambda *_: where) if isinstance(where, str) else where
    name = _model_type(config, at)
    outer = ConfigFields(config, {}, at, used={"model_type"})
    if name in WRAPPED:
        fields, family = _text(outer, name)
    else:
        family = rows.family("families", name)
        fields = ConfigFields(config, family.defaults, at)
    model = family.convert(fields)
    if name in WRAPPED:
        model |= _tower(outer, name, model)
        _refuse(outer)
        remedy = "audio encoders are not supported; remove audio_config to estimate without it"
        outer.expect("audio_config", (None, {}), remedy)
        outer.finish(NOISE | _WRAPPER)
    model |= {} if family.own_head else _head(outer)
    quantization = stored(outer if outer is not fields and any(name in config for name in NAMES) else fields)
    if quantization:
        model["quantization"] = quantization
    _refuse(fields, family)
    wrapper = _INSIDE if name in WRAPPED else frozenset()
    fields.finish(NOISE | family.ignored | wrapper | set(NAMES))
    unread = [key for key in fields.data if key not in fields.used and key in family.ignored]
    if names := [key for key in unread if fields.data[key] not in (None, False, [], {})]:
        fields.notes.append(f"Config fields not used because they change no shape: {', '.join(names)}.")
    fields.notes += outer.notes if outer is not fields else []
    if decisive := [f"{key} {fields.assumed[key]}" for key in _DECISIVE if key in fields.assumed]:
        model["assumed"] = f"{at()}: absent, so the defaults of transformers' {name}: {', '.join(decisive)}"
    if sizes := [f"{k} {v}" for k, v in fields.assumed.items() if isinstance(v, int) and not isinstance(v, bool)]:
        fields.notes.append(f"Absent from the config, so transformers' defaults: {', '.join(sizes)}.")
    return _title(config, name) | model | ({"notes": fields.notes} if fields.notes else {})


def _model_type(config: Mapping[str, Any], at: Where) -> str:
    name = config.get("model_type")
    if name is None:
        raise DataError(f'{at()}: model_type: required, but missing; add it, for example "model_type": "llama"')
    if isinstance(name, str) and (name in TYPES or name in WRAPPED):
        return name
    if isinstance(name, str) and name in refused():
        why = f"{at('model_type')}: model_type: '{name}' is not supported: {refused()[name]}; write the model as YAML (docs/add-model.md)"
        raise DataError(why)
    remedy = "Give the type whose layers it has, or write the model as YAML (docs/add-model.md)"
    raise DataError(f"{at('model_type')}: model_type: {unknown('type', str(name)[:60], {*TYPES, *WRAPPED}, remedy)}")


def refused() -> dict[str, str]:
    """Return unsupported model types of transformers -> the reason."""
    return {name: reason for reason, names in rows.texts("unsupported_types").items() for name in names.split()}


def _text(outer: ConfigFields, name: str) -> tuple[ConfigFields, Family]:
    """Read the text decoder of a wrapper; the wrapper's tie_word_embeddings takes precedence."""
    text = outer.raw("text_config")
    if text is MISSING and "hidden_size" in outer.data:  # older files: the decoder's fields next to vision_config
        outside = {"vision_config", "architectures", *NAMES, "model_type", "image_token_id"}
        outside |= _TOWER - {"hidden_size", "vocab_size"}
        text = {key: value for key, value in outer.data.items() if key not in outside}
        outer.used.update(text)
    if not isinstance(text, dict):
        raise outer.fail("text_config", f"required for model_type {name}; add it")
    wrapper = rows.row("wrappers", name)
    kind = text.get("model_type", wrapper["decoder"])
    if kind != wrapper["decoder"] and not ("any_decoder" in wrapper and str(kind) in TYPES):
        known = "any supported decoder" if "any_decoder" in wrapper else f"a {wrapper['decoder']}"
        raise outer.fail("text_config", f"is a '{kind}', but {name} takes {known}; fix model_type")
    family = rows.family("families", str(kind))
    if name == "paligemma" or text.get("use_bidirectional_attention") == "vision":
        # bidirectional over image and prompt alone; generated tokens are causal and cached
        text = {key: value for key, value in text.items() if key != "use_bidirectional_attention"}
    tied = _tied(outer, name, text)
    if tied is not None:
        text = {**text, "tie_word_embeddings": tied}
    outer.used.update({"tie_word_embeddings", *NAMES})
    return ConfigFields(text, family.defaults, outer.where, ("text_config",), used={"model_type"}), family


def _tied(outer: ConfigFields, name: str, text: Mapping[str, Any]) -> Any:
    """Whether a wrapper's head is its embedding, as transformers builds it; None: the decoder's field decides."""
    stated, inside = outer.data.get("tie_word_embeddings", MISSING), text.get("tie_word_embeddings")
    if "vision_config" not in outer.data or name == "mllama" or not isinstance(stated, (bool, type(MISSING))):
        return None if stated is MISSING else stated  # the decoder alone, as in older files
    usual = rows.row("wrappers", name).get("tied")
    if usual == "either" and inside is True:
        return True
    tied = usual is True if stated is MISSING else stated
    if stated is MISSING and isinstance(inside, bool) and inside is not tied:
        outer.notes.append(
            f"tie_word_embeddings of text_config is not used for this type: without one in the wrapper the head is {'the embedding' if tied else 'a separate matrix'}."
        )
    return tied


def _tower(outer: ConfigFields, name: str, model: Json) -> Json:
    """Read the image encoder of a wrapper; a config without one describes the decoder alone."""
    if (outer.items("architectures", str) or [""])[0] == "MllamaForCausalLM":
        alone = (
            "is the decoder without the image encoder that its layers attend to; name MllamaForConditionalGeneration"
        )
        raise outer.fail("architectures", f"MllamaForCausalLM {alone}")
    given = outer.raw("vision_config")
    if given is MISSING or given is None:
        outer.notes.append("No vision_config: the text decoder alone, without the image encoder of this type.")
        return {}
    if not isinstance(given, dict):
        raise outer.fail("vision_config", "expected an object of fields")
    kind = str(given.get("model_type") or name)  # empty in some files
    wrapper = rows.row("wrappers", name)
    kind = wrapper["encoder"] if kind == name else wrapper.get("renamed", {}).get(kind, kind)
    known = rows.texts("vision_encoders").keys() - _TEXT_ENCODERS
    if kind not in known:
        raise outer.fail(
            "vision_config", f"is a '{kind}', not a supported image encoder; supported: {', '.join(sorted(known))}"
        )
    family = rows.family("vision_encoders", kind)
    v = ConfigFields(given, family.defaults, outer.where, ("vision_config",), used={"model_type"})
    made = family.convert(v)
    names = {
        "outer": outer, "text": model["d_model"], "class_token": int(any(part["name"] == "class_token" for part in made["before"])),
        "positions": made.get("positions", {}).get("kind"),
    }  # fmt: skip
    joined = rows.built(rows.row("projectors", wrapper["projector"]), v, names)
    made |= {"after": [*made.get("after", []), *joined.get("after", [])], "images": joined["images"]}
    for off in ("is_encoder_decoder", "add_cross_attention"):
        v.expect(off, (False, None), "an image encoder has neither a decoder nor cross-attention")
    v.finish(NOISE | family.ignored | {"hidden_act", "tie_word_embeddings"})
    title = {"name": f"{name} image tower", "source": f"vision_config of the config, model_type {kind}"}
    return {"towers": [title | made | {"reads": "images", "lm_head": False}]}


def _refuse(f: ConfigFields, family: Family | None = None) -> None:
    """Generic fields that change a model unless they are off, or as the type has them."""
    pair = family is not None and family.pair
    reason = "a pair is an encoder with a decoder" if pair else "only decoders are supported for this model_type"
    if pair:
        f.expect("is_decoder", (False, None), "encoder and decoder are set separately; give false")
    f.expect("is_encoder_decoder", (True, None) if pair else (False, None), f"{reason}; write the model as YAML")
    f.expect(
        "add_cross_attention",
        (False, None),
        "cross-attention is not supported for this model_type; write the model as YAML",
    )
    f.expect("pruned_heads", ({}, None), "pruned heads differ from layer to layer; write the model as YAML")
    if family is None or not family.varied:
        f.expect("per_layer_config", ({}, None), "per-layer configurations are not supported; write the model as YAML")


def _head(f: ConfigFields) -> Json:
    """Whether there is a language-model head, by the class the checkpoint was saved from."""
    classes = f.items("architectures", str) or []
    auto = f.data.get("auto_map")
    mapped = auto.get("AutoModel") if isinstance(auto, dict) else None  # ChatGLM's bare name has a head
    if not classes or any(str(name).endswith(_HEADS) for name in (classes[0], mapped)):
        return {}
    if classes[0].endswith("Model"):
        return {"lm_head": False}
    raise f.fail(
        "architectures",
        f"{classes[0]} has a head that is not supported; name the ForCausalLM class to count a language model",
    )


def _title(config: Mapping[str, Any], name: str) -> Json:
    given = config.get("_name_or_path")
    title = Path(given).name if isinstance(given, str) and given.strip("./") else ""
    release = config.get("transformers_version")
    written = f" written by transformers {release}" if isinstance(release, str) else ""
    origin = f" of {given}" if title else ""
    return {
        "name": title or f"{name} model",
        "family": name,
        "source": f"Hugging Face config.json{origin}, model_type {name}{written}",
    }


def model_document(path: Path, config: Document | None = None) -> Document:
    """The config at `path` as a model document whose lines point into the config."""
    config = config or read_config(path)
    data = from_config(config.data, config.location)
    base: tuple[str, ...] = ("text_config",) if isinstance(config.data.get("text_config"), dict) else ()
    lines: dict[KeyPath, tuple[str, int]] = {(): config.lines.get((), (str(path), 1))}
    for key, names in _LINES.items():
        line = next((config.lines[(*base, n)] for n in names if (*base, n) in config.lines), None)
        if line:
            lines[key] = line
    if data["name"].endswith(" model") and config.path.name == "config.json" and config.path.parent.name:
        data["name"] = config.path.resolve().parent.name
    return Document(data, config.path, lines)
