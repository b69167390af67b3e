"""MaxText: a YAML over base.yml, and `python -m maxtext...train base.yml key=value`.

Keys as in AI-Hypercomputer/maxtext at e591f30 (src/maxtext/configs/base.yml, 2026-08).
"""

from __future__ import annotations

import re
from math import prod

import yaml

from rooflinecli.importers.launch import dtype_names, rules, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, formats
from rooflinecli.importers.launch.training_common import model_layers
from rooflinecli.importers.source import Options, Tree
from rooflinecli.specs.model import load_model

VERSION = "MaxText e591f30"
TRAINS = True
SUFFIX = ".yaml"
_AXES = {"dp": ("data",), "fsdp": ("fsdp", "fsdp_transpose"), "tp": ("tensor", "tensor_transpose", "tensor_sequence"),
         "pp": ("pipeline",), "cp": ("context", "sequence"), "ep": ("expert",)}  # fmt: skip
FLAGS = flags("maxtext")


def starts(words: list[str]) -> list[str] | None:
    """key=value after the module or script that trains."""
    for i, word in enumerate(words):
        bare = word.lower()
        trains = ("maxtext" in bare and "train" in bare) or (
            bare == "train.py" and _OWN.search(" ".join(words[i + 1 :]))
        )
        if trains and any("=" in after for after in words[i + 1 :]):
            return words[i + 1 :]
    return None


_OWN = re.compile(r"\.yml\b|(?<!-)\b(model_name|per_device_batch_size|base_output_directory|ici_\w+|dcn_\w+)=")


def claims(tree: Tree) -> bool:
    if "weights_dtype" in tree:  # MaxDiffusion's
        return False
    return "per_device_batch_size" in tree or any(str(k).startswith(("ici_", "dcn_")) for k in tree)


def read(tree: Tree | list[str], launch: Launch) -> None:
    """A config as a training plan. An axis is its size inside a slice times that across slices, and -1 takes what is left."""
    if isinstance(tree, list):
        pairs = [word.partition("=") for word in tree if "=" in word and not word.startswith("-")]
        tree = {key: value for key, _, value in pairs}
    args = LaunchArguments.of_tree(tree)
    sizes: dict[str, int | None] = {axis: _size(args, launch, names) for axis, names in _AXES.items()}
    if not any(f"{net}_fsdp_parallelism" in tree for net in ("ici", "dcn")):
        sizes["fsdp"] = -1  # base.yml's own
    launch.framework = "maxtext"
    _chips(launch, sizes)
    fsdp, data = sizes.pop("fsdp"), sizes.pop("dp")
    left = [axis for axis, size in sizes.items() if size == -1]
    closed = fsdp != -1 and data != -1 and not left
    sizes |= dict.fromkeys(left)
    sizes["dp"] = int(fsdp or 1) * int(data or 1) * int(sizes["ep"] or 1) if closed else None
    training_common.layout(launch, None, **sizes)
    for axis in left:
        keys = [f"{net}_{name}_parallelism" for net in ("ici", "dcn") for name in _AXES[axis]]
        key = next((key for key in keys if str(tree.get(key)) == "-1"), keys[0])
        launch.refuse(axis, f"{key} -1 takes the devices that the other axes leave")
    over_data = training_common.is_on(args.pop("shard_optimizer_over_data"))
    launch.options["zero"] = 3 if fsdp != 1 else int(over_data)
    dp = int(launch.options.get("dp", 0))
    if fsdp == -1 and data and data > 1 and not dp:
        launch.groups = data
    elif fsdp == -1 and data and data > 1 and dp % data == 0:
        launch.options["shard"] = dp // data
    elif fsdp and fsdp > 1 and (data == -1 or (closed and data and data > 1)) and dp != fsdp * int(sizes["ep"] or 1):
        launch.options["shard"] = fsdp * int(sizes["ep"] or 1)
    launch.unresolved({f"{net}_{n}_parallelism": a for net in ("ici", "dcn") for a, ns in _AXES.items() for n in ns})
    args.pop("model_name")
    training_common.set_model_sizes(args, launch, FLAGS.sizes)
    launch.shape = {"gated": True, "vocab": 32000} | launch.shape if launch.shape else {}
    name = str(tree.get("model_name") or "").removesuffix("-2dfsdp")  # the same sizes under other sharding rules
    launch.put("model", None if name == "default" else formats()["maxtext"].get(name, name), "model_name")
    args.put(launch, "seq", "max_target_length")
    if float(str(args.first("capacity_factor", -1))) > 0:
        args.put(launch, "capacity-factor", "capacity_factor")
    launch.options.setdefault("seq", 2048)  # base.yml
    pp, of_stage = int(launch.options.get("pp", 1)), args.whole(launch, "num_layers_per_pipeline_stage") or 1
    layers = launch.shape.get("layers") or model_layers(str(launch.options.get("model", ""))) or 0
    if pp > 1 and layers >= pp * of_stage:  # stages are visited in turns, a few layers at a time
        launch.options["virtual-stages"] = layers // (pp * of_stage)
    _batch(args, launch)
    training_common.optimizer(launch, args.pop("opt_type"))
    dtype_names.compute(launch, args.pop("dtype"), "dtype")
    rules.apply(FLAGS.rules, args, launch)
    launch.unmodelled += [left for left in args.left(FLAGS) if not left.split()[0].endswith("_parallelism")]


def _size(args: LaunchArguments, launch: Launch, names: tuple[str, ...]) -> int | None:
    """Over both networks; -1 where either takes what is left."""
    found = [args.whole(launch, f"{net}_{name}_parallelism") for net in ("ici", "dcn") for name in names]
    written = [size for size in found if size is not None]
    return None if not written else -1 if -1 in written else prod(written)


def _chips(launch: Launch, sizes: dict[str, int | None]) -> None:
    """Axes of cores as axes of chips: the innermost that is a multiple of the cores of a chip lies within it."""
    cores = launch.cores
    inner = [axis for axis in ("tp", "cp", "fsdp") if (sizes[axis] or 1) % cores == 0 and sizes[axis] != -1][:1]
    for axis in inner if cores > 1 else ():
        if size := sizes[axis]:
            sizes[axis] = size // cores
            launch.notes.append(f"{cores} cores to a chip: a device here is a chip, so {axis} is {sizes[axis]}")


def _batch(args: LaunchArguments, launch: Launch) -> None:
    each, steps = args.pop("per_device_batch_size"), args.whole(launch, "gradient_accumulation_steps", default=1) or 1
    try:
        share = float(str(each)) * launch.cores
    except ValueError:
        if each is not None:
            launch.put("batch", each, "per_device_batch_size")
        return
    within = prod(int(launch.options.get(axis, 1)) for axis in training_common.MODEL_PARALLEL)
    local = share * within
    chunks = args.whole(launch, "num_pipeline_microbatches") or -1
    chunks = int(launch.options.get("pp", 1)) if chunks < 1 else chunks  # base.yml: the number of stages
    launch.options["micro-batch"] = max(round(local / chunks), 1)
    if "dp" in launch.options:
        launch.options["batch"] = max(round(local * launch.options["dp"] * steps), 1)
    else:
        launch.per_replica = max(round(local * steps), 1)


def write(options: Options, model: str) -> str:
    """A config over base.yml; one slice, FSDP over the replicas that ZeRO shards."""
    dp, ep, n = int(options.get("dp", 1)), int(options.get("ep", 1)), int(options["n"])
    sharded = int(options.get("zero", 0)) == 3
    within = int(options.get("shard") or dp) if sharded else 1
    recompute = options.get("recompute", "none")
    plain = re.sub(r"^(llama|gemma)-(\d)", r"\1\2", str(options["model"]))  # generations without a dash
    name = next((theirs for theirs, ours in formats()["maxtext"].items() if ours == options["model"]), plain)
    wanted: Options = {"base_config": "base.yml", "model_name": name}
    if options.get("batch"):
        steps, left = divmod(int(options["batch"]), dp * int(options.get("micro-batch") or 1))
        wanted["per_device_batch_size"] = each = float(options["batch"]) / n
        if not left and (pp := int(options.get("pp", 1))) > 1:
            stages = pp * int(options.get("virtual-stages") or 1)
            wanted["num_pipeline_microbatches"] = steps
            if (layers := load_model(str(options["model"])).n_layers) % stages == 0:
                wanted["num_layers_per_pipeline_stage"] = layers // stages
        elif steps > 1 and not left:
            wanted |= {"per_device_batch_size": each / steps, "gradient_accumulation_steps": steps}
    if options.get("seq"):
        wanted["max_target_length"] = int(options["seq"])
    wanted |= {
        "dcn_data_parallelism": 1,
        "ici_data_parallelism": dp // within if sharded else dp // ep,
        "ici_fsdp_parallelism": max(within // ep, 1),
        **{f"ici_{names[0]}_parallelism": int(options.get(axis, 1)) for axis, names in _AXES.items() if axis in ("tp", "pp", "cp", "ep")},
        "remat_policy": {"full": "full", "selective": "save_qkv_proj"}.get(recompute, "minimal"),
        "dtype": "float32" if options.get("dtype") == "fp32" else "bfloat16",
    }  # fmt: skip
    if int(options.get("zero", 0)) == 1:
        wanted["shard_optimizer_over_data"] = True
    if options.get("dtype") in ("fp8", "int8"):
        wanted["quantization"] = options["dtype"]
    return yaml.safe_dump(wanted, sort_keys=False)
