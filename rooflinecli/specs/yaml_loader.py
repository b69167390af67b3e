"""YAML -> spec. Every value keeps the file:line it was read from, so errors and explanations can point at it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.text import CONTROL
from rooflinecli.specs.document import Document, KeyPath
from rooflinecli.specs.name_lookup import display_path, find, search_path


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's, but what a scalar is (text, a number) is worked out once for each word: files of figures repeat theirs."""

    resolve = staticmethod(lru_cache(4096)(yaml.resolver.Resolver().resolve))


DEEPEST = 100  # levels of a file that are read; a spec has less than ten
SAFE = 2000  # levels that PyYAML's loader in C, which recurses, surely survives
LARGEST = 200_000  # values of one file; aliases of aliases would otherwise expand without end


def read(path: Path, *, base: str = "", first: str = "checks") -> Document:
    """Parse one YAML file and apply its `extends`; `first` is what such a file begins with. Raises DataError with file:line."""
    return parse(_text(path), path, base, first="name" if base else first)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"{path}: cannot be read ({reason}); give a readable YAML file") from None


def parse(text: str, path: Path, base: str = "", seen: tuple[Path, ...] = (), first: str = "name") -> Document:
    document = Document({}, path)
    try:
        _refuse_depth(text, path)
        node = yaml.compose(text, Loader=Loader)
        if not isinstance(node, yaml.MappingNode):
            raise DataError(
                f"{display_path(path)}:1: expected a mapping of fields at the top level; start with '{first}: …'"
            )
        document.data = _plain(node, (), document.lines, display_path(path), frozenset())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
        if "nesting depth" in problem:  # PyYAML 6.0.4 has a limit of its own
            raise _nested(path, line) from None
        raise DataError(f"{display_path(path)}:{line}: not valid YAML ({problem}); mend the syntax there") from None
    except RecursionError:
        raise _nested(path, 1) from None
    parent = document.data.pop("extends", None)
    return _overlay(document, str(parent), base, (*seen, path.resolve())) if parent is not None and base else document


def _refuse_depth(text: str, path: Path) -> None:
    """Raises DataError where brackets and indents nest deeper than DEEPEST, before a loader that recurses in C meets them.

    A level takes a bracket of its own or a column further to the right (a list in a mapping shares its), so most files
    are cleared by counting; the others are scanned event by event, which does not recurse.
    """
    longest = max(map(len, text.splitlines()), default=0)
    if text.count("[") + text.count("{") + 2 * longest < SAFE:
        return
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _nested(path, event.start_mark.line + 1 if event.start_mark else 1)


def _nested(path: Path, line: int) -> DataError:
    return DataError(f"{display_path(path)}:{line}: nested too deeply to be a spec; flatten it")


def _overlay(document: Document, parent: str, kind: str, seen: tuple[Path, ...]) -> Document:
    """`document` over the file it extends: mappings merge, everything else is replaced."""
    where = document.location("extends")
    places = (folder / f"{parent}.yaml" for folder in (document.path.parent, *search_path(kind)))
    try:
        path = next((p for p in places if p.is_file() and p.resolve() not in seen), None) or find(kind, parent)
    except UsageError as error:
        raise DataError(f"{where}: extends: {error}") from None
    if path.resolve() in seen:
        raise DataError(f"{where}: '{parent}' extends itself; name another base")
    under = parse(_text(path), path, kind, seen)
    under.data.pop("aliases", None)
    merged = _merge(under.data, document.data)
    lines = {k: v for k, v in under.lines.items() if k and not _hidden(k, document.data)}
    return Document(merged, document.path, {**lines, **document.lines}, under, frozenset(document.data))


def _hidden(key: KeyPath, data: object) -> bool:
    """True when an overlay replaced an ancestor of `key` by something that is not a mapping."""
    for part in key:
        if not isinstance(data, dict) or part not in data:
            return not isinstance(data, dict)
        data = data[part]
    return False


def _merge(under: dict[str, object], over: dict[str, object]) -> dict[str, object]:
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merge(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return result


def _plain(
    node: yaml.Node, key: KeyPath, lines: dict[KeyPath, tuple[str, int]], name: str, open_nodes: frozenset[int]
) -> Any:
    """Node tree -> plain data, noting lines; refuses what PyYAML would quietly misread. `name` is the file as shown."""
    number = node.start_mark.line + 1
    lines[key] = (name, number)
    if isinstance(node, yaml.ScalarNode):
        if CONTROL.search(node.value):
            raise DataError(f"{name}:{number}: {node.value!a} holds control characters; write plain text")
        if node.tag == _TEXT_TAG and (node.style or not _LOOSE_NUMBER.match(node.value)):
            return node.value
        where = f"{name}:{number}"
        if node.tag == _TEXT_TAG:
            raise DataError(
                f"{where}: YAML reads {node.value} as text, not a number; write 1.0e+9, or a value with its unit"
            )
        try:
            return _ANCHOR.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problem = str(getattr(error, "problem", None) or error)
            raise DataError(
                f"{where}: {node.value!r} cannot be read ({problem}); write plain text, a number or true/false"
            ) from None
    if id(node) in open_nodes:
        raise DataError(f"{name}:{number}: an alias that contains itself; write the value out")
    if len(lines) > LARGEST:
        raise DataError(f"{name}:{number}: more than {LARGEST} values once its aliases are written out; use fewer")
    open_nodes = open_nodes | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*key, i), lines, name, open_nodes) for i, item in enumerate(node.value)]
    result: dict[str, object] = {}
    for name_node, value_node in node.value:
        field_name = str(name_node.value) if isinstance(name_node, yaml.ScalarNode) else ""
        line = name_node.start_mark.line + 1
        if not field_name.strip() or not field_name.isprintable():
            raise DataError(f"{name}:{line}: a field name must be plain text")
        if field_name in result:
            raise DataError(f"{name}:{line}: '{field_name}' is given twice; keep one")
        inner = (*key, field_name)
        result[field_name] = _plain(value_node, inner, lines, name, open_nodes)
        lines[inner] = (name, line)
    return result


_TEXT_TAG = "tag:yaml.org,2002:str"
_LOOSE_NUMBER = re.compile(r"^[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE]\d+$|^[-+]?\d[\d_]*[eE][-+]?\d+$")
_ANCHOR = yaml.SafeLoader("")
