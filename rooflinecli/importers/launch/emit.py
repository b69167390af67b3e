"""Write a layout as the launch of a tool. Options without a flag go into a comment, which the reader parses again."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from rooflinecli.core.errors import RooflineError, UsageError, unknown
from rooflinecli.importers.launch import locate, read
from rooflinecli.importers.source import Tree
from rooflinecli.specs import registry
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import find
from rooflinecli.specs.options import OPTIONS

_HUB = re.compile(r"config\.json of ([\w.-]+/[\w.-]+)")


def tools() -> list[str]:
    """Tools that a plan can be written for."""
    return [name for name in registry.kinds(locate.TOOLS) if hasattr(registry.load(locate.TOOLS, name), "write")]


def tool(name: str) -> Any:
    """The module of a tool that writes. Raises UsageError listing those there are."""
    if name not in tools():
        raise unknown("tool", name, tools(), "--emit writes for these", "emit")
    return registry.load(locate.TOOLS, name)


def emit(name: str, options: Tree) -> str:
    """The launch of a fully specified layout. Raises UsageError for a tool of another kind of work."""
    module, model = tool(name), load_model(str(options["model"]))
    if not model.writes or model.paired:
        kind = "is an encoder with a decoder" if model.paired else "writes no tokens one by one"
        raise UsageError(
            f"--emit {name}: launches are written for decoders, and {model.name} {kind}; leave --emit out", "emit"
        )
    phases = options.get("phase") or []
    if ("train" in phases) != module.TRAINS:
        work = "trains" if module.TRAINS else "serves"
        raise UsageError(
            f"--emit {name}: {module.VERSION} {work}; ask for --phase {'train' if module.TRAINS else 'decode'}", "emit"
        )
    body = module.write(dict(options), hub(model))
    written = read.read_text(body, name).options
    rest = {k: v for k, v in options.items() if k not in written or not same(k, written[k], v)}
    return _commented(body, rest, module.VERSION) if rest else body


def hub(model: ModelSpec) -> str:
    """The checkpoint of a model: its Hub repository where its file names one that resolves to the same model, else its name."""
    match = _HUB.search(model.source)
    try:
        if match and load_model(str(find("models", match[1].rpartition("/")[2]))).id == model.id:
            return match[1]
    except RooflineError:
        pass
    return model.id


def same(option: str, one: object, other: object) -> bool:
    """Whether two ways to write an option mean the same."""
    if option == "model":
        try:
            return load_model(str(one)).id == load_model(str(other)).id
        except RooflineError:
            return False
    if isinstance(one, (list, tuple)) or isinstance(other, (list, tuple)):
        return isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and list(one) == list(other)
    try:
        return float(str(one)) == float(str(other))
    except ValueError:
        return str(one).lower() == str(other).lower()


def _commented(body: str, rest: Tree, version: str) -> str:
    words = [word for name, value in rest.items() for word in _words(name, value)]
    line = f"roofline: {shlex.join(words)}"
    if body.startswith("{"):
        tree = json.loads(body)
        return json.dumps({**tree, "roofline": shlex.join(words)}, indent=2) + "\n"
    return f"# {version} has no flag for this; `roofline estimate --from` reads it here:\n# {line}\n{body}"


def _words(name: str, value: object) -> list[str]:
    option = OPTIONS[name]
    if name == "model":
        return ["--model", str(value)]
    if name == "phase":
        return ["--phase", ",".join(map(str, value if isinstance(value, list) else [value]))]
    if isinstance(value, float) and value == int(value) and not isinstance(value, bool):
        value = int(value)
    if option.kind == "switch":
        return option.words(bool(value))
    return [f"--{option.name}", str(value)]
