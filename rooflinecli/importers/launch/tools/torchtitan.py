"""torchtitan: the TOML of a job. Keys as in torchtitan 0.2 (torchtitan/config/job_config.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from rooflinecli.importers.launch import dtype_names, rules, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, formats, table
from rooflinecli.importers.launch.shell_expansion import unknowns
from rooflinecli.importers.launch.training_common import model_layers
from rooflinecli.importers.source import Options, Tree

VERSION = "torchtitan 0.2"
TRAINS = True
SUFFIX = ".toml"
FLAGS = flags("torchtitan")
_ENDS = ("first", "last")
_DEGREES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
_SCHEDULES = {"1f1b": "1f1b", "gpipe": "gpipe", "interleaved1f1b": "", "interleavedzerobubble": "interleaved-zero-bubble", "zbvzerobubble": "zb-v"}  # fmt: skip
_PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"


def claims(tree: Tree) -> bool:
    nanotron = {"tokens", "general"} & set(tree)
    return not nanotron and (isinstance(tree.get("parallelism"), Mapping) or {"job", "training"} <= set(tree))


def starts(words: list[str]) -> list[str] | None:
    """A command of 2026: `-m torchtitan.train --module llama3 --config llama3_8b` with keys over those of that function."""
    named = {word.partition("=")[0] for word in words}
    text = " ".join(words)  # or an entry point that only the running script knows
    trains = re.search(r"\btorchtitan[._]train\b", text) or ("torchrun" in text and "TRAIN" in text and unknowns(text))
    return words if {"--module", "--config"} <= named and trains else None


def _registered(words: list[str], launch: Launch) -> Options:
    """The job that a function of the registry returns, under the keys of the command."""
    args = LaunchArguments.of_words(words, many=())
    launch.devices = training_common.processes(args) or launch.devices
    name = re.sub(r"^graph_trainer_", "", str(args.pop("config")))
    kind = next((key for key in table("torchtitan_configs.yaml") if name.startswith(key)), "")
    job: Options = {}
    if row := table("torchtitan_configs.yaml").get(kind):
        family, flavor = row["model"].split()
        narrow = row.get("float8") or "float8" in name or "mxfp8" in name
        job = {
            "model.name": family, "model.flavor": flavor, "training.max_context_length": row["context"],
            "training.num_tokens_per_microbatch_per_dp_rank": row["tokens"], "activation_checkpoint.mode": row["recompute"],
            "activation_checkpoint.selective_ac_option": "op", "parallelism.enable_async_tensor_parallel": row.get("async"),
            "model.converters": ["float8"] if narrow else None,
            **{f"parallelism.{axis}_parallel_degree": row.get(axis) for axis in ("tensor", "expert")},
        }  # fmt: skip
    else:
        launch.refuse(
            "model", f"--config {name} is a function of {args.first('module')}, whose sizes are not known here"
        )
    if job and (more := name.removeprefix(kind).removeprefix("_float8").strip("_")):
        launch.notes.append(f"--config {name} is taken as {kind}; what {more} changes in it is not read")
    over = {key.replace("-", "_"): values[0] if values else True for key, values in args.given.items() if "." in key}
    return job | over


def read(tree: Tree | list[str], launch: Launch) -> None:
    """A job as a training plan; -1 shards over the devices that are left."""
    args = LaunchArguments.of_tree(_registered(tree, launch) if isinstance(tree, list) else tree)
    asynchronous = args.pop(*(f"{table}.enable_async_tensor_parallel" for table in ("parallelism", "experimental")))
    launch.framework = "torchtitan+async" if asynchronous is True else "torchtitan"
    sizes = {axis: args.whole(launch, *_names(f"{word}_parallel_degree")) for axis, word in _DEGREES.items()}
    shard = args.whole(launch, *_names("data_parallel_shard_degree"), "training.data_parallel_degree")
    copies = args.whole(launch, *_names("data_parallel_replicate_degree"))
    copies, shard = copies or 1, -1 if shard is None else shard
    devices = args.whole(launch, "processes.procs")  # of torchforge
    training_common.layout(launch, devices, dp=None if shard == -1 else copies * shard, **sizes)
    launch.options["zero"] = 0
    if shard != 1 or (copies == 1 and (sizes["cp"] or 1) > 1):
        kept = str(args.pop("parallelism.fsdp_reshard_after_forward")).lower() == "never"
        launch.options |= {"zero": 2 if kept else 3} | ({"shard": shard} if copies > 1 and shard > 0 else {})
        launch.groups = copies if shard == -1 else launch.groups
    _model(args, launch)
    args.put(launch, "seq", "training.seq_len")
    args.put(launch, "batch", "training.global_batch_size")
    if str(launch.options.get("batch")) == "-1":
        launch.options.pop("batch")
    context = args.whole(launch, "training.max_context_length")  # which sizes are in tokens with, since 2026
    whole, packed = (
        args.whole(launch, f"training.num_tokens_per_{of}") for of in ("train_step", "microbatch_per_dp_rank")
    )
    if context:
        launch.options |= {"seq": context} | ({"batch": whole // context} if whole and whole > 0 else {})
    local = (
        packed // context
        if packed and context
        else args.whole(launch, "training.local_batch_size", "training.batch_size")
    )
    if local:
        training_common.local_batch(launch, local, args.whole(launch, "training.gradient_accumulation_steps") or 1)
    narrow = any("float8" in str(c) or "mx" in str(c) for c in args.given.get("model.converters", []))
    narrow = args.pop("float8.enable_float8_linear") is True or narrow  # before there were converters
    args.pop("model.converters")
    del launch.options["recompute"]
    rules.apply(FLAGS.rules, args, launch)
    if "recompute" not in launch.options:
        _recomputed(args, launch)
    training_common.optimizer(launch, args.pop("optimizer.name"))
    mixed = str(args.pop("training.mixed_precision_param", "training.dtype", default="bfloat16"))
    launch.options["dtype"] = "fp8" if narrow else {"bfloat16": "bf16", "float32": "fp32"}.get(mixed, mixed)
    schedule = args.pop(*_names("pipeline_parallel_schedule"))
    kind = str(schedule or "").lower()
    if kind in _SCHEDULES:
        # 1F1B over virtual stages is the default
        launch.options |= {"schedule": _SCHEDULES[kind]} if _SCHEDULES[kind] else {}
        if "interleaved" in kind and launch.options["pp"] > 1:  # two stages a rank where their layers are not given
            launch.options["virtual-stages"] = 2
        layers, of_stage = model_layers(str(launch.options.get("model", ""))), args.whole(launch, _PER_STAGE)
        if layers and of_stage and launch.options["pp"] > 1:
            ends = sum(
                args.whole(launch, f"parallelism.pipeline_parallel_{end}_stage_less_layers", default=1) or 0
                for end in _ENDS
            )
            launch.options["virtual-stages"] = _stages(layers, of_stage, ends) // int(launch.options["pp"])
    elif kind:
        launch.unmodelled.append(f"parallelism.pipeline_parallel_schedule {schedule}")
    args.put(launch, "expert-tp", "parallelism.expert_tensor_parallel_degree")
    launch.options["sequence-parallel"] = (sizes["tp"] or 1) > 1
    launch.unmodelled += args.left(FLAGS)


def _stages(layers: int, of_stage: int, ends: int = 2) -> int:
    """Stages of this many layers, embedding and head counted as one each by default (torchtitan/distributed/pipeline_parallel.py)."""
    return -(-(layers + ends) // of_stage)


def _names(key: str) -> list[str]:
    """A key of [parallelism], or of the tables that had it before that one was made."""
    return [f"{table}.{key}" for table in ("parallelism", "training", "experimental")]


def _model(args: LaunchArguments, launch: Launch) -> None:
    name, flavor = str(args.pop("model.name", default="")), str(args.pop("model.flavor", default=""))
    if not name:
        return
    if hub := args.pop("hf_transformers.model"):  # torchtitan.experiments.transformers_modeling_backend
        args.pop("model.flavor")
        dtype_names.checkpoint(launch, hub, "hf_transformers.model")
        return
    if name == "flux":
        launch.refuse("model", "flux is another architecture than those priced here")
        return
    version = re.sub(r"^llama3$", {"1B": "llama-3.2", "3B": "llama-3.2"}.get(flavor, "llama-3.1"), name).replace(
        "_", "-"
    )
    known = {key.lower(): model for key, model in formats()["torchtitan"].items()}
    named = known.get(f"{name} {flavor}".lower(), f"{version}-{flavor}".lower())
    if unknowns(named) or "$" in named or dtype_names.known(named):
        launch.put("model", named, "model.flavor")
    else:
        launch.refuse("model", f"model.flavor {flavor} of {name} is a size in its code, not known here")


def _recomputed(args: LaunchArguments, launch: Launch) -> None:
    """Every n-th layer, which `selective` computes again where it names no operations."""
    mode = args.pop("activation_checkpoint.mode", default="selective")
    option = str(args.pop("activation_checkpoint.selective_ac_option", default="2"))
    layers = model_layers(str(launch.options.get("model", "")))
    if mode != "selective" or not option.isdigit() or int(option) < 1:
        launch.refuse("recompute", f"activation_checkpoint.mode {mode} {option} is not known here")
    elif layers:
        launch.options["recompute-layers"] = layers // int(option)
    else:
        launch.unmodelled.append(
            f"activation_checkpoint.selective_ac_option {option}: every layer is taken to compute again"
        )
    launch.options["recompute"] = "full"


def write(options: Options, model: str) -> str:
    """The sections that this plan decides."""
    dp, shard, zero = int(options.get("dp", 1)), options.get("shard"), int(options.get("zero", 0))
    within = int(shard or dp) if zero else 1
    match = re.fullmatch(r"(.+?)-(\d[\d.]*[bm](?:-.+)?)", str(options["model"]))  # qwen3-30b-a3b
    family, size = match.groups() if match else (str(options["model"]), "")
    known = next((key.split() for key, value in formats()["torchtitan"].items() if value == options["model"]), None)
    name, flavor = known or [re.sub(r"^llama-3(\.\d)?$", "llama3", family), size.upper()]  # releases share a name
    recompute = options.get("recompute", "none")
    stages, layers = (
        int(options.get("virtual-stages") or 1) * int(options.get("pp", 1)),
        model_layers(options["model"]) or 0,
    )
    interleaved = int(options.get("virtual-stages") or 1) > 1 and options.get("schedule", "1f1b") == "1f1b"
    of_stage, ends = _stages(layers, stages), dict[str, int]()
    if _stages(layers, of_stage) != stages:
        of_stage, ends = _stages(layers, stages, 0), {f"pipeline_parallel_{end}_stage_less_layers": 0 for end in _ENDS}
    interleaved &= _stages(layers, of_stage, 0 if ends else 2) == stages
    tables: dict[str, Options] = {
        "model": {"name": name, "flavor": flavor, "converters": ["quantize.linear.float8"] if options.get("dtype") == "fp8" else None},
        "training": {"local_batch_size": int(options.get("micro-batch") or 1), "global_batch_size": options.get("batch"), "seq_len": options.get("seq")},
        "parallelism": {"data_parallel_replicate_degree": dp // within, "data_parallel_shard_degree": within}
        | {f"{word}_parallel_degree": int(options.get(axis, 1)) for axis, word in _DEGREES.items()}
        | {"fsdp_reshard_after_forward": "never" if zero == 2 else None}
        | ({"pipeline_parallel_schedule": "Interleaved1F1B", "pipeline_parallel_layers_per_stage": of_stage, **ends} if interleaved else {}),
        "activation_checkpoint": {"mode": {"op": "selective", "full": "full"}.get(recompute, "none"), "selective_ac_option": "op" if recompute == "op" else None},
    }  # fmt: skip
    written = {name: {key: value for key, value in rows.items() if value is not None} for name, rows in tables.items()}
    return "\n".join(
        "".join([f"[{name}]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in rows.items())])
        for name, rows in written.items()
    )
