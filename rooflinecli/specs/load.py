"""YAML -> spec. Every value keeps the file:line it was read from, so errors and explanations can point at it.

Search order for a name: ROOFLINE_PATH folders, the working directory's hardware/ or models/, what the package ships.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.errors import DataError, unknown

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
KeyPath = tuple[str | int, ...]
LARGEST = 200_000  # values of one file; aliases of aliases would otherwise expand without end
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass
class Document:
    """One YAML file (after `extends`): plain data, and where each key path was written; the file it extends, and what it says itself."""

    data: dict[str, Any]
    path: Path
    lines: dict[KeyPath, tuple[str, int]] = field(default_factory=dict)
    under: Document | None = None
    own: frozenset[str] = frozenset()

    def at(self, *key: str | int) -> str:
        """'hardware/h100-sxm.yaml:14' for a key path, or for its nearest ancestor that is written down."""
        for end in range(len(key), -1, -1):
            if key[:end] in self.lines:
                name, line = self.lines[key[:end]]
                return f"{name}:{line}"
        return shown(self.path)


def shown(path: Path) -> str:
    """How a file is named to a person: folder/name for registry files, the path as given otherwise."""
    if path.parent.name in ("hardware", "models", "defaults", "measured", "engines"):
        return f"{path.parent.name}/{path.name}"
    return str(path)


def folders(kind: str) -> list[Path]:
    """Registry folders for `kind` ('hardware' or 'models'), nearest first."""
    extra = [Path(p) for p in os.environ.get("ROOFLINE_PATH", "").split(os.pathsep) if p]
    packaged = _PACKAGE / "data" / kind
    shipped = packaged if packaged.is_dir() else _PACKAGE.parent / kind
    found = [f for root in extra for f in (root / kind, root)] + [Path.cwd() / kind, shipped]
    return [f for f in dict.fromkeys(found) if f.is_dir()]


def files(kind: str) -> dict[str, Path]:
    """stem -> file for every registry file of `kind`; a nearer folder hides a farther one."""
    result: dict[str, Path] = {}
    for folder in folders(kind):
        for path in sorted(folder.glob("*.yaml")) + sorted((folder / "measured").glob("*.yaml")):
            if not path.stem.startswith("_"):
                result.setdefault(path.stem, path)
    return result


_ALIASES = re.compile(r"^aliases:\s*\[(.*?)\]", re.MULTILINE | re.DOTALL)


def aliases(path: Path) -> list[str]:
    """The aliases a file declares, read without parsing the whole of it; once per version of the file."""
    state = path.stat()
    return _declared(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1024)
def _declared(path: Path, changed: int, size: int) -> list[str]:
    match = _ALIASES.search(path.read_text(encoding="utf-8"))
    return [a.strip().strip("'\"").lower() for a in match[1].split(",") if a.strip()] if match else []


def find(kind: str, name: str) -> Path:
    """The file for a name, alias or path. Raises UsageError naming near misses."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".json") or os.sep in name:
        if path.is_file() or (path / "config.json").is_file():
            return path
        raise DataError(
            f"{name}: no such file; give a name from `roofline {kind}` or the path of an existing YAML file"
        )
    known, wanted = files(kind), name.lower()
    if wanted in known:
        return known[wanted]
    names = {stem.lower(): p for stem, p in known.items()}
    for p in known.values():
        for alias in aliases(p):
            names.setdefault(alias, p)
    if wanted in names:
        return names[wanted]
    what = "chip" if kind == "hardware" else "model"
    raise unknown(what, name, names, f"`roofline {kind}` lists them; a YAML path works too")


def read(path: Path, *, base: str = "") -> Document:
    """Parse one YAML file and apply its `extends`. Raises DataError with file:line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"{path}: cannot be read ({reason}); give a readable YAML file") from None
    return parse(text, path, base)


def parse(text: str, path: Path, base: str = "", seen: tuple[Path, ...] = ()) -> Document:
    try:
        node = yaml.compose(text, Loader=Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
        raise DataError(f"{shown(path)}:{line}: not valid YAML ({problem}); mend the syntax there") from None
    except RecursionError:
        raise DataError(f"{shown(path)}:1: nested too deeply to be a spec; flatten it") from None
    if not isinstance(node, yaml.MappingNode):
        raise DataError(f"{shown(path)}:1: expected a mapping of fields at the top level; start with 'name: …'")
    document = Document({}, path)
    document.data = _plain(node, (), document.lines, shown(path), frozenset())
    parent = document.data.pop("extends", None)
    return _overlay(document, str(parent), base, (*seen, path.resolve())) if parent is not None and base else document


def _overlay(document: Document, parent: str, kind: str, seen: tuple[Path, ...]) -> Document:
    """`document` over the file it extends: mappings merge, everything else is replaced."""
    where = document.at("extends")
    places = (folder / f"{parent}.yaml" for folder in (document.path.parent, *folders(kind)))
    path = next((p for p in places if p.is_file() and p.resolve() not in seen), None) or find(kind, parent)
    if path.resolve() in seen:
        raise DataError(f"{where}: '{parent}' extends itself; name another base")
    under = parse(path.read_text(encoding="utf-8"), path, kind, seen)
    under.data.pop("aliases", None)
    merged = _merge(under.data, document.data)
    lines = {k: v for k, v in under.lines.items() if k and not _hidden(k, document.data)}
    return Document(merged, document.path, {**lines, **document.lines}, under, frozenset(document.data))


def _hidden(key: KeyPath, data: Any) -> bool:
    """True when an overlay replaced an ancestor of `key` by something that is not a mapping."""
    for part in key:
        if not isinstance(data, dict) or part not in data:
            return not isinstance(data, dict)
        data = data[part]
    return False


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merge(result[key], value) if both else value
    return result


def _plain(
    node: yaml.Node, key: KeyPath, lines: dict[KeyPath, tuple[str, int]], name: str, open_nodes: frozenset[int]
) -> Any:
    """Node tree -> plain data, noting lines; refuses what PyYAML would quietly misread. `name` is the file as shown."""
    lines[key] = (name, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        if node.tag == _TEXT_TAG and (node.style or not _LOOSE_NUMBER.match(node.value)):
            return node.value
        return _scalar(node, f"{name}:{node.start_mark.line + 1}")
    if id(node) in open_nodes:
        raise DataError(f"{name}:{node.start_mark.line + 1}: an alias that contains itself; write the value out")
    if len(lines) > LARGEST:
        raise DataError(
            f"{name}:{node.start_mark.line + 1}: more than {LARGEST} values once its aliases are written out; use fewer"
        )
    open_nodes = open_nodes | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*key, i), lines, name, open_nodes) for i, item in enumerate(node.value)]
    result: dict[str, Any] = {}
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


def _scalar(node: yaml.ScalarNode, where: str) -> Any:
    """A scalar that is not plain text: a number, true/false, null, a date; or a number YAML would read as text."""
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
