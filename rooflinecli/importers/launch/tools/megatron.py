"""Megatron-LM and Megatron-DeepSpeed: arguments of pretrain_gpt.py and its like, behind torchrun or deepspeed.

Flags as in Megatron Core 0.20 (megatron/training/arguments.py at d98e8a6) and those that older scripts still carry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby, pairwise

from rooflinecli.engine.legality import ENDS
from rooflinecli.importers.launch import rules, serving_common, training_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, formats
from rooflinecli.importers.launch.training_common import shape_of
from rooflinecli.importers.source import Options
from rooflinecli.specs.model import ModelSpec, load_model

VERSION = "Megatron Core 0.20"
TRAINS = True
SUFFIX = ".sh"
_SCRIPT = re.compile(r"(.*/)?(pretrain|finetune|train)(_\w+)?\.py")
_NAMES = {
    "--nproc_per_node": "nproc-per-node",
    "--gpus": "num-gpus",
    "--num_nodes": "nnodes",
    "--local_worker_num": "nproc-per-node",
}
COUNTING = ("mpirun", "mpiexec", "srun")
RUNNERS = ("torchrun", "deepspeed", "msrun", "torch.distributed.run", "torch.distributed.launch", "ft_launcher")
# scripts and folders whose sizes are no GPT's
_OTHERS = re.compile(r"(?:^|[/_])(t5|bert|retro|mamba|ict|vit|vlm|vision|hybrid|multimodal|mimo|biencoder)(?:[/_.]|$)")
FLAGS = flags("megatron")
SIZES = {"nproc-per-node": "n", "nnodes": "n", "num-gpus": "n", "tensor-model-parallel-size": "tp", "pipeline-model-parallel-size": "pp",
         "context-parallel-size": "cp", "expert-model-parallel-size": "ep", "ds-sequence-parallel-size": "cp",
         "num-layers-per-virtual-pipeline-stage": "virtual-stages"}  # fmt: skip
_SHARDED = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3, "grad": 2}


def starts(words: list[str]) -> list[str] | None:
    """Everything after the runner, its own options included; the script itself is dropped."""
    at = next((i for i, w in enumerate(words) if _SCRIPT.fullmatch(w)), None)
    named = {word.partition("=")[0].replace("_", "-") for word in words[at:]} if at is not None else set()
    own = {"--num-layers", "--encoder-num-layers", "--tensor-model-parallel-size", "--global-batch-size"}
    if at is None or not named & own or "--rollout-batch-size" in named:  # slime's
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
    args = LaunchArguments.of_words(words, FLAGS.switches, _NAMES)
    script = "/".join(str(args.pop("script", default="")).split("/")[-2:])
    sizes = {name: args.whole(launch, name) for name in SIZES}
    per_node, nodes = sizes["nproc-per-node"] or sizes["num-gpus"], sizes["nnodes"]
    total = args.count("worker-num")  # msrun's, of all nodes
    unknown = any(f"?{name}" in launch.missing for name in ("nproc-per-node", "nnodes", "num-gpus"))
    devices = total or (None if unknown or not per_node else per_node * (nodes or 1))
    ulysses = sizes["ds-sequence-parallel-size"]
    cp = sizes["context-parallel-size"] or ulysses
    training_common.layout(
        launch, devices, tp=sizes["tensor-model-parallel-size"], pp=sizes["pipeline-model-parallel-size"],
        cp=cp, ep=sizes["expert-model-parallel-size"],
    )  # fmt: skip
    if ulysses and cp and cp > 1:
        launch.options["ring"] = "ulysses"
    gated = bool(args.pop("swiglu"))
    settings(args, launch, gated)
    shape, d = launch.shape, launch.shape.get("d_model")
    # arguments.py: to multiples of 64 under --swiglu
    wide = int(4 * (d or 0) * 2 / 3 / 64) * 64 if gated else 4 * (d or 0)
    launch.shape = ({"kv_heads": shape["heads"]} if "heads" in shape else {}) | ({"d_ff": wide} if d else {}) | shape
    launch.unresolved(SIZES)
    if _OTHERS.search(script.lower()) or args.has("mm-model") or "vlm" in str(args.first("model-provider")):
        launch.refuse("model", f"{script} trains another architecture than its sizes describe here")
    half = "fp16" if args.pop("fp16") else "bf16" if args.pop("bf16") else "fp32"
    launch.options["dtype"] = "fp8" if args.pop("fp8-format", "fp8", "transformer-engine-precision") else half
    stage = args.pop("zero-stage")
    launch.framework = "deepspeed" if "deepspeed" in args.given else stack("overlap-grad-reduce" in args.given)
    if "deepspeed" in args.given and half == "bf16" and str(stage or 0) == "0":
        stage = 1  # DeepSpeed's BF16_Optimizer shards its states at stage 0 too
    launch.put("zero", stage, "--zero-stage")
    ends = [end for end in ("embedding", "loss") if args.pop(f"account-for-{end}-in-pipeline-split")]
    stages = sizes["num-layers-per-virtual-pipeline-stage"]
    if stages and shape.get("layers") and "pp" in launch.options:
        launch.options["virtual-stages"] = (shape["layers"] + len(ends)) // (stages * launch.options["pp"])
    args.put(launch, "virtual-stages", "num-virtual-stages-per-pipeline-rank")
    launch.put("stages", "+".join(ends) or stages_of(args, launch), "--pipeline-model-parallel-layout")
    recomputed(args, launch)
    training_common.optimizer(launch, args.pop("optimizer"))
    launch.shaping = [one for one in args.left(FLAGS) if one not in args.left(FLAGS, FLAGS.shaping)]
    launch.unmodelled += args.left(FLAGS, FLAGS.shaping)


def stages_of(args: LaunchArguments, launch: Launch) -> str:
    """Layers of each stage where they are given, of one chunk: those of both ends, or a layout such as Et*10|t*11|t*11L."""
    pp, layers = int(launch.options.get("pp") or 1), launch.shape.get("layers")
    names = ("decoder-{}-pipeline-num-layers", "num-layers-in-{}-pipeline-stage")
    first, last = (args.whole(launch, *(name.format(end) for name in names)) for end in ("first", "last"))
    written = str(args.first("pipeline-model-parallel-layout") or "").replace(",", "")
    for times in (r"\(([^()]*)\)\*(\d{1,3})", r"(\w)\*(\d{1,3})"):
        written = re.sub(times, lambda found: found[1] * int(found[2]), written)
    chunks = re.fullmatch(r"E(t*(?:\|t*)*)L", written)
    if chunks and written.count("|") == pp - 1 > 0 and args.pop("pipeline-model-parallel-layout"):
        return ",".join(str(len(chunk)) for chunk in chunks[1].split("|"))
    if not (first or last) or layers is None or pp < 2 or launch.options.get("virtual-stages", 1) != 1:
        return ""
    each = (layers - (first or 0) - (last or 0)) // max(pp - bool(first) - bool(last), 1)
    return ",".join(map(str, (first or each, *[each] * (pp - 2), last or each)))


def _told(layers: int, pp: int, chunks: int, given: str) -> Mapping[str, int | str]:
    """Flags of how the layers of a pipeline are split: into equal chunks, with ends that count as layers or not, or as `given`."""
    for ends in ("", *sorted(ENDS, reverse=True)) if given in ("", *ENDS) else ():
        each, rest = divmod(layers + sum(ENDS.get(ends, ())), pp * chunks)
        if not rest and (given == ends or (not given and ends in ("", "embedding+loss"))):
            own = {"--num-layers-per-virtual-pipeline-stage": each} if chunks > 1 else {}
            return own | {f"--account-for-{end}-in-pipeline-split": True for end in ends.split("+") if end}
    stages = [int(each) for each in given.split(",")] if re.fullmatch(r"\d+(,\d+)+", given) else []
    if chunks > 1 or len(stages) != pp or sum(stages) != layers:
        return {}
    if min(stages) and len({*stages[1:-1]}) < 2:
        return {f"--decoder-{end}-pipeline-num-layers": stages[at] for end, at in (("first", 0), ("last", -1))}
    return {"--pipeline-model-parallel-layout": f"E{'|'.join(f't*{each}' if each else '' for each in stages)}L"}


def settings(args: LaunchArguments, launch: Launch, gated: bool) -> None:
    """What scripts of Megatron and configs of NeMo say under the same names: the model's sizes, the batch, what is sharded and overlapped."""
    training_common.set_model_sizes(args, launch, FLAGS.sizes)
    if launch.shape:
        experts = {} if "experts" in launch.shape else {"experts": 0, "top_k": 0}
        launch.shape = launch.shape | experts | {"gated": gated}
        tied = args.pop("share-embeddings-and-output-weights")
        if args.pop("untie-embeddings-and-output-weights") or tied is False:
            launch.shape["tied"] = False
        rotary = str(args.pop("position-embedding-type")) in ("rope", "rotary", "alibi")
        launch.shape["rotary"] = bool(args.pop("use-rotary-position-embeddings")) or rotary
        context = args.count("max-position-embeddings", "encoder-seq-length", "seq-length")
        launch.shape |= {"context": context} if context else {}
    ep = launch.options.get("ep", 1)
    if int(ep) > 1 and launch.shape and not launch.shape["experts"] and "model" not in launch.options:
        launch.refuse("model", f"expert_model_parallel_size {ep}, but no number of experts is stated")
    for option, names in FLAGS.read.items():
        args.put(launch, option, *names)
    launch.options["sequence-parallel"] = bool(args.pop("sequence-parallel")) and launch.options.get("tp", 1) != 1
    rules.apply(FLAGS.rules, args, launch)
    _states(args, launch)
    stage = _SHARDED.get(str(args.pop("data-parallel-sharding-strategy", "fsdp-sharding-strategy")), 3)
    fsdp = args.pop("fsdp", "use-torch-fsdp2", "use-megatron-fsdp", "use-custom-fsdp")
    launch.options["zero"] = stage if fsdp else 1 if args.pop("use-distributed-optimizer") else 0


def _states(args: LaunchArguments, launch: Launch) -> None:
    """Bytes of the states of use_precision_aware_optimizer, which have formats of their own."""
    if not training_common.is_on(args.pop("use-precision-aware-optimizer")):
        return
    gradients, *states = (
        int(formats()["states"].get(str(args.pop(f"{what}-dtype", default="fp32")).removeprefix("torch."), 4))
        for what in ("main-grads", "main-params", "exp-avg", "exp-avg-sq")
    )
    if gradients != 4:
        launch.options["gradient-bytes"] = gradients
    if sum(states) != 12:
        launch.options["optimizer-bytes"] = sum(states)


def stack(overlaps: bool) -> str:
    """The training framework of a launch, by whether it reduces gradients during the backward pass."""
    return "megatron+overlap" if overlaps else "megatron"


def recomputed(args: LaunchArguments, launch: Launch) -> None:
    """What the backward pass computes again."""
    kind = args.pop("recompute-granularity", "activations-checkpoint-granularity")
    selective, full = args.pop("recompute-activations"), args.pop("checkpoint-activations", "activation-checkpointing")
    launch.options["recompute"] = kind or ("full" if full else "selective" if selective else "none")
    layers = args.whole(launch, "recompute-num-layers", "activations-checkpoint-num-layers")
    if layers == 0 and launch.options["recompute"] == "full":
        launch.options["recompute"] = "none"
    block = args.pop("recompute-method", "activations-checkpoint-method") == "block"
    if block and layers and "pp" in launch.options:
        stages = launch.options["pp"] * int(launch.options.get("virtual-stages", 1))
        launch.options["recompute-layers"] = layers * stages
    modules = args.values("recompute-modules")
    if modules and args.pop("recompute-modules"):
        launch.options["recompute-modules"] = ",".join(map(str, modules))


def _architecture(model: ModelSpec) -> dict[str, str | int | bool | None]:
    """What the model has where the default of Megatron's arguments is another: LayerNorm, learned positions, a bias on every projection,
    no norm of queries and keys, heads of hidden size / heads, ungated gelu."""
    attention, ffn = model.layers[-1].attention, model.layers[-1].feedforward
    own: dict[str, str | int | bool | None] = {
        "--normalization": "RMSNorm" if model.norm == "rmsnorm" else None,
        "--position-embedding-type": {"rotary": "rope", "none": "none"}.get(model.positions.kind),
        "--disable-bias-linear": not ffn.bias,
        "--squared-relu": ffn.activation == "relu2",
        "--moe-shared-expert-intermediate-size": (ffn.shared_d_ff or ffn.n_shared * (ffn.d_ff or 0)) or None,
    }
    kinds = [group.feedforward for group in model.layers for _ in range(group.repeat)]
    if {kind.kind == "moe" for kind in kinds} == {True, False}:  # dense layers among those of experts
        runs = [(moe, len([*run])) for moe, run in groupby(kind.kind == "moe" for kind in kinds)]
        own["--moe-layer-freq"] = f"({'+'.join(f'[{moe:d}]*{count}' for moe, count in runs)})"
        own["--ffn-hidden-size"] = next(kind.d_ff for kind in kinds if kind.kind != "moe")
    if attention is None:
        return own
    own |= {"--add-qkv-bias": attention.qkv_bias and not ffn.bias, "--qk-layernorm": attention.qk_norm != "none"}
    if attention.kv_lora_rank:
        return own | {
            "--multi-latent-attention": True, "--q-lora-rank": attention.q_lora_rank, "--kv-lora-rank": attention.kv_lora_rank,
            "--qk-head-dim": attention.qk_nope_head_dim, "--qk-pos-emb-head-dim": attention.qk_rope_head_dim, "--v-head-dim": attention.v_head_dim,
        }  # fmt: skip
    whole = (attention.head_dim or 0) * attention.n_heads == model.d_model
    return own | {
        "--kv-channels": None if whole else attention.head_dim,
        "--window-size": attention.window and f"({attention.window},0)",
    }


def write(options: Options, model: str) -> str:
    """torchrun and the arguments of this plan; data, tokenizer, schedule of learning, and the base of the
    rotation and the epsilon of norms, which no model file has, are left to the person."""
    spec = load_model(options["model"])
    shape = shape_of(spec)
    n, pp, stages = int(options["n"]), int(options.get("pp", 1)), int(options.get("virtual-stages") or 1)
    dtype, zero, recompute = options.get("dtype"), int(options.get("zero", 0)), options.get("recompute", "none")
    each = training_common.per_node(n)
    runner = ["torchrun", "--nproc_per_node", str(each), "--nnodes", str(n // each), "pretrain_gpt.py"]
    grouped, experts = shape["kv_heads"] != shape["heads"], shape["experts"]
    own = {
        "--ffn-hidden-size": None if experts else shape["d_ff"], "--moe-ffn-hidden-size": shape["d_ff"] if experts else None,
        "--group-query-attention": grouped, "--num-query-groups": shape["kv_heads"] if grouped else None,
        "--untie-embeddings-and-output-weights": not shape["tied"], "--pipeline-model-parallel-size": pp,
        "--bf16": dtype in ("bf16", "fp8"), "--fp16": dtype == "fp16", "--fp8-format": "hybrid" if dtype == "fp8" else None,
        "--use-distributed-optimizer": zero == 1, "--use-megatron-fsdp": zero > 1,
        "--data-parallel-sharding-strategy": {2: "optim_grads", 3: "optim_grads_params"}.get(zero),
        "--recompute-granularity": recompute if recompute in ("full", "selective") else None,
        "--recompute-method": "uniform" if recompute == "full" else None, "--recompute-num-layers": 1 if recompute == "full" else None,
        **(_told(shape["layers"], pp, stages, str(options.get("stages") or "")) if pp > 1 else {}), **_architecture(spec),
    }  # fmt: skip
    return serving_common.command(runner, FLAGS, {**options, **shape}, own)
