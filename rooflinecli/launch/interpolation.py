"""Values of a config that point elsewhere: `${oc.env:NAME,default}`, `${NAME:default}`, and OmegaConf's `${path.to.key}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

_WHOLE = re.compile(r"\$\{([^{}]+)\}")
_ENVIRONMENT = re.compile(r"(?:oc\.env:|env:)?([A-Za-z_]\w*)\s*(?::-?|,)\s*(.*)", re.DOTALL)


def interpolated(tree: Any) -> Any:
    """The tree with defaults and references filled in; what neither says stays as it is written."""
    return _filled(tree, tree, 0)


def _filled(node: Any, root: Any, depth: int) -> Any:
    if depth > 60:
        return node
    if isinstance(node, Mapping):
        return {key: _filled(value, root, depth + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, root, depth + 1) for value in node]
    if not isinstance(node, str) or "${" not in node:
        return node
    whole = _WHOLE.fullmatch(node)
    if whole:
        return _value(whole[1], root, depth)
    return _WHOLE.sub(lambda match: _said(match, root, depth), node)


def _said(match: re.Match[str], root: Any, depth: int) -> str:
    value = _value(match[1], root, depth)
    return match[0] if value is None or isinstance(value, (Mapping, list)) else str(value)


def _value(inside: str, root: Any, depth: int) -> Any:
    default = _ENVIRONMENT.fullmatch(inside)
    if default:
        try:
            return yaml.safe_load(default[2]) if default[2] else ""
        except yaml.YAMLError:
            return default[2]
    found = root
    for key in inside.strip().split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return f"${{{inside}}}" if found is None else _filled(found, root, depth + 20)
