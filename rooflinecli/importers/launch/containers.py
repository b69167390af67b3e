"""YAML around a launch: docker compose, Kubernetes, Helm templates and values, lists of commands. Every container's words, with its environment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import yaml

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.core.text import one_line
from rooflinecli.importers.launch.launch import ToolFlags, flags, flattened, formats, table, tool_entries
from rooflinecli.importers.launch.shell_expansion import in_yaml, unknown, unknowns
from rooflinecli.importers.source import Options, Tree

_HELM_LINE = re.compile(r"^[ \t]*(\{\{[^{}\n]*\}\}[ \t]*)+$", re.MULTILINE)  # control, assignments, includes: not YAML
# a loop over a list of arguments, less its body
_LOOP = re.compile(
    r"^([ \t]*\{\{-?\s*range\s[^{}\n]*\}\}[ \t]*\n)[ \t]*-[ \t]*\{\{-?\s*\.[^{}\n]*\}\}[ \t]*\n", re.MULTILINE
)
_HELM = re.compile(r"\{\{(?!\"\w+\":)-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_VALUE = re.compile(r"^(?:\$\w*)?\.Values((?:\.[\w-]+)+)\s*(?:\|\s*(?:quote|toString|int)\s*)?$")
_FROM_ENVIRONMENT = re.compile(r"\$\((\w+)\)")
_DEFAULT = re.compile(r"default\s+(\"[^\"]*\"|'[^']*'|[\w./-]+)")
_CONTROL = re.compile(r"\{\{-?\s*(if|else if|else|end|range|with|define|block)\b([^{}]*?)-?\}\}")
_MATTERS = re.compile(r"(^|[\s\"'])--\w|gpu|replicas:")  # in a branch of a chart
COMMANDS = ("entrypoint", "command", "args", "arguments", "cmd")  # and `extraArgs`, `vllm_args` and the like of charts
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
    most: int = 1  # of them, as the load asks for
    chip: str = ""  # that the pod asks for by name
    nodes: int = 1  # pods that are one server
    chips: int | None = None  # of a TPU slice
    cores: int = 1  # ranks that one device carries: a TPU chip of two cores
    role: str = ""  # prefill or decode, where the objects around it are named so
    image: list[str] = field(default_factory=list)  # the entry point of the image above it

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
    text = text.replace("\t", "  ") if text.lstrip()[:1] == "{" else text  # JSON, which may be indented by tabs
    text = _HELM_LINE.sub("", _LISTED.sub(lambda match: _of_values(match, values), _LOOP.sub(r"\1", text)))
    plain = in_yaml(_HELM.sub(lambda match: _filled(match, values), text))
    try:
        return [d for d in yaml.load_all(plain, Loader=_Loader) if d is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        why = f"{name}:{line}: not valid YAML ({getattr(error, 'problem', None) or error}); mend the syntax"
        raise DataError(why) from None


def followed(text: str, values: object) -> tuple[str, list[str]]:
    """A chart's template with the branches that its values choose, and the conditions that they leave open, whose branches all stay."""
    kept, left, at = [""], list[str](), 0
    frames: list[
        tuple[bool | None, bool | None, str, int]
    ] = []  # holds, whether one before it did, the condition, where its branch begins
    for match in _CONTROL.finditer(text):
        shown = all(frame[0] is not False for frame in frames)
        kept.append(text[at : match.start()] if shown else "\n" * text.count("\n", at, match.start()))
        kind, said, at = match[1], match[2].strip(), match.end()
        holds, before, asked, start = frames.pop() if frames and kind[0] == "e" else (None, False, "", 0)
        if holds is None and asked and shown and _MATTERS.search(text[start : match.start()]):
            left.append(asked)
        if kind != "end":
            now = _true(said, values) if kind in ("if", "else if", "with") else True if kind == "else" else None
            now = False if before else None if before is None else now
            frames.append((now, before or now, said or asked if kind in ("if", "else if", "else") else "", at))
        if holds is None and (kind == "end" or frames[-1][0] is None):
            kept.append(match[0])
    return "".join([*kept, text[at:]]), list(dict.fromkeys(left))


def _true(condition: str, values: object) -> bool | None:
    """Whether a chart's values fulfil a condition; None where they do not say."""
    first, *rest = condition.split() or [""]
    if first == "not":
        inner = _true(" ".join(rest), values)
        return None if inner is None else not inner
    compared = len(rest) == 2 and first in ("eq", "ne")
    path = _VALUE.match(rest[0] if compared else condition)
    if path is None or not isinstance(values, Mapping):
        return None
    found = _inside(values, *path[1].split(".")[1:])
    return (str(found).lower() == rest[1].strip("\"'").lower()) == (first == "eq") if compared else bool(found)


def _parsed(text: str) -> Any:
    """A text as YAML; None where it is none."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError:
        return None


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
    return _inside(tree, *path.split(".")) if path else tree


def with_maps(document: object, maps: Tree) -> Any:
    """The document, with the variables that its containers take from these maps or files (`envFrom`, `env_file`) as their own."""
    if isinstance(document, list):
        return [with_maps(item, maps) for item in document]
    if not isinstance(document, Mapping):
        return document
    found = {key: with_maps(value, maps) for key, value in document.items()}
    named = [maps.get(str(_inside(one, "configMapRef", "name"))) for one in _items(document, "envFrom")]
    listed = _items(document, "env_file") or [_inside(document, "env_file")]  # of compose
    named += [maps.get(str(_inside(one, "path") or one)) for one in listed]
    taken = [{"name": k, "value": v} for one in named if isinstance(one, Mapping) for k, v in one.items()]
    return found | {"env": taken + _items(document, "env")} if taken else found


def _inside(tree: object, *keys: str) -> Any:
    """The value under these keys or numbers of a list, one below the other; None where it is not there."""
    for key in keys:
        if isinstance(tree, list):
            tree = tree[int(key)] if key.isdigit() and int(key) < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


_LISTED = re.compile(
    r"^([ \t]*)\{\{-?\s*(?:toYaml|include|tpl|range)\s+\"?[$]?([\w.-]*(?:args|arguments|flags|command))\b[^{}\n]*\}\}[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)


def _of_values(match: re.Match[str], values: object) -> str:
    """The arguments that a template takes from a chart's values; one of them, which is unknown, where they are not here."""
    found = _at(values, match[2].removeprefix(".Values."))
    items = [json.dumps(str(one)) for one in found] if isinstance(found, list) else [unknown(match[2])]
    return "\n".join(f"{match[1]}- {item}" for item in items)


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
    around = _within(document, around or Container([], image=_only_image(document)))
    usual: Tree = _inside(document, "defaults") or {}
    if isinstance(usual, Mapping) and usual and isinstance(document.get("command"), str):
        text = re.sub(r"(?<!\{)\{(\w+)\}", lambda match: str(usual.get(match[1], match[0])), document["command"])
        document = {**document, "command": text.replace("{{", "{").replace("}}", "}")}  # a recipe of spark-vllm-docker
    keys = [*COMMANDS, *(key for key in document if str(key).endswith(("Args", "_args")))]
    named = {key: document[key] for key in keys if document.get(key)}
    environment = around.environment
    given = _listed(environment)
    if (
        not named
        and _image(document)
        and (given or any(re.fullmatch(one.environment, k) for one in _servers() for k in environment))
    ):
        named = {"args": given}  # flags that a server reads from its environment
    if named and not any(isinstance(v, Mapping) for v in named.values()):
        yield _container(document, named, around)
    for key, value in document.items():
        if key == "commands" and isinstance(value, list):  # of dstack
            value = "\n".join([*map(str, value), ""])
        if isinstance(value, str) and "containers:" in value and isinstance(inner := _parsed(value), Mapping):
            yield from containers(inner, around)  # an object in an annotation or a patch
            continue
        command = isinstance(value, str) and (key.endswith(("_cmd", "_command")) or "\n" in value or key == "run")
        if command and key not in COMMANDS:
            each, nodes = _gpus(document), _count(document, "num_nodes")
            named = {"SKYPILOT_NUM_GPUS_PER_NODE": each, "SKYPILOT_NUM_NODES": nodes, "DSTACK_GPUS_NUM": each}
            own = {name: str(count) for name, count in named.items() if each}
            copies = _count(document, "service", "replicas")
            yield replace(around, script=value, environment=own | environment, gpus=each, copies=copies, nodes=nodes)
        elif key not in (*COMMANDS, "env", "environment", "envs"):
            yield from containers(value, around)


def unread(document: object, processes: list[Container], tools: set[str]) -> list[str]:
    """Flags that a server reads, and keys or variables of their names, which are in a document and in none of the commands of these tools that it starts."""
    started = " ".join(" ".join([*one.words, one.script, *one.arguments]) for one in processes).replace("_", "-")
    read, found = _server_flags(), []
    for key, value in _named(document):
        text = str(value or "").strip()
        flag = text.split()[0].partition("=")[0].replace("_", "-") if text[:2] == "--" else ""
        name = _kebab(key)
        own = any(re.fullmatch(flags(tool).environment, key) for tool in tools)
        flagged = "-" in name and name in read and name[:5] != "model"
        stated = text and not own and not isinstance(value, bool) and flagged
        if (flag[2:] in read and flag not in started) or (stated and f"--{name}" not in started and key not in started):
            found.append(one_line(f"{key} {text}")[:80])
    return list(dict.fromkeys(found))


def _servers() -> list[ToolFlags]:
    """The flags of every server."""
    return [flags(name) for name, entry in tool_entries().items() if entry.get("extends") == "serving"]


@cache
def _server_flags() -> set[str]:
    """Names of the flags that set an option in some server."""
    return {name for one in _servers() for name in one.setting}


def _named(tree: object, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with the last key above it; a variable of a container with its name."""
    if isinstance(tree, Mapping) and isinstance(tree.get("name"), str) and "value" in tree:
        yield tree["name"], tree["value"]
    elif isinstance(tree, (Mapping, list)):
        for name, inner in tree.items() if isinstance(tree, Mapping) else ((key, inner) for inner in tree):
            yield from _named(inner, str(name))
    else:
        yield key, tree


def _within(document: Tree, around: Container) -> Container:
    """Copies, nodes and devices of this object, else of the enclosing ones."""

    places = ((), ("resources",), ("nodeSelector",), ("metadata", "labels"), ("metadata", "annotations"))
    trees = [tree for keys in places if isinstance(tree := _inside(document, *keys), Mapping)]
    placed = {str(key): str(value) for tree in trees for key, value in tree.items() if isinstance(value, (str, int))}
    slices = next((v for k, v in placed.items() if k.endswith("topology") and re.fullmatch(r"\d+(x\d+)+", v)), None)
    names = [str(document.get(key)) for key in ("name", "subComponentType")]
    names += [value for key, value in placed.items() if key.endswith("/role")]
    asked = [(str(one.get("key")), one["values"]) for one in _items(document, "matchExpressions") if one.get("values")]
    placed |= {key: str(values[0]) for key, values in asked if isinstance(values, list) and len(values) == 1}
    chips = [value for key, value in placed.items() if _ACCELERATOR.search(key)]
    machines = [value for key, value in placed.items() if _MACHINE.search(key)]
    chips += [chip for name, chip in formats()["machines"].items() for one in machines if re.match(name, one)]
    copies = around.copies * prod(_counts(document, "copies"))
    job = _inside(document, "pytorchReplicaSpecs") or {}
    kinds = [kind.partition(":")[0] for kind in _accelerators(document) if not kind[:1].isdigit()]
    return Container(
        [], environment=around.environment | _environment(document), role=next((name for name in names if name in ("prefill", "decode")), around.role), gpus=_gpus(document) or around.gpus, copies=copies,
        most=max([around.most, copies, *_counts(document, "most")]), chip=next(iter(chips or kinds[:1]), around.chip),
        nodes=around.nodes * max([sum(_count(job, role, "replicas") for role in job), *_counts(document, "nodes")]),
        image=_image(document) if any(str(key).startswith("image") for key in document) else around.image,
        cores=max(around.cores, _cores(placed.get("cloud.google.com/gke-tpu-accelerator", ""))),
        chips=prod(map(int, slices.split("x"))) if slices else around.chips,
    )  # fmt: skip


_ACCELERATOR = re.compile(r"gke-(tpu-)?accelerator$|gpu\.product(-name)?$|/(hardware|accelerator|gpu-type)$")
_MACHINE = re.compile(r"(instance|machine)[-_]?(type|family)$", re.IGNORECASE)
_PODS = table("formats.yaml")["pods"]


def _counts(document: Tree, what: str) -> list[int]:
    return [_count(document, *path.split(".")) for path in _PODS[what]]


def _count(document: Tree, *keys: str) -> int:
    found = _inside(document, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 1


def _listed(environment: dict[str, str]) -> list[str]:
    """Flags in a variable that images and charts hand to their server whole: VLLM_ARGS, VLLM_ADDITIONAL_ARGS, SGLANG_EXTRA_ARGS."""
    found = [value for name, value in environment.items() if re.fullmatch(r"(VLLM|SGLANG|TGI)_(\w+_)?ARGS", name)]
    return [word for value in found for word in split_words(value)]


def split_words(line: str) -> list[str]:
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


def _container(document: Tree, named: Tree, around: Container) -> Container:
    """The process of a container, $(NAME) filled from its environment as Kubernetes does."""

    def filled(text: object) -> str:
        return _FROM_ENVIRONMENT.sub(lambda match: around.environment.get(match[1], unknown(match[0])), str(text))

    values = list(named.values())
    scripts = [filled(value) for value in values if isinstance(value, str)]
    words = [filled(item) for value in values if isinstance(value, list) for item in value]
    image = _image(document)
    written = {word.partition("=")[0].lstrip("-").replace("_", "-") for word in [*words, *" ".join(scripts).split()]}
    if not image and written & _server_flags():
        image = around.image  # values of a chart have it elsewhere
    first = (words or " ".join(scripts).split() or [""])[0]
    own = first[0] != "-" and not unknowns(first) and "$" not in first if first else image == ["vllm", "serve"]
    if image == ["vllm", "serve"] and _HUB.fullmatch(first) and words[1:2] and words[1][:1] == "-":
        own = False  # the model, for the image's own entry point
    image = [] if own or (first == "-m" and image != ["llama-server"]) else image  # a command of its own
    if first == "serve" and "vllm" in str(document.get("image")):
        image = ["vllm"]
    mounts = [one.split(":") for one in _items(document, "volumes") if isinstance(one, str) and ":" in one]
    words, scripts = mounted(words, mounts), mounted(scripts, mounts)
    found = replace(around, gpus=_gpus(document) or around.gpus)
    shell = len(words) > 2 and words[0].rpartition("/")[2] in ("bash", "sh") and re.fullmatch(r"-\w*c\w*", words[1])
    if shell and ("$@" in words[2] or "$*" in words[2]):  # sh -c SCRIPT NAME ARGUMENTS
        return replace(found, script=words[2], arguments=words[4:])
    if shell:
        return replace(found, script="\n".join([*(word for word in words[2:] if word != "--"), *scripts]))
    if scripts and not words:
        return replace(found, script=" ".join([*image, *scripts]))
    if scripts and not re.search(r"(^|/)(ba|da|z)?sh$", words[0]):  # an entry point and the line of its arguments
        return replace(found, words=[*image, *words, *split_words(" ".join(scripts))])
    return replace(found, words=[*image, *words], script=" ".join(scripts))


_HUB = re.compile(r"[A-Za-z][\w.-]*/[\w.-]+(?<!\.sh)(?<!\.py)")


def mounted(texts: list[str], mounts: Iterable[list[str]]) -> list[str]:
    """Words or lines of a container, with a model at a mounted path under the name that it has outside; mounts: (outside, inside, ...)."""
    for outside, inside, *_ in mounts:
        if inside.startswith("/") and _NAMED_MODEL.search(outside):
            path = re.compile(rf"(^|[=\s]){re.escape(inside.rstrip('/'))}(?=[/\s]|$)")
            named = outside.replace("\\", "\\\\")
            texts = [path.sub(rf"\g<1>{named}", text) for text in texts]
    return texts


_NAMED_MODEL = re.compile(r"/[\w.-]*\d[bB]\b[\w.-]*$|\.gguf$")  # by its size, or a file


def _image(document: Tree) -> list[str]:
    """The entry point of a known image that is given flags alone."""
    image = " ".join(str(value) for key, value in document.items() if str(key).startswith("image"))
    if unknowns(image):  # of the chart's values: the container is named after it
        image += f" {document.get('name')}/{document.get('name')}"
    return next((command.split() for name, command in formats()["images"].items() if re.search(name, image)), [])


def _only_image(document: object) -> list[str]:
    """The entry point of the images of a document; empty where they have none, or several."""
    found = [_image(document)] if isinstance(document, Mapping) else []
    inner = document.values() if isinstance(document, Mapping) else document if isinstance(document, list) else ()
    found += [_only_image(one) for one in inner]
    several = {tuple(one) for one in found if one}
    return list(several.pop()) if len(several) == 1 else []


def _environment(document: Tree) -> dict[str, str]:
    # a chart may have variables of the image next to it
    found = {str(k): str(v) for k, v in document.items() if str(k).isupper() and isinstance(v, (str, int, float))}
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
    for kind in _accelerators(document):
        counts.append(next((part for part in kind.split(":") if part.isdigit()), "1"))
    for one in _items(document, "deploy", "resources", "reservations", "devices"):
        shown = ",".join(map(str, one.get("device_ids") or ())) if isinstance(one, Mapping) else ""
        counts += [str(len(shown.split(","))) if shown else str(_inside(one, "count"))]
    return next((int(count) for count in counts if count.isdigit() and int(count)), None)


def _accelerators(document: Tree) -> list[str]:
    """What SkyPilot and dstack ask for, as KIND:COUNT: H100:8, {H100: 8}."""
    asked = next(
        (v for key in ("accelerators", "accelerator", "gpu") if (v := _inside(document, "resources", key))), None
    )
    return [f"{k}:{v or 1}" for k, v in asked.items()] if isinstance(asked, Mapping) else [str(asked)] if asked else []


def served(document: object, name: str) -> list[Options]:
    """The servers of a document of the file `name`, or of one that it has inside with its variants. Raises DataError for YAML in a text that is none."""
    inside = document.values() if isinstance(document, Mapping) else ()
    return list(servers(document, name)) or [
        found for one in inside if isinstance(one, Mapping) for found in servers(one, name)
    ]


def servers(values: object, name: str) -> Iterator[Options]:
    """Containers in the form of Kubernetes that charts and operators make of their values, by the rows of servers.yaml; none for another document."""
    for row in table("servers.yaml").values():
        if not isinstance(values, Mapping) or any(
            _at(values, path) != value for path, value in row.get("when", {}).items()
        ):
            continue
        text = _at(values, row["text"]) if "text" in row else None
        roots = documents(text, f"{name}: {row['text']}") if isinstance(text, str) else [values]
        for path in row.get("each", ()):
            roots = [one for root in roots for one in _each(root, path, row.get("inherits", False))]
        for root in roots if row.get("each") or text is None else ():
            pools = {role: _at(root, path) for role, path in row.get("pools", {"": None}).items()}
            stops = ("create", "enabled", "replicas")
            off = [k for k, v in pools.items() if any(_inside(v, key) in (False, 0) for key in stops)]
            pools = {k: v for k, v in pools.items() if isinstance(v, Mapping) and k not in off}
            for role, pool in pools.items():
                inner = _at(pool, row["container"]) if "container" in row else {}
                for one in (inner if isinstance(inner, list) else [inner]) or [{}]:
                    yield from _server(row, root, pool, one or {}, role, len(pools) > 1)


def _each(root: Tree, path: str, inherits: bool) -> list[Options]:
    """The mappings of a list, or of a mapping with their `key`, over what is above them where they inherit it."""
    found = _at(root, path)
    named = [{"key": k, **v} for k, v in found.items() if isinstance(v, Mapping)] if isinstance(found, Mapping) else []
    above = root if inherits else {}
    return [{**above, **one} for one in (found if isinstance(found, list) else named) if isinstance(one, Mapping)]


def _server(row: Json, root: Tree, pool: Tree, container: Tree, role: str, apart: bool) -> Iterator[Options]:
    """The servers of one container of a row of servers.yaml."""

    def stated(path: str) -> Any:
        found = (_at(tree, one) for one in path.split() or [path] for tree in (container, pool, root) if tree)
        return next((one for one in found if one is not None), None)

    uris = [str(stated(path)).partition("?")[0] for path in row["model"] if stated(path)]
    of_hub = (one for one in uris if re.fullmatch(r"hf:.*|[\w.-]+/[\w.-]+", one))
    uri = next(of_hub, next(iter(uris), ""))
    name = re.sub(r"^hf:(//)?", "", uri)
    name = f"./{re.split('[/:]', name.rstrip('/'))[-1]}" if "://" in name else name
    engine = " ".join(str(stated(path)) for path in row.get("engine", "-").split() if stated(path))
    command = next((v for k, v in row.get("command", {"": "vllm serve"}).items() if re.fullmatch(k, engine)), None)
    own = {_kebab(k): v for k, v in flattened(stated(row.get("flags", "-")) or {}).items()}
    own = {k: v for k, v in own.items() if k not in row.get("drop", ())}
    own |= {flag: stated(path.format(role)) or None for flag, path in row.get("set", {}).items()}
    own |= {"disaggregation-mode": role} if apart and role in ("prefill", "decode") else {}
    words = [word for path in row.get("args", ()) for word in map(str, stated(path) or [])]
    words += [*map(str, container.get("args") or []), *_listed(_environment(container))]
    if "command" in container:  # its own, on what the operator mounts
        pod = container
    elif command is None or not (name or words):
        return
    else:
        pod = {**container, "args": None, "command": [*command.split(), *filter(None, [name]), *words, *as_flags(own)]}
    asked = str(stated(row.get("devices", "-").format(role)) or "")
    count = asked.rpartition(":")[2]
    replicas = stated(row.get("replicas", "replicas").format(role)) or 1
    if not count.isdigit() and "nodes" in row:  # of a worker over whole nodes
        count = str(prod(int(stated(path.format(role)) or 0) for path in row["nodes"]) // int(replicas))
    chip = str(stated(row.get("chip", "-")) or "").partition(":")[0].removeprefix("nvidia-gpu-")
    if count.isdigit() and "cpu" not in asked:
        pod = {**pod, "resources": {"limits": {"gpu": count}}}
    if chip:
        pod = {**pod, "nodeSelector": {"gpu.product": chip}}
    scaled = {
        "maxReplicas": stated("maxReplicas"),
        "autoscaling_config": stated("deployment_config.autoscaling_config"),
    }
    yield {
        **scaled,
        "replicas": replicas,
        "pod": json.loads(json.dumps(pod).replace("/mnt/models", name or "/mnt/models")),
    }


def _kebab(key: str) -> str:
    """The flag of a key in camel or snake case."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", key).replace("_", "-").lower()


def as_flags(mapping: Tree) -> list[str]:
    """Flags of a command by the keys of a mapping; those that are off are left out."""
    given = {key: value for key, value in mapping.items() if value is not False and value is not None}
    values = {key: json.dumps(value) if isinstance(value, Mapping) else value for key, value in given.items()}
    return [f"--{key}" if value is True else f"--{key}={value}" for key, value in values.items()]


def joined(found: list[Any]) -> list[Any]:
    """Documents with each InferenceService as the container of its ServingRuntime, where that is here too."""
    kinds = ("ServingRuntime", "ClusterServingRuntime")
    runtimes = {str(_at(one, "metadata.name")): one for one in found if _inside(one, "kind") in kinds}
    models = {str(_at(one, "metadata.name")): one for one in found if _inside(one, "kind") == "Model"}
    for service in [one for one in found if _at(one, "spec.modelRef") in models]:  # of LLMKube
        service["spec"]["model"] = models[service["spec"]["modelRef"]].get("spec")
        found = [one for one in found if one is not models[service["spec"]["modelRef"]]]
    for service in [one for one in found if _inside(one, "kind") == "InferenceService"]:
        model = _at(service, "spec.predictor.model")
        only = next(iter(runtimes.values())) if len(runtimes) == 1 and isinstance(model, dict) else None
        runtime = runtimes.get(str(_inside(model, "runtime")), only if not _inside(model, "runtime") else None)
        if runtime is not None and (inner := _items(runtime, "spec", "containers")):
            given = [inner[0].get("command"), inner[0].get("args"), model.get("args")]
            words = [str(word) for one in given for word in one or ()]
            model |= {**inner[0], **model, "command": words, "args": None}
            found = [one for one in found if one is not runtime]
    return found


def _items(tree: object, *keys: str) -> list[Any]:
    """The list under these keys; empty where there is none."""
    found = _inside(tree, *keys)
    return found if isinstance(found, list) else []
