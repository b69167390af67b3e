"""Launches of verl, NeMo RL, OpenRLHF and slime as options of `roofline rl`, and back: hydra overrides or flags of a command, or a YAML config.

Keys as in verl 0.7 (verl/trainer/config), NeMo RL 0.6 (examples/configs/grpo_math_1B.yaml), OpenRLHF 0.9 and 0.10
(openrlhf/cli/train_ppo_ray.py) and slime 0.2 (slime/utils/arguments.py).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import yaml

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.record import Json
from rooflinecli.core.text import one_line
from rooflinecli.importers.launch import containers, dtype_names
from rooflinecli.importers.launch.emit import hub
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, flattened, interpolated
from rooflinecli.importers.launch.locate import UNREAD, Source, open_text
from rooflinecli.importers.launch.read import remarks
from rooflinecli.importers.launch.shell_evaluator import Command, ShellEvaluator
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.source import Options, parse, read_text
from rooflinecli.specs import flag_text
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import Option

TOOLS = ("verl", "nemo-rl")  # that --emit writes
_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_]\w*(?:\.\w+)+)=(.*)", re.DOTALL)
_OURS = re.compile(r"^# roofline: (.+)$", re.MULTILINE)
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_GENERATION = "policy.generation"
_MODELS = ("model", "critic", "reward-model")
_TEXT = ("engine", "recompute")  # words; the others are numbers
_ESTIMATORS = {  # the names of verl last, which are written
    "ppo": "ppo", "group_norm": "grpo", "dr_grpo": "grpo", "gspo": "grpo", "reinforce": "reinforce++", "reinforce_baseline": "reinforce++",
    "reinforce_plus_plus_baseline": "reinforce++", "grpo": "grpo", "gae": "ppo", "rloo": "rloo", "reinforce_plus_plus": "reinforce++",
}  # fmt: skip
_PRECISION = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
_PRECISIONS = {"dtype": "policy.precision", "rollout-dtype": f"{_GENERATION}.vllm_cfg.precision"}
_KL = (f"{_ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")
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
    found = launch.options
    for option, places in known.read.items():
        if option == "micro-batch" or (written := args.pop(*places)) is None or option.endswith("length"):
            continue
        key = next(name for name in places if name in args.given)
        if option in _MODELS and option not in given:
            _checkpoint(launch, option, written, key)
        elif option not in _MODELS:
            word = str(written).lower()
            switch = word in ("true", "false") or written is True
            found[option] = word != "false" if switch else written if option in _TEXT else _number(args, key)
    if found.get("lora-rank"):
        found["recipe"] = "lora"
    else:
        found.pop("lora-rank", None)
    if found.get("engine") not in ("vllm", "sglang", "trtllm"):
        found.pop("engine", None)
    {"verl": _verl, "nemo-rl": _nemo, "openrlhf": _openrlhf, "slime": _slime}[tool](args, launch)
    if not found.get("packing", True):  # else micro-batches are packed by their tokens
        found |= (
            {"micro-batch": _number(args, *known.read["micro-batch"])}
            if args.values(known.read["micro-batch"][0])
            else {}
        )
    launch.notes += [
        f"its base config {one_line(readable(file))} is not here; what it sets is not read" for file in opened.absent
    ]
    if found["algorithm"] != "ppo":
        found.pop("critic", None)
    for row, what, share in (("prompt-length", "prompts", 1), ("length", "prompt + output", 2)):
        if (names := known.read.get(row)) and any(name in args.given for name in names):
            most = _number(args, *names)
            if "prompt" not in given:
                launch.notes.append(
                    f"{args.written(names[0])} {most} caps {what}, and no length is stated; give --prompt"
                )
            found |= {"prompt": most // share} if 1 < most // share < PROMPT else {}
    args.given = {name: values for name, values in args.given.items() if not _idle(name, values)}
    launch.unmodelled += args.left(known)
    for remark in remarks(launch):
        warn(remark)
    for match in _OURS.finditer(opened.text):
        found |= {option.long: value for option, value in flag_text.fields(match[1], named)}
    return found


def _idle(name: str, values: list[Any]) -> bool:
    """Whether a key leaves a step as it is: a size of one rank."""
    return name.endswith("parallel_size") and str(values[0]) == "1"


def _checkpoint(launch: Launch, option: str, written: object, key: str) -> None:
    """The model of a role; a checkpoint in another format is that of the rollout. Raises UsageError for one known only where it runs."""
    one = Launch(launch.tool, launch.where)
    dtype_names.checkpoint(one, written, key)
    if one.missing:
        raise UsageError(
            f"{launch.where}: {'; '.join(one.missing.values())}; give {'MODEL' if option == 'model' else '--' + option}",
            option,
        )
    launch.options[option] = one.options["model"]
    launch.notes += one.notes
    if option == "model" and "dtype" in one.options:
        launch.options["rollout-dtype"] = one.options["dtype"]


def _algorithm(launch: Launch, written: object, key: str) -> None:
    launch.options["algorithm"] = _ESTIMATORS.get(str(written), "grpo")
    if str(written) not in _ESTIMATORS:
        launch.unmodelled.append(f"{key} {written} (taken at the cost of grpo)")


def _verl(args: LaunchArguments, launch: Launch) -> None:
    """What verl says with several keys: devices, algorithm, mini-batches of prompts, packing, offload, staleness."""
    found = launch.options
    script = str(args.pop("script"))
    usual = f"of {script}" if script.startswith("recipe.") else "gae"
    _algorithm(launch, args.pop("algorithm.adv_estimator", default=usual), "algorithm.adv_estimator")
    if script not in ("None", "verl.trainer.main_ppo"):
        launch.notes.append(f"{script} is taken as verl.trainer.main_ppo, whose roles share their devices")
    found["reference"] = _any_on(args, *_KL)
    if not found["reference"] and _number(args, "algorithm.kl_ctrl.kl_coef", default=0) and _KL[1] not in args.given:
        launch.notes.append(
            "algorithm.kl_ctrl.kl_coef has no effect without use_kl_in_reward, as of verl 0.3; before, give --reference"
        )
    if not _on(args, "reward_model.enable"):
        found.pop("reward-model", None)
    dynamic = _on(args, f"{_ACTOR}.use_dynamic_bsz")
    if f"{_ACTOR}.ppo_mini_batch_size" in args.given:
        found["mini-batch"] = _number(args, f"{_ACTOR}.ppo_mini_batch_size") * int(found.get("samples", 1))
    if not dynamic:
        found.pop("max-tokens-per-device", None)
    turns = f"{_ROLLOUT}.multi_turn.max_assistant_turns"
    if _on(args, f"{_ROLLOUT}.multi_turn.enable") and turns in args.given:
        found["turns"] = _number(args, turns)
    packed = "actor_rollout_ref.model.use_remove_padding"
    if packed in args.given and not _on(args, packed) and not dynamic:
        found["packing"] = False
    states = ("param_offload", "optimizer_offload")
    offloads = [f"{_ACTOR}.{section}.{state}" for section in ("megatron", "fsdp_config") for state in states]
    if any(key in args.given for key in offloads):
        found["offload-state"] = _any_on(args, *offloads)
    if str(args.pop(f"{_ACTOR}.strategy", default="")).startswith("fsdp"):
        found["zero"] = 3
    if _on(args, "actor_rollout_ref.model.enable_gradient_checkpointing") and not any(
        ".megatron." in k for k in args.given
    ):
        found["recompute"] = "full"
    training = _product(args, "trainer.nnodes", "trainer.n_gpus_per_node")
    apart = _product(args, "rollout.nnodes", "rollout.n_gpus_per_node")
    if training:
        found["n"] = training + apart
    if apart:
        found["rollout-devices"] = apart
        found["staleness"] = max(math.ceil(_number(args, "async_training.staleness_threshold", default=0)), 1)
        found["partial-rollout"] = _on(args, "async_training.partial_rollout")


def _nemo(args: LaunchArguments, launch: Launch) -> None:
    """What NeMo RL says with several keys: devices of both sides, KL term, trajectory age, packing, precision."""
    found = launch.options
    _algorithm(launch, args.pop("grpo.adv_estimator.name", default="grpo"), "grpo.adv_estimator.name")
    penalty, skipped = "loss_fn.reference_policy_kl_penalty", "grpo.skip_reference_policy_logprobs_calculation"
    if penalty in args.given:
        found["reference"] = bool(_number(args, penalty)) and not _on(args, skipped)
    if 1 < (turns := _number(args, "grpo.max_rollout_turns", default=1)) <= 1000:
        found["turns"] = turns
    found["packing"] = _any_on(args, "policy.sequence_packing.enabled", "policy.dynamic_batching.enabled")
    kind = args.pop("policy.megatron_cfg.recompute_granularity", default="full")
    if _any_on(args, *(f"policy.{side}_cfg.activation_checkpointing" for side in ("megatron", "dtensor"))):
        found["recompute"] = kind
    trained, rolled = (_PRECISION.get(str(args.pop(key))) for key in _PRECISIONS.values())
    trained = "fp8" if _on(args, "policy.megatron_cfg.fp8_cfg.enabled") else trained
    found |= {"dtype": trained} if trained else {}
    found |= {"rollout-dtype": rolled} if rolled and rolled != trained else {}
    if devices := _product(args, "cluster.num_nodes", "cluster.gpus_per_node"):
        found["n"] = devices
    resources = f"{_GENERATION}.colocated.resources"
    if not _on(args, f"{_GENERATION}.colocated.enabled", True):
        each = _number(args, f"{resources}.gpus_per_node", default=_number(args, "cluster.gpus_per_node", default=1))
        found["rollout-devices"] = _number(args, f"{resources}.num_nodes", default=1) * each
    if _on(args, "grpo.async_grpo.enabled"):
        found["staleness"] = _number(args, "grpo.async_grpo.max_trajectory_age_steps", default=1)


def _openrlhf(args: LaunchArguments, launch: Launch) -> None:
    """What OpenRLHF says with several flags: devices of its groups, algorithm, packing, recomputation."""
    found = launch.options
    _algorithm(
        launch, args.pop("algo.advantage.estimator", "advantage-estimator", default="gae"), "--advantage_estimator"
    )
    found["reference"] = bool(_number(args, "algo.kl.init-coef", "init-kl-coef", default=0.01))
    found["packing"] = _any_on(args, "ds.packing-samples", "packing-samples")
    if not _any_on(args, "train.dynamic-batch-enable", "use-dynamic-batch"):
        found.pop("max-tokens-per-device", None)
    if _any_on(args, "actor.gradient-checkpointing-enable", "gradient-checkpointing"):
        found["recompute"] = "full"
    if _any_on(args, "ds.adam-offload", "adam-offload"):
        found["offload"] = "optimizer"
    if _any_on(args, "ds.enable-sleep", "deepspeed-enable-sleep"):
        found["offload-state"] = True
    trained = _number(args, "actor.num-nodes", "actor-num-nodes", default=1)
    trained *= _number(args, "actor.num-gpus-per-node", "actor-num-gpus-per-node", default=8)
    engines = _number(args, "vllm.num-engines", "vllm-num-engines", default=0)
    apart = engines * int(found.get("rollout-tp", 1))
    found["n"] = trained
    if apart and not _any_on(args, "train.colocate-all", "colocate-all-models"):
        found |= {"n": trained + apart, "rollout-devices": apart}
        launch.notes.append("reference, critic and reward model are taken to share the devices of the actor")
    if _any_on(args, "train.async-enable", "async-train"):
        found["staleness"] = _number(args, "train.async-queue-size", "async-queue-size", default=1)


def _slime(args: LaunchArguments, launch: Launch) -> None:
    """What slime says with several flags: devices of both sides, algorithm, packing by --use-dynamic-batch-size, one step off in train_async.py."""
    found = launch.options
    found["engine"] = "sglang"
    _algorithm(launch, args.pop("advantage-estimator", default="grpo"), "--advantage-estimator")
    coefficient = _number(args, "kl-coef", default=0)
    found["reference"] = _on(args, "use-kl-loss") or bool(coefficient)
    found["packing"] = _on(args, "use-dynamic-batch-size")
    if not found["packing"]:
        found.pop("max-tokens-per-device", None)
    if _on(args, "optimizer-cpu-offload"):
        found["offload"] = "optimizer"
    if steps := _number(args, "num-steps-per-rollout", default=0):
        found["mini-batch"] = int(found["prompts"]) * int(found.get("samples", 1)) // steps
    trained = _number(args, "actor-num-nodes", default=1) * _number(args, "actor-num-gpus-per-node", default=8)
    apart = 0 if _on(args, "colocate") else _number(args, "rollout-num-gpus", default=0)
    found |= {"n": trained + apart} | ({"rollout-devices": apart} if apart else {})
    if str(args.pop("script")).endswith("train_async.py"):
        found["staleness"] = 1


def _on(args: LaunchArguments, key: str, default: bool = False) -> bool:
    return str(args.pop(key, default=default)).lower() in ("true", "1", "yes")


def _any_on(args: LaunchArguments, *keys: str) -> bool:
    """Whether one of these is on; all of them count as read."""
    return True in [_on(args, key) for key in keys]


def _number(args: LaunchArguments, *names: str, default: float | None = None) -> Any:
    """The value of a key as a number. Raises UsageError for one that is not, or that is known only where it runs."""
    written = args.pop(*names)
    if default is not None and written is None:
        return default
    if unknowns(str(written)):
        raise UsageError(f"{names[0]} is known only where it runs; write it out")
    try:
        value = float(str(written))
        return int(value) if value == int(value) else value
    except (ValueError, OverflowError):
        raise UsageError(f"{names[0]}: expected a number; write it out") from None


def _product(args: LaunchArguments, nodes: str, each: str) -> int:
    return int(_number(args, nodes, default=0)) * int(_number(args, each, default=0))


def _commands(source: Source) -> Iterator[Command]:
    """The commands of a script, or of those in a YAML around it: a SkyPilot task, a container."""
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
        text = (source.sibling(config) or source.sibling(f"{config}.yaml")) if config else None
        absent = [config] if config and text is None and config not in _OWN else []
        overrides = [match for word in words if (match := _OVERRIDE.fullmatch(word))]
        keys = (_config(text, source) if text else {}) | {m[1]: m[2].strip("'\"") for m in overrides}
        if overrides and (tool := _tool(keys)):
            source.absent += absent or ([] if config or tool == "verl" else ["grpo_math_1B.yaml of NeMo RL"])
            ran = next((w for w in words if w.endswith(".py") or _VERL.fullmatch(w)), None)
            return tool, _switched_on(keys | ({"script": ran} if tool == "verl" else {}))
    if other := next((name for mark, name in UNREAD.items() if mark in source.text), ""):
        raise UsageError(f"{source.name}: a launch of {other}, which is not read; give the options instead", "from")
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
    found = flattened(interpolated(_tree(text, source)))
    found.pop("", None)
    return found


def _tree(text: str, source: Source) -> Json:
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    if not isinstance(tree, dict):
        return {}
    base = tree.pop("defaults", None)
    path = source.folder / base if isinstance(base, str) and source.folder is not None else None
    if path is None or not path.is_file():
        source.absent += [base] if isinstance(base, str) else []
        return tree
    below = Source(read_text(path), str(path), path.parent)
    merged = _merged(parse(below.text, below.name, lambda t: _tree(t, below)), tree)
    source.absent += below.absent
    return merged


def _merged(under: Json, over: Json) -> Json:
    both = {k: _merged(under[k], v) for k, v in over.items() if isinstance(v, dict) and isinstance(under.get(k), dict)}
    return {**under, **over, **both}


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
    (_write_verl if tool == "verl" else _write_nemo)(left, keys)
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


def _nodes(devices: int) -> tuple[int, int]:
    """(nodes, devices of each): whole hosts of 8, or one smaller host."""
    return (devices // 8, 8) if devices % 8 == 0 else (1, devices)


def _write_verl(left: Options, keys: Json) -> None:
    algorithm, samples = str(left.get("algorithm", "grpo")), int(keys.get(f"{_ROLLOUT}.n", 1))
    names = {ours: theirs for theirs, ours in _ESTIMATORS.items()}
    keys["algorithm.adv_estimator"] = names.get(algorithm, "grpo")
    if algorithm in names:
        left.pop("algorithm", None)
    if "reference" in left:
        keys[_KL[0]] = bool(left.pop("reference"))
    if left.get("mini-batch") and int(left["mini-batch"]) % samples == 0:
        keys[f"{_ACTOR}.ppo_mini_batch_size"] = int(left.pop("mini-batch")) // samples
    keys[f"{_ACTOR}.use_dynamic_bsz"] = f"{_ACTOR}.ppo_max_token_len_per_gpu" in keys
    keys["actor_rollout_ref.model.use_remove_padding"] = bool(left.pop("packing", True))
    if "offload-state" in left:
        keys[f"{_ACTOR}.megatron.param_offload"] = keys[f"{_ACTOR}.megatron.optimizer_offload"] = bool(
            left.pop("offload-state")
        )
    if "reward_model.model.path" in keys:
        keys["reward_model.enable"] = True
    if int(left.get("turns", 1)) > 1:
        keys |= {f"{_ROLLOUT}.multi_turn.enable": True, f"{_ROLLOUT}.multi_turn.max_assistant_turns": left.pop("turns")}
    if left.get("recipe") == "lora" and "actor_rollout_ref.model.lora_rank" in keys:
        left.pop("recipe")
    devices, apart = int(left.pop("n")), int(left.pop("rollout-devices", 0))
    keys["trainer.nnodes"], keys["trainer.n_gpus_per_node"] = _nodes(devices - apart)
    if apart:
        keys["rollout.nnodes"], keys["rollout.n_gpus_per_node"] = _nodes(apart)
        keys["async_training.staleness_threshold"] = left.get("staleness", 0)
        keys["async_training.partial_rollout"] = bool(left.pop("partial-rollout", False))
        if left.get("staleness"):
            left.pop("staleness")


def _write_nemo(left: Options, keys: Json) -> None:
    if left.get("algorithm") == "grpo":
        left.pop("algorithm")
    if "reference" in left:
        keys["loss_fn.reference_policy_kl_penalty"] = 0.01 if left.pop("reference") else 0
    if "turns" in left:
        keys["grpo.max_rollout_turns"] = left.pop("turns")
    keys["policy.sequence_packing.enabled"] = bool(left.pop("packing", True))
    keys["policy.megatron_cfg.enabled"], keys["policy.dtensor_cfg.enabled"] = True, False
    written = {ours: theirs for theirs, ours in _PRECISION.items()}
    keys |= {key: written[left.pop(option)] for option, key in _PRECISIONS.items() if left.get(option) in written}
    devices, apart = int(left.pop("n")), int(left.pop("rollout-devices", 0))
    keys["cluster.num_nodes"], keys["cluster.gpus_per_node"] = _nodes(devices)
    keys[f"{_GENERATION}.colocated.enabled"] = not apart
    if apart:
        resources = f"{_GENERATION}.colocated.resources"
        keys[f"{resources}.num_nodes"], keys[f"{resources}.gpus_per_node"] = _nodes(apart)
    if left.get("staleness"):
        keys |= {"grpo.async_grpo.enabled": True, "grpo.async_grpo.max_trajectory_age_steps": left.pop("staleness")}
