"""Shared code of serving engines: a server's flags as options by the rows of flags/*.yaml, its sizes, and a command written line by line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from rooflinecli.core.text import one_line
from rooflinecli.importers.launch import dtype_names
from rooflinecli.importers.launch.launch import Launch, LaunchArguments, ToolFlags
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.source import Options, Tree

_ADMITTED = "batch token-budget gpu-memory-utilization redundant-experts prompt output concurrency".split()
_ROLES = {"prefill": r"prefill|kv_producer", "decode": r"decode|kv_consumer"}  # the first that is named
_WIDE = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def opened(
    given: list[str] | Tree, launch: Launch, flags: ToolFlags, config: Tree | None = None, files: tuple[str, ...] = ()
) -> tuple[LaunchArguments, dict[str, int | None]]:
    """The arguments of a server, its model and number formats set, and its sizes by axis: flags over those of the config that one of `files` names."""
    words, tree = ([], given) if isinstance(given, Mapping) else (given, config)
    args = LaunchArguments.of_words(words, flags.switches, flags.short, flags.many)
    if tree is not None:
        args.pop(*files)
        args.under({flags.short.get(f"--{key}", str(key).replace("_", "-")): value for key, value in tree.items()})
    for name, value in launch.environment.items():
        args.given.setdefault(flags.short.get(f"--{name}", name), [value])
    known = flags.setting
    for name in [one for one in args.given if len(one) > 6 and one not in known]:  # cut short, as argparse takes them
        if len(whole := [one for one in known if one.startswith(name)]) == 1:
            args.rename(name, whole[0])
    model = args.model(*flags.read.get("model", ()))

    def stated(row: str) -> tuple[Any, str]:
        names = flags.read.get(row, ())
        return args.pop(*names), args.written(next((name for name in names if name in args.given), ""))

    dtype_names.quantized(launch, *stated("quantization"))
    written = stated("model")[1]
    dtype_names.checkpoint(launch, model, written if written != "--" else "the model")
    served = str(args.first("served-model-name") or args.first("model-name"))
    if "model" in launch.missing and dtype_names.known(served):  # a folder of the server's own
        launch.options["model"] = served
        launch.notes.append(f"{launch.missing.pop('model')}: taken to be {served}, which it is served as")
    file = str(launch.options.get("model", model))
    if str(model).endswith(".gguf") and not {"dtype", "weight-dtype"} & set(launch.options) and not Path(file).exists():
        launch.missing["weight-dtype"] = f"{one_line(str(model))} does not name its format"
    if "dtype" in flags.read:
        dtype_names.served(launch, *stated("dtype"))
    dtype_names.cache(launch, *stated("kv-dtype"))
    dtype_names.state(launch, stated("state-dtype")[0])
    return args, {axis: args.whole(launch, *names.split()) for axis, names in flags.sizes.items()}


def closed(
    launch: Launch,
    args: LaunchArguments,
    flags: ToolFlags,
    sizes: Mapping[str, int | None],
    engine: str | None,
    group: int = 1,
) -> None:
    """Set the layout of a server of these sizes, whose experts `group` replicas share, its drafting and limits, and list what is left."""
    layout = {axis: sizes.get(axis) or 1 for axis in ("tp", "pp", "dp")}
    layout |= {"cp": 1, "ep": 1, "n": prod(layout.values())}
    launch.options = {"phase": ["prefill", "decode"], **layout} | launch.options
    place_experts(launch, sizes.get("ep"), group)
    _drafted(launch, *(args.pop(*flags.draft.get(part, "").split()) for part in ("method", "tokens", "model")))
    names = {name: axis for axis, written in flags.sizes.items() for name in written.split()}
    hidden = [word for word in args.positional if unknowns(word) and word not in args.models]
    if hidden and not set(names) & set(args.given) and len(args.left(flags)) == len(hidden):
        launch.missing["tp"] = f"{one_line(readable(hidden[0]))} has the arguments, and is known only where it runs"
    if launch.unresolved(names):
        launch.options.pop("n", None)
    _limits(launch, args, flags, engine)


def _limits(launch: Launch, args: LaunchArguments, flags: ToolFlags, engine: str | None) -> None:
    """Set the engine, what it admits and its role, and list the flags that are left."""
    workers = [name for name in ("is-prefill-worker", "is-decode-worker") if name in args.given]
    role(launch, args.given.get("disaggregation-mode"), args.given.get("kv-transfer-config"), *workers)
    for option in _ADMITTED:
        names = flags.read.get(option, ())
        given = next((name for name in names if name in args.given), "")
        if len(args.values(given)) > 1:
            launch.refuse(option, f"{args.written(given)} runs several sizes, {' '.join(args.values(given))}")
        args.put(launch, option, *names)
    if longest := next((name for name in flags.read.get("length", ()) if name in args.given), None):
        cap = args.pop(longest)
        if "prompt" not in launch.options:
            dtype_names.length(launch, cap, args.written(longest))
    launch.options |= {"engine": engine} if engine else {}
    launch.unmodelled += args.left(flags)
    launch.unread = args.unread()


def place_experts(launch: Launch, ep: int | None, group: int = 1) -> None:
    """Set expert parallelism over the ranks of `group` replicas, which share a layer's experts; each is cut over the ranks that `ep` leaves.

    Experts that are cut over more ranks than a replica's are priced as `group` expert ranks, which have the same bytes per device.
    """
    tp = int(launch.options.get("tp", 1))
    ranks, ep = tp * group, ep or 1
    if max(ep, group) == 1 or any(name.startswith("?") for name in launch.missing):
        launch.options["ep"] = ep
    elif ranks % ep:
        launch.refuse("ep", f"ep {ep} does not divide the {ranks} ranks that share the experts")
    elif ep < group or ep % group:
        launch.options["ep"] = group
        cut = f"ep {ep} of {ranks} ranks cuts each expert over {ranks // ep}"
        launch.notes.append(f"{cut}: priced as ep {group}, the same bytes per device")
    else:
        launch.options["ep"] = ep
        cut_experts(launch.options, ranks // ep)


def default_expert_tp(options: Tree) -> int:
    """Ranks that an expert is cut over where --expert-tp is not given; 0 where the layout is none."""
    tp, dp, ep = (int(options.get(axis) or 1) for axis in ("tp", "dp", "ep"))
    return tp if dp % ep == 0 else 1 if ep == tp * dp else 0


def cut_experts(options: Options, ranks: int) -> None:
    """Cut each expert over this many ranks."""
    options.pop("expert-tp", None)
    if ranks != default_expert_tp(options):
        options["expert-tp"] = ranks


def expert_group(options: Options) -> tuple[int, int, int]:
    """Expert ranks of a plan, how many ranks an expert is cut over, and how many replicas share the experts (0: no whole number)."""
    tp, ep = int(options.get("tp") or 1), int(options.get("ep") or 1)
    cut = int(options.get("expert-tp") or default_expert_tp(options))
    return ep, cut, 0 if ep * cut % tp else ep * cut // tp


def has_experts(options: Options) -> bool | None:
    """Whether the model of a launch has experts; None where the model is not known."""
    model = dtype_names.registered(options.get("model"))
    return None if model is None else any(group.feedforward.kind == "moe" for group in model.layers)


def command(words: Iterable[str], flags: ToolFlags, options: Options, own: Options) -> str:
    """A command with a tool's flags line by line; `own` are values that are no option as it is: None or False leaves a flag out, True gives it no value."""
    dtype = options.get("dtype", "")
    known = {**options, "wide": _WIDE.get(dtype), "fp8": "fp8" if dtype == "fp8" else None}
    lines = [shlex.join(words)]
    for flag, row in flags.write.items():
        name, _, above = row.partition(">")
        value = own.get(flag, known.get(name))
        if value is True:
            lines.append(flag)
        elif value is not None and value is not False and not (above and value <= int(above)):
            whole = isinstance(value, float) and value.is_integer()  # argparse takes no 2.0 for an integer
            lines.append(f"{flag} {shlex.quote(str(int(value) if whole else value))}")
    return " \\\n  ".join(lines) + "\n"


def started(words: list[str], flags: ToolFlags) -> list[str] | None:
    """The words after a launcher such as `vllm serve` or `-m sglang.launch_server`, wherever it stands, or after the image of `docker run`."""
    for launcher in flags.launchers:
        parts = launcher.split()
        for i in range(len(words) - len(parts) + 1):
            first = words[i] if parts[0] == "-m" else words[i].rpartition("/")[2]
            rest = words[i + len(parts) :]
            # a launch without flags, rather than words of a sentence
            alone = words[:i] in ([], ["exec"]) or parts[0] == "-m"
            if [first, *words[i + 1 : i + len(parts)]] == parts and (rest or alone):
                return rest
    at = next((i for i, word in enumerate(words) if flags.image and re.search(f"/{flags.image}", word)), 0)
    configured = any(re.match(flags.environment, name) for name in assigned(words[:at])) if flags.environment else False
    return words[at + 1 :] if at and {"run", "create"} & set(words[:at]) and (configured or words[at + 1 :]) else None


def assigned(words: Iterable[str]) -> dict[str, str]:
    """Variables that a command sets before its server: `env A=1`, `docker run -e A=1`, `--env=A=1`."""
    found = (re.fullmatch(r"(?:--env=|-e)?([A-Z_][A-Z0-9_]*)=(.*)", word, re.DOTALL) for word in words)
    return {match[1]: match[2] for match in found if match}


def variables(environment: Mapping[str, str], flags: ToolFlags, text: str) -> dict[str, str]:
    """Variables that a server itself reads, by the flag that they are or their name; not those that the text around it uses."""
    found = {name: re.fullmatch(flags.environment, name) for name in environment if flags.environment}
    flags_of = {name: match[1].lower().replace("_", "-") for name, match in found.items() if match and match.lastindex}
    alone = [name for name, match in found.items() if match and name not in flags_of]
    own = {name: name for name in alone if not re.search(rf"\$[{{(]?{name}\b", text)}
    return {flag: environment[name] for name, flag in {**flags_of, **own}.items()}


_VISIBLE = re.compile(r"(CUDA|HIP|ROCR|NVIDIA|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK")


def visible(environment: Mapping[str, str], words: list[str]) -> int | None:
    """Devices that a server is shown, by its environment or by `docker run --gpus`; None where neither counts them."""
    given = [value for name, value in environment.items() if _VISIBLE.fullmatch(name)]
    after = dict(pairwise([part for word in words for part in word.split("=", 1 if word.startswith("--gpus=") else 0)]))
    docker = after.get("--gpus", "").strip("'\"")
    given += [docker.removeprefix("device=")] if docker.startswith("device=") else []
    lists = [value for value in given if re.fullmatch(r"(?!all$|void$|none$)[\w.:-]+(,[\w.:-]+)*", value)]
    return len(lists[0].split(",")) if lists else int(docker) if docker.isdigit() else None


def role(launch: Launch, *values: object) -> None:
    """Restrict the phases of a worker that only prefills or only decodes; the other phase is another launch."""
    text = " ".join(str(one).lower() for one in values if one is not None)
    if phase := next((one for one, named in _ROLES.items() if re.search(named, text)), None):
        launch.options["phase"] = [phase]


def _drafted(launch: Launch, method: object, tokens: object, model: object = None) -> None:
    """Drafting as --speculate and --draft-tokens: multi-token prediction, an EAGLE head, or a draft model by its name."""
    word = str(method or ("ngram" if model == "[ngram]" else "")).lower().replace("_", "-")
    if not word and model is None:
        return
    if "ngram" in word or "prompt-lookup" in word:
        launch.unmodelled.append(f"speculative decoding by {word}: nothing is drafted by a model")
        return
    kind = "mtp" if "mtp" in word or "nextn" in word else "eagle" if "eagle" in word or "medusa" in word else None
    drafts = kind or (str(model).rstrip("/").rpartition("/")[2] if model else None)
    if drafts is None:
        launch.unmodelled.append(f"speculative decoding by {word}")
        return
    launch.speculation = {"speculate": drafts} | ({"draft-tokens": int(str(tokens))} if str(tokens).isdigit() else {})
