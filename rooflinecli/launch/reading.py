"""A command, script or config -> the launches in it, and one of them as options of an estimate."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflinecli import files
from rooflinecli.errors import DataError, UsageError
from rooflinecli.launch import containers, shapes
from rooflinecli.launch.expand import Value, readable, unknowns
from rooflinecli.launch.found import Launch
from rooflinecli.launch.shell import Reader
from rooflinecli.specs.options import OPTIONS, find
from rooflinecli.specs.registry import kinds, load
from rooflinecli.text import one_line

TOOLS = "launch/tools"
_OURS = re.compile(r"^\s*(?:#|//)\s*roofline: (.+)$|^\s*\"roofline\": \"(.+)\",?$", re.MULTILINE)
_CHOSEN = re.compile(r"(.+)#(\d+)")
_FENCED = re.compile(r"^```(?:sh|bash|shell|console|text)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
LARGEST = 2_000_000


@dataclass
class _Source:
    """A text, what it is called, and the files that lie beside it."""

    text: str
    name: str
    folder: Path | None = None
    files: dict[str, str] = field(default_factory=dict)

    def beside(self, written: str) -> str | None:
        """A file that a launch names: made by the script, mounted with it, or lying next to it."""
        base = written.rpartition("/")[2]
        if base in self.files:
            return self.files[base]
        for path in (
            (self.folder / written, self.folder / base) if self.folder and base and not unknowns(written) else ()
        ):
            if path.is_file() and path.stat().st_size < LARGEST:
                return path.read_text(encoding="utf-8", errors="replace")
        return None


def read(source: str) -> Launch:
    """The launch in a command, or in a file; FILE#2 is the second of several.

    Raises UsageError where there is none, or several that differ; DataError for a file that cannot be read.
    """
    chosen = _CHOSEN.fullmatch(source)
    which = int(chosen[2]) if chosen and not files.lies(Path(source)) else None
    opened = _opened(chosen[1] if which and chosen else source)
    found = list(_launches(opened))
    if not found:
        raise UsageError(
            f"{opened.name}: no launch of a tool known here ({', '.join(kinds(TOOLS))}); give the options instead"
        )
    if which is not None:
        if not 1 <= which <= len(found):
            raise UsageError(
                f"{source}: {opened.name} holds {len(found)} launches; give a number from 1 to {len(found)}"
            )
        found = [found[which - 1]]
    if any(_key(one) != _key(found[0]) for one in found[1:]):
        listed = "; ".join(f"#{i} {one.tool} {_shown(one)}" for i, one in enumerate(found[:8], 1))
        raise UsageError(
            f"{opened.name} holds {len(found)} launches: {listed}{' ...' if len(found) > 8 else ''}; pick one as {opened.name}#1"
        )
    launch = found[0]
    _ours(launch, opened.text)
    return launch


def read_text(text: str, tool: str) -> Launch:
    """The launch in a text as a tool's own writer makes it. Raises UsageError where it holds none."""
    source = _Source(text, f"{tool}{load(TOOLS, tool).SUFFIX}")
    found = next(_launches(source), None)
    if found is None or found.tool != tool:
        raise UsageError(f"the launch of {tool} cannot be read back")
    _ours(found, text)
    return found


def _key(launch: Launch) -> str:
    return repr((launch.tool, sorted(launch.options.items(), key=str), sorted(launch.missing.items()), launch.shape))


def _shown(launch: Launch) -> str:
    sizes = " ".join(f"{axis} {launch.options[axis]}" for axis in ("tp", "pp", "dp", "batch") if axis in launch.options)
    return one_line(readable(f"{launch.options.get('model', '')} {sizes}".strip()))[:60]


def _opened(source: str) -> _Source:
    path = Path(source) if len(source) < 1000 and "\n" not in source else None
    if path is not None and files.lies(path):
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path}: longer than {LARGEST} bytes; give the launch alone")
        return _Source(path.read_text(encoding="utf-8", errors="replace"), str(path), path.parent)
    if path is not None and (" " not in source or path.suffix in (".sh", ".yaml", ".yml", ".json", ".toml")):
        raise DataError(
            f"{one_line(source)}: no such file; give a launch script, a config, or a whole command in quotes"
        )
    return _Source(source, "the command")


def _launches(source: _Source) -> Iterator[Launch]:
    suffix = Path(source.name).suffix.lower()
    if suffix == ".toml":
        yield from _config(_parsed(source, tomllib.loads), source)
    elif suffix == ".json":
        yield from _config(_parsed(source, json.loads), source)
    elif suffix in (".yaml", ".yml"):
        yield from _yaml(source)
    elif suffix in (".md", ".rst"):
        for block in _FENCED.finditer(source.text):
            yield from _script(block[1], source, {}, source.text.count("\n", 0, block.start(1)))
    else:
        yield from _script(source.text, source, {})


def _parsed(source: _Source, parse: Any) -> Any:
    try:
        return parse(source.text)
    except (ValueError, RecursionError) as error:  # what json and tomllib raise is a ValueError
        where = f"{source.name}:{error.lineno}" if hasattr(error, "lineno") else source.name
        raise DataError(f"{where}: {one_line(str(error))}; mend the syntax") from None


def _config(tree: Any, source: _Source) -> Iterator[Launch]:
    for name in kinds(TOOLS):
        tool = load(TOOLS, name)
        if isinstance(tree, Mapping) and hasattr(tool, "claims") and tool.claims(tree):
            launch = Launch(name, source.name)
            if name == "trtllm":
                tool.read([], launch, tree)
            else:
                tool.read(tree, launch)
            yield launch
            return


def _yaml(source: _Source) -> Iterator[Launch]:
    found = containers.documents(source.text, source.name)
    source.files |= containers.mounted(found)
    for document in found:
        launches = list(_config(document, source))
        yield from launches
        if not launches and not (isinstance(document, Mapping) and document.get("kind") == "ConfigMap"):
            yield from _processes(document, source)


def _processes(document: Any, source: _Source) -> Iterator[Launch]:
    for process in containers.containers(document):
        values: dict[str, Value] = dict(process.environment)
        launches = []
        if process.words:
            words = [Reader(values).shell.text(w.replace("\\", "\\\\")) if "$" in w else w for w in process.words]
            launches = list(_launched(words, source, 0))
        if process.script and not launches:
            launches = list(_script(process.script, source, values))
        for launch in launches:
            ranks = launch.options.get("n")
            if process.gpus and isinstance(ranks, int) and ranks % process.gpus:
                launch.notes.append(f"the container asks for {process.gpus} devices, the launch uses {ranks}")
            yield launch


def _script(text: str, source: _Source, values: dict[str, Value], offset: int = 0) -> Iterator[Launch]:
    script = Reader(values).read(text)
    source.files |= script.files
    for command in script.commands:
        for launch in _launched(command.words, source, command.line + offset):
            if script.undecided:
                launch.notes.append(
                    f"not decidable from here, so every branch was followed: {one_line(script.undecided[0])}"
                )
            yield launch


_SAID = (
    "echo",
    "printf",
    "cat",
    "grep",
    "pkill",
    "pgrep",
    "which",
    "command",
    "ls",
    "rm",
    "cp",
    "mkdir",
    "curl",
    "tee",
    "kill",
    "#",
)


def _launched(words: list[str], source: _Source, line: int) -> Iterator[Launch]:
    """The launch that a command is, or names the config of."""
    if not words or words[0] in _SAID:
        return
    if words[0] == "vllm-image":
        words = (
            ["vllm", "serve", *words[1:]] if words[1:2] and words[1].startswith("-") and words[1] != "-m" else words[1:]
        )
    where = f"{source.name}:{line}" if line and source.folder else source.name
    for name in kinds(TOOLS):
        tool = load(TOOLS, name)
        rest = tool.starts(words) if hasattr(tool, "starts") else None
        if rest is None:
            continue
        launch = Launch(name, where)
        if name == "trtllm":
            tool.read(rest, launch, _named_tree(rest, source, tool.FILES))
        else:
            tool.read(rest, launch)
        yield launch
        return
    for word in words[1:]:
        base = word.partition("=")[2] or word
        if base.endswith((".toml", ".yaml", ".yml")) and (text := source.beside(base)) is not None and len(words) < 200:
            yield from _launches(_Source(text, base, source.folder, source.files))


def _named_tree(words: list[str], source: _Source, names: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The YAML that a flag names, where it can be found."""
    for flag, value in zip(words, [*words[1:], ""], strict=True):
        name, _, joined = flag.lstrip("-").replace("_", "-").partition("=")
        if name in names and (text := source.beside(joined or value)) is not None:
            tree = next(iter(containers.documents(text, joined or value)), None)
            return tree if isinstance(tree, Mapping) else None
    return None


def _ours(launch: Launch, text: str) -> None:
    """What an emitted launch says in a comment, for want of a flag: it goes before what was read."""
    for match in _OURS.finditer(text[:LARGEST]):
        words = shlex.split(match[1] or json.loads(f'"{match[2]}"'))
        i = 0
        while i < len(words):
            flag, i = words[i], i + 1
            name = flag.lstrip("-")
            if name.startswith("no-") and name[3:] in OPTIONS:
                launch.options[name[3:]] = False
            elif name in OPTIONS and OPTIONS[name].kind == "switch":
                launch.options[name] = True
            else:
                option, i = find(name), i + 1
                launch.options[option.name] = words[i - 1] if i <= len(words) else None
                launch.missing.pop(option.name, None)
        launch.notes = []


def options(source: str, given: Mapping[str, Any], warn: Callable[[str], None]) -> dict[str, Any]:
    """Options of an estimate from a launch, those in `given` before its own; `warn` hears what it could not say.

    Raises UsageError for a size that the launch leaves to its run and that is not given, and where no model is named.
    """
    launch = read(source)
    asked = {find(k).name: v for k, v in given.items() if v is not None and v != []}
    found = {k: v for k, v in launch.options.items() if k not in asked}
    for option, why in launch.missing.items():
        if option not in asked:
            flag = f"give {OPTIONS[option].flag}" if option in OPTIONS else "write it out"
            raise UsageError(f"{launch.where}: {one_line(why)}; {flag if option != 'model' else 'give MODEL'}", option)
    if "model" not in found and "model" not in asked:
        found["model"] = _described(launch)
    if "n" in asked and "dp" in found and "dp" not in asked and asked["n"] != found.get("n"):
        found.pop("dp")  # what the devices leave is theirs to say
    if launch.per_replica and "batch" not in asked and "batch" not in found:
        _share(launch, {**found, **asked}, found)
    serving = "train" not in str({**found, **asked}.get("phase", ""))
    if serving and {"concurrency", "qps"} & set(asked):
        found.pop("batch", None)
    for remark in remarks(launch):
        warn(remark)
    return {**found, **asked}


def _share(launch: Launch, known: Mapping[str, Any], found: dict[str, Any]) -> None:
    """The global batch, from that of a replica and the replicas that -n leaves."""
    try:
        n = int(str(known.get("n", 0)))
        replicas = int(str(known.get("dp", 0))) or n // (
            int(str(known.get("tp", 1))) * int(str(known.get("pp", 1))) * int(str(known.get("cp", 1)))
        )
    except ValueError:
        return
    if replicas:
        found["batch"] = replicas * int(launch.per_replica or 1)
    else:
        raise UsageError(
            f"{launch.where}: its batch is {launch.per_replica} sequences a replica, and how many there are is not said; give -n",
            "n",
        )


def _described(launch: Launch) -> str:
    """The model of a launch that names none: by its sizes, from the registry or written for it."""
    name = shapes.named(launch.shape)
    if name is not None:
        launch.notes.append(f"the model is taken to be {name}, which has these sizes; give MODEL for another")
        return name
    path = shapes.written(launch.shape)
    if path is None:
        raise UsageError(f"{launch.where}: names no model; give MODEL beside --from", "model")
    launch.notes.append("no model of the registry has these sizes; one was made of them")
    return path


def remarks(launch: Launch) -> list[str]:
    """What a person should know: options not understood, each named, then what was assumed."""
    found = []
    if launch.unmodelled:
        found.append(f"{launch.where}: not understood, and may change the cost: {', '.join(launch.unmodelled)}")
    return found + [f"{launch.where}: {readable(note)}" for note in launch.notes]
