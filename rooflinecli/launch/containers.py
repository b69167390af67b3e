"""YAML around a launch: docker compose, Kubernetes, Helm templates, lists of commands. Every container's words, with its environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from rooflinecli.errors import DataError
from rooflinecli.launch.expand import unknown

_HELM_LINE = re.compile(
    r"^\s*\{\{-?\s*(if|else|end|with|range|define|include|template|toYaml|/\*)[^\n]*\}\}\s*$", re.MULTILINE
)
_HELM = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_DEFAULT = re.compile(r"default\s+(\"[^\"]*\"|'[^']*'|[\w./-]+)|\|\s*default\s+(\S+)")
COMMANDS = ("command", "args", "entrypoint", "cmd")
LARGEST = 2_000_000


@dataclass
class Container:
    """Words of a process, or a shell text; what its environment says, and the files mounted beside it."""

    words: list[str]
    script: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    gpus: int | None = None


def documents(text: str, name: str) -> list[Any]:
    """The YAML documents of a text, template braces filled with their defaults or marked unknown. Raises DataError."""
    if len(text) > LARGEST:
        raise DataError(f"{name}: longer than {LARGEST} characters; give the launch alone")
    plain = _HELM.sub(_filled, _HELM_LINE.sub("", text))
    try:
        return [d for d in yaml.load_all(plain, Loader=_Loader) if d is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise DataError(
            f"{name}:{line}: not valid YAML ({getattr(error, 'problem', None) or error}); mend the syntax"
        ) from None


class _Loader(yaml.SafeLoader):
    """SafeLoader that takes unknown tags (!reference, !Sub) as their plain value."""

    def check_printable(self, data: Any) -> None:
        """The marks of what is unknown are no printable characters; nothing else of the kind gets here."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: _plain_node(loader, node))


def _plain_node(loader: Any, node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    return (
        loader.construct_sequence(node, True)
        if isinstance(node, yaml.SequenceNode)
        else loader.construct_mapping(node, True)
    )


def _filled(match: re.Match[str]) -> str:
    default = _DEFAULT.search(match[1])
    return (
        (default[1] or default[2]).strip("\"'")
        if default
        else unknown(re.sub(r"[^\w./ |-]", "", match[1]) or "template")
    )


def containers(document: Any) -> Iterator[Container]:
    """Every process a document starts, outermost first."""
    if isinstance(document, list):
        for item in document:
            yield from containers(item)
        return
    if not isinstance(document, Mapping):
        return
    named = {key: document[key] for key in COMMANDS if document.get(key)}
    environment = _environment(document)
    if named and not any(isinstance(v, Mapping) for v in named.values()):
        yield _container(document, named, environment)
    for key, value in document.items():
        if (
            isinstance(value, str)
            and key not in COMMANDS
            and (key.endswith(("_cmd", "_command")) or "\n" in value or key == "run")
        ):
            yield Container([], value, environment)
        elif key not in (*COMMANDS, "env", "environment"):
            yield from containers(value)


def _container(document: Mapping[str, Any], named: Mapping[str, Any], environment: dict[str, str]) -> Container:
    image = str(document.get("image") or "")
    words: list[str] = []
    scripts: list[str] = []
    for key in ("entrypoint", "command", "args", "cmd"):
        value = named.get(key)
        if isinstance(value, str):
            scripts.append(value)
        elif isinstance(value, list):
            words += [str(item) for item in value]
    shell = len(words) > 2 and words[0].rpartition("/")[2] in ("bash", "sh") and "-c" in words[1]
    if shell:
        return Container([], "\n".join([*words[2:], *scripts]), environment, _gpus(document))
    if scripts and not words:
        return Container([], " ".join([*_image(image), *scripts]), environment, _gpus(document))
    return Container([*_image(image), *words], " ".join(scripts), environment, _gpus(document))


def _image(image: str) -> list[str]:
    """What an image runs when it is given flags alone, where its name says so."""
    if "text-generation-inference" in image:
        return ["text-generation-launcher"]
    if "llama.cpp" in image:
        return ["llama-server"]
    if re.search(r"vllm[-_]openai|vllm/vllm", image):
        return ["vllm-image"]
    return []


def _environment(document: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("env", "environment"):
        value = document.get(key)
        for item in value if isinstance(value, list) else []:
            if isinstance(item, Mapping) and isinstance(item.get("value"), (str, int, float)):
                found[str(item.get("name"))] = str(item["value"])
            elif isinstance(item, str) and "=" in item:
                name, _, said = item.partition("=")
                found[name] = said
        if isinstance(value, Mapping):
            found |= {str(k): str(v) for k, v in value.items() if isinstance(v, (str, int, float))}
    return found


def _gpus(document: Mapping[str, Any]) -> int | None:
    """Devices the container asks for, where it says a number."""
    limits = document.get("resources")
    limits = limits.get("limits") if isinstance(limits, Mapping) else None
    for name, count in (limits or {}).items() if isinstance(limits, Mapping) else ():
        if name in ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "gpu") and str(count).isdigit():
            return int(count)
    return None


def mounted(found: list[Any]) -> dict[str, str]:
    """Files that config maps of the same text hold, by name."""
    files: dict[str, str] = {}
    for document in found:
        if (
            isinstance(document, Mapping)
            and document.get("kind") == "ConfigMap"
            and isinstance(document.get("data"), Mapping)
        ):
            files |= {str(k): v for k, v in document["data"].items() if isinstance(v, str)}
    return files
