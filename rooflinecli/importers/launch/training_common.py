"""Shared code of training frameworks: layout sizes from their flags."""

from __future__ import annotations

from math import prod

from rooflinecli.importers.launch import dtype_names
from rooflinecli.importers.launch.launch import Launch, LaunchArguments

MODEL_PARALLEL = ("tp", "pp", "cp")


def layout(launch: Launch, devices: int | None, **sizes: int | None) -> None:
    """Set tp, pp, cp and ep (1 where not given, the default of these frameworks) and dp from the remaining devices, where those are known."""
    found = {axis: sizes.get(axis) or 1 for axis in MODEL_PARALLEL}
    devices = devices or launch.devices
    launch.options |= {"phase": ["train"], **found, "ep": sizes.get("ep") or 1, "virtual-stages": 1}
    launch.options |= {"recompute": "none", "sequence-parallel": False}
    if sizes.get("dp"):
        launch.options["dp"] = sizes["dp"]
        devices = devices or prod(found.values()) * int(sizes["dp"] or 1)
    if devices:
        launch.options["n"] = devices
        if devices % prod(found.values()):
            launch.refuse("n", f"{devices} devices are no multiple of tp x pp x cp = {prod(found.values())}")
            return
        launch.options.setdefault("dp", devices // prod(found.values()))
    else:
        launch.notes.append("the number of devices is not stated; give -n")


# switches of the launchers and trainers below
SWITCHES = tuple(
    "deepspeed use-fsdp use-deepspeed multi-gpu cpu use-cpu same-network gradient-checkpointing bind-cores-to-rank".split()
)


def ranks(args: LaunchArguments) -> int | None:
    """Processes that torchrun, deepspeed or accelerate starts; None where the command does not say."""
    each, nodes = args.count("nproc-per-node", "num-gpus"), args.count("nnodes", "num-nodes")
    return args.count("num-processes") or (each * (nodes or 1) if each else None)


def trainer(launch: Launch, args: LaunchArguments) -> None:
    """Arguments of a training script that are those of Hugging Face's Trainer, over what the config that it names leaves open."""
    if "model" not in launch.options:
        dtype_names.checkpoint(launch, args.pop("model-name-or-path", "model-name", "model-id"), "--model_name_or_path")
    each, steps = args.count("per-device-train-batch-size"), args.count("gradient-accumulation-steps") or 1
    if each:
        local_batch(launch, each, steps)
    args.put(launch, "seq", "max-seq-length", "max-seq-len", "max-length", "model-max-length", "cutoff-len")
    if any(on(args.pop(name)) for name in ("gradient-checkpointing", "activation-checkpointing")):
        launch.options["recompute"] = "full"
    for dtype in ("bf16", "fp16"):
        if on(args.pop(dtype)):
            launch.options["dtype"] = dtype
    launch.notes.append("of the training script's own arguments, those of Hugging Face's Trainer are read")


def on(value: object) -> bool:
    """Whether a switch is on, with or without a value."""
    return str(value).lower() in ("true", "1", "yes")


def local_batch(launch: Launch, micro: int, steps: int = 1) -> None:
    """Set the batch of a replica, `micro` sequences at once; how many replicas there are may follow from -n."""
    launch.options["micro-batch"], launch.per_replica = micro, micro * steps


def model_layers(model: str) -> int | None:
    """Layers of a model of the registry; None for another."""
    return found.n_layers if (found := dtype_names.registered(model)) else None


def per_node(devices: int) -> int:
    """Processes of a node: eight, or the most that divide the devices."""
    return next(each for each in range(8, 0, -1) if devices % each == 0)
