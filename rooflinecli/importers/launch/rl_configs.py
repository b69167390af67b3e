"""Launches of verl and NeMo RL as options of `roofline rl`, and back: hydra overrides of a command, or a YAML config.

Keys as in verl 0.7 (verl/trainer/config) and NeMo RL 0.6 (examples/configs/grpo_math_1B.yaml).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import yaml

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.record import Json
from rooflinecli.importers.launch.emit import hub
from rooflinecli.importers.launch.launch import flattened, interpolated, rl_keys
from rooflinecli.importers.launch.locate import Source, open_text
from rooflinecli.importers.launch.shell_evaluator import ShellEvaluator
from rooflinecli.importers.launch.shell_expansion import unknowns
from rooflinecli.importers.source import Options, parse, read_text
from rooflinecli.specs import flag_text
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import Option

TOOLS = ("verl", "nemo-rl")
_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_]\w*(?:\.\w+)+)=(.*)", re.DOTALL)
_OURS = re.compile(r"^# roofline: (.+)$", re.MULTILINE)
_PRODUCT = re.compile(r"\$\{mul:\s*(\d+)\s*,\s*(\d+)\s*\}")
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_GENERATION = "policy.generation"
_TEXT = ("engine", "model", "critic", "reward-model")  # words; the others are numbers
_ESTIMATORS = {"grpo": "grpo", "gae": "ppo", "rloo": "rloo", "reinforce_plus_plus": "reinforce++"}
_PRECISION = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
_PRECISIONS = {"dtype": "policy.precision", "rollout-dtype": f"{_GENERATION}.vllm_cfg.precision"}
_KL = (f"{_ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")


def options(source: str, named: Callable[[str], Option]) -> Options:
    """Options of `roofline rl` in a launch; `named` finds its fields. Raises UsageError where there is none, and for a value known only where it runs."""
    opened = open_text(source)
    tool, keys = _keys(opened)
    found: Options = {}
    for option, places in rl_keys(tool).items():
        for key in (k for k in places if keys.get(k) not in (None, "", "null", "None")):
            sections = key.split(".")  # none of which is switched off
            if all(_on(keys, f"{'.'.join(sections[:i])}.enabled", True) for i in range(2, len(sections))):
                found[option] = keys[key] if option in _TEXT else _number(keys, key)
                break
    if found.get("lora-rank"):
        found["recipe"] = "lora"
    else:
        found.pop("lora-rank", None)
    if found.get("engine") not in ("vllm", "sglang", "trtllm"):
        found.pop("engine", None)
    (_verl if tool == "verl" else _nemo)(keys, found)
    for match in _OURS.finditer(opened.text):
        found |= {option.long: value for option, value in flag_text.fields(match[1], named)}
    return found


def _verl(keys: Mapping[str, Any], found: Options) -> None:
    """What verl says with several keys: devices, algorithm, mini-batches of prompts, packing, offload, staleness."""
    estimator = str(keys.get("algorithm.adv_estimator", "gae"))
    found["algorithm"] = _ESTIMATORS.get(estimator, "grpo")
    found["reference"] = any(_on(keys, key) for key in _KL)
    if found["algorithm"] != "ppo":
        found.pop("critic", None)
    if not _on(keys, "reward_model.enable"):
        found.pop("reward-model", None)
    if f"{_ACTOR}.ppo_mini_batch_size" in keys:
        found["mini-batch"] = _number(keys, f"{_ACTOR}.ppo_mini_batch_size") * int(found.get("samples", 1))
    if not _on(keys, f"{_ACTOR}.use_dynamic_bsz"):
        found.pop("max-tokens-per-device", None)
    if f"{_ROLLOUT}.multi_turn.max_assistant_turns" in keys and _on(keys, f"{_ROLLOUT}.multi_turn.enable"):
        found["turns"] = _number(keys, f"{_ROLLOUT}.multi_turn.max_assistant_turns")
    packed = "actor_rollout_ref.model.use_remove_padding"
    if packed in keys and not _on(keys, f"{_ACTOR}.use_dynamic_bsz") and not _on(keys, packed):
        found["packing"] = False
    states = ("param_offload", "optimizer_offload")
    offloads = [f"{_ACTOR}.{section}.{state}" for section in ("megatron", "fsdp_config") for state in states]
    if any(key in keys for key in offloads):
        found["offload-state"] = any(_on(keys, key) for key in offloads)
    if str(keys.get(f"{_ACTOR}.strategy", "")).startswith("fsdp"):
        found["zero"] = 3
    training = _product(keys, "trainer.nnodes", "trainer.n_gpus_per_node")
    apart = _product(keys, "rollout.nnodes", "rollout.n_gpus_per_node")
    if training:
        found["n"] = training + apart
    if apart:
        found["rollout-devices"] = apart
        found["staleness"] = max(math.ceil(_number(keys, "async_training.staleness_threshold", 0)), 1)
        found["partial-rollout"] = _on(keys, "async_training.partial_rollout")


def _nemo(keys: Mapping[str, Any], found: Options) -> None:
    """What NeMo RL says with several keys: devices of both sides, KL term, trajectory age, packing, precision."""
    found["algorithm"] = "grpo"
    if "loss_fn.reference_policy_kl_penalty" in keys:
        skipped = _on(keys, "grpo.skip_reference_policy_logprobs_calculation")
        found["reference"] = bool(_number(keys, "loss_fn.reference_policy_kl_penalty", 0)) and not skipped
    if 1 < (turns := _number(keys, "grpo.max_rollout_turns", 1)) <= 1000:
        found["turns"] = turns
    found["packing"] = any(_on(keys, f"policy.{way}.enabled") for way in ("sequence_packing", "dynamic_batching"))
    trained, rolled = (_PRECISION.get(str(keys.get(key))) for key in _PRECISIONS.values())
    found |= {"dtype": trained} if trained else {}
    found |= {"rollout-dtype": rolled} if rolled and rolled != trained else {}
    if devices := _product(keys, "cluster.num_nodes", "cluster.gpus_per_node"):
        found["n"] = devices
    colocated = f"{_GENERATION}.colocated"
    if not _on(keys, f"{colocated}.enabled", True):
        each = _number(keys, f"{colocated}.resources.gpus_per_node", _number(keys, "cluster.gpus_per_node", 1))
        found["rollout-devices"] = _number(keys, f"{colocated}.resources.num_nodes", 1) * each
    if _on(keys, "grpo.async_grpo.enabled"):
        found["staleness"] = _number(keys, "grpo.async_grpo.max_trajectory_age_steps", 1)


def _on(keys: Mapping[str, Any], key: str, default: bool = False) -> bool:
    return str(keys.get(key, default)).lower() in ("true", "1", "yes")


def _number(keys: Mapping[str, Any], key: str, default: int | None = None) -> Any:
    """The value of a key as a number. Raises UsageError for one that is not, or that is known only where it runs."""
    written = keys.get(key)
    if default is not None and written in (None, "", "null", "None"):
        return default
    if unknowns(str(written)):
        raise UsageError(f"{key} is known only where it runs; write it out")
    try:
        value = float(str(written))
        return int(value) if value == int(value) else value
    except (ValueError, OverflowError):
        raise UsageError(f"{key}: expected a number; write it out") from None


def _product(keys: Mapping[str, Any], nodes: str, each: str) -> int:
    return int(_number(keys, nodes, 0)) * int(_number(keys, each, 0))


def _keys(source: Source) -> tuple[str, Json]:
    """(tool, its keys joined by dots) of a config, or of a script's command with overrides. Raises UsageError for neither."""
    if not source.name.endswith((".sh", ".bash")) and (keys := _config(source.text, source)):
        if tool := _tool(keys):
            return tool, keys
    else:
        for command in ShellEvaluator(open_file=source.sibling).read(source.text).commands:
            config = next((after for word, after in pairwise(command.words) if word == "--config"), None)
            text = source.sibling(config) if config else None
            words = [match for word in command.words if (match := _OVERRIDE.fullmatch(word))]
            keys = (_config(text, source) if text else {}) | {match[1]: match[2].strip("'\"") for match in words}
            if words and (tool := _tool(keys)):
                return tool, keys
    raise UsageError(f"{source.name}: no launch of verl or NeMo RL; give the options instead", "from")


def _tool(keys: Mapping[str, Any]) -> str:
    roots = {key.partition(".")[0] for key in keys}
    return "verl" if "actor_rollout_ref" in roots else "nemo-rl" if {"grpo", "policy"} <= roots else ""


def _config(text: str, source: Source) -> Json:
    """The keys of a config over those that its `defaults` names, references filled in; none of a text that is no mapping."""
    found = flattened(interpolated(_tree(text, source)))
    found.pop("", None)
    products = {key: _PRODUCT.fullmatch(value) for key, value in found.items() if isinstance(value, str)}
    return found | {key: int(match[1]) * int(match[2]) for key, match in products.items() if match}


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
        return tree
    below = Source(read_text(path), str(path), path.parent)
    return _merged(parse(below.text, below.name, lambda t: _tree(t, below)), tree)


def _merged(under: Json, over: Json) -> Json:
    both = {k: _merged(under[k], v) for k, v in over.items() if isinstance(v, dict) and isinstance(under.get(k), dict)}
    return {**under, **over, **both}


def emit(tool: str, given: Options) -> str:
    """The launch of options of `roofline rl`, those without a key in a comment that `options` reads. Raises UsageError."""
    if tool not in TOOLS:
        raise unknown("tool", tool, TOOLS, "--emit writes for these", "emit")
    left, keys = dict(given), Json()
    left["model"] = hub(load_model(str(left["model"])))
    for option, places in rl_keys(tool).items():
        if option in left and not (
            option == "lora-rank" and tool == "nemo-rl"
        ):  # read of a section that is not written
            keys[places[0]] = left.pop(option)
    (_write_verl if tool == "verl" else _write_nemo)(left, keys)
    switches = {f"--{'' if value else 'no-'}{name}": None for name, value in left.items() if isinstance(value, bool)}
    flags = switches | {f"--{name}": str(value) for name, value in left.items() if not isinstance(value, bool)}
    words = [word for pair in flags.items() for word in pair if word is not None]
    ours = f"# roofline: {shlex.join(words)}\n" if words else ""
    if tool == "verl":
        lines = [shlex.quote(f"{key}={value}") for key, value in sorted(keys.items())]
        return ours + " \\\n    ".join(["python3 -m verl.trainer.main_ppo", *lines]) + "\n"
    tree: Json = {}
    for key, value in sorted(keys.items()):
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    return ours + "defaults: grpo_math_1B.yaml\n" + yaml.safe_dump(tree, sort_keys=False)


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
