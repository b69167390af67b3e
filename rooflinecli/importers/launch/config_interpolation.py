"""Values of a config that point elsewhere: `${oc.env:NAME,default}`, `${NAME:default}`, and OmegaConf's `${path.to.key}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from rooflinecli.importers.source import Options

_WHOLE = re.compile(r"\$\{([^{}]+)\}")
_ENVIRONMENT = re.compile(r"(?:oc\.env:|env:)?([A-Za-z_]\w*)\s*(?::-?|,)\s*(.*)", re.DOTALL)


def interpolated(tree: object) -> Any:
    """Fill in defaults and references; a value that neither gives stays as written."""
    return _filled(tree, tree, 0)


def _filled(node: object, root: object, depth: int, above: tuple[Any, ...] = ()) -> Any:
    if depth > 60:
        return node
    if isinstance(node, Mapping):
        return {key: _filled(value, root, depth + 1, (node, *above)) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, root, depth + 1, above) for value in node]
    if not isinstance(node, str) or "${" not in node:
        return node
    whole = _WHOLE.fullmatch(node)
    if whole:
        return _value(whole[1], root, depth, above)
    return _WHOLE.sub(lambda match: _said(match, root, depth, above), node)


def _said(match: re.Match[str], root: object, depth: int, above: tuple[Any, ...]) -> str:
    value = _value(match[1], root, depth, above)
    return match[0] if value is None or isinstance(value, (Mapping, list)) else str(value)


def _value(inside: str, root: object, depth: int, above: tuple[Any, ...]) -> Any:
    default = _ENVIRONMENT.fullmatch(inside)
    if default:
        try:
            return yaml.safe_load(default[2]) if default[2] else ""
        except yaml.YAMLError:
            return default[2]
    path = inside.strip().lstrip(".")
    dots = len(inside.strip()) - len(path)  # OmegaConf: one for the enclosing mapping, one more for each level above
    found = root if not dots else above[dots - 1] if dots <= len(above) else None
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return f"${{{inside}}}" if found is None else _filled(found, root, depth + 20, above)


def flattened(tree: object, key: str = "") -> Options:
    """Values of a config by their keys, joined by dots."""
    if not isinstance(tree, Mapping):
        return {key: tree}
    found: Options = {}
    for name, inner in tree.items():
        found |= flattened(inner, f"{key}.{name}" if key else str(name))
    return found
