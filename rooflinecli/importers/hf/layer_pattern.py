"""Which layers have what, and their overrides -> the shortest `layers:` a person would write: a number, runs, or a repeated pattern."""

from __future__ import annotations

from rooflinecli.core.record import Json
from rooflinecli.specs.field_reader import ConfigFields

Override = Json
# How files name a layer's mixer: transformers 5, and older files on the Hub
_MIXERS = {
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "recurrent": "recurrent",
    "full_attention": "attention",
    "attention": "attention",
    "sliding_attention": "attention",
    "hybrid": "hybrid",
    "mlp": "mlp",
    "moe": "moe",
}
_LONGEST_PERIOD = 12
_LATEST_START = 12  # layers searched for the start of a repeated pattern


def stack(layers: list[Override]) -> int | list[Json]:
    """`layers` for a spec, from what each layer overrides, in order."""
    if not any(layers):
        return len(layers)
    best = _runs(layers)
    for start in range(min(_LATEST_START, len(layers))):
        for period in range(2, min(_LONGEST_PERIOD, (len(layers) - start) // 2) + 1):
            best = min(best, _periodic(layers, start, period), key=_written)
    return best


def _periodic(layers: list[Override], start: int, period: int) -> list[Json]:
    """Runs up to `start`, then as often as it fits what the next `period` layers are, then runs."""
    first = layers[start : start + period]
    count = 1
    while layers[start + count * period : start + (count + 1) * period] == first:
        count += 1
    if count == 1:
        return _runs(layers)
    pattern = [{k: v for k, v in run.items() if (k, v) != ("repeat", 1)} for run in _runs(first)]
    return [*_runs(layers[:start]), {"repeat": count, "pattern": pattern}, *_runs(layers[start + count * period :])]


def _runs(layers: list[Override]) -> list[Json]:
    groups: list[Json] = []
    for layer in layers:
        if groups and {k: v for k, v in groups[-1].items() if k != "repeat"} == layer:
            groups[-1]["repeat"] += 1
        else:
            groups.append({"repeat": 1, **layer})
    return groups


def _written(groups: list[Json]) -> int:
    return sum(1 + len(group.get("pattern", ())) for group in groups)


def merged(*overrides: list[Override]) -> list[Override]:
    """Several overrides of the same layers as one; blocks merge field by field."""
    result: list[Override] = []
    for parts in zip(*overrides, strict=True):
        layer: Override = {}
        for part in parts:
            for key, value in part.items():
                layer[key] = {**layer.get(key, {}), **value}
        result.append(layer)
    return result


def windows(
    fields: ConfigFields, default: list[bool], window: int | None, name: str = "sliding_attention", key: str = "window"
) -> list[Override]:
    """Which layers see a window: `layer_types` where the config lists them, else `default`."""
    types = fields.items("layer_types", str, len(default))
    for kind in types or []:
        if kind not in (name, "full_attention", "attention"):
            raise fields.fail(
                "layer_types", f"'{kind}' is not a supported attention; supported: full_attention, {name}"
            )
    local = [kind == name for kind in types] if types else default
    return [{"attention": {key: window}} if here and window else {} for here in local]


def layer_kinds(f: ConfigFields, names: tuple[str, ...], default: list[str], allowed: tuple[str, ...]) -> list[str]:
    """The mixer of each layer: the first list of these names that the config gives, else `default`. Raises DataError."""
    length = len(default) or None
    for name in names:
        listed = f.items(name, str, length)
        if not listed:
            continue
        kinds = [_MIXERS.get(kind, "") for kind in listed]
        for name_in_config, kind in zip(listed, kinds, strict=True):
            if kind not in allowed:
                raise f.fail(
                    name, f"'{name_in_config}' is not a layer kind supported here; supported: {', '.join(allowed)}"
                )
        return kinds
    return default


def placed(kinds: list[str], blocks: dict[str, Json]) -> list[Override]:
    """Overrides that give each layer the mixer of its kind."""
    return [{"attention": blocks[kind]} for kind in kinds]
