"""Reading a config field by field: typed, with transformers' defaults, and nothing left over unread."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass

Where = Callable[..., str]
MISSING: object = object()
_MOST_LAYERS = 10_000
_LAYER_COUNTS = frozenset(
    "num_hidden_layers n_layer n_layers num_layers num_decoder_layers encoder_layers decoder_layers depth "
    "vt_num_hidden_layers num_global_layers num_nextn_predict_layers".split()
)

# Switches that add something when on; a family that never reads one has nothing to add when it is off
_OFF = """
attention_bias mlp_bias use_bias qkv_bias lm_head_bias use_qk_norm qk_layernorm alibi use_mrope use_sliding_window mup
use_parallel_residual language_model_only qk_layer_norms use_resampler
"""
OFF = frozenset(_OFF.split())


@dataclass(frozen=True)
class Family:
    """How one model_type is read: the conversion, transformers' defaults, and fields known not to change a shape."""

    convert: Callable[[ConfigFields], dict[str, Any]]
    defaults: Mapping[str, object]
    ignored: frozenset[str] = frozenset()
    own_head: bool = False  # whether it reads the class that the checkpoint was saved from
    pair: bool = False  # whether it is an encoder with a decoder
    varied: bool = False  # whether it reads per_layer_config, what layers have of their own


@dataclass
class ConfigFields:
    """The fields of one config (or of its text_config), their defaults, and which have been read."""

    data: Mapping[str, Any]
    defaults: Mapping[str, object]
    where: Where
    prefix: tuple[str, ...] = ()
    used: set[str] = field(default_factory=set)
    assumed: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fail(self, name: str, problem: str) -> DataError:
        """The error for a field: file:line, its name, what is wrong and what to do."""
        return DataError(f"{self.where(*self.prefix, name)}: {name}: {problem}")

    def raw(self, name: str, *others: str) -> Any:
        """The value under `name` or one of its other names, else the default; MISSING when there is none."""
        found = {key: self.data[key] for key in (name, *others) if key in self.data}
        self.used.update(found)
        values = list(found.values())
        if any(value != values[0] for value in values):
            raise self.fail(
                next(iter(found)), f"disagrees with {', '.join(list(found)[1:])}, another name of it; keep one"
            )
        if values:
            return values[0]
        if name in self.defaults:
            self.assumed[name] = self.defaults[name]
            return self.defaults[name]
        return MISSING

    def integer(self, name: str, *others: str, null: int | None = None, least: int = 1) -> int:
        """A whole number; `null` stands in when the field is null or has no default."""
        value = self.raw(name, *others)
        name = next((given for given in (name, *others) if given in self.data), name)
        if value is MISSING or value is None:
            if null is None:
                raise self.fail(name, "required, but missing; add it")
            return null
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(name, f"expected a whole number, got {str(value)[:60]!r}")
        if value < least:
            raise self.fail(name, f"expected at least {least}, got {value}")
        if value > _MOST_LAYERS and name in _LAYER_COUNTS:
            raise self.fail(name, f"{value} layers are more than the supported maximum; give at most {_MOST_LAYERS}")
        return value

    def optional(self, name: str, *others: str) -> int | None:
        """A whole number, or None when the field is null, zero or absent."""
        return self.integer(name, *others, null=0, least=0) or None

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name)
        if value is MISSING or value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(name, f"expected true or false, got {str(value)[:60]!r}")
        return value

    def text(self, name: str, *others: str, default: str = "") -> str:
        value = self.raw(name, *others)
        if value is MISSING or value is None:
            return default
        if not isinstance(value, str):
            raise self.fail(name, f"expected text, got {str(value)[:60]!r}")
        return value

    def items(self, name: str, kind: type, length: int | None = None) -> list[Any] | None:
        """A list of `kind` (of this length unless empty), or None when null or absent."""
        value = self.raw(name)
        if value is MISSING or value is None or value == []:
            return [] if value == [] else None
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise self.fail(name, f"expected a list of {kind.__name__} values")
        if length is not None and len(value) != length:
            raise self.fail(name, f"has {len(value)} entries for {length} layers; give one per layer")
        return value

    def listed(self, name: str) -> list[Any]:
        """A list of anything, empty where there is none."""
        value = self.raw(name)
        return value if isinstance(value, list) else []

    def side(self, name: str) -> int:
        """The side of a square: a number, or two equal ones."""
        value = self.raw(name)
        if isinstance(value, list) and len(value) == 2 and all(isinstance(s, int) and s > 0 for s in value):
            if value[0] != value[1]:
                raise self.fail(name, f"{value[0]} by {value[1]} is no square, and only squares are supported")
            return int(value[0])
        return self.integer(name)

    def ratio(self, name: str, null: float | None = None, most: float = math.inf) -> float:
        """A number above zero; `null` stands in when the field is null or absent."""
        value = self.raw(name)
        if null is not None and (value is MISSING or value is None):
            return null
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
            expected = "a number above zero" if most == math.inf else f"a share of at most {most:g}, such as 0.5"
            raise self.fail(name, f"expected {expected}, got {str(value)[:60]!r}")
        return float(value)

    def integer_or_auto(self, name: str, *others: str, null: int) -> int:
        """A whole number; `null` stands in where there is none, or it is "auto"."""
        return null if self.raw(name, *others) in (MISSING, None, "auto") else self.integer(name, *others)

    def labels(self) -> int:
        """Classes of a classifier: as counted, or as named."""
        named = self.raw("id2label")
        return self.integer("num_labels", null=len(named) if isinstance(named, dict) and named else 2)

    def head(self, known: Mapping[str, str]) -> str:
        """What the class that the checkpoint was saved from ends in; by default the first of the known endings."""
        classes = self.items("architectures", str) or [next(iter(known))]
        for ending, kind in known.items():
            if classes[0].endswith(ending):
                return kind
        raise self.fail(
            "architectures", f"{classes[0]} has a head that is not supported; supported: {', '.join(known)}"
        )

    def expect(self, name: str, allowed: tuple[object, ...], remedy: str) -> None:
        """Read a field that must have one of these values, since any other changes the model."""
        value = self.raw(name)
        if value is not MISSING and not any(value is a or (value == a and type(value) is type(a)) for a in allowed):
            raise self.fail(name, f"{str(value)[:60]!r} is not supported; {remedy}")

    def finish(self, ignored: frozenset[str]) -> None:
        """Refuse fields that were not read: they might change a shape. A null or an empty list says nothing, and some switches are
        harmless when off."""
        unknown = [
            name
            for name, value in self.data.items()
            if name not in self.used
            and name not in ignored
            and value not in (None, [], {})
            and not (value is False and name in OFF)
        ]
        if unknown:
            more = f" (and {len(unknown) - 1} more: {', '.join(unknown[1:6])})" if len(unknown) > 1 else ""
            raise self.fail(
                unknown[0],
                f"unknown field for this model_type{more} that may change shapes; "
                "remove it if irrelevant, or write the model as YAML (docs/add-model.md)",
            )
