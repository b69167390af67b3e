"""Trainers whose config or command flags/*.yaml describes in rows (those with `claims` or `command`): Axolotl, LLaMA-Factory, TRL, oumi, NeMo AutoModel,
torchtune, nanotron, LLM Foundry, LitGPT, and the supervised trainers of verl and OpenRLHF. One replica each where the launcher sets how many there are.

Roles of `read`: model, axes, n and nodes, micro-batch and steps of accumulation, batch, seq, lora-rank, targets of adapters, optimizer. `sizes`:
keys of the model's shape, where the launch may describe it. Named groups of `command` are flags.
"""

from __future__ import annotations

import json
import re

import yaml

from rooflinecli.importers.launch import dtype_names, rules, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, formats, named_file, tool_entries
from rooflinecli.importers.source import Tree
from rooflinecli.specs.registry import load

TRAINS = True
FILES = ("config",)
_AXES = ("tp", "pp", "cp", "ep", "dp")


def names() -> list[str]:
    """The trainers there are rows for."""
    return [name for name, entry in tool_entries().items() if {"claims", "command"} & set(entry)]


def claims(tree: Tree) -> str:
    """The trainer whose config this is, which has every key of one of its rows and none of those with a `!`; empty for none."""
    args = LaunchArguments.of_tree(tree)
    for name in names():
        for row in flags(name).claims:
            if all(args.has(key.removeprefix("!")) is not key.startswith("!") for key in row.split()):
                return name
    return ""


def _command(words: list[str]) -> tuple[str, dict[str, str]]:
    """The trainer that a command starts, empty for none, and what its words say without a flag."""
    for name in names():
        if (pattern := flags(name).command) and (match := re.fullmatch(pattern, " ".join(words), re.DOTALL)):
            return name, {key.replace("_", "-"): word for key, word in match.groupdict().items() if word}
    return "", {}


def starts(words: list[str]) -> list[str] | None:
    """The command of such a trainer."""
    return words if _command(words)[0] else None


def read(given: Tree | list[str], launch: Launch, config: Tree | None = None) -> None:
    """Read a run as training options; what a command says goes before its config."""
    if isinstance(given, list):
        launch.tool, named = _command(given)
        several = [name.replace("_", "-") for name in flags(launch.tool).read.get("targets", ())]
        switches = [name for name in training_common.SWITCHES if name != "deepspeed"]  # which names a config here
        args = LaunchArguments.of_words(given, switches, flags(launch.tool).short, many=several)
        pairs = [word.lstrip("+").partition("=") for word in args.positional if re.match(r"\+*[A-Za-z][\w.]*=", word)]
        args.given |= {key: [yaml.safe_load(value) if value.isalnum() else value] for key, _, value in pairs}
        args.positional = [w for w in args.positional if "=" not in w and w not in named.values()]
        args.given = LaunchArguments.of_tree(config or {}).given | {k: [v] for k, v in named.items()} | args.given
        launch.devices = training_common.processes(args) or launch.devices
    else:
        launch.tool = claims(given) or launch.tool
        whole = given.get("deepspeed")  # rather than the name of a file
        given = {**given, "deepspeed": json.dumps(whole)} if isinstance(whole, dict) and whole else given
        args = LaunchArguments.of_tree(given)
    known = flags(launch.tool).read
    sizes = {axis: args.whole(launch, *known[axis]) for axis in _AXES if axis in known}
    each, nodes = (args.whole(launch, *known.get(role, ())) for role in ("n", "nodes"))
    training_common.layout(launch, each * (nodes or 1) if each else None, **sizes)
    launch.unresolved({name: axis for axis in (*_AXES, "n") for name in known.get(axis, ())})
    fill(launch, args, launch.tool)


def scripted(words: list[str], launch: Launch) -> LaunchArguments:
    """The arguments of a script behind a launcher, whose processes are the devices."""
    named = named_file(words, ("deepspeed",))  # a switch of a launcher, or a config of a trainer
    switches = [name for name in training_common.SWITCHES if name != "deepspeed" or not named]
    args = LaunchArguments.of_words(words, switches, many=())
    launch.devices = training_common.processes(args) or launch.devices
    launch.notes.append("of the training script's own arguments, those of Hugging Face's Trainer are read")
    return args


def fill(launch: Launch, args: LaunchArguments, tool: str) -> None:
    """What a trainer's keys or flags say of the model, the batch, adapters and formats, over what is known already."""
    known = flags(tool)
    if known.framework:
        launch.framework = known.framework
    stored = None
    if "model" not in launch.options and "model" in known.read:
        named = Launch(launch.tool, launch.where, notes=launch.notes, missing=launch.missing)
        dtype_names.checkpoint(named, args.pop(*known.read["model"]), args.written(*known.read["model"]))
        stored = named.options.pop("weight-dtype", None) or named.options.pop("dtype", None)
        launch.options |= named.options
    training_common.set_model_sizes(args, launch, known.sizes)
    micro = args.whole(launch, *known.read.get("micro-batch", ()))
    steps = args.whole(launch, *known.read.get("steps", ())) or 1
    if micro:
        training_common.local_batch(launch, micro, steps)
    elif launch.per_replica and launch.per_replica == launch.options.get("micro-batch"):  # that of DeepSpeed's config
        launch.per_replica *= steps
    for option in ("batch", "seq"):
        args.put(launch, option, *known.read.get(option, ()))
    if rank := args.whole(launch, *known.read.get("lora-rank", ())):
        launch.options["lora-rank"] = rank
    file = str(args.first("deepspeed"))
    text = launch.open_file(file) if file.endswith(".json") and "zero" not in launch.options else None
    text, file = (file, "deepspeed") if file[:1] == "{" else (text, file)
    if text is not None:
        args.given.pop("deepspeed")
    rules.apply(known.rules, args, launch)
    if text is not None:
        load("importers/launch/tools", "deepspeed").under(launch, text, file)
    if "dtype" in launch.options and any(args.has(name) for name in ("bf16", "fp16", "torch-dtype")):
        launch.missing.pop("dtype", None)
        launch.notes = [note for note in launch.notes if ".enabled auto" not in note]
    if "lora" in str(launch.options.get("recipe")):
        _targets(launch, args, known.read.get("targets", ()))
    else:
        launch.options = {
            key: value for key, value in launch.options.items() if key not in ("lora-rank", "lora-targets")
        }
    training_common.optimizer(launch, args.pop(*known.read.get("optimizer", ())))
    _stored(launch, stored)
    launch.unmodelled += args.left(known)


def _targets(launch: Launch, args: LaunchArguments, keys: tuple[str, ...]) -> None:
    """The modules that have adapters; all where none are named."""
    modules = {kind: set(names.split()) for kind, names in formats()["modules"].items()}
    written = " ".join(str(one) for key in keys for one in args.values(key))
    args.pop(*keys)
    named = {word.rpartition(".")[2] for word in re.split(r"[\s,;\[\]'\"]+", written) if word}
    if not named or named & modules["every"] or "lora-targets" in launch.options:
        return
    unknown = sorted(named - modules["ffn"] - modules["out"] - modules["qkv"])
    every = named & modules["ffn"] or re.search(r"mlp|gate|up|down", " ".join(unknown))  # a pattern of several names
    launch.options["lora-targets"] = "all" if every else "attention" if named & modules["out"] else "qkv"
    if unknown:
        launch.unmodelled.append(f"{keys[0]} {', '.join(unknown)}")


def _stored(launch: Launch, stored: str | None) -> None:
    """A checkpoint in another format than it is trained in: adapters on 4 bits are QLoRA's, others are taken in 16 bits."""
    if stored in ("bf16", "fp16", "fp32"):
        launch.options.setdefault("dtype", stored)
    elif stored == "int4" and "lora" in str(launch.options.get("recipe")):
        launch.options["recipe"] = "qlora"
    elif stored is not None:
        launch.unmodelled.append(f"a checkpoint in {stored}: the weights are taken in 16 bits")
    launch.options.setdefault("dtype", "bf16")
