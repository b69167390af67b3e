"""llama.cpp: `llama-server -m FILE.gguf`.

Flags as in llama.cpp b6000 and later (tools/server/README.md, common/arg.cpp).
"""

from __future__ import annotations

import re

from rooflinecli.importers.launch import dtype_names, serving_common
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, flags, formats
from rooflinecli.importers.source import Options
from rooflinecli.quantization.gguf import file_type

VERSION = "llama.cpp b6000"
TRAINS = False
ENGINE = "llamacpp"
SUFFIX = ".sh"
FLAGS = flags("llama_cpp")
_FILES = {"bf16": "BF16", "fp16": "F16", "mxfp4": "MXFP4"}  # formats whose file types gguf names otherwise
MOST_LAYERS = 60  # what people write to mean all of them: 70, 99, 999


def starts(words: list[str]) -> list[str] | None:
    found = serving_common.started(words, FLAGS)
    last = words[len(words) - len(found) - 1] if found is not None else ""
    if found and "ollama" in words[: len(words) - len(found)]:
        tag = next((word for word in found if word[:1] not in ("", "-")), "")
        return None if not tag or "embed" in tag else ["--ollama", tag]
    return ["--bench", *found] if found is not None and last.endswith("llama-bench") else found


def _tagged(tag: str, launch: Launch) -> list[str]:
    """The file of a tag of Ollama's library, `llama3.1:8b-instruct-q8_0`, or of the Hub, `hf.co/org/repository:Q4_K_M`."""
    name, _, kind = tag.removeprefix("hf.co/").removeprefix("huggingface.co/").partition(":")
    name, known = name.rpartition("/")[2], formats()["ollama"]
    named = known.get(f"{name}:{kind}", known.get(name) if kind in ("", "latest") else None)
    if named is None and (kind in ("", "latest") or f"{name}:{kind}" == "deepseek-r1:8b"):  # which releases had two of
        launch.missing["model"] = f"{tag} is what Ollama's library gives by this name"
    file = named or f"{name}-{kind}"
    if _in_mxfp4(file):  # as it is published
        return ["-m", file]
    if dtype_names.stored_as(file)[0] == file:
        file += "-q4_k_m"
        launch.notes.append(f"{tag} states no format: Ollama's usual q4_k_m is taken; give --weight-dtype")
    return ["-m", f"{file}.gguf"]


def _in_mxfp4(model: object) -> bool:
    found = dtype_names.registered(model)
    return found is not None and found.quantization is not None and found.quantization.dtype == "mxfp4"


def read(words: list[str], launch: Launch) -> None:
    """Read a server's flags: layers split over the cards are pipeline stages, rows are tensor parallelism; slots share the context."""
    words = _tagged(words[1], launch) if words[:1] == ["--ollama"] else words
    args, _ = serving_common.opened(words, launch, FLAGS)
    bench = args.pop("bench")
    if launch.options.get("weight-dtype") == "mxfp4" and _in_mxfp4(launch.options.get("model")):
        launch.options["weight-dtype"] = "mxfp4_moe"  # whose other matrices are in 8 bits
    if re.search(r"[-_./:]UD[-_]", " ".join(words)):
        launch.notes.append(
            "a dynamic mixture of Unsloth's is taken as llama.cpp's own of that name; give the file for its bytes"
        )
    repository = str(args.pop("hf-repo", default=""))
    if repository and "model" not in launch.options:
        named, _, kind = repository.partition(":")
        dtype_names.checkpoint(launch, f"{named.removesuffix('-GGUF')}-{kind}" if kind else named, "--hf-repo")
    keys = args.first("cache-type-k")
    if args.pop("cache-type-v") != keys and "kv-cache-type" not in launch.environment:
        launch.unmodelled.append("--cache-type-v unlike --cache-type-k")
    split, mode = args.pop("tensor-split"), args.pop("split-mode")
    shares = re.split("[,/]", str(split)) if split else []
    cards = len(shares) or launch.devices or 1
    if len(set(shares)) > 1:
        launch.notes.append(f"--tensor-split {split}: equal shares are priced; give --stages for others")
    sizes = {"tp" if mode == "row" else "pp": 1 if mode == "none" else cards}
    _on_host(args, launch)
    slots = args.whole(launch, "parallel", default=1) or 1
    launch.options["batch"] = slots
    if bench:
        _benchmarked(args, launch)
    context = args.whole(launch, "ctx-size")
    if context:
        each = context if "context-length" in launch.environment else context // slots  # Ollama's is that of one
        dtype_names.length(launch, each, "--ctx-size for each slot")
    serving_common.closed(launch, args, FLAGS, sizes, ENGINE)


def _benchmarked(args: LaunchArguments, launch: Launch) -> None:
    """The lengths that llama-bench runs: its prompt and its generation are tests of their own, and 0 leaves one out."""
    for option, flag, default in (("prompt", "prompt", "512"), ("output", "predict", "128")):
        value = str(args.pop(flag, default=default))
        if not value.isdigit():
            launch.refuse(option, f"llama-bench runs several lengths, {value}")
        elif value == "0":
            launch.options["phase"] = ["decode" if option == "prompt" else "prefill"]
        else:
            launch.options[option] = int(value)


def _on_host(args: LaunchArguments, launch: Launch) -> None:
    """Layers and experts that stay in the host's memory; any count beyond a model's layers means all on the device."""
    layers = args.whole(launch, "gpu-layers")
    if layers is not None and 0 <= layers < MOST_LAYERS:
        launch.options["offload-layers"] = layers
    if args.pop("cpu-moe"):
        launch.options["experts-on"] = "host"
    count = args.pop("n-cpu-moe")
    if count is not None:
        launch.put("experts-on", f"host:{count}", "--n-cpu-moe")


def write(options: Options, model: str) -> str:
    """The command that serves this plan. A GGUF file of these weights is named as on the Hub, without a format that it has not."""
    tp, split = options.get("tp", 1), max(options.get("tp", 1), options.get("pp", 1))
    slots = int(options.get("batch") or options.get("slots") or 1)
    weights = str(options.get("weight-dtype") or options.get("dtype"))
    kind = _FILES.get(weights, weights.upper() if file_type(weights) is not None else "")
    file = model if model.endswith(".gguf") else model.rpartition("/")[2] + (f"-{kind}" if kind else "") + ".gguf"
    experts, _, layers = str(options.get("experts-on", "")).partition(":")
    cache = options["kv-dtype"] if options.get("kv-dtype") in ("q8_0", "q4_0") else None
    own = {
        "--n-gpu-layers": options.get("offload-layers", 999), "--cpu-moe": experts == "host" and not layers, "--n-cpu-moe": layers or None,
        "--split-mode": ("row" if tp > 1 else "layer") if split > 1 else None, "--tensor-split": ",".join(["1"] * split) if split > 1 else None,
        "--ctx-size": options["length"] * slots if options.get("length") else None, "--parallel": slots, "--cache-type-k": cache, "--cache-type-v": cache,
    }  # fmt: skip
    return serving_common.command(["llama-server", "-m", file], FLAGS, options, own)
