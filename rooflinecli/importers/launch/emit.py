"""Write a layout as the launch of a tool. Options without a flag go into a comment, which the reader parses again."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, NamedTuple

from rooflinecli.core.errors import RooflineError, UsageError, unknown
from rooflinecli.importers.launch import dtype_names, locate, read, serving_common
from rooflinecli.importers.launch.launch import Launch, flags
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.source import Tree
from rooflinecli.specs import registry
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ModelSpec, load_model
from rooflinecli.specs.name_lookup import find
from rooflinecli.specs.options import LOAD, OPTIONS

_HUB = re.compile(r"config\.json of ([\w.-]+/[\w.-]+)")
# what describes the machine, the draft's success or how we price, and the count that follows from the layout: no flag of a server
_ASSUMED = frozenset(
    "n engine software efficiency bound attention-flops imbalance acceptance host memory attention-dp ep-overlap tp-overlap".split()
)
_SERVED = frozenset({"kv-tier", "adapters"})  # settings of a server that are options of the load
_NEUTRAL = {
    "gradient-bytes": (4,), "optimizer-bytes": (12,), "optimizer": ("adamw",), "kv-dtype": ("bf16", "fp16"), "recompute-modules": ("core_attn",),
}  # fmt: skip


class EmittedLaunch(NamedTuple):
    """The text of a launch, a sentence naming what of the plan it leaves out, empty where it has all of it, and flags of the launch
    that was read which it lacks and that are no part of the plan."""

    text: str
    left_out: str
    dropped: str = ""


def tools() -> list[str]:
    """Tools that a plan can be written for."""
    return [name for name in registry.kinds(locate.TOOLS) if hasattr(registry.load(locate.TOOLS, name), "write")]


def tool(name: str) -> Any:
    """The module of a tool that writes. Raises UsageError listing those there are."""
    if name not in tools():
        raise unknown("tool", name, tools(), "--emit writes for these", "emit")
    return registry.load(locate.TOOLS, name)


def emit(name: str, options: Tree, slots: int = 1, longest: int = 0, source: Launch | None = None) -> EmittedLaunch:
    """The launch of a fully specified layout; `slots`: requests that a replica serves at once, where no --batch is among the options;
    `longest`: tokens of its longest request, where that is not the prompt and output among them; `source`: the launch that was read,
    whose limits stay and whose other flags are carried over.

    Raises UsageError for a tool of another kind of work.
    """
    module, model = tool(name), load_model(str(options["model"]))
    if not model.writes or model.paired:
        kind = "is an encoder with a decoder" if model.paired else "writes no tokens one by one"
        why = f"launches are written for decoders, and {model.name} {kind}"
        raise UsageError(f"--emit {name}: {why}; leave --emit out", "emit")
    if ("train" in (options.get("phase") or [])) != module.TRAINS:
        work, phase = ("trains", "train") if module.TRAINS else ("serves", "decode")
        raise UsageError(f"--emit {name}: {module.VERSION} {work}; ask for --phase {phase}", "emit")
    most = {"batch": options["max-num-seqs"]} if "max-num-seqs" in options else {}
    total = longest or int(options.get("prompt") or 0) + int(options.get("output") or 0)
    stated = {
        k: v for k, v in options.items() if k != "batch" or module.TRAINS or source is None or k in source.options
    }
    total = source.longest[0] if source is not None and source.longest else total
    body = module.write({"slots": slots, "length": total or None, **most, **stated}, hub(model))
    body, dropped = (body, "") if source is None or module.TRAINS else _carried(name, body, source)
    launch = read.read_text(body, name)
    if launch.framework:  # which a reader takes where nothing else is said
        options = {"software": Layout.software, **options}
        launch.options["software"] = launch.framework
    written = {**launch.options, **launch.speculation}
    if "max-num-seqs" in options:
        written = read.served_at_once(written)
    rest = {k: v for k, v in options.items() if k not in written or not same(k, written[k], v)}
    if "acceptance" in rest:
        rest |= {k: options[k] for k in launch.speculation if k in options}
    # the others are the load, the machine and how it is priced
    decided = [k for k in rest if k in _SERVED or (OPTIONS[k].panel != LOAD and k not in _ASSUMED)]
    missing = [k for k in decided if k in written or not _implied(k, options, model)]
    if options.get("dp", 1) == options.get("cp", 1) == 1 and "zero" in missing:
        missing.remove("zero")  # there is nothing to shard over
    flags = shlex.join(word for k in missing for word in _words(k, options[k]))
    sentence = f"{flags}: {module.VERSION} has no flag for it in this layout" if missing else ""
    if "dp" in missing and not module.TRAINS:
        sentence += f"; --dp {options['dp']} is that many such servers"
    if not rest:
        return EmittedLaunch(body, sentence, dropped)
    words = shlex.join(word for name, value in rest.items() for word in _words(name, value))
    if body.startswith("{"):
        ours = {"roofline_left_out": sentence, "roofline": words} if sentence else {"roofline": words}
        return EmittedLaunch(json.dumps({**json.loads(body), **ours}, indent=2) + "\n", sentence, dropped)
    first = f"# not part of this launch: {sentence}\n" if sentence else ""
    return EmittedLaunch(
        f"{first}# read by `roofline estimate --from`:\n# roofline: {words}\n{body}", sentence, dropped
    )


def _carried(name: str, body: str, source: Launch) -> tuple[str, str]:
    """A server's command with the flags of the launch that was read which set no option, and those that it lacks.

    Under the same tool they stay as they are; another has its own names of some (`carried` of flags/*.yaml).
    """
    meant = {flag: what for what, flag in flags(source.tool).carried.items()}
    own, lines, dropped = flags(name).carried, [body.rstrip("\n")], []
    for flag, (written, *values) in source.unread.items():
        same_tool = source.tool == name and written.startswith("-") and "." not in flag
        target = written if same_tool else own.get(meant.get(flag, ""))
        if target is None or any(unknowns(value) for value in values):
            dropped.append(readable(" ".join([written, *values])))
        elif target:  # another tool takes one value of each
            lines.append(shlex.join([target, *values] if same_tool else [f"--{target}", *values[:1]]))
    return " \\\n  ".join(lines) + "\n", ", ".join(dropped)


def _implied(option: str, options: Tree, model: ModelSpec) -> bool:
    """Whether a launch that does not name an option has the value that it has in `options`."""
    value = options[option]
    if option == "expert-tp":
        return same(option, serving_common.default_expert_tp(options), value)
    if option == "shard":
        return same(option, options.get("dp"), value)
    stored = str(model.quantization.dtype) if model.quantization else "bf16"
    known = [getattr(Layout, OPTIONS[option].field, None), *_NEUTRAL.get(option, ())]
    known += [stored] if option in ("dtype", "weight-dtype") else []
    return any(same(option, one, value) for one in known if one is not None)


def hub(model: ModelSpec) -> str:
    """The checkpoint of a model: its Hub repository where its file names one that resolves to the same model, else its name."""
    match = _HUB.search(model.source)
    try:
        found = find("models", match[1].rpartition("/")[2]) if match else ""
    except RooflineError:
        found = ""
    known = dtype_names.registered(found) if found else None
    return match[1] if match and known and known.id == model.id else model.id


def same(option: str, one: object, other: object) -> bool:
    """Whether two ways to write an option mean the same."""
    if option == "model":
        models = [dtype_names.registered(name) for name in (one, other)]
        return all(models) and len({model.id for model in models if model}) == 1
    lists = [isinstance(value, (list, tuple)) for value in (one, other)]
    if any(lists):
        return all(lists) and list(one) == list(other)  # type: ignore[call-overload]
    try:
        return float(str(one)) == float(str(other))
    except ValueError:
        return str(one).lower() == str(other).lower()


def _words(name: str, value: Any) -> list[str]:
    option = OPTIONS[name]
    if option.kind == "switch":
        return option.words(bool(value))
    if isinstance(value, float) and value == int(value):
        value = int(value)
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return [f"--{option.name}" if option.positional else option.flag, text]
