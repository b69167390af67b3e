"""Reading of a launch as options of an estimate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import islice
from math import prod
from pathlib import Path

from rooflinecli.core import files
from rooflinecli.core.errors import DataError, RooflineError, UsageError
from rooflinecli.core.text import one_line
from rooflinecli.engine import option_conflicts
from rooflinecli.importers.launch import dtype_names, locate, training_common
from rooflinecli.importers.launch.launch import Launch, flags
from rooflinecli.importers.launch.locate import TOOLS
from rooflinecli.importers.launch.serving_common import has_experts
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.launch.tools import trainers
from rooflinecli.importers.source import Options, Tree
from rooflinecli.specs import flag_text
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.options import OPTIONS, find
from rooflinecli.specs.parse_values import number
from rooflinecli.specs.registry import kinds, load
from rooflinecli.specs.request import OUTPUT

_OURS = re.compile(r"^\s*(?:#|//)\s*roofline: (.+)$|^\s*\"roofline\": \"(.+)\",?$", re.MULTILINE)
_CHOSEN = re.compile(r"(.+)#(\d+)")
MOST = 200  # launches of a file that are read: a benchmark's loops start thousands of commands


def read(source: str) -> Launch:
    """The launch in a command, or in a file; FILE#2 is the second of several.

    Raises UsageError where there is none, or several that differ; DataError for a file that cannot be read.
    """
    chosen = _CHOSEN.fullmatch(source)
    which = int(chosen[2]) if chosen and not files.is_existing_file(Path(source)) else None
    opened = locate.open_text(chosen[1] if which and chosen else source)
    found = list(islice(locate.launches(opened), MOST))
    tool = _rl_tool(opened)
    if not found and tool:
        raise UsageError(f"{opened.name}: a launch of {tool}; `roofline rl --from` reads it")
    if not found and (other := locate.unread(opened.text)):
        raise UsageError(f"{opened.name}: {other}")
    if not found and opened.absent:
        file = one_line(opened.absent[0])
        raise DataError(f"{opened.name}: its launch is in {file}, which is not here; give that file")
    if not found:
        tools = ", ".join(sorted({*kinds(TOOLS), *trainers.names()} - {"trainers"}))
        raise UsageError(f"{opened.name}: no launch of a supported tool ({tools}); give the options instead")
    _mark_decode_workers(found)
    if which is not None:
        if not 1 <= which <= len(found):
            held = f"{opened.name} holds {len(found)} launches"
            raise UsageError(f"{source}: {held}; give a number from 1 to {len(found)}")
        found = [found[which - 1]]
    keys = [(one.tool, one.options, one.missing, one.shape, one.speculation) for one in found]
    if (
        "another architecture" in str(found[0].missing.get("model"))
        and len({one.missing.get("model") for one in found}) == 1
    ):
        found, keys = found[:1], keys[:1]
    first = [i for i, key in enumerate(keys, 1) if key not in keys[: i - 1]]  # of launches that are equal
    if len(first) > 1:
        listed = "; ".join(f"#{i} {found[i - 1].tool} {_shown(found[i - 1], found)}".rstrip() for i in first[:8])
        more = " or more" if len(found) == MOST else ""
        held = f"{opened.name} holds {len(first)}{more} launches that differ: {listed}{' ...' if first[8:] else ''}"
        raise UsageError(f"{held}; pick one as {opened.name}#{first[0]}")
    launch = found[0]
    if tool:
        launch.notes.append(f"the file has a launch of {tool} as well; `roofline rl --from` reads it")
    if opened.loads and not launch.trains:
        _loaded(launch, opened.loads)
    elif not launch.trains:
        launch.notes += [f"{one} may be the load, which is not read; give it as options" for one in opened.asked]
    _ours(launch, opened.text)
    return launch


def _mark_decode_workers(found: list[Launch]) -> None:
    """Workers without a role decode where another worker of the same model only prefills, as those of Dynamo."""
    both, phases = ["prefill", "decode"], [one.options.get("phase") for one in found]
    models = {one.options.get("model") for one in found if one.options.get("phase") == ["prefill"]}
    for one in found if ["decode"] not in phases else ():
        if one.options.get("phase") == both and one.options.get("model") in models and one.missing.get("model") is None:
            one.options["phase"] = ["decode"]
            one.notes.append("it decodes, as another worker of the file only prefills; --phase names another")


def _loaded(launch: Launch, loads: list[dict[str, list[str]]]) -> None:
    """The load of the benchmarks that the file runs, where they state one; several are listed."""
    options = flags("clients").read
    found = {option: list(dict.fromkeys(v for one in loads for v in one.get(option, ()))) for option in options}
    found["qps"] = [rate for rate in found["qps"] if rate != "inf"]
    if found["qps"]:
        found.pop("concurrency")
    several = {option: values for option, values in found.items() if len(values) > 1 or any(map(unknowns, values))}
    replicas = int(launch.options.get("dp") or 1)
    for option, values in found.items():
        if len(values) == 1 and option not in several and re.fullmatch(r"[\d.]+", values[0]):
            each = option == "concurrency" and replicas > 1
            launch.options[option] = f"{float(values[0]) / replicas:g}" if each else values[0]
    if stated := [
        f"--{option} {launch.options[option]}" for option in found if option in launch.options and option not in several
    ]:
        launch.notes = [note for note in launch.notes if not note.endswith("give --prompt and --output")]
        launch.notes.append(f"the load is that of its benchmark: {' '.join(stated)}")
    for option, values in several.items():
        runs = one_line(readable(", ".join(values)))[:80]
        launch.notes.append(f"its benchmark runs --{option} {runs}, which is not read; give one")


def _rl_tool(source: locate.Source) -> str:
    from rooflinecli.importers.launch import rl_configs  # whose remarks are those of this module

    try:
        return rl_configs.arguments(source)[0]
    except (UsageError, DataError):
        return ""


def read_text(text: str, tool: str) -> Launch:
    """The launch in a text as a tool's own writer makes it. Raises UsageError where it holds none."""
    source = locate.Source(text, f"{tool}{load(TOOLS, tool).SUFFIX}")
    found = next(locate.launches(source), None)
    if found is None or found.tool != tool:
        raise UsageError(f"the launch of {tool} cannot be read back")
    _ours(found, text)
    return found


def _shown(launch: Launch, others: list[Launch]) -> str:
    """The options that distinguish a launch from the others."""
    every, own = [one.options | one.speculation for one in others], launch.options | launch.speculation
    sizes = {k: v for k, v in own.items() if k != "model" and any(one.get(k) != v for one in every)}
    axes = " ".join(f"{axis} {'+'.join(v) if isinstance(v, list) else v}" for axis, v in sizes.items())
    return one_line(readable(f"{launch.options.get('model', '')} {axes}".strip()))[:80]


def _ours(launch: Launch, text: str) -> None:
    """Options that an emitted launch has in a comment, for lack of a flag; they override the flags."""
    for match in _OURS.finditer(text[: locate.LARGEST]):
        for option, value in flag_text.fields(match[1] or json.loads(f'"{match[2]}"')):
            launch.options[option.name] = value
            launch.missing.pop(option.name, None)
        if "dtype" in launch.options:
            launch.missing.pop("weight-dtype", None)
        launch.notes = []


def options(source: str, given: Tree, warn: Callable[[str], None]) -> Options:
    """Options of an estimate from a launch, overridden by `given`; `warn` receives remarks.

    Raises UsageError for a size that the launch leaves to its run and that is not given, and where no model is named.
    """
    launch = read(source)
    asked = {find(k).name: v for k, v in given.items() if v is not None and v != []}
    found = {k: v for k, v in launch.options.items() if k not in asked}
    if launch.per_replica and "batch" not in {**found, **asked} and _replicas({**found, **asked}) == 0:
        why = f"its batch is {launch.per_replica} sequences per replica, and the number of replicas is not stated"
        launch.refuse("n", why)
    _ask(launch, found, asked)
    if "model" in asked and str(launch.options.get("model", "")).endswith(".gguf"):  # a file that is here
        stated = dtype_names.stored_as(Path(launch.options["model"]).name)[1]
        found = {k: v for k, v in stated.items() if k not in asked} | found
    if "model" not in found and "model" not in asked:
        found["model"] = _described(launch, "" if "hw" in {**found, **asked} else " and --hw")
    layers, model = launch.shape.get("layers"), str(launch.options.get("model", ""))
    if layers and model and layers != (named := training_common.model_layers(model)):
        launch.unmodelled.append(f"{layers} layers: the {named or 'layers'} of the model that it names are taken")
    chip = _chip(name := str({**found, **asked}.get("hw", "")))
    if launch.framework and "software" not in {**found, **asked}:
        found["software"] = launch.framework
        if not (chip and launch.trains and option_conflicts.framework_note(launch.framework, chip)):
            launch.notes.append(f"priced as {launch.framework}, the framework of the launch; --framework names another")
    if found.get("dtype") == "fp8" and launch.tool in ("vllm", "sglang") and chip and "fp8" not in chip.peak:
        found["weight-dtype"] = found.pop("dtype")
        launch.notes.append(f"{name} has no fp8 matmuls: weights are stored in fp8 and multiplied in 16 bits (Marlin)")
    # where ranks of attention data parallelism are not separate servers
    copies = launch.tool == "vllm" or found.get("dp", 1) == 1
    served = not launch.trains
    if found.get("ep", 1) != 1 and copies and served and has_experts({**found, **asked}) is False:
        found["ep"] = 1
        found.pop("expert-tp", None)
        launch.notes.append("expert parallelism is left out: the model has no experts")
    _resized(launch, found, asked, served)
    if launch.per_replica and (launch.groups > 1 or "batch" not in {**found, **asked}):
        _share(launch, {**found, **asked}, found)
    if launch.speculation and "acceptance" in asked:
        found |= {k: v for k, v in launch.speculation.items() if k not in asked}
    elif launch.speculation:
        drafted = " ".join(f"--{name} {value}" for name, value in launch.speculation.items())
        why = "the acceptance rate is not stated, so it is left out; give --acceptance"
        launch.notes.append(f"speculative decoding, {drafted}: {why}")
    serving = "train" not in str({**found, **asked}.get("phase", ""))
    if serving and {"concurrency", "qps", "max-num-seqs"} & {*found, *asked}:
        found = served_at_once(found)
    if launch.trains and (unsaid := [f"--{name}" for name in ("batch", "seq") if name not in {**found, **asked}]):
        launch.notes.append(f"not stated, so the defaults of an estimate are taken; give {' and '.join(unsaid)}")
    if launch.longest is not None and {"prompt", "output"} & set(asked):
        _check_length(launch, *launch.longest, found, asked)
    tp, dp = asked.get("tp"), int(str({**found, **asked}.get("dp", 1)))
    if tp is not None and dp > 1 and launch.group > 1:
        note = f"--tp {tp} is that of each of {dp} ranks of attention, {int(str(tp)) * dp} devices"
        launch.notes.append(f"{note}; SGLang's --tp-size counts all of them")
    settled = {"give -n": "n", "give --prompt and --output": "prompt"}  # what a note asks for may have been given
    launch.notes = [n for n in launch.notes if not any(n.endswith(k) and v in asked for k, v in settled.items())]
    for remark in remarks(launch):
        warn(remark)
    return {**found, **asked}


def _check_length(launch: Launch, most: int, flag: str, found: Options, asked: Tree) -> None:
    """Raise UsageError for a request longer than its server admits; of a length that is not given, as much is left as fits."""
    try:
        lengths = {name: number(f"--{name}", asked[name], "length") for name in ("prompt", "output") if name in asked}
    except UsageError:  # several of a sweep, or none, which is refused where it is read
        return
    if sum(lengths.values()) > most - (len(lengths) < 2):
        given = " and ".join(f"--{name} {asked[name]}" for name in lengths)
        raise UsageError(
            f"{launch.where}: {flag} {most} admits no request of {given}; give shorter ones, or a server that takes them",
            next(iter(lengths)),
        )
    if "output" not in asked and lengths["prompt"] + OUTPUT > most:
        found["output"] = most - int(lengths["prompt"])
    elif "prompt" not in asked and "prompt" in found:
        found["prompt"] = min(int(str(found["prompt"])), most - int(lengths["output"]))


def served_at_once(options: Options) -> Options:
    """Options under a load: the sequences that a server runs at once are its batch without one only."""
    return {"max-num-seqs" if name == "batch" else name: value for name, value in options.items()}


def _chip(name: str) -> HardwareSpec | None:
    """The one chip that is named; None for none, several, or a name that is no chip, which the estimate refuses."""
    try:
        return load_hardware(name) if name else None
    except RooflineError:
        return None


def _resized(launch: Launch, found: Options, asked: Tree, served: bool) -> None:
    """Drop what follows from other sizes than those asked: the devices of a server, the replicas of a trainer, experts over all ranks."""
    own = launch.options
    axes = [axis for axis in ("tp", "pp", "dp", "cp", "n") if axis in asked]
    changed = {axis for axis in axes if str(asked[axis]) != str(own.get(axis))}
    if "n" in changed or (changed and not served and "dp" not in changed):
        found.pop("dp", None)
    elif changed:
        found.pop("n", None)
    known = {**found, **asked}
    if launch.trains and "n" in known and (replicas := _replicas(known)):  # all that -n leaves
        found.setdefault("dp", replicas)
    sizes = [{**found, **asked}.get(axis, 1) for axis in ("tp", "dp")]
    if changed & {"tp", "dp"} and served and own.get("ep", 1) == own.get("tp", 1) * own.get("dp", 1) > 1:
        found["ep"] = prod(int(size) for size in sizes)


def _replicas(known: Tree) -> int | None:
    """The replicas that are stated, or that -n leaves; 0 where neither is known, None for a size that is no whole number."""
    try:
        n, dp = (int(str(known.get(key, 0))) for key in ("n", "dp"))
        return dp or n // prod(int(str(known.get(key, 1))) for key in ("tp", "pp", "cp"))
    except ValueError:
        return None


def _share(launch: Launch, known: Tree, found: Options) -> None:
    """The global batch and the replicas that share weights, from those of a replica and the replicas that -n leaves."""
    if not (replicas := _replicas(known)):
        return
    if "batch" not in known:
        found["batch"] = replicas * int(launch.per_replica or 1)
    if launch.groups > 1 and "shard" not in known:
        found["shard"] = replicas // launch.groups


def _ask(launch: Launch, found: Tree, asked: Tree) -> None:
    """Raise UsageError naming all that the launch leaves open, with the options to give."""
    open_ones = {k: one_line(why) for k, why in launch.missing.items() if k not in asked}
    if not open_ones:
        return
    if "model" not in {**open_ones, **found, **asked} and not set(training_common.SIZES) <= set(launch.shape):
        open_ones["model"] = "no model is named"
    named = [option for option in open_ones if option in ("model", *OPTIONS)]
    flags = ["MODEL" if option == "model" else OPTIONS[option].flag for option in named]
    flags += ["--hw"] if "hw" not in {**found, **asked} else []
    listed = " and ".join([", ".join(flags[:-1]), flags[-1]] if flags[1:] else flags)
    give = f"give {listed}" if flags else "write it out"
    if any(option not in OPTIONS for option in open_ones) and flags:
        give = f"write it out, and {give}"
    raise UsageError(f"{launch.where}: {'; '.join(dict.fromkeys(open_ones.values()))}; {give}", next(iter(open_ones)))


def _described(launch: Launch, also: str) -> str:
    """The model of a launch that names none: by its sizes, from the registry or written for it."""
    if names := training_common.models_of_shape(launch.shape):
        others = f" (as {', '.join(names[1:4])})" if names[1:] else ""
        note = f"the model is taken to be {names[0]}, which has these sizes{others}; give MODEL for another"
        launch.notes.append(note)
        return names[0]
    path = training_common.written_model(launch.shape)
    if path is None:
        raise UsageError(f"{launch.where}: names no model; give MODEL{also} with --from", "model")
    launch.notes.append("no model of the registry has these sizes; one was made of them")
    launch.unmodelled += launch.shaping
    return path


def remarks(launch: Launch) -> list[str]:
    """Remarks for the user: options that are not priced, then assumptions."""
    found = []
    if launch.unmodelled:
        several = ", ".join(dict.fromkeys(launch.unmodelled))
        found.append(f"{launch.where}: may change the cost, and priced without: {several}")
    return found + [f"{launch.where}: {readable(note)}" for note in launch.notes]
