"""Launches of verl and NeMo RL as options of `roofline rl`, and back: hydra overrides of a command, or a YAML config.

Keys as in verl 0.7 (verl/trainer/config) and NeMo RL 0.6 (examples/configs/grpo_math_1B.yaml).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.importers.launch.config_interpolation import interpolated
from rooflinecli.importers.launch.emit import hub
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
# option -> keys of verl, keys of NeMo RL: the first that is set counts, the first is written
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "model": (("actor_rollout_ref.model.path",), ("policy.model_name",)),
    "prompts": (("data.train_batch_size",), ("grpo.num_prompts_per_step",)),
    "samples": ((f"{_ROLLOUT}.n",), ("grpo.num_generations_per_prompt",)),
    "max-output": (("data.max_response_length",), (f"{_GENERATION}.max_new_tokens",)),
    "engine": ((f"{_ROLLOUT}.name",), (f"{_GENERATION}.backend",)),
    "gpu-memory-utilization": ((f"{_ROLLOUT}.gpu_memory_utilization",), (f"{_GENERATION}.vllm_cfg.gpu_memory_utilization",)),
    "rollout-tp": ((f"{_ROLLOUT}.tensor_model_parallel_size",), (f"{_GENERATION}.vllm_cfg.tensor_parallel_size",)),
    "rollout-ep": ((f"{_ROLLOUT}.expert_parallel_size",), (f"{_GENERATION}.vllm_cfg.expert_parallel_size",)),
    "rollout-batch": ((f"{_ROLLOUT}.max_num_seqs",), (f"{_GENERATION}.vllm_kwargs.max_num_seqs",)),
    "tp": ((f"{_ACTOR}.megatron.tensor_model_parallel_size",), ("policy.megatron_cfg.tensor_model_parallel_size", "policy.dtensor_cfg.tensor_parallel_size")),
    "pp": ((f"{_ACTOR}.megatron.pipeline_model_parallel_size",), ("policy.megatron_cfg.pipeline_model_parallel_size",)),
    "cp": ((f"{_ACTOR}.megatron.context_parallel_size", f"{_ACTOR}.ulysses_sequence_parallel_size"), ("policy.megatron_cfg.context_parallel_size", "policy.dtensor_cfg.context_parallel_size")),
    "ep": ((f"{_ACTOR}.megatron.expert_model_parallel_size",), ("policy.megatron_cfg.expert_model_parallel_size",)),
    "expert-tp": ((f"{_ACTOR}.megatron.expert_tensor_parallel_size",), ("policy.megatron_cfg.expert_tensor_parallel_size",)),
    "epochs": ((f"{_ACTOR}.ppo_epochs",), ()),
    "max-tokens-per-device": ((f"{_ACTOR}.ppo_max_token_len_per_gpu",), ("policy.sequence_packing.train_mb_tokens", "policy.dynamic_batching.train_mb_tokens")),
    "steps": (("trainer.total_training_steps",), ()),
    "critic": (("critic.model.path",), ()),
    "reward-model": (("reward_model.model.path",), ()),
    "lora-rank": (("actor_rollout_ref.model.lora_rank",), ("policy.megatron_cfg.peft.dim",)),
}  # fmt: skip
_TEXT = ("engine", "model", "critic", "reward-model")  # words; the others are numbers
_ESTIMATORS = {"grpo": "grpo", "gae": "ppo", "rloo": "rloo", "reinforce_plus_plus": "reinforce++"}
_ENGINES = ("vllm", "sglang", "trtllm")
_KL = (f"{_ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")


def options(source: str, named: Callable[[str], Option]) -> Options:
    """Options of `roofline rl` in a launch; `named` finds its fields. Raises UsageError where there is none, and for a value known only where it runs."""
    opened = open_text(source)
    tool, keys = _keys(opened)
    found: Options = {}
    for option, places in _KEYS.items():
        key = next((k for k in places[TOOLS.index(tool)] if _counts(k, keys)), None)
        if key is not None:
            found[option] = keys[key] if option in _TEXT else _number(keys, key)
    if found.get("lora-rank"):
        found["recipe"] = "lora"
    else:
        found.pop("lora-rank", None)
    if found.get("engine") not in _ENGINES:
        found.pop("engine", None)
    (_verl if tool == "verl" else _nemo)(keys, found)
    for match in _OURS.finditer(opened.text):
        found |= {option.long: value for option, value in flag_text.fields(match[1], named)}
    return found


def _counts(key: str, keys: Mapping[str, Any]) -> bool:
    """Whether a key is set, in a section that is enabled."""
    if keys.get(key) in (None, "", "null", "None"):
        return False
    sections = key.split(".")
    return all(_on(keys, ".".join(sections[:i]) + ".enabled", True) for i in range(2, len(sections)))


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
    offloads = [
        f"{_ACTOR}.{section}.{what}"
        for section in ("megatron", "fsdp_config")
        for what in ("param_offload", "optimizer_offload")
    ]
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
        threshold = float(keys.get("async_training.staleness_threshold", 0) or 0)
        found["staleness"] = max(math.ceil(threshold), 1)
        found["partial-rollout"] = _on(keys, "async_training.partial_rollout")


def _nemo(keys: Mapping[str, Any], found: Options) -> None:
    """What NeMo RL says with several keys: devices of both sides, KL term, trajectory age, packing, precision."""
    found["algorithm"] = "grpo"
    if "loss_fn.reference_policy_kl_penalty" in keys:
        found["reference"] = bool(float(keys["loss_fn.reference_policy_kl_penalty"] or 0)) and not _on(
            keys, "grpo.skip_reference_policy_logprobs_calculation"
        )
    if "policy.train_global_batch_size" in keys:
        found["mini-batch"] = _number(keys, "policy.train_global_batch_size")
    turns = _number(keys, "grpo.max_rollout_turns") if keys.get("grpo.max_rollout_turns") else 1
    if 1 < turns <= 1000:
        found["turns"] = turns
    found["packing"] = any(_on(keys, f"policy.{way}.enabled") for way in ("sequence_packing", "dynamic_batching"))
    precision = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
    if str(keys.get("policy.precision")) in precision:
        found["dtype"] = precision[str(keys["policy.precision"])]
    rolling = str(keys.get(f"{_GENERATION}.vllm_cfg.precision"))
    if precision.get(rolling, found.get("dtype")) != found.get("dtype"):
        found["rollout-dtype"] = precision[rolling]
    devices, each = _product(keys, "cluster.num_nodes", "cluster.gpus_per_node"), keys.get("cluster.gpus_per_node")
    if devices:
        found["n"] = devices
    colocated = f"{_GENERATION}.colocated"
    if not _on(keys, f"{colocated}.enabled", True):
        nodes = keys.get(f"{colocated}.resources.num_nodes") or 1
        found["rollout-devices"] = int(nodes) * int(keys.get(f"{colocated}.resources.gpus_per_node") or each or 1)
    if _on(keys, "grpo.async_grpo.enabled"):
        found["staleness"] = (
            _number(keys, "grpo.async_grpo.max_trajectory_age_steps")
            if "grpo.async_grpo.max_trajectory_age_steps" in keys
            else 1
        )


def _on(keys: Mapping[str, Any], key: str, default: bool = False) -> bool:
    return str(keys.get(key, default)).lower() in ("true", "1", "yes")


def _number(keys: Mapping[str, Any], key: str) -> Any:
    """The value of a key as a number. Raises UsageError for one that is not, or that is known only where it runs."""
    written = keys[key]
    if unknowns(str(written)):
        raise UsageError(f"{key} is known only where it runs; write it out")
    try:
        value = float(written)
    except (TypeError, ValueError):
        raise UsageError(f"{key}: expected a number; write it out") from None
    return int(value) if value == int(value) else value


def _product(keys: Mapping[str, Any], nodes: str, each: str) -> int:
    return int(_number(keys, nodes)) * int(_number(keys, each)) if keys.get(nodes) and keys.get(each) else 0


def _keys(source: Source) -> tuple[str, dict[str, Any]]:
    """(tool, its keys joined by dots) of a config, or of a script's command with overrides. Raises UsageError for neither."""
    if not source.name.endswith((".sh", ".bash")):
        tree = _tree(source.text, source)
        if tree is not None:
            return _tool(tree) or _refused(source), _flat(tree)
    for command in ShellEvaluator(open_file=source.sibling).read(source.text).commands:
        words = [match for word in command.words if (match := _OVERRIDE.fullmatch(word))]
        config = next((command.words[i + 1] for i, w in enumerate(command.words[:-1]) if w == "--config"), None)
        text = source.sibling(config) if config else None
        keys = _flat(_tree(text, source) or {}) if text else {}
        keys |= {match[1]: match[2].strip("'\"") for match in words}
        tool = _tool(keys)
        if words and tool:
            return tool, keys
    return _refused(source), {}


def _refused(source: Source) -> str:
    raise UsageError(f"{source.name}: no launch of verl or NeMo RL; give the options instead", "from")


def _tool(keys: Mapping[str, Any]) -> str:
    roots = {key.partition(".")[0] for key in keys}
    return "verl" if "actor_rollout_ref" in roots else "nemo-rl" if {"grpo", "policy"} <= roots else ""


def _tree(text: str, source: Source) -> dict[str, Any] | None:
    """A config with those that its `defaults` names below it; None for a text that is no mapping."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(tree, dict):
        return None
    base = tree.pop("defaults", None)
    if isinstance(base, str) and source.folder is not None:
        path = source.folder / base
        if path.is_file():
            under = Source(read_text(path), str(path), path.parent)
            tree = _merged(parse(under.text, under.name, lambda t: _tree(t, under)) or {}, tree)
    found: dict[str, Any] = tree
    return found


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {k: _merged(under[k], v) for k, v in over.items() if isinstance(v, dict) and isinstance(under.get(k), dict)}
    return {**under, **over, **both}


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    """Keys joined by dots, references filled in."""
    found: dict[str, Any] = {}

    def walk(node: Any, key: str) -> None:
        if isinstance(node, Mapping):
            for name, inner in node.items():
                walk(inner, f"{key}.{name}" if key else str(name))
        else:
            found[key] = node

    walk(interpolated(tree), "")
    products = {key: _PRODUCT.fullmatch(value) for key, value in found.items() if isinstance(value, str)}
    return found | {key: int(match[1]) * int(match[2]) for key, match in products.items() if match}


def emit(tool: str, given: Options) -> str:
    """The launch of options of `roofline rl`, those without a key in a comment that `options` reads. Raises UsageError."""
    if tool not in TOOLS:
        raise unknown("tool", tool, TOOLS, "--emit writes for these", "emit")
    left, keys = dict(given), dict[str, Any]()
    left["model"] = hub(load_model(str(left["model"])))
    for option, places in _KEYS.items():
        if option in left and places[TOOLS.index(tool)] and not (option == "lora-rank" and tool == "nemo-rl"):
            keys[places[TOOLS.index(tool)][0]] = left.pop(option)
    (_write_verl if tool == "verl" else _write_nemo)(left, keys)
    words = [word for name, value in left.items() for word in _words(name, value)]
    ours = f"# roofline: {shlex.join(words)}\n" if words else ""
    if tool == "verl":
        lines = [shlex.quote(f"{key}={value}") for key, value in sorted(keys.items())]
        return ours + " \\\n    ".join(["python3 -m verl.trainer.main_ppo", *lines]) + "\n"
    tree: dict[str, Any] = {}
    for key, value in sorted(keys.items()):
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    return ours + "defaults: grpo_math_1B.yaml\n" + yaml.safe_dump(tree, sort_keys=False)


def _words(name: str, value: Any) -> list[str]:
    return [f"--{'' if value else 'no-'}{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]


def _nodes(devices: int) -> tuple[int, int]:
    """(nodes, devices of each): whole hosts of 8, or one smaller host."""
    return (devices // 8, 8) if devices % 8 == 0 else (1, devices)


def _write_verl(left: Options, keys: dict[str, Any]) -> None:
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


def _write_nemo(left: Options, keys: dict[str, Any]) -> None:
    if left.get("algorithm") == "grpo":
        left.pop("algorithm")
    if "reference" in left:
        keys["loss_fn.reference_policy_kl_penalty"] = 0.01 if left.pop("reference") else 0
    if "mini-batch" in left:
        keys["policy.train_global_batch_size"] = left.pop("mini-batch")
    if "turns" in left:
        keys["grpo.max_rollout_turns"] = left.pop("turns")
    keys["policy.sequence_packing.enabled"] = bool(left.pop("packing", True))
    keys["policy.megatron_cfg.enabled"], keys["policy.dtensor_cfg.enabled"] = True, False
    precision = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"}
    for option, key in (("dtype", "policy.precision"), ("rollout-dtype", f"{_GENERATION}.vllm_cfg.precision")):
        if left.get(option) in precision:
            keys[key] = precision[left.pop(option)]
    devices, apart = int(left.pop("n")), int(left.pop("rollout-devices", 0))
    keys["cluster.num_nodes"], keys["cluster.gpus_per_node"] = _nodes(devices)
    keys[f"{_GENERATION}.colocated.enabled"] = not apart
    if apart:
        resources = f"{_GENERATION}.colocated.resources"
        keys[f"{resources}.num_nodes"], keys[f"{resources}.gpus_per_node"] = _nodes(apart)
    if left.get("staleness"):
        keys |= {"grpo.async_grpo.enabled": True, "grpo.async_grpo.max_trajectory_age_steps": left.pop("staleness")}
