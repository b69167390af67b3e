"""Megatron-LM and Megatron-DeepSpeed: arguments of pretrain_gpt.py and its like, behind torchrun or deepspeed.

Flags as in Megatron Core 0.20 (megatron/training/arguments.py at d98e8a6) and those that older scripts still carry.
"""

from __future__ import annotations

import re
from itertools import pairwise

from rooflinecli.importers.launch import serving_common, training_common
from rooflinecli.importers.launch.flags import flags
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.launch.model_by_sizes import shape_of
from rooflinecli.importers.source import Options
from rooflinecli.specs.model import load_model

VERSION = "Megatron Core 0.20"
TRAINS = True
SUFFIX = ".sh"
_SCRIPT = re.compile(r"(.*/)?(pretrain|finetune|train)_\w+\.py")
COUNTING = ("mpirun", "mpiexec", "srun")
RUNNERS = ("torchrun", "deepspeed", "torch.distributed.run", "torch.distributed.launch", "ft_launcher")
# scripts whose sizes are no GPT's
_OTHERS = tuple("t5 bert retro mamba ict vit vlm vision hybrid multimodal biencoder".split())
FLAGS = flags("megatron")
SIZES = {"nproc-per-node": "n", "nnodes": "n", "num-gpus": "n", "tensor-model-parallel-size": "tp", "pipeline-model-parallel-size": "pp",
         "context-parallel-size": "cp", "expert-model-parallel-size": "ep", "ds-sequence-parallel-size": "cp",
         "num-layers-per-virtual-pipeline-stage": "virtual-stages", "recompute-num-layers": "recompute-layers",
         "num-layers": "model", "hidden-size": "model", "num-attention-heads": "model", "ffn-hidden-size": "model",
         "num-query-groups": "model", "num-experts": "model"}  # fmt: skip


def starts(words: list[str]) -> list[str] | None:
    """Everything after the runner, its own options included; the script itself is dropped."""
    at = next((i for i, w in enumerate(words) if _SCRIPT.fullmatch(w)), None)
    if at is None or not any(word.partition("=")[0] in ("--num-layers", "--encoder-num-layers") for word in words[at:]):
        return None
    first = next(
        (i for kind in (RUNNERS, COUNTING) for i, w in enumerate(words[:at]) if w.rpartition("/")[2] in kind), at
    )
    return [*_counted(words[first : first + 1], words[first + 1 : at]), f"--script={words[at]}", *words[at + 1 :]]


def _counted(runner: list[str], flags: list[str]) -> list[str]:
    """The ranks of a runner that counts them all at once, as processes of one node."""
    if not runner or runner[0].rpartition("/")[2] not in COUNTING:
        return flags
    named = ("-np", "--np", "-n", "--ntasks")
    for flag, value in pairwise([*flags, ""]):
        name, _, joined = flag.partition("=")
        if name in named and (joined or value).isdigit() and int(joined or value) > 1:
            return [f"--nproc-per-node={joined or value}"]
    return []


def read(words: list[str], launch: Launch) -> None:
    """Arguments as a training plan."""
    args = LaunchArguments.of_words(
        words, FLAGS.switches, {"--nproc_per_node": "nproc-per-node", "--gpus": "num-gpus", "--num_nodes": "nnodes"}
    )
    script = str(args.pop("script", default="")).rpartition("/")[2]
    sizes = {name: args.whole(launch, name) for name in SIZES}
    per_node, nodes = sizes["nproc-per-node"] or sizes["num-gpus"], sizes["nnodes"]
    unknown = any(f"?{name}" in launch.missing for name in ("nproc-per-node", "nnodes", "num-gpus"))
    devices = None if unknown or not per_node else per_node * (nodes or 1)
    cp = sizes["context-parallel-size"] or sizes["ds-sequence-parallel-size"]
    training_common.layout(
        launch, devices, tp=sizes["tensor-model-parallel-size"], pp=sizes["pipeline-model-parallel-size"],
        cp=cp, ep=sizes["expert-model-parallel-size"],
    )  # fmt: skip
    if sizes["ds-sequence-parallel-size"] and cp and cp > 1:
        launch.options["ring"] = "ulysses"
    training_common.unresolved(launch, SIZES)
    _shape(args, launch, sizes)
    if any(kind in script.lower() for kind in _OTHERS):
        launch.refuse("model", f"{script} trains another architecture than its sizes describe here")
    training_common.expert_defaults(launch, sizes["num-experts"], "--expert-model-parallel-size")
    for option, names in {
        "seq": ("seq-length",),
        "batch": ("global-batch-size",),
        "micro-batch": ("micro-batch-size",),
    }.items():
        value = args.pop(*names)
        launch.put(option, str(value).replace("_", "") if value else None, f"--{names[0]}")
    _formats(args, launch)
    args.put(launch, "expert-tp", "expert-tensor-parallel-size")
    _recomputed(args, launch, sizes)
    launch.options["sequence-parallel"] = bool(args.pop("sequence-parallel")) and launch.options.get("tp", 1) != 1
    stages = sizes["num-layers-per-virtual-pipeline-stage"]
    if stages and sizes["num-layers"] and "pp" in launch.options:
        launch.options["virtual-stages"] = sizes["num-layers"] // (stages * launch.options["pp"])
    args.put(launch, "virtual-stages", "num-virtual-stages-per-pipeline-rank")
    args.put(launch, "expert-tp", "expert-tensor-parallel-size")
    args.put(launch, "capacity-factor", "moe-expert-capacity-factor")
    if args.pop("moe-shared-expert-overlap"):
        launch.options["shared-expert-overlap"] = True
    if args.pop("overlap-moe-expert-parallel-comm"):
        launch.options["ep-overlap"] = True
    if ends := [end for end in ("embedding", "loss") if args.pop(f"account-for-{end}-in-pipeline-split")]:
        launch.options["stages"] = "+".join(ends)
    launch.shaping = [one for one in args.left(FLAGS) if one not in args.left(FLAGS, FLAGS.shaping)]
    launch.unmodelled += args.left(FLAGS, FLAGS.shaping)


def _shape(args: LaunchArguments, launch: Launch, sizes: dict[str, int | None]) -> None:
    keys = {"layers": "num-layers", "d_model": "hidden-size", "heads": "num-attention-heads", "kv_heads": "num-query-groups",
            "d_ff": "ffn-hidden-size", "experts": "num-experts"}  # fmt: skip
    found = {key: sizes[name] for key, name in keys.items() if sizes[name]}
    gated, d = bool(args.pop("swiglu")), found.get("d_model") or 0
    experts = {} if sizes["num-experts"] else {"experts": 0, "top_k": 0}
    wide = 4 * d if not gated else int(4 * d * 2 / 3 / 64) * 64  # arguments.py: to multiples of 64 under --swiglu
    heads = {"kv_heads": found["heads"]} if found.get("heads") else {}
    launch.shape = {**heads, **({"d_ff": wide} if d else {}), **experts, **found, "gated": gated}
    args.pop("untie-embeddings-and-output-weights")
    if "untie-embeddings-and-output-weights" in args.given:
        launch.shape["tied"] = False
    launch.shape["rotary"] = str(args.pop("position-embedding-type")) in ("rope", "rotary", "alibi") or bool(
        args.pop("use-rotary-position-embeddings")
    )
    head_dim = args.pop("kv-channels")
    if str(head_dim).isdigit():
        launch.shape["head_dim"] = int(str(head_dim))
    for key, *names in (
        ("vocab", "vocab-size", "pad-vocab-size-to"),
        ("top_k", "moe-router-topk"),
        ("d_ff", "moe-ffn-hidden-size"),
        ("context", "max-position-embeddings", "seq-length"),
    ):
        value = args.pop(*names)
        if str(value).isdigit():
            launch.shape[key] = int(str(value))


def _formats(args: LaunchArguments, launch: Launch) -> None:
    narrow = args.pop("fp8-format", "fp8", "transformer-engine-precision")
    half = "fp16" if args.pop("fp16") else "bf16" if args.pop("bf16") else "fp32"
    launch.options["dtype"] = "fp8" if narrow else half
    fsdp = args.pop("use-torch-fsdp2", "use-megatron-fsdp", "use-custom-fsdp")
    stage = args.pop("zero-stage")
    sharding = {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}.get(
        str(args.pop("data-parallel-sharding-strategy"))
    )
    plain = 1 if args.pop("use-distributed-optimizer") else 0
    if args.pop("grad-reduce-in-bf16"):
        launch.options["gradient-bytes"] = 2  # main gradients are kept as they are reduced
    if "deepspeed" in args.given and half == "bf16" and str(stage or 0) == "0":
        stage = 1  # DeepSpeed's BF16_Optimizer shards its states at stage 0 too
    launch.put("zero", stage if stage is not None else (sharding or 3) if fsdp else plain, "--zero-stage")


def _recomputed(args: LaunchArguments, launch: Launch, sizes: dict[str, int | None]) -> None:
    kind = args.pop("recompute-granularity")
    selective, old = args.pop("recompute-activations"), args.pop("checkpoint-activations")
    launch.options["recompute"] = kind or ("full" if old else "selective" if selective else "none")
    if launch.options["recompute"] == "full" and sizes["recompute-num-layers"] == 0:
        launch.options["recompute"] = "none"
    method = args.pop("recompute-method")
    if method == "block" and sizes["recompute-num-layers"] and "pp" in launch.options:
        stages = launch.options["pp"] * int(launch.options.get("virtual-stages", 1))
        launch.options["recompute-layers"] = sizes["recompute-num-layers"] * stages
    modules = args.given.get("recompute-modules")
    if args.pop("recompute-modules") and modules:
        launch.options["recompute-modules"] = ",".join(modules)


def write(options: Options, model: str) -> str:
    """torchrun and the arguments of this plan; data, tokenizer and schedule of learning are left to the person."""
    shape = shape_of(load_model(options["model"]))
    n, pp = int(options["n"]), int(options.get("pp", 1))
    stages = int(options.get("virtual-stages") or 1)
    dtype, zero = options.get("dtype"), int(options.get("zero", 0))
    recompute = options.get("recompute", "none")
    each = training_common.per_node(n)
    nodes = [("--nproc_per_node", each), ("--nnodes", n // each)]
    runner = ["torchrun", *(str(word) for pair in nodes for word in pair), "pretrain_gpt.py"]
    return serving_common.command(
        runner,
        [
            ("--num-layers", shape["layers"]),
            ("--hidden-size", shape["d_model"]),
            ("--ffn-hidden-size", None if shape["experts"] else shape["d_ff"]),
            ("--num-attention-heads", shape["heads"]),
            ("--group-query-attention", shape["kv_heads"] != shape["heads"]),
            ("--num-query-groups", shape["kv_heads"] if shape["kv_heads"] != shape["heads"] else None),
            ("--num-experts", shape["experts"] or None),
            ("--moe-ffn-hidden-size", shape["d_ff"] if shape["experts"] else None),
            ("--moe-router-topk", shape["top_k"] or None),
            ("--swiglu", shape["gated"]),
            ("--untie-embeddings-and-output-weights", not shape["tied"]),
            ("--vocab-size", shape["vocab"]),
            ("--seq-length", options.get("seq")),
            ("--max-position-embeddings", options.get("seq")),
            ("--tensor-model-parallel-size", options.get("tp")),
            ("--pipeline-model-parallel-size", pp),
            ("--context-parallel-size", serving_common.if_above_one(options, "cp")),
            ("--expert-model-parallel-size", serving_common.if_above_one(options, "ep")),
            ("--expert-tensor-parallel-size", options.get("expert-tp")),
            ("--moe-expert-capacity-factor", options.get("capacity-factor")),
            ("--moe-shared-expert-overlap", options.get("shared-expert-overlap", False)),
            ("--overlap-moe-expert-parallel-comm", options.get("ep-overlap", False)),
            ("--sequence-parallel", options.get("sequence-parallel", False)),
            ("--num-layers-per-virtual-pipeline-stage", shape["layers"] // (pp * stages) if stages > 1 and pp > 1 else None),
            ("--micro-batch-size", options.get("micro-batch")),
            ("--global-batch-size", options.get("batch")),
            ("--bf16", dtype in ("bf16", "fp8")),
            ("--fp16", dtype == "fp16"),
            ("--fp8-format", "hybrid" if dtype == "fp8" else None),
            ("--use-distributed-optimizer", zero == 1),
            ("--use-megatron-fsdp", zero > 1),
            ("--data-parallel-sharding-strategy", {2: "optim_grads", 3: "optim_grads_params"}.get(zero)),
            ("--recompute-granularity", recompute if recompute in ("full", "selective") else None),
            ("--recompute-method", "uniform" if recompute == "full" else None),
            ("--recompute-num-layers", 1 if recompute == "full" else None),
        ],
    )  # fmt: skip
