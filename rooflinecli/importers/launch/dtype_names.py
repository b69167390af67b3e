"""Names of number formats in tools and in checkpoint names."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from rooflinecli.core.errors import RooflineError
from rooflinecli.importers.launch.launch import Launch, formats
from rooflinecli.importers.launch.shell_expansion import unknowns
from rooflinecli.quantization.formats import SPELLINGS
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import find

_TUNED = re.compile(
    r"[-_](base|instruct|chat|it|pt|hf|thinking|reasoning|sft|dpo|exp|terminus|preview|qat|merged|fine-?tuned?|local|v0\.\d|\d{4})$",
    re.IGNORECASE,
)  # or a release's month
_PLACEHOLDER = re.compile(
    r"(.*/)?(ggml-)?model\.gguf|[<\[{].*[>\]}]|__\w+__|(?i:your[-_ ]?model.*|path[/_ ]?to.*|model[-_]?(name|path|id))"
)
_CACHED = re.compile(
    r"models--([\w.-]+?)--([\w.-]+)|([\w.-]+)/(?!models--)([\w.-]+)/snapshots/\w+/?$|modelscope/(?:hub/)?models/([\w.-]+)/([\w.-]+)/?$"
)
_ORGANIZATION = re.compile(r"(?!(?:models?|weights|checkpoints?|ckpts?|llms?|data)$)\w[\w.-]*")  # no folder
_SHARDED = re.compile(r"-\d{5}-of-\d{5}$")


def checkpoint(launch: Launch, written: object, flag: str) -> None:
    """The model of a checkpoint by its name, repository or path, and the format that its name ends in.

    A file's extension, `GGUF` and number of parts are ignored; a format of this table becomes an option unless the whole
    name is a model. A repository of the Hub is the registry's model only where its organization publishes that; a repository
    that stores such a model in another format is noted, any other name stays as on the command line.
    """
    if written in (True, "True"):  # the flag is the last word, or another flag follows
        launch.missing.setdefault("model", f"{flag} has no value")
        return
    if written is None or str(written) in ("False", "false"):  # a switch between a checkpoint and none
        return
    if _PLACEHOLDER.fullmatch(str(written)):
        launch.missing["model"] = f"{flag} {written} is a placeholder"
        return
    cached = _CACHED.search(str(written))  # a snapshot in the Hub's cache
    name = "/".join(filter(None, cached.groups())) if cached else str(written)
    above, _, last = name.rstrip("/").rpartition("/")
    if unknowns(above) and not unknowns(last):  # $HOME/models/Qwen3-8B
        name = f"./{last}"
    launch.put("model", name, flag)
    if "model" not in launch.options:
        return
    folder, _, last = name.rstrip("/").rpartition("/")
    if last.endswith(".gguf") and stored_as(f"-{last}")[0] == "":  # /models/shisa-7b-v1/q4_k_m.gguf
        last = f"{folder.rpartition('/')[2]}-{last}"
    exists = Path(name).exists()
    # GGUF repositories have no config.json
    hub = _ORGANIZATION.fullmatch(folder) and not exists and "gguf" not in last.lower()
    org = f"{folder}/" if hub else ""
    if exists or known(org + last):
        launch.options["model"] = name if exists and not known(last) else last
        return
    bare, stated = stored_as(last)
    same = _untuned(org + bare)
    if org and same is None and bare != last:  # another organization's copy in this format
        same = _untuned(bare)
    if same is None and not org:
        words = bare.split("-")  # tuned models carry the name of their base last: Hermes-3-Llama-3.1-8B
        tails = (_untuned("-".join(words[i:])) for i in range(1, len(words) - 1))
        # a model's own name: `llama-8b` is short for one, which another name that ends so need not mean
        own = (tail for tail in tails if tail and known(tail) and _plain(find("models", tail).stem) == _plain(tail))
        # or first, to their size: Qwen2.5-32B-AGI
        heads = ("-".join(words[:i]) for i in range(len(words) - 1, 1, -1))
        same = next(own, None) or next((head for head in heads if re.search(r"\d[bB]$", head) and known(head)), None)
    if same is not None:
        launch.options["model"] = found = same.rpartition("/")[2]
        if found != bare or not known(org + bare):
            launch.notes.append(f"{org}{bare} is taken to have the sizes of {found}; give MODEL for another")
    elif (folder or name.startswith("/")) and not org and "gguf" not in last.lower():
        del launch.options["model"]
        launch.refuse("model", f"{flag} {name} names no model")
        note = f"{flag} {name} is of unknown format"
        launch.notes.append(f"{note}; give --dtype or --weight-dtype where MODEL has another")
        return
    else:
        launch.options["model"] = name if org else bare  # as on the command line
    if same is not None or not org:  # the config of a repository has its formats
        launch.options.update({k: v for k, v in stated.items() if k not in launch.options})


def stored_as(file: str) -> tuple[str, dict[str, str]]:
    """The name of a checkpoint without the format that it ends in, and the options of that format."""
    bare = re.sub(r"(\.gguf|[-_]gguf)$", "", _SHARDED.sub("", file.removesuffix(".gguf")), flags=re.IGNORECASE)
    for pattern, stated in formats()["endings"].items():
        match = re.search(f"({pattern})$", bare, re.IGNORECASE)
        if match:
            kind = match.groupdict().get("gguf")
            return bare[: match.start()], {"weight-dtype": kind.lower()} if kind else _option(stated)
    return bare, {}


def _option(stated: str) -> dict[str, str]:
    """`dtype=fp8 kv-dtype=fp8` of formats.yaml."""
    return dict(one.split("=") for one in stated.split())


def _untuned(name: str) -> str | None:
    """The registry's model that a checkpoint was tuned from, by its name without what tuning adds."""
    while not known(name):
        match = _TUNED.search(name)
        if match is None:
            return None
        name = name[: match.start()]
    return name


def registered(name: object) -> ModelSpec | None:
    """The model of a name or path; None where there is none here."""
    return _loaded(str(name)) if not Path(str(name)).exists() else _loaded.__wrapped__(str(name))  # a file may change


@functools.cache
def _loaded(name: str) -> ModelSpec | None:
    try:
        return load_model(name)
    except RooflineError:
        return None


def _plain(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()


@functools.cache
def known(name: str) -> bool:
    """Whether the registry has a model of this name: a benchmark's loops start thousands of servers of one."""
    try:
        return bool(find("models", name))
    except RooflineError:
        return False


def computed(written: object) -> str:
    """The format that a tool computes in, by any of its names; empty for one that none does."""
    word = SPELLINGS.get(str(written).lower(), str(written).lower())
    return word if word in formats()["compute"] else ""


def compute(launch: Launch, written: object, flag: str) -> None:
    """--dtype of a server or the precision of a trainer; a quantized format that was already read is kept."""
    word = str(written or "auto").lower()
    if known := computed(word):
        launch.options.setdefault("dtype", known)
    elif word != "auto":
        launch.refuse("dtype", f"{flag} {word} is no format known here")


def served(launch: Launch, written: object, flag: str) -> None:
    """--dtype of a server, after its --quantization and the checkpoint's name: what activations are in.

    A quantized checkpoint keeps its format: such flags name the stored format or the activations, so none of
    them becomes an option that would store its weights otherwise. Another format, of a checkpoint made from it, is kept.
    """
    model = registered(launch.options.get("model", ""))
    scheme = model.quantization if model else None
    stored = {str(part.dtype) for part in (scheme, scheme.experts) if part is not None} if scheme else set()
    for option in ("dtype", "weight-dtype"):
        if launch.options.get(option) in stored:
            del launch.options[option]
    if stored and computed(written) and not {"dtype", "weight-dtype"} & set(launch.options):
        return
    compute(launch, written, flag)


def quantized(launch: Launch, written: object, flag: str) -> None:
    """--quantization: the compute or storage format; an unknown scheme must be given as an option."""
    if written is None or str(written).lower() in ("", "none", "null", "auto"):
        return
    word = str(written).lower().replace("_", "-")
    if stated := formats()["quantized"].get(word):
        launch.options |= _option(stated)
    elif word in formats()["stored"]:
        return  # the checkpoint has the format
    else:
        launch.refuse("weight-dtype", f"{flag} {written} is no format known here")


def cache(launch: Launch, written: object, flag: str) -> None:
    """The format of the KV cache."""
    word = str(written or "auto").lower()
    if word in formats()["cache"]:
        launch.options["kv-dtype"] = formats()["cache"][word]
    elif word != "auto":
        launch.refuse("kv-dtype", f"{flag} {word} is no format known here")


def state(launch: Launch, written: object) -> None:
    """The format of the recurrent state; the model's own where none is given."""
    if known := computed(written):
        launch.options["state-dtype"] = known


_SCALES = {
    "": 1,
    "k": 1000,
    "K": 1024,
    "m": 1000**2,
    "M": 1024**2,
}  # as vLLM reads them (utils/argparse_utils.py, human_readable_int)


def length(launch: Launch, longest: object, flag: str) -> None:
    """The maximum tokens of a request. A launch states no load, so default lengths above the cap are cut to it."""
    text = re.fullmatch(r"([\d_]+|\d*\.\d+)([kKmM]?)", str(longest or ""))
    most = int(float(text[1].replace("_", "") or 0) * _SCALES[text[2]]) if text else 0
    if most < 2:
        return
    launch.longest = (most, flag)
    launch.notes.append(f"{flag} {most} caps prompt + output; a launch states no load; give --prompt and --output")
    if most < 2048 + 256:
        launch.options |= {"prompt": max(most - min(256, most // 2), 1), "output": min(256, most // 2)}
