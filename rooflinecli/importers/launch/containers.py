"""YAML around a launch: docker compose, Kubernetes, Helm templates, lists of commands. Every container's words, with its environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

import yaml

from rooflinecli.core.errors import DataError
from rooflinecli.importers.launch.shell_expansion import unknown
from rooflinecli.importers.source import Tree

_HELM_LINE = re.compile(r"^[ \t]*(\{\{[^{}\n]*\}\}[ \t]*)+$", re.MULTILINE)  # control, assignments, includes: not YAML
_HELM = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_VALUE = re.compile(r"^[$]?\.Values((?:\.[\w-]+)+)\s*(?:\|\s*(?:quote|toString|int)\s*)?$")
_FROM_ENVIRONMENT = re.compile(r"\$\((\w+)\)")
_DEFAULT = re.compile(r"default\s+(\"[^\"]*\"|'[^']*'|[\w./-]+)")
COMMANDS = ("command", "args", "entrypoint", "cmd")
LARGEST = 2_000_000


@dataclass
class Container:
    """One process of a container: its words or shell text, its environment, and the copies and devices of its pod."""

    words: list[str]
    script: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    gpus: int | None = None  # of one pod
    arguments: list[str] = field(default_factory=list)  # what the shell text sees as "$@"
    copies: int = 1  # servers like this one
    nodes: int = 1  # pods that are one server
    chips: int | None = None  # of a TPU slice
    cores: int = 1  # ranks that one device carries: a TPU chip of two cores

    @property
    def devices(self) -> int | None:
        """Of one server or job: the slice's chips, or pods times the devices of each."""
        return self.chips or (self.gpus * self.nodes if self.gpus else None)


def documents(text: str, name: str, values: object = None) -> list[Any]:
    """The YAML documents of a text, template braces filled with a chart's values or their defaults, else marked unknown.

    Raises DataError.
    """
    if len(text) > LARGEST:
        raise DataError(f"{name}: longer than {LARGEST} characters; give the launch alone")
    plain = _HELM.sub(lambda match: _filled(match, values), _HELM_LINE.sub("", text))
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

    def check_printable(self, data: object) -> None:
        """The marks of what is unknown are no printable characters; nothing else of the kind gets here."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: _plain_node(loader, node))


def _plain_node(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, True)
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, True)
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_scalar(node)


def _filled(match: re.Match[str], values: object) -> str:
    path = _VALUE.match(match[1])
    found = values
    for key in path[1].split(".")[1:] if path else ():
        found = found.get(key) if isinstance(found, Mapping) else None
    if path and isinstance(found, (str, int, float)) and found != "":
        return str(found)
    default = _DEFAULT.search(match[1])
    return default[1].strip("\"'") if default else unknown(re.sub(r"[^\w./ |-]", "", match[1]) or "template")


def containers(document: object, around: Container | None = None) -> Iterator[Container]:
    """Yield every process that a document starts, outermost first; `around` has the copies and nodes of the enclosing objects."""
    if isinstance(document, list):
        for item in document:
            yield from containers(item, around)
        return
    if not isinstance(document, Mapping):
        return
    around = _within(document, around or Container([]))
    named = {key: document[key] for key in COMMANDS if document.get(key)}
    environment = _environment(document)
    if not named and _image(str(document.get("image") or "")):
        named = {"args": _flags_of(environment)}
    if named and not any(isinstance(v, Mapping) for v in named.values()):
        yield _container(document, named, environment, around)
    for key, value in document.items():
        if (
            isinstance(value, str)
            and key not in COMMANDS
            and (key.endswith(("_cmd", "_command")) or "\n" in value or key == "run")
        ):
            yield Container([], value, environment)
        elif key not in (*COMMANDS, "env", "environment"):
            yield from containers(value, around)


def _within(document: Tree, around: Container) -> Container:
    """Copies, nodes and devices of this object, else of the enclosing ones."""

    def count(tree: object, *keys: str) -> int:
        for key in keys:
            tree = tree.get(key) if isinstance(tree, Mapping) else None
        return tree if isinstance(tree, int) and not isinstance(tree, bool) and tree > 0 else 1

    nodes = max(
        count(document, "multinode", "nodeCount"),
        count(document, "leaderWorkerTemplate", "size"),
        count(document, "parallelism"),
    )
    metadata = document.get("metadata")
    named = [metadata.get(key) for key in ("labels", "annotations")] if isinstance(metadata, Mapping) else []
    trees = [tree for tree in (document.get("nodeSelector"), *named) if isinstance(tree, Mapping)]
    placed = {str(k): str(v) for tree in trees for k, v in tree.items()}
    slices = next((v for k, v in placed.items() if k.endswith("topology") and re.fullmatch(r"\d+(x\d+)+", v)), None)
    cores = _cores(placed.get("cloud.google.com/gke-tpu-accelerator", ""))
    return Container(
        [], gpus=_gpus(document) or around.gpus, copies=around.copies * count(document, "replicas") * count(document, "deploy", "replicas"),
        nodes=around.nodes * nodes, cores=max(around.cores, cores),
        chips=prod(map(int, slices.split("x"))) if slices else around.chips,
    )  # fmt: skip


# variables that servers read as flags: text-generation-launcher by their names, llama.cpp with LLAMA_ARG_ before them
_VARIABLES = re.compile(
    r"LLAMA_ARG_(\w+)|(MODEL_ID|NUM_SHARD|SHARDED|QUANTIZE|DTYPE|KV_CACHE_DTYPE|SPECULATE|HF_NUM_CORES|MAX_\w+)"
)


def _flags_of(environment: Mapping[str, str]) -> list[str]:
    """The flags that a server reads from its environment."""
    found = {name: _VARIABLES.fullmatch(name) for name in environment}
    names = {name: (match[1] or match[2]).lower().replace("_", "-") for name, match in found.items() if match}
    return [f"--{flag}={environment[name]}" for name, flag in names.items()]


def _cores(accelerator: str) -> int:
    """Cores of a TPU chip that are devices of their own to JAX."""
    return 2 if accelerator.startswith("tpu7x") else 1


def xpk(words: list[str]) -> Container | None:
    """The slice of `xpk workload create --device-type=tpu7x-4x4x4 --num-slices=2`; None where it names none."""
    flags = dict(word.partition("=")[::2] for word in words) | dict(pairwise(words))
    kind, _, topology = flags.get("--device-type", flags.get("--tpu-type", "")).rpartition("-")
    if not re.fullmatch(r"\d+(x\d+)*", topology):
        return None
    count, cores = prod(map(int, topology.split("x"))), _cores(kind)
    if "x" not in topology and kind in ("v2", "v3", "v4", "v5p"):  # whose names count cores
        count //= 2
    slices = flags.get("--num-slices", "1")
    return Container([], chips=count * int(slices if slices.isdigit() else 1), cores=cores)


def _container(document: Tree, named: Tree, environment: dict[str, str], around: Container) -> Container:
    image = str(document.get("image") or "")
    words: list[str] = []
    scripts: list[str] = []
    for key in ("entrypoint", "command", "args", "cmd"):
        value = named.get(key)
        if isinstance(value, str):
            scripts.append(_substituted(value, environment))
        elif isinstance(value, list):
            words += [_substituted(str(item), environment) for item in value]
    found = replace(around, environment=environment, gpus=_gpus(document) or around.gpus)
    shell = len(words) > 2 and words[0].rpartition("/")[2] in ("bash", "sh") and re.fullmatch(r"-\w*c\w*", words[1])
    if shell and ("$@" in words[2] or "$*" in words[2]):  # sh -c SCRIPT NAME ARGUMENTS
        return replace(found, script=words[2], arguments=words[4:])
    if shell:
        return replace(found, script="\n".join([*words[2:], *scripts]))
    if scripts and not words:
        return replace(found, script=" ".join([*_image(image), *scripts]))
    return replace(found, words=[*_image(image), *words], script=" ".join(scripts))


def _substituted(text: str, environment: Mapping[str, str]) -> str:
    """$(NAME) as Kubernetes fills it: from the container's environment, else left as it stands."""
    return _FROM_ENVIRONMENT.sub(lambda match: environment.get(match[1], match[0]), text)


def _image(image: str) -> list[str]:
    """The entry point of a known image that is given flags alone."""
    if "text-generation-inference" in image:
        return ["text-generation-launcher"]
    if "llama.cpp" in image:
        return ["llama-server"]
    if re.search(r"vllm[-_]openai|vllm/vllm", image):
        return ["vllm-image"]
    return []


def _environment(document: Tree) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("env", "environment"):
        value = document.get(key)
        for item in value if isinstance(value, list) else []:
            if isinstance(item, Mapping) and isinstance(item.get("value"), (str, int, float)):
                found[str(item.get("name"))] = str(item["value"])
            elif isinstance(item, str) and "=" in item:
                name, _, value = item.partition("=")
                found[name] = value
        if isinstance(value, Mapping):
            found |= {str(k): str(v) for k, v in value.items() if isinstance(v, (str, int, float))}
    return found


def _gpus(document: Tree) -> int | None:
    """Devices that the container requests as a number: Kubernetes' limits or compose's reservations."""
    resources = document.get("resources")
    limits = (resources.get("limits") or resources.get("requests")) if isinstance(resources, Mapping) else None
    for name, count in limits.items() if isinstance(limits, Mapping) else ():
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
