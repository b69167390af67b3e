"""Launches of verl, NeMo RL, OpenRLHF and slime as options of `roofline rl`, and back: hydra overrides or flags of a command, or a YAML config.

Keys as in verl 0.7 (verl/trainer/config), NeMo RL 0.6 (examples/configs/grpo_math_1B.yaml), OpenRLHF 0.9 and 0.10
(openrlhf/cli/train_ppo_ray.py) and slime 0.2 (slime/utils/arguments.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import yaml

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.record import Json
from rooflinecli.core.text import one_line
from rooflinecli.importers.launch import containers, dtype_names, rules
from rooflinecli.importers.launch.emit import hub
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, flattened, formats, interpolated
from rooflinecli.importers.launch.locate import Source, open_text, unread, whole
from rooflinecli.importers.launch.read import remarks
from rooflinecli.importers.launch.shell_evaluator import Command, ShellEvaluator
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.source import Options
from rooflinecli.specs import flag_text
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import Option

TOOLS = ("verl", "nemo-rl")  # that --emit writes
_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_]\w*(?:\.\w+)+)=(.*)", re.DOTALL)
_OURS = re.compile(r"^# roofline: (.+)$", re.MULTILINE)
_ROLLOUT = "actor_rollout_ref.rollout"
_GENERATION = "policy.generation"
_MODELS = ("model", "critic", "reward-model")
_TEXT = ("engine", "recompute")  # words; the others are numbers
_EMPTY = (None, "", "null", "None")
PROMPT = 1000  # tokens of a prompt where --prompt is not given


def options(
    source: str, named: Callable[[str], Option], warn: Callable[[str], None] = lambda _: None, given: Iterable[str] = ()
) -> Options:
    """Options of `roofline rl` in a launch that `given` leaves open; `named` finds its fields, `warn` receives remarks.

    Raises UsageError where there is no launch, and for a value known only where it runs.
    """
    opened = open_text(source)
    tool, args = arguments(opened)
    launch, known = Launch(tool, opened.name), flags(tool)
    found, missing = launch.options, dict[str, str]()
    for option, places in known.read.items():
        if option == "micro-batch" or (written := args.pop(*places)) is None or option.endswith("length"):
            continue
        word, text = str(written).lower(), option in (*_TEXT, *_MODELS)
        if word in ("true", "false") or written is True:
            found[option] = word != "false"
        elif not text and unknowns(str(written)):
            missing |= {option: f"{args.written(*places)} is known only where it runs"} if option not in given else {}
        elif option not in _MODELS or option not in given:
            found[option] = written if text else rules.number(args.written(*places), written)
    if found.get("lora-rank"):
        found["recipe"] = "lora"
    else:
        found.pop("lora-rank", None)
    if found.get("engine") not in (None, "vllm", "sglang", "trtllm"):
        launch.unmodelled.append(f"a rollout by {found.pop('engine')}: taken at the cost of vLLM's")
    keys, usual = known.algorithm
    rules.apply(known.rules, args, launch)
    written = str(args.pop(*keys.split(), default=found.get("algorithm", usual)))
    found["algorithm"] = formats()["estimators"].get(written, "grpo")
    if written not in formats()["estimators"]:
        launch.unmodelled.append(f"{args.written(*keys.split())} {written} (taken at the cost of grpo)")
    if "reference" in found:
        found["reference"] = bool(found["reference"])
    micro = known.read["micro-batch"]
    if not found.get("packing", True) and args.has(micro[0]):  # else micro-batches are packed by their tokens
        found["micro-batch"] = rules.number(micro[0], args.pop(*micro))
    for file in opened.absent:
        launch.notes.append(f"its base config {one_line(readable(file))} is not here; what it sets is not read")
    if found["algorithm"] != "ppo":
        found.pop("critic", None)
    missing |= _checkpoints(launch, {option: known.read[option] for option in _MODELS if option in found}, args)
    missing |= {option: why for option, why in launch.missing.items() if option not in given}
    if missing:
        spelled = {"model": "MODEL", "n": "-n"}
        asked = [spelled.get(option, f"--{option}") for option in missing]
        listed = " and ".join([", ".join(asked[:-1]), asked[-1]] if asked[1:] else asked)
        raise UsageError(f"{launch.where}: {'; '.join(missing.values())}; give {listed}", next(iter(missing)))
    for row, what, share in (("prompt-length", "prompts", 1), ("length", "prompt + output", 2)):
        if (names := known.read.get(row)) and any(name in args.given for name in names):
            most = rules.number(names[0], args.pop(*names))
            if "prompt" not in given:
                launch.notes.append(
                    f"{args.written(*names)} {most} caps {what}, and no length is stated; give --prompt"
                )
            found |= {"prompt": most // share} if 1 < most // share < PROMPT else {}
    # sizes of one rank leave a step as it is
    args.pop(*(name for name, values in args.given.items() if name.endswith("parallel_size") and str(values[0]) == "1"))
    launch.unmodelled += args.left(known)
    for remark in remarks(launch):
        warn(remark)
    for match in _OURS.finditer(opened.text):
        found |= {option.long: value for option, value in flag_text.fields(match[1], named)}
    return found


def _checkpoints(launch: Launch, roles: dict[str, tuple[str, ...]], args: LaunchArguments) -> dict[str, str]:
    """Set the model of each role, and say why where one is not known; a checkpoint in another format is that of the rollout."""
    missing: dict[str, str] = {}
    for option, places in roles.items():
        one = Launch(launch.tool, launch.where)
        dtype_names.checkpoint(one, launch.options.pop(option), args.written(*places))
        missing |= dict.fromkeys([option] if one.missing else [], "; ".join(one.missing.values()))
        launch.options |= {option: one.options["model"]} if "model" in one.options else {}
        launch.notes += one.notes
        if option == "model" and "dtype" in one.options:
            launch.options["rollout-dtype"] = one.options["dtype"]
    return missing


def _commands(source: Source) -> Iterator[Command]:
    """The commands of a script, or of those in a YAML around it: a SkyPilot task, a container."""
    if source.name.endswith(".py"):
        return
    if not source.name.endswith((".yaml", ".yml")):
        yield from ShellEvaluator(open_file=source.sibling).read(source.text).commands
        return
    for process in containers.containers(containers.documents(source.text, source.name)):
        yield Command(process.words, 0)
        yield from ShellEvaluator({**process.environment}, source.sibling).read(process.script).commands


def arguments(source: Source) -> tuple[str, LaunchArguments]:
    """(tool, its keys or flags) of a config, or of a script's command. Raises UsageError for neither."""
    keys = {} if source.name.endswith((".sh", ".bash", ".slurm", ".sbatch")) else _config(source.text, source)
    if tool := _tool(keys):
        return tool, _switched_on(keys)
    for command in _commands(source):
        words = command.words
        script = next((i for i, word in enumerate(words) if _FLAGGED.fullmatch(word)), None)
        if script is not None and any(word.startswith("--rollout") for word in words):
            tool = "openrlhf" if "openrlhf" in words[script] else "slime"
            return tool, LaunchArguments.of_words([f"--script={words[script]}", *words[script + 1 :]])
        named = dict(word.partition("=")[::2] for word in words) | dict(pairwise(words))
        config = named.get("--config") or named.get("--config-name")
        folder = named.get("--config-path", named.get("--config-dir", "."))
        text = (source.sibling(config) or source.sibling(f"{folder}/{config}.yaml")) if config else None
        absent = [config] if config and text is None and config not in _OWN else []
        overrides = [match for word in words if (match := _OVERRIDE.fullmatch(word))]
        keys = (_config(text, source) if text else {}) | {m[1]: m[2].strip("'\"") for m in overrides}
        if (overrides or text) and (tool := _tool(keys)):
            source.absent += absent or ([] if config or tool == "verl" else ["grpo_math_1B.yaml of NeMo RL"])
            ran = next((w for w in words if w.endswith(".py") or _VERL.fullmatch(w)), None)
            return tool, _switched_on(keys | ({"script": ran} if tool == "verl" else {}))
    if other := unread(source.text):
        raise UsageError(f"{source.name}: {other}", "from")
    raise UsageError(f"{source.name}: no launch of verl, NeMo RL, OpenRLHF or slime; give the options instead", "from")


_VERL = re.compile(r"verl\.[\w.]+|recipe\.[\w.]+|[\w.]+\.main_\w+")
_OWN = ("ppo_trainer", "ppo_megatron_trainer")  # configs of verl, whose defaults are known
_FLAGGED = re.compile(r"openrlhf\.cli\.train_ppo\w*|(?:.*/)?train(?:_async)?\.py")


def _tool(keys: Mapping[str, Any]) -> str:
    roots = {key.partition(".")[0] for key in keys}
    return "verl" if "actor_rollout_ref" in roots else "nemo-rl" if {"grpo", "policy"} <= roots else ""


def _switched_on(keys: Json) -> LaunchArguments:
    """Keys that are set, without those of sections that are switched off and of engines that are not used."""
    engine = str(keys.get(f"{_GENERATION}.backend", "vllm"))
    others = [f"{_GENERATION}.{one}_" for one in ("vllm", "sglang", "trtllm") if one != engine and engine != "dynamo"]
    off = tuple(others) + tuple(
        key.removesuffix("enabled") for key, value in keys.items()
        if key.endswith(".enabled") and not key.endswith("colocated.enabled") and str(value).lower() in ("false", "0", "no")
    )  # fmt: skip
    found = {k: v for k, v in keys.items() if v not in _EMPTY and not k.startswith(off)}
    null = "algorithm.adv_estimator" in keys and keys["algorithm.adv_estimator"] is None  # of a recipe of its own
    return LaunchArguments.of_tree(found | ({"algorithm.adv_estimator": "null"} if null else {}))


def _config(text: str, source: Source) -> Json:
    """The keys of a config over those that its `defaults` names, references filled in; none of a text that is no mapping."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError:
        tree = None
    found = flattened(interpolated(whole(tree, source))) if isinstance(tree, dict) else {}
    found.pop("", None)
    return found


def emit(tool: str, given: Options) -> str:
    """The launch of options of `roofline rl`, those without a key in a comment that `options` reads. Raises UsageError."""
    if tool not in TOOLS:
        raise unknown("tool", tool, TOOLS, "--emit writes for these", "emit")
    left, keys = dict(given), Json()
    left["model"] = hub(load_model(str(left["model"])))
    for option, places in flags(tool).read.items():
        if option in left and not (
            (option == "lora-rank" and tool == "nemo-rl") or (option == "micro-batch" and left.get("packing", True))
        ):  # read of a section that is not written
            keys[places[0]] = left.pop(option)
    devices, apart = int(left.pop("n")), int(left.pop("rollout-devices", 0))
    samples = int(keys.get(f"{_ROLLOUT}.n", 1))
    if left.get("mini-batch") and int(left["mini-batch"]) % samples == 0:
        left["mini-prompts"] = int(left["mini-batch"]) // samples
    sides = {"hosts": devices, "trained-hosts": devices - apart} | ({"rolled-hosts": apart} if apart else {})
    for name, count in sides.items():  # whole hosts of 8, or one smaller host
        left[name], left[name.removesuffix("s")] = (count // 8, 8) if count % 8 == 0 else (1, count)
    args = LaunchArguments({name: [value] for name, value in left.items()})
    rules.apply(flags(tool).writes, args, Launch(tool, "", options=keys))
    written = {"mini-batch"} if args.read("mini-prompts") else set()
    own = {f"{side}{part}" for side in ("", "trained-", "rolled-") for part in ("hosts", "host")} | {"mini-prompts"}
    left = {name: value for name, value in left.items() if not args.read(name) and name not in own | written}
    switches = {f"--{'' if value else 'no-'}{name}": None for name, value in left.items() if isinstance(value, bool)}
    ours = switches | {f"--{name}": str(value) for name, value in left.items() if not isinstance(value, bool)}
    words = [word for pair in ours.items() for word in pair if word is not None]
    comment = f"# roofline: {shlex.join(words)}\n" if words else ""
    if tool == "verl":
        lines = [shlex.quote(f"{key}={value}") for key, value in sorted(keys.items())]
        return comment + " \\\n    ".join(["python3 -m verl.trainer.main_ppo", *lines]) + "\n"
    tree: Json = {}
    for key, value in sorted(keys.items()):
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    return comment + "defaults: grpo_math_1B.yaml\n" + yaml.safe_dump(tree, sort_keys=False)
