"""Shared code of training frameworks: layout sizes from their flags, and the model of a launch that describes it by its sizes."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path

import yaml

from rooflinecli.core import files
from rooflinecli.importers.launch import dtype_names
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, formats
from rooflinecli.importers.source import Options
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import load_registry

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


def processes(args: LaunchArguments) -> int | None:
    """Processes that torchrun, deepspeed or accelerate starts; None where the command does not say."""
    each, nodes = args.count("nproc-per-node", "num-gpus"), args.count("nnodes", "num-nodes")
    if nodes is None and (args.has("nnodes") or args.has("num-nodes")):  # of which the command does not say how many
        return args.count("num-processes")
    named = str(args.pop("include", default="")) if not each else ""
    if re.fullmatch(r"[\w.-]+:\d+(,\d+)*", named):  # deepspeed --include localhost:0,1,2,3
        return named.count(",") + 1
    return args.count("num-processes") or (each * (nodes or 1) if each else None)


def optimizer(launch: Launch, written: object) -> None:
    """Set the optimizer of a trainer by the name that transformers and bitsandbytes give it; AdamW where none is given."""
    name = str(written or "adamw").lower()
    if known := next((ours for word, ours in formats()["optimizers"].items() if word in name), None):
        launch.options["optimizer"] = known
    elif ("adam" not in name and "sgd" not in name) or "4bit" in name:
        launch.unmodelled.append(f"optimizer {name}: taken at 12 bytes a parameter (--optimizer-bytes)")


def is_on(value: object) -> bool:
    """Whether a switch is on, with or without a value."""
    return str(value).lower() in ("true", "1", "yes")


def local_batch(launch: Launch, micro: int, steps: int = 1) -> None:
    """Set the batch of a replica, `micro` sequences at once; how many replicas there are may follow from -n."""
    launch.options["micro-batch"], launch.per_replica = micro, micro * steps


def set_model_sizes(args: LaunchArguments, launch: Launch, sizes: Mapping[str, str]) -> None:
    """Set the sizes of a model that the launch describes; `sizes` are the keys of each."""
    launch.shape |= {key: size for key, names in sizes.items() if (size := args.whole(launch, *names.split()))}
    launch.unresolved({name: "model" for names in sizes.values() for name in names.split()})


def model_layers(model: str) -> int | None:
    """Layers of a model of the registry; None for another."""
    return found.n_layers if (found := dtype_names.registered(model)) else None


def per_node(devices: int) -> int:
    """Processes of a node: eight, or the most that divide the devices."""
    return next(each for each in range(8, 0, -1) if devices % each == 0)


# key of a shape -> its name in messages; all must be given to identify a model
SIZES = {"layers": "layers", "d_model": "hidden size", "heads": "heads"}
VOCAB = 50257  # GPT-2's, the tokenizer of launches that name no other


def shape_of(model: ModelSpec) -> Options:
    """The sizes of a uniform model, by the keys of Launch.shape."""
    layer = model.layers[-1]
    attention, ffn = layer.attention, layer.feedforward
    return {
        "layers": model.n_layers,
        "d_model": model.d_model,
        "heads": attention.n_heads if attention else 0,
        "kv_heads": (attention.n_kv_heads or attention.n_heads) if attention else 0,
        "d_ff": ffn.d_ff,
        "gated": ffn.gated if ffn.kind == "moe" else ffn.kind == "gated",
        "experts": ffn.n_experts or 0,
        "top_k": ffn.top_k or 0,
        "vocab": model.vocab_size,
        "tied": model.tied_embeddings,
        "head_dim": attention.head_dim if attention else 0,
        "max_context": model.max_context or 0,
    }


@cache
def _registered() -> list[tuple[str, Options]]:
    models, _ = load_registry("models", load_model)
    plain = (m for m in models if m.lm_head and m.vocab_size and not m.towers and not m.both_ways)
    return sorted(((m.id, shape_of(m)) for m in plain), key=lambda pair: pair[0])


def models_of_shape(shape: Options) -> list[str]:
    """The registry's models of this shape, the likeliest first: nearest vocabulary where one is given, then nearest context.

    Empty where there is none or sizes are missing.
    """
    if not set(SIZES) <= set(shape):
        return []
    keys = [k for k in shape if k in _registered()[0][1] and k not in ("vocab", "tied", "gated")]
    found = [(name, sizes) for name, sizes in _registered() if all(sizes[k] == shape[k] for k in keys)]
    if "gated" in shape:  # squared and gated feed-forwards of one width have other parameters
        found = [(name, sizes) for name, sizes in found if sizes["gated"] == shape["gated"]]
    near = [(name, sizes) for name, sizes in found if abs(sizes["vocab"] - shape.get("vocab", 0)) < 1024]
    context = shape.get("context", 0)
    return [name for name, sizes in sorted(near or found, key=lambda pair: abs(pair[1]["max_context"] - context))]


def written_model(shape: Options) -> str | None:
    """The path of a model file of this shape, for the time of this process; None where sizes are missing."""
    if not set(SIZES) <= set(shape):
        return None
    folder = Path(tempfile.mkdtemp(prefix="roofline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{shape['layers']}x{shape['d_model']}.yaml"
    files.write(path, yaml.safe_dump(_model(shape), sort_keys=False))
    return str(path)


def _model(shape: Options) -> Options:
    """A model file of these sizes: grouped or full attention, a gated, plain or MoE feed-forward."""
    d, heads, layers = shape["d_model"], shape["heads"], shape["layers"]
    kv = shape.get("kv_heads") or heads
    attention: Options = {"kind": "gqa", "n_kv_heads": kv} if kv != heads else {"kind": "mha"}
    attention |= {"n_heads": heads, "head_dim": shape.get("head_dim") or d // heads}
    ffn: Options = {"kind": "dense", "d_ff": shape.get("d_ff", 4 * d), "activation": "gelu"}
    if shape.get("experts"):
        ffn |= {"kind": "moe", "activation": "silu", "n_experts": shape["experts"], "top_k": shape.get("top_k", 2)}
        ffn["gated"] = shape.get("gated", True)
    elif shape.get("gated"):
        ffn |= {"kind": "gated", "activation": "silu"}
    context = shape.get("context", 4096)
    learned = shape.get("rotary", ffn["kind"] != "dense") is False
    positions = {"positions": {"kind": "learned", "length": context}} if learned else {}
    return {
        "name": f"{layers} layers of {d}", "source": "sizes of the launch", "d_model": d, "vocab_size": shape.get("vocab", VOCAB),
        "tied_embeddings": bool(shape.get("tied", ffn["kind"] == "dense")), "norm": "layernorm" if ffn["kind"] == "dense" else "rmsnorm",
        "max_context": context, **positions, "attention": attention, "feedforward": ffn, "layers": layers,
    }  # fmt: skip
