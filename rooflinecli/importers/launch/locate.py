"""Launches in a command, script, config or container, each read by its tool."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import yaml

from rooflinecli.core import files
from rooflinecli.core.errors import DataError
from rooflinecli.core.text import one_line
from rooflinecli.importers.launch import containers, python_files, serving_common, training_common, unit_files
from rooflinecli.importers.launch.launch import (
    Launch,
    LaunchArguments,
    assigned_keys,
    flags,
    formats,
    interpolated,
    merged_trees,
    named_file,
    overridden,
    yaml_value,
)
from rooflinecli.importers.launch.shell_evaluator import SCRIPT, ShellEvaluator
from rooflinecli.importers.launch.shell_expansion import Value, readable, unknowns
from rooflinecli.importers.source import Options, Tree, parse, read_text
from rooflinecli.specs.name_lookup import registered_only
from rooflinecli.specs.registry import kinds, load

TOOLS = "importers/launch/tools"
_FENCED = re.compile(
    r"^ *```[ \t]*(?:sh|bash|shell|console|text)?[ \t]*\n(.*?)(?:^ *|[ \t]*)```[ \t]*$", re.DOTALL | re.MULTILINE
)
LARGEST = 2_000_000
COMMAND = "the command"  # the name of one in quotes
_SUFFIXES = frozenset(".toml .json .yaml .yml .md .rst .sh .bash .slurm .sbatch .py".split())
_LAUNCHER = re.compile(r"\b(python3?|torchrun|deepspeed|vllm|trtllm-\w+|sglang|llama-server|accelerate)\b")
# scripts that train nothing
_EVALUATION = re.compile(r"(?:.*/)?(?:[\w.]*[_-])?(?:eval|infer|generat|convert|embed)\w*(?:/[^/]*)?\.py")
_TRAINER = re.compile(r"train|torchrun|accelerate|deepspeed|run_(?:sft|dpo|grpo|rm)|finetun")
_CONFIG = re.compile(r"config|recipe|deepspeed|\bds_|zero\d")  # in the flag or name of a JSON that is one
# flags of a server that is one of several pods of the same engine
_POD_FLAGS = (
    "--node-rank", "--data-parallel-start-rank", "--data-parallel-address", "--dist-init-addr", "--headless", "--nnodes",
)  # fmt: skip


@dataclass
class Source:
    """A text, its name, and the files in its folder or made by it."""

    text: str
    name: str
    folder: Path | None = None
    files: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)  # configs that its commands name, and that are not here
    overrides: Options = field(default_factory=dict)  # of its keys, in the command that names it
    loads: list[dict[str, list[str]]] = field(default_factory=list)  # of the benchmarks that it runs
    exported: set[str] = field(default_factory=set)  # variables of the blocks before
    asked: list[str] = field(default_factory=list)  # flags of other clients that may be a load, with the line

    def sibling(self, written: str, above: bool = True) -> str | None:
        """The text of a file that a launch names: made by the script, mounted with it, in its folder, or by its path from one above; None for none."""
        base = written.rpartition("/")[2]
        if base in self.files:
            return self.files[base]
        if unknowns(written):  # ${SCRIPT_DIR}/../x.sh
            written = re.sub(r"^.*\x02/?(?!.*\x02)|.*/(?=\.\./)", "", written)
        if self.folder is None or not base or unknowns(base):
            return None
        # a script of a repository is run from above its own folder
        parts = written.strip("./").split("/") if written[:1] != "/" else [base]
        tails = ["/".join(parts[i:]) for i in range(max(len(parts) - 1, written[:1] != "/"))]
        folders = self.folder.resolve().parents[: 4 if above else 0]
        for path in (self.folder / written, *(one / tail for tail in tails for one in folders), self.folder / base):
            if path.is_file() and path.stat().st_size < LARGEST:
                return read_text(path, LARGEST, "the launch alone")
        return None


def unread(text: str) -> str:
    """What a launch of another tool is and what to do with it; empty for none of them."""
    return next((why for mark, why in formats()["elsewhere"].items() if re.search(mark, text)), "")


def open_text(source: str) -> Source:
    """The text of a file, or of a command in quotes. Raises DataError for a path that is no file."""
    path = Path(source) if len(source) < 1000 and "\n" not in source else None
    if path is not None and files.is_existing_file(path):
        return Source(read_text(path, LARGEST, "the launch alone"), str(path), path.parent)
    if path is not None and (
        " " not in source or (" -" not in source and path.suffix in (".sh", ".yaml", ".yml", ".json", ".toml"))
    ):
        why = f"{one_line(source)}: {files.missing_reason(path)}; give a launch script, a config, or a whole command in quotes"
        raise DataError(why)
    return Source(source, COMMAND, None if registered_only.get() else Path())  # run from here


def launches(source: Source) -> Iterator[Launch]:
    """Every launch in it, in order."""
    suffix = Path(source.name).suffix.lower()
    if source.name != COMMAND and suffix not in _SUFFIXES:
        suffix = _suffix_of(source.text)
    if trees := unit_files.trees(source.text, source.name, source.sibling):
        for tree in trees:
            yield from list(_config(tree, source)) or _processes(tree, source)
    elif suffix == ".py":
        yield from _python(source)
    elif suffix == ".toml":
        tree = parse(source.text, source.name, tomllib.loads)
        yield from _config(tree, source)
    elif suffix == ".json":
        yield from list(_config(tree := parse(source.text, source.name), source)) or _processes(tree, source)
    elif suffix in (".yaml", ".yml"):
        found = list(_yaml(source))
        yield from found or _fenced(source)
    elif suffix in (".md", ".rst"):
        yield from _fenced(source)
    else:
        yield from _script(source.text, source, {})


def _python(source: Source) -> Iterator[Launch]:
    """What the calls and assignments of a Python file start."""
    for one in python_files.started(source.text, source.name):
        kind, _, count = one.chip.partition(":")
        job = containers.Container([], chip=kind.rstrip("!"), gpus=int(count) if count.isdigit() else None)
        if one.config:
            yield from _config(one.config, replace(source, name=f"{source.name}:{one.line}"))
        elif one.script or one.words[:1] in (["bash"], ["sh"]):
            yield from _script(one.script or shlex.join(one.words), source, {}, one.line - 1, job)
        else:
            yield from _of_words(one.words, source, one.line, job)


def _suffix_of(text: str) -> str:
    """The suffix that a saved config should have, by its content: a mapping in JSON, TOML or YAML; empty for a script."""
    if text.startswith("#!"):
        return ""
    for suffix, reader in ((".json", json.loads), (".toml", tomllib.loads), (".yaml", yaml.safe_load)):
        try:
            if isinstance(reader(text), Mapping):
                return suffix
        except (ValueError, RecursionError, yaml.YAMLError):
            continue
    return ""


def _fenced(source: Source) -> Iterator[Launch]:
    """Launches in the code blocks of a document; a block sees the variables of those before it."""
    values: dict[str, Value] = {}
    for block in _FENCED.finditer(source.text):
        yield from _script(block[1], source, values, source.text.count("\n", 0, block.start(1)))


def _primus(modules: Tree) -> tuple[str, Options]:
    """The tool that an experiment of Primus wraps, and its overrides as a config of that tool."""
    trainer = next((module for module in modules.values() if isinstance(module, Mapping)), {})
    name = re.sub(r"\.ya?ml$", "", str(trainer.get("model") or ""))
    overrides = trainer.get("overrides")
    own: Options = dict(overrides) if isinstance(overrides, Mapping) else {}
    if trainer.get("framework") == "torchtitan":
        size, _, narrow = name.partition("-")
        family, _, flavor = size.rpartition("_")
        converters = {"converters": ["float8"]} if narrow == "fp8" else {}
        return "torchtitan", {**own, "model": {"name": family, "flavor": flavor, **converters}}
    named = {"model_name": name.replace("_", "-").lower()} if name else {}
    if trainer.get("framework") == "maxtext":
        return "maxtext", named | own
    if "megatron" not in str(trainer.get("framework")):
        return "", {}
    return "nemo", {"use_distributed_optimizer": True} | named | own  # pre_trainer.yaml, which experiments extend


def whole(tree: Any, source: Source, depth: int = 0) -> Any:
    """A config over those that its `defaults` name; one that is not here is noted as absent."""
    base = tree.get("defaults") if isinstance(tree, dict) else None
    if not isinstance(base, str) or not base.endswith((".yaml", ".yml")) or depth > 8:
        return tree
    if (text := source.sibling(base)) is None:
        source.absent.append(base)
        return tree
    own = {key: value for key, value in tree.items() if key != "defaults"}
    folder = source.folder and source.folder / Path(base).parent
    below = whole(parse(text, base, yaml.safe_load), replace(source, folder=folder), depth + 1)
    return merged_trees(below, own) if isinstance(below, dict) else own


def _config(tree: Any, source: Source) -> Iterator[Launch]:
    tree = whole(tree, source)
    tree = interpolated(tree)
    tools = [name for name in ("trainers", *kinds(TOOLS)) if hasattr(load(TOOLS, name), "claims")]
    if isinstance(tree, Mapping) and all(isinstance(tree.get(key), Mapping) for key in ("compute", "parameters")):
        tree = {**interpolated(tree["parameters"]), "compute": tree["compute"]}  # MCLI mounts them as the config
    if isinstance(tree, Mapping) and isinstance(modules := tree.get("modules"), Mapping):
        wrapped, tree = _primus(modules)
        tools = [wrapped] if wrapped else []
    for name in tools if isinstance(tree, Mapping) else ():
        tool = load(TOOLS, name)
        if tools == [name] or tool.claims(tree):
            launch = Launch(name, source.name, open_file=source.sibling, trains=tool.TRAINS)
            if name == "accelerate":
                tree = tool.flagged(LaunchArguments.of_tree(source.overrides), tree)
            tool.read(tree if name in ("accelerate", "deepspeed") else overridden(tree, source.overrides), launch)
            if base := tree.get("defaults", tree.get("extends")) if tool.TRAINS else None:
                launch.notes.append(f"what it inherits from {one_line(str(base))} is not read")
            yield launch
            return


def _yaml(source: Source) -> Iterator[Launch]:
    where = "../values.yaml" if source.folder and source.folder.resolve().name == "templates" else "values.yaml"
    chart = source.sibling(where, False) if "{{" in source.text else None
    values = next(iter(containers.documents(chart, "values.yaml")), None) if chart else None
    text, left = containers.followed(source.text, values) if "{{" in source.text else (source.text, [])
    found = containers.joined(containers.documents(text, source.name, values))
    maps = [one for one in found if isinstance(one, Mapping) and one.get("kind") == "ConfigMap"]
    shared = {str((one.get("metadata") or {}).get("name")): one.get("data") for one in maps}
    for name in re.findall(r"[\w./-]*\.env\b", source.text):  # of compose
        lines = [line.partition("=") for line in (source.sibling(name, False) or "").splitlines() if line[:1] != "#"]
        shared[name] = {key.strip(): value.strip().strip("'\"") for key, equals, value in lines if equals}
    for data in (one.get("data") for one in maps):  # files by name
        texts = data.items() if isinstance(data, Mapping) else ()
        source.files |= {str(k): v for k, v in texts if isinstance(v, str)}
    empty = True
    for document in found:
        configs = list(_config(document, source))
        other = not configs and document not in maps
        started = list(_processes(containers.with_maps(document, shared), source)) if other else []
        empty = empty and not configs and not started
        for launch in started if left else ():
            launch.notes.append(
                f"conditions that the chart's values leave open are taken to hold: {one_line('; '.join(left))[:120]}"
            )
        yield from configs + started
    for text in source.files.values() if empty else ():  # a map of scripts whose pods are elsewhere
        if text.startswith("#!"):
            yield from _script(text, source, {})
        elif "engine_config:" in text or "llm_configs:" in text:  # of Ray
            yield from launches(replace(source, text=text, files={}))


def _processes(document: object, source: Source) -> Iterator[Launch]:
    processes = containers.containers(containers.served(document, source.name) or document)
    started = [(process, launch) for process in processes for launch in _started(process, source)]
    for process, launch in started:
        if not launch.trains:
            if isinstance(launch.options.get("n"), int):
                _in_container(launch, process)
            tools = {one.tool for _, one in started}
            launch.unmodelled += containers.unread(document, [one for one, _ in started], tools)
        if process.role and len(launch.options.get("phase", ())) == 2:
            launch.options["phase"] = [process.role]
        yield launch


def _started(process: containers.Container, source: Source) -> list[Launch]:
    """The launches of one process of a container."""
    evaluator = ShellEvaluator()
    if "compose" in source.name.rpartition("/")[2] and (own := source.sibling(".env", False)):
        evaluator.read(own)
    host = evaluator.shell
    values: dict[str, Value] = {k: host.text(v) if "${" in v else v for k, v in process.environment.items()}
    process = replace(process, environment={k: v for k, v in values.items() if isinstance(v, str)})
    if process.arguments:
        values |= {"@": process.arguments, "*": process.arguments}
    shell = ShellEvaluator(values).shell
    words = [shell.text(w.replace("\\", "\\\\")) if "$" in w else w for w in process.words]
    found = list(_of_words(words, source, _line_of(process.words, source.text), process))
    script = process.script.strip() or shlex.join(words if any(map(SCRIPT.search, words[:4])) else ())
    line = _line_of(script.splitlines()[:1], source.text) or _line_of(script.split(), source.text)
    return found or list(_script(script, source, values, max(line - 1, 0), process) if script else ())


def _line_of(pieces: list[str], text: str) -> int:
    """The first line of these that are in a text once; 0 for none."""
    found = [text.find(one) for one in pieces if len(one) > 4 and text.count(one) == 1]
    return text.count("\n", 0, min(found)) + 1 if found else 0


def _in_container(launch: Launch, process: containers.Container) -> None:
    """Apply the copies and devices of the enclosing objects to a server."""
    ranks, tp, chips, cores = launch.options["n"], launch.options.get("tp"), process.devices, process.cores
    if cores > 1 and chips and ranks == chips * cores and isinstance(tp, int) and tp % cores == 0:
        ep = int(launch.options.get("ep", 1))
        launch.options |= {"tp": tp // cores, "n": chips, "ep": ep // cores if ep % cores == 0 else ep}
        note = f"{ranks} ranks on {chips} chips of {cores} cores: a device here is a chip"
        launch.notes.append(f"{note}, so tp {tp} is tp {tp // cores}")
    if process.copies > 1 and (process.nodes > 1 or not launch.part):
        ep, cut, _ = serving_common.expert_group(launch.options)
        launch.options["dp"] = process.copies * int(launch.options.get("dp", 1))
        launch.options["n"] = process.copies * int(launch.options["n"])
        if ep > 1:
            serving_common.cut_experts(launch.options, cut)  # each server has its own experts
        launch.notes.append(f"{process.copies} replicas of the server")
    if process.most > process.copies:
        launch.notes.append(f"up to {process.most} replicas, as the load asks for; priced with {process.copies}")


def _script(
    text: str, source: Source, values: dict[str, Value], offset: int = 0, job: containers.Container | None = None
) -> Iterator[Launch]:
    evaluator = ShellEvaluator(values, source.sibling)
    evaluator.exported = source.exported
    script = evaluator.read(text)
    values.update(evaluator.shell.values)
    source.files |= script.files
    if script.devices or script.chip:
        job = replace(job or containers.Container([]), gpus=script.devices, chip=script.chip)
    for command in script.commands:
        for launch in _of_words(command.words, source, command.line + offset, job, command.environment):
            for condition in script.undecided[:1]:
                launch.notes.append(f"not decidable from here, so every branch was followed: {one_line(condition)}")
            if command.arguments:
                launch.notes.append("the script's own arguments, $@, are taken as none")
            yield launch


# commands whose words may look like a launch, and start none
_STARTS_NOTHING = re.compile(
    r"(echo|printf|cat|grep|pkill|pgrep|which|command|ls|rm|cp|mkdir|curl|tee|kill|sed|awk|chmod|mv|touch|yq|jq|envsubst|rsync|scp|wget|systemctl|ps|pip|#"
    r"|(docker|podman) (stats|stop|rm|logs|pull|images|ps|inspect|kill|restart|build))( .*)?"
)


def _of_words(
    words: list[str],
    source: Source,
    line: int,
    job: containers.Container | None = None,
    exported: Mapping[str, str] = {},
) -> Iterator[Launch]:
    """The launch that a command is, or names the config of."""
    if not words or _STARTS_NOTHING.fullmatch(" ".join(words[:2])):
        return
    if ("tune", "run") in pairwise(words):  # torchtune's own configs have no suffix
        words = [f"{w}.yaml" if at == "--config" and "." not in w else w for at, w in pairwise(["", *words])]
    clients = flags("clients")
    if (client := serving_common.started(words, clients)) is not None:
        # guidellm has the lengths in its --data
        lengths = re.findall(r"\b(prompt|output)_tokens[\"']?[=:]\s*(\d+)", " ".join(client))
        asked = LaunchArguments.of_words([*client, *(f"--{name}-tokens={count}" for name, count in lengths)])
        loads = {k: [str(v) for name in names for v in asked.values(name)] for k, names in clients.read.items()}
        source.loads.append({option: values for option, values in loads.items() if values})
        return
    where = f"{source.name}:{line}" if line and source.name != COMMAND else source.name
    evaluates = any(_EVALUATION.fullmatch(word) for word in words)
    evaluates |= any(flag in ("-m", "--module") and "eval" in module for flag, module in pairwise(words))
    for name in ("trainers", *kinds(TOOLS)):  # whose commands may be behind another's launcher
        tool = load(TOOLS, name)
        if evaluates and tool.TRAINS:
            continue
        rest = tool.starts(words) if hasattr(tool, "starts") else serving_common.started(words, tool.FLAGS)
        if rest is None:
            continue
        part = any(w.partition("=")[0].replace("_", "-") in _POD_FLAGS for w in words)
        launch = Launch(name, where, part=part, trains=tool.TRAINS, open_file=source.sibling)
        before = words[: len(words) - len(rest)]
        rest = containers.mounted(rest, [word.removeprefix("--volume=").split(":") for word in before if ":" in word])
        variables = {**(job.environment if job else {}), **exported, **serving_common.assigned(before)}
        if job is not None:
            launch.devices, launch.cores = job.devices, job.cores
        if not tool.TRAINS:
            launch.devices = serving_common.visible(variables, before) or launch.devices
            launch.environment = serving_common.variables(variables, tool.FLAGS, source.text)
        file = named_file(rest, tool.FILES, tool.TRAINS) if hasattr(tool, "FILES") else ""
        text = source.sibling(file) if file else None
        if file and text is None and tool.TRAINS:
            source.absent.append(_shown_path(file))
            return
        config = next(iter(containers.documents(text, f"{where}: {readable(file)}")), None) if text else None
        tool.read(rest, launch, *([config] if isinstance(config, Mapping) else []))
        if job is not None and job.chip:
            launch.on_chip(job.chip)
        ranks = launch.options.get("n")
        if not tool.TRAINS and isinstance(ranks, int) and launch.devices and launch.cores == 1:
            several = launch.part or launch.options.get("pp", 1) != 1  # nodes, each with these devices
            odd = ranks % launch.devices or (ranks > launch.devices and not several)
            launch.notes += [f"{launch.devices} devices are given to it, and it uses {ranks}"] if odd else []
        yield launch
        return
    found: list[Launch] = []
    for at, (ahead, word) in enumerate(pairwise(words), start=2):
        inner = word.partition("=")[2] if word.startswith("--") else word
        if " " in inner and _LAUNCHER.search(inner):  # a command handed on: xpk workload create --command="..."
            yield from _script(inner, source, {}, line - 1 if line else 0, containers.xpk(words) or job)
        base = inner or word
        configs = (".toml", ".yaml", ".yml") if "--num-layers" in words else (".toml", ".yaml", ".yml", ".json")
        if not base.endswith(configs) or len(words) >= 200:
            continue
        text = source.sibling(base)
        if text is not None:
            name = f"{where}: {readable(base)}"
            named = Source(text, name, source.folder, source.files, source.absent, _overrides(words, at))
            found += _on_ranks(launches(named), words, job)
        elif _TRAINER.search(" ".join(words)):
            flagged = ahead.startswith("-") and ahead != "--" and "=" not in ahead
            flag = word if word.startswith("-") else ahead if flagged else ""
            if ((flag or base.endswith(".json")) and not _CONFIG.search(flag + base)) or "data" in flag:
                continue
            source.absent.append(_shown_path(base))
    scripts = [word for word in words if re.search(r"(serve|launch|train|start|finetune|run)[\w.-]*\.sh$", word)]
    source.absent += [_shown_path(one) for one in scripts if not found and source.sibling(one) is None]
    given = [] if found else LaunchArguments.of_words(words[1:]).given.items()
    stated = [f"--{k} {' '.join(v)}" for k, v in given if v and any(fnmatchcase(k, one) for one in clients.noted)]
    if stated:
        source.asked.append(f"{one_line(readable(' '.join(stated)))[:80]} of another command, on line {line},")
    launcher = next((one for one in found if one.tool == "accelerate"), None)
    trained = [one for one in found if one is not launcher and one.trains]
    yield from found if launcher is None or len(trained) != 1 else [_started_by(launcher, trained[0])]


def _overrides(words: list[str], after: int) -> Options:
    """Keys of a config that the command which names it sets: --training.seq_len 4096, seq_len=4096, or its script's own --seq_len 4096."""
    flagged = words[after - 2].startswith("--config")
    own = next((at for at, word in enumerate(words[:after]) if word.endswith(".py")), 0 if flagged else after - 1)
    given = {k: v for k, v in LaunchArguments.of_words(words).given.items() if "." in k}
    given |= {k: v for k, v in LaunchArguments.of_words(words[own + 1 :]).given.items() if words[after - 1] not in v}
    flagged_keys = {key.replace("-", "_"): yaml_value(values[0] if values else "true") for key, values in given.items()}
    return flagged_keys | assigned_keys(words)


def _started_by(launcher: Launch, launch: Launch) -> Launch:
    """A trainer behind `accelerate launch`, whose own config has the processes, what is sharded, and where its states are."""
    own = launcher.options
    launch.options |= {key: own[key] for key in ("zero", "offload") if key in own}
    launch.options |= {"recompute": "full"} if own.get("recompute") == "full" else {}
    if "n" in own:
        ranks = prod(int(launch.options.get(axis, 1)) for axis in ("tp", "pp", "cp"))
        launch.options |= {"n": own["n"], "dp": own["n"] // ranks}
    launch.missing |= {key: why for key, why in launcher.missing.items() if key != "dtype" or key not in launch.options}
    settled = ("give -n", "give --zero") if "zero" in own else ("give -n",)
    launch.notes = [note for note in launch.notes if not note.endswith(settled)] + launcher.notes
    launch.unmodelled += launcher.unmodelled
    launch.framework = launcher.framework or launch.framework
    return launch


def _shown_path(path: str) -> str:
    """A path, or its last part where its folder is known only where it runs."""
    folder, _, last = path.rpartition("/")
    return readable(last if unknowns(folder) else path)


def _on_ranks(found: Iterator[Launch], words: list[str], job: containers.Container | None) -> Iterator[Launch]:
    """Launches of a config on the ranks of the command that names it: torchrun's, deepspeed's, or its job's."""
    short = {"-n": "nproc-per-node", "--nproc": "nproc-per-node"} if words[0].endswith("composer") else {}
    ranks = training_common.processes(LaunchArguments.of_words(words, short=short)) or (job.devices if job else None)
    for launch in found:
        sizes = [launch.options.get(axis, 1) for axis in ("tp", "pp", "cp")]
        if ranks and "n" not in launch.options and launch.trains and ranks % prod(sizes) == 0:
            launch.options |= {"n": ranks, "dp": ranks // prod(sizes)}
            launch.notes = [note for note in launch.notes if not note.endswith("give -n")]
        yield launch
