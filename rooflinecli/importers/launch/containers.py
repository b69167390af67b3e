"""YAML around a launch: docker compose, Kubernetes, Helm templates and values, lists of commands. Every container's words, with its environment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

import yaml

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.launch.launch import flattened, table
from rooflinecli.importers.launch.shell_expansion import in_yaml, unknown
from rooflinecli.importers.source import Options, Tree

_HELM_LINE = re.compile(r"^[ \t]*(\{\{[^{}\n]*\}\}[ \t]*)+$", re.MULTILINE)  # control, assignments, includes: not YAML
_HELM = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_VALUE = re.compile(r"^[$]?\.Values((?:\.[\w-]+)+)\s*(?:\|\s*(?:quote|toString|int)\s*)?$")
_FROM_ENVIRONMENT = re.compile(r"\$\((\w+)\)")
_DEFAULT = re.compile(r"default\s+(\"[^\"]*\"|'[^']*'|[\w./-]+)")
COMMANDS = ("command", "args", "arguments", "entrypoint", "cmd")
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
    role: str = ""  # prefill or decode, where the objects around it are named so

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
    plain = in_yaml(_HELM.sub(lambda match: _filled(match, values), _HELM_LINE.sub("", text)))
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


def _at(tree: object, path: str | None) -> Any:
    """The value at a dotted path; the tree itself at None."""
    return tree if path is None else _inside(tree, *path.split("."))


def with_maps(document: object, maps: Tree) -> Any:
    """The document, with the variables that its containers take from these maps (`envFrom`) as their own."""
    if isinstance(document, list):
        return [with_maps(item, maps) for item in document]
    if not isinstance(document, Mapping):
        return document
    found = {key: with_maps(value, maps) for key, value in document.items()}
    names = [str(_inside(one, "configMapRef", "name")) for one in _items(document, "envFrom")]
    taken = [
        {"name": k, "value": v} for name in names if isinstance(maps.get(name), Mapping) for k, v in maps[name].items()
    ]
    return found | {"env": taken + _items(document, "env")} if taken else found


def _inside(tree: object, *keys: str) -> Any:
    """The value under these keys, one below the other; None where it is not there."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _filled(match: re.Match[str], values: object) -> str:
    path = _VALUE.match(match[1])
    found = _inside(values, *path[1].split(".")[1:]) if path else None
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
    if not named and _image(str(document.get("image") or "")):  # the flags that a server reads from its environment
        found = {name: _VARIABLES.fullmatch(name) for name in environment}
        flags = {name: (match[1] or match[2]).lower().replace("_", "-") for name, match in found.items() if match}
        named = {"args": [f"--{flag}={environment[name]}" for name, flag in flags.items()] + _listed(environment)}
    if named and not any(isinstance(v, Mapping) for v in named.values()):
        yield _container(document, named, environment, around)
    for key, value in document.items():
        if key == "commands" and isinstance(value, list):  # of dstack
            value = "\n".join([*map(str, value), ""])
        command = isinstance(value, str) and (key.endswith(("_cmd", "_command")) or "\n" in value or key == "run")
        if command and key not in COMMANDS:
            each, nodes = _gpus(document), _count(document, "num_nodes")
            named = {"SKYPILOT_NUM_GPUS_PER_NODE": each, "SKYPILOT_NUM_NODES": nodes, "DSTACK_GPUS_NUM": each}
            own = {name: str(count) for name, count in named.items() if each}
            copies = _count(document, "service", "replicas")
            yield Container([], value, own | environment, gpus=each, copies=copies, nodes=nodes)
        elif key not in (*COMMANDS, "env", "environment", "envs"):
            yield from containers(value, around)


def _within(document: Tree, around: Container) -> Container:
    """Copies, nodes and devices of this object, else of the enclosing ones."""

    places = (("nodeSelector",), ("metadata", "labels"), ("metadata", "annotations"))
    trees = [tree for keys in places if isinstance(tree := _inside(document, *keys), Mapping)]
    placed = {str(key): str(value) for tree in trees for key, value in tree.items()}
    slices = next((v for k, v in placed.items() if k.endswith("topology") and re.fullmatch(r"\d+(x\d+)+", v)), None)
    names = [str(document.get(key)) for key in ("name", "subComponentType")]
    return Container(
        [], role=next((name for name in names if name in ("prefill", "decode")), around.role), gpus=_gpus(document) or around.gpus, copies=around.copies * prod(_count(document, *keys) for keys in _COPIES),
        nodes=around.nodes * max(_count(document, *keys) for keys in _NODES),
        cores=max(around.cores, _cores(placed.get("cloud.google.com/gke-tpu-accelerator", ""))),
        chips=prod(map(int, slices.split("x"))) if slices else around.chips,
    )  # fmt: skip


_COPIES = (("replicas",), ("deploy", "replicas"), ("minReplicas",), ("scale",))
_NODES = (("multinode", "nodeCount"), ("leaderWorkerTemplate", "size"), ("workloadTemplate", "size"), ("parallelism",))


def _count(document: Tree, *keys: str) -> int:
    found = _inside(document, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 1


# variables that servers read as flags: text-generation-launcher by their names, llama.cpp with LLAMA_ARG_ before them
_VARIABLES = re.compile(
    r"LLAMA_ARG_(\w+)|(MODEL_ID|NUM_SHARD|SHARDED|QUANTIZE|DTYPE|KV_CACHE_DTYPE|SPECULATE|HF_NUM_CORES|MAX_\w+)"
)


def _listed(environment: dict[str, str]) -> list[str]:
    """Flags in a variable that images and charts hand to their server whole: VLLM_ARGS, VLLM_ADDITIONAL_ARGS, SGLANG_EXTRA_ARGS."""
    found = [value for name, value in environment.items() if re.fullmatch(r"(VLLM|SGLANG|TGI)_(\w+_)?ARGS", name)]
    return [word for value in found for word in _split(value)]


def _split(line: str) -> list[str]:
    """The words of a line of flags."""
    try:
        return shlex.split(line)
    except ValueError:  # a quote that is not closed
        return line.split()


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
    """The process of a container, $(NAME) filled from its environment as Kubernetes does."""

    def filled(text: object) -> str:
        return _FROM_ENVIRONMENT.sub(lambda match: environment.get(match[1], match[0]), str(text))

    values = [named[key] for key in ("entrypoint", "command", "args", "arguments", "cmd") if key in named]
    scripts = [filled(value) for value in values if isinstance(value, str)]
    words = [filled(item) for value in values if isinstance(value, list) for item in value]
    image = _image(str(document.get("image") or ""))
    first = (words or " ".join(scripts).split() or [""])[0]
    if image == ["vllm", "serve"] and (not first.startswith("-") or first == "-m"):  # a command of its own
        image = []
    found = replace(around, environment=environment, gpus=_gpus(document) or around.gpus)
    shell = len(words) > 2 and words[0].rpartition("/")[2] in ("bash", "sh") and re.fullmatch(r"-\w*c\w*", words[1])
    if shell and ("$@" in words[2] or "$*" in words[2]):  # sh -c SCRIPT NAME ARGUMENTS
        return replace(found, script=words[2], arguments=words[4:])
    if shell:
        return replace(found, script="\n".join([*words[2:], *scripts]))
    if scripts and not words:
        return replace(found, script=" ".join([*image, *scripts]))
    if (
        words and scripts and not re.search(r"(^|/)(ba|da|z)?sh$", words[0])
    ):  # an entry point and the line of its arguments
        return replace(found, words=[*image, *words, *_split(" ".join(scripts))])
    return replace(found, words=[*image, *words], script=" ".join(scripts))


def _image(image: str) -> list[str]:
    """The entry point of a known image that is given flags alone."""
    entries = {
        "text-generation-inference": "text-generation-launcher", r"llama\.cpp": "llama-server", r"vllm[-_]openai|vllm/vllm|\$\{?VLLM_IMAGE": "vllm serve",
    }  # fmt: skip
    return next((command.split() for name, command in entries.items() if re.search(name, image)), [])


def _environment(document: Tree) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("env", "environment", "envs"):  # envs: of a SkyPilot task
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
    limits = _inside(document, "resources", "limits") or _inside(document, "resources", "requests")
    names = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "gpu")
    counts = [str(limits[name]) for name in limits if name in names] if isinstance(limits, Mapping) else []
    asked = _inside(document, "resources", "accelerators") or _inside(
        document, "resources", "gpu"
    )  # SkyPilot, dstack: H100:8, {H100: 8}
    kinds = [str(asked), *(f"{k}:{v}" for k, v in asked.items())] if isinstance(asked, Mapping) else [str(asked)]
    counts += [kind.rpartition(":")[2] if ":" in kind else "1" for kind in kinds if asked]
    return next((int(count) for count in counts if count.isdigit()), None)


_PARALLELISM = {
    "tensor": "tensor-parallel-size",
    "data": "data-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "expert": "enable-expert-parallel",
}


def servers(values: object) -> Iterator[Options]:
    """Containers in the form of Kubernetes that charts and operators make of their values, by the rows of servers.yaml; none for another document."""
    for row in table("servers.yaml").values():
        if not isinstance(values, Mapping) or any(
            _at(values, path) != value for path, value in row.get("when", {}).items()
        ):
            continue
        text = _at(values, row["text"]) if "text" in row else None
        roots = list(yaml.load_all(text, _Loader)) if isinstance(text, str) else [values]
        for path in row.get("each", ()):
            roots = [item for root in roots for item in _items(root, *path.split(".")) if isinstance(item, Mapping)]
        for root in roots if row.get("each") or text is None else ():
            pools = {role: _at(root, path) for role, path in row.get("pools", {"": None}).items()}
            pools = {
                role: pool
                for role, pool in pools.items()
                if isinstance(pool, Mapping) and pool.get("create") is not False
            }
            for role, pool in pools.items():
                yield from _started(row, root, pool, role if len(pools) > 1 else "")
    yield from _recipe(values)


def _started(row: Json, root: Tree, pool: Tree, role: str) -> Iterator[Options]:
    """The servers of one pool of a row of servers.yaml."""
    found = next((str(_at(root, path)) for path in row["model"] if _at(root, path)), "")
    name = found.removeprefix("hf://").partition("?")[0]
    for container in _items(pool, *row["containers"].split(".")) or [{}] if "containers" in row else [pool]:
        commands = row.get("command", {"None": "vllm serve"})
        command = commands.get(str(_at(container, row["engine"]) if "engine" in row else None))
        if "command" in container and "engine" not in row:  # of its own, on what the operator mounts
            yield {
                "replicas": _at(pool, "replicas") or 1,
                "pod": json.loads(json.dumps(container).replace("/mnt/models", name)),
            }
        if not name or command is None or ("command" in container and "engine" not in row):
            continue
        own = {
            re.sub("(?<=[a-z])(?=[A-Z])", "-", str(k)).lower(): v
            for k, v in (_at(root, row.get("flags", "-")) or {}).items()
        }
        own = {k: v for k, v in own.items() if k not in ("extra-args", "v0", "v1")}
        own |= {flag: _at(root, path) or None for flag, path in row.get("set", {}).items()}
        own |= (
            {flag: _at(pool, f"parallelism.{key}") or None for key, flag in _PARALLELISM.items()}
            if role or "pools" in row
            else {}
        )
        own |= {"disaggregation-mode": role} if role else {}
        words = [word for path in row.get("args", ()) for word in map(str, _at(root, path) or [])]
        words += (
            [*map(str, container.get("args") or []), *_listed(_environment(container))] if "containers" in row else []
        )
        count = str(_at(root, row.get("devices", "-")) or "").rpartition(":")[2]
        limits = (
            {"resources": {"limits": {"gpu": count}}}
            if count.isdigit() and "cpu" not in str(_at(root, row.get("devices", "-")))
            else {}
        )
        kept = {k: v for k, v in container.items() if k != "args"} if "containers" in row else {}
        pod = {**kept, "command": [*command.split(), name, *words, *_flags(own)], **limits}
        yield {"replicas": _at(pool, row.get("replicas", "replicas")) or 1, "pod": pod}


def _flags(mapping: object) -> list[str]:
    """Flags of a command by the keys of a mapping; those that are off are left out."""
    items = mapping.items() if isinstance(mapping, Mapping) else ()
    return [
        f"--{key}" + ("" if value is True else f"={json.dumps(value) if isinstance(value, Mapping) else value}")
        for key, value in items
        if value is not False and value is not None
    ]


_BACKENDS = {"vllm": "vllm serve", "sglang": "sglang serve --model-path", "trtllm": "trtllm-serve"}


def _recipe(values: object) -> Iterator[Options]:
    """The engines of a recipe of NVIDIA's srt-slurm 1.0 (docs/config-reference.md): prefill, decode or aggregated workers with their devices."""
    backend, resources = _inside(values, "backend"), _inside(values, "resources")
    kind = next((kind for kind in _BACKENDS if isinstance(_inside(backend, f"{kind}_config"), Mapping)), None)
    if kind is None or not isinstance(resources, Mapping):
        return
    short = {"prefill": "prefill", "decode": "decode", "aggregated": "agg"}
    for role, pool in _inside(backend, f"{kind}_config").items():
        workers = resources.get(f"{short.get(role)}_workers")
        if not isinstance(pool, Mapping) or not isinstance(workers, int) or not workers:
            continue
        name = (
            _inside(values, "identity", "model", "repo")
            or pool.get("served-model-name")
            or pool.get("served_model_name")
        )
        name = str(name or _inside(values, "model", "path")).removeprefix("hf:")
        whole = int(resources.get(f"{short[role]}_nodes") or 0) * int(resources.get("gpus_per_node") or 0)
        each = resources.get(f"gpus_per_{short[role]}") or whole // workers
        precision = str(_inside(values, "model", "precision") or "")
        said = {"precision": precision} if precision.lower() not in name.lower() and "quantization" not in pool else {}
        load = _inside(values, "benchmark")
        said |= {ours: _inside(load, key) for ours, key in _LOAD.items() if str(_inside(load, key) or "").isdigit()}
        said |= {"concurrencies": _inside(load, "concurrencies")} | (
            {} if role == "aggregated" else {"disaggregation-mode": role}
        )
        own = {
            k: v
            for k, v in flattened(pool).items()
            if str(k).replace("_", "-") not in ("model-path", "served-model-name")
        }
        pod = {"command": [*_BACKENDS[kind].split(), name, *_flags(own | said)], "resources": {"limits": {"gpu": each}}}
        yield {"replicas": workers, "pod": pod}


_LOAD = {"input-len": "isl", "output-len": "osl"}


def _items(tree: object, *keys: str) -> list[Any]:
    """The list under these keys; empty where there is none."""
    found = _inside(tree, *keys)
    return found if isinstance(found, list) else []
