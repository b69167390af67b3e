"""Dockerfiles, units of systemd and Podman, programs of supervisord, and Triton's config.pbtxt, as the mappings that YAML of the same launch would be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from rooflinecli.importers.launch.containers import split_words
from rooflinecli.importers.launch.shell_evaluator import ShellEvaluator
from rooflinecli.importers.launch.shell_expansion import ShellExpander, unknown
from rooflinecli.importers.source import Options

_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*[#;].*\n)*")
_INSTRUCTION = re.compile(r"^[ \t]*(FROM|ARG|ENV|RUN|CMD|ENTRYPOINT)[ \t]+(.+)$", re.MULTILINE | re.IGNORECASE)
_UNIT = re.compile(r"^\[(Service|Container|program:[^\]\n]+)\]", re.MULTILINE)
_SETTING = re.compile(r"^(\w+)[ \t]*=[ \t]*[-@:+!]*?((?:--)?[^-@:+!\s].*)$", re.MULTILINE)
_KEYS = {"Image": "image", "Exec": "args", "Entrypoint": "entrypoint", "ExecStart": "command", "command": "command"}
_PARAMETER = re.compile(r'key\s*:\s*"([^"]+)"[\s,]*value\s*:?\s*\{\s*string_value\s*:\s*"([^"]*)"')


def trees(text: str, name: str, open_file: Callable[[str], str | None]) -> list[Options]:
    """What a file of these kinds starts, each as a container of Kubernetes or a config; empty for another file."""
    base = name.rpartition("/")[2].lower()
    if base.startswith(("dockerfile", "containerfile")) or base.endswith((".dockerfile", ".containerfile")):
        return [_dockerfile(_CONTINUED.sub(" ", text))]
    if base.startswith("modelfile") or base.endswith(".modelfile"):
        return [_modelfile(text)]
    if base.endswith(".pbtxt"):
        return [_triton(text)]
    return _units(_CONTINUED.sub(" ", text), open_file) if _UNIT.search(text) else []


def _dockerfile(text: str) -> Options:
    """The last stage, with the variables of all: Docker's exec form is a list, its shell form a line."""
    shell, found, files = ShellExpander(), Options(), dict[str, str]()
    for instruction, rest in _INSTRUCTION.findall(re.sub(r"^[ \t]*#.*\n", "", text, flags=re.MULTILINE)):
        words = split_words(rest)
        if instruction.upper() == "FROM":
            found = {"image": shell.text(next((word for word in words if word[:2] != "--"), ""))}
        elif instruction.upper() in ("ENV", "ARG"):
            words = words if "=" in words[0] else [f"{words[0]}={' '.join(words[1:])}"]
            pairs = [word.partition("=") for word in words]
            shell.values |= {key: shell.text(value) for key, _, value in pairs if value}
        elif instruction.upper() == "RUN":
            files |= ShellEvaluator({**shell.values}).read(rest).files
        else:
            try:
                found[instruction.lower()] = json.loads(rest)
            except ValueError:
                found[instruction.lower()] = rest
    for kind, words in found.items():  # a script that a RUN of it writes
        made = next((files[w.rpartition("/")[2]] for w in words if w.rpartition("/")[2] in files), None)
        found[kind] = words if made is None or kind == "image" else ["sh", "-c", made]
    return found | {"env": dict(shell.values)}


def _modelfile(text: str) -> Options:
    """A model of Ollama: its tag or file, and the context of a request."""
    named = re.search(r"^\s*FROM\s+(\S+)", text, re.MULTILINE | re.IGNORECASE)
    context = re.search(r"^\s*PARAMETER\s+num_ctx\s+(\d+)", text, re.MULTILINE | re.IGNORECASE)
    tag = named[1] if named else ""
    words = ["llama-server", "-m", tag] if tag.endswith(".gguf") else ["ollama", "run", tag]
    return {"command": words if tag else [], "env": {"OLLAMA_CONTEXT_LENGTH": context[1]} if context else {}}


def _units(text: str, open_file: Callable[[str], str | None]) -> list[Options]:
    """The sections of a unit; a specifier such as %i is known only where it runs."""
    found: list[Options] = []
    for section in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        tree: Options = {"env": [], "volumes": []}
        for key, value in _SETTING.findall(re.sub(r"%\(ENV_(\w+)\)s", r"${\1}", section)):
            if key == "EnvironmentFile":
                tree["env"] += [line.strip().replace('"', "") for line in (open_file(value) or "").splitlines()]
            elif key.lower() == "environment":
                tree["env"] += split_words(re.sub(r",(?=\w+=)", " ", value))
            elif key == "Volume":
                tree["volumes"].append(value)
            elif key in _KEYS:
                tree[_KEYS[key]] = re.sub(r"%[a-zA-Z]", lambda specifier: unknown(specifier[0]), value)
        found += [tree] if len(tree) > 2 else []
    return found


def _triton(text: str) -> Options:
    """The parameters of a model of Triton's TensorRT-LLM backend; a template's ${name} is known only where it is filled in."""
    found: Options = dict(_PARAMETER.findall(re.sub(r"#.*", "", text)))
    if batch := re.search(r"^\s*max_batch_size\s*:\s*(\S+)", text, re.MULTILINE):
        found["max_batch_size"] = batch[1]
    return {key: unknown(value) if "${" in value else value for key, value in found.items() if value}
