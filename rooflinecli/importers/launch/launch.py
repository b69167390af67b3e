"""One launch: its options of an estimate, its flags or keys, and those of its tool by their role (flags/*.yaml)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rooflinecli.core.errors import RooflineError
from rooflinecli.core.record import Json
from rooflinecli.core.text import one_line
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.source import Options, Tree
from rooflinecli.specs.name_lookup import find

_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.:-]*(=.*)?", re.DOTALL)
# parts of names that bear on the cost: a pattern of flags/*.yaml hides such a flag only where it spells the part out
_COSTS = re.compile(
    "offload|(?<!p)recompute|activation_checkpoint|gradient_checkpoint|parallel|quant|fp8|fp4|int8|int4|8bit|4bit|batch_size|seq_len|sequence_len"
    "|max_len|expert|shard|dtype|precision|accumul|num_layers|hidden_size|teacher|freeze|frozen|reward_model|gpus|nodes|nproc|replica"
)
_OFF = ("[false]", "['false']", "['none']", "['null']", "['no']", "['']")
_PAIR = re.compile(r"--[A-Za-z][\w-]*[ \t]+[^\s=]+\s*")  # a flag and its value as one word of a list
_WHOLE = re.compile(r"\$\{([^{}]+)\}")
_ENVIRONMENT = re.compile(r"(?:oc\.env:|env:)?([A-Za-z_]\w*)\s*(?::-?|,)\s*(.*)", re.DOTALL)


class ToolFlags(NamedTuple):
    """reasons: patterns of flags that change no cost, each with why; noted: those that may, with what is assumed; the others as in flags/engines.yaml.

    In a `strict` tool a pattern hides a flag that bears on the cost only where it spells out the part of the name that says so.
    """

    reasons: dict[str, str]
    noted: dict[str, str]
    switches: tuple[str, ...]
    many: tuple[str, ...]
    shaping: tuple[str, ...]
    short: dict[str, str]
    read: dict[str, tuple[str, ...]]
    write: dict[str, str]
    launchers: tuple[str, ...] = ()
    image: str = ""
    strict: bool = False
    rules: tuple[Tree, ...] = ()
    claims: tuple[str, ...] = ()
    command: str = ""
    framework: str = ""
    algorithm: tuple[str, ...] = ()
    sizes: dict[str, str] = {}
    draft: dict[str, str] = {}
    carried: dict[str, str] = {}
    environment: str = ""
    writes: tuple[Tree, ...] = ()

    @property
    def setting(self) -> set[str]:
        """Names of the flags that set an option."""
        return {name for names in (*self.read.values(), *map(str.split, self.sizes.values())) for name in names}


@cache
def table(name: str) -> dict[str, Json]:
    """A YAML next to this module."""
    data: dict[str, Json] = yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return data


def formats() -> dict[str, dict[str, str]]:
    """Names of number formats, from formats.yaml."""
    return table("formats.yaml")


@cache
def tool_entries() -> dict[str, Json]:
    """The entries of flags/*.yaml by tool."""
    files = sorted(Path(__file__).with_name("flags").glob("*.yaml"))
    return {tool: entry for path in files for tool, entry in table(f"flags/{path.name}").items()}


@cache
def flags(tool: str) -> ToolFlags:
    """The flags of one tool of tools/."""
    entry = tool_entries()[tool.replace(".", "_")]
    above = flags(entry["extends"]) if "extends" in entry else ToolFlags({}, {}, (), (), (), {}, {}, {})
    kinds = [entry.get(kind, {}).items() for kind in ("idle", "noted")]
    by_pattern = [{pattern: why for why, patterns in kind for pattern in patterns.split()} for kind in kinds]
    words: dict[str, Any] = {key: tuple(entry.get(key, "").split()) for key in ("switches", "many", "shaping")}
    lists: dict[str, Any] = {key: tuple(entry.get(key, ())) for key in ("launchers", "claims", "algorithm", "writes")}
    texts: dict[str, Any] = {key: entry.get(key, "") for key in ("image", "command", "framework", "environment")}
    maps: dict[str, Any] = {key: entry.get(key, {}) for key in ("short", "sizes", "draft", "carried")}
    return ToolFlags(
        {**above.reasons, **by_pattern[0]},
        {**above.noted, **by_pattern[1]},
        read={**above.read, **{option: tuple(names.split()) for option, names in entry.get("read", {}).items()}},
        write={flag: option or "" for flag, option in entry.get("write", {}).items()},
        strict=entry.get("strict", above.strict),
        rules=(*above.rules, *entry.get("rules", ())),
        **words, **lists, **texts, **maps,
    )  # fmt: skip


@dataclass
class Launch:
    """`options` by their names; `missing`: option -> why its value is not known before it runs; `unmodelled`: flags that are not
    understood and may change the cost."""

    tool: str
    where: str
    options: Options = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    unmodelled: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    devices: int | None = None  # of the job around it: a batch header, or pods times the devices of each
    cores: int = 1  # ranks that one device carries
    framework: str = ""  # of training, as the constants of a chip name it; empty where they have none of its own
    speculation: Options = field(default_factory=dict)  # options that hold once the share of accepted tokens is given
    shaping: list[str] = field(default_factory=list)  # flags of the model itself, that a model made of the sizes lacks
    part: bool = False  # one of several processes of the same server
    trains: bool = True
    per_replica: int | None = None  # sequences of a training batch to a replica, where their number follows from -n
    groups: int = 1  # of replicas, each of which shards the weights, where the size of one follows from -n
    open_file: Callable[[str], str | None] = lambda _: None  # the text of a file that a config names
    shape: Options = field(default_factory=dict)  # of the model, where a launch describes it instead of naming it
    environment: dict[str, str] = field(default_factory=dict)  # variables that the server itself reads
    group: int = 1  # replicas of attention inside one tensor parallel group
    longest: tuple[int, str] | None = None  # tokens that a server admits of a request, and the flag that says so
    unread: dict[str, list[str]] = field(default_factory=dict)  # flags of a server that set no option, as written

    def put(self, option: str, written: object, flag: str) -> None:
        """Set an option as written, unless it is empty, `auto` or None."""
        if written is None or str(written).lower() in ("", "auto", "none", "null"):
            return
        text = str(written)
        if written is True:
            self.missing[option] = f"{flag} has no value"
        elif unknowns(text) or "${" in text:
            self.missing[option] = f"{flag} {one_line(readable(text))} is known only where it runs"
        else:
            self.options[option] = written

    def on_chip(self, written: str) -> None:
        """Set the chip that the job or the pod asks for, where it is one of those known here."""
        name = re.sub(r"^(gpu|google)-|-\d+(x\d+)+$|[-_](podslice|slice|device|mega|accelerator)\b", "", written)
        try:
            self.options.setdefault("hw", find("hardware", name).stem)
        except RooflineError:
            asked = f"it asks for the accelerator {one_line(written)}"
            self.notes.append(f"{asked}, which is not known here; --hw names the chip")

    def refuse(self, option: str, why: str) -> None:
        """Mark an option whose value is not supported; it must be given on the command line."""
        self.missing[option] = why

    def unresolved(self, names: Mapping[str, str]) -> list[str]:
        """Options whose flags have a value that only the running script knows: the devices may be chosen, the others must be given."""
        found = {option: why for flag, option in names.items() if (why := self.missing.pop(f"?{flag}", None))}
        for option, why in found.items():
            self.options.pop(option, None)
            if option == "n":
                self.notes = [note for note in self.notes if not note.startswith("the number of devices")]
                self.notes.append(f"{why}; give -n, or the smallest power of two that fits are taken")
            else:
                self.missing[option] = why
        return list(found)


class LaunchArguments:
    """Flags or keys of a launch with their values, and which of them were read.

    Flags are compared without leading dashes, with `-` for `_`; keys of a config are joined by dots.
    """

    def __init__(self, given: Mapping[str, list[Any]], positional: Iterable[str] = (), written: Mapping[str, str] = {}):
        self.given = dict(given)
        self.positional = list(positional)
        self._written = dict(written)
        self.models: set[str] = set()
        self._taken: set[str] = set()

    @classmethod
    def of_words(
        cls,
        words: list[str],
        switches: Iterable[str] = (),
        short: Mapping[str, str] = {},
        many: Iterable[str] | None = None,
    ) -> LaunchArguments:
        """Parse the words of a command. A flag takes the words up to the next flag; one of `switches` takes none.

        Where `many` is given, only those flags take more than one word, and what follows the others is positional.
        """
        several = None if many is None else tuple(many)
        given: dict[str, list[Any]] = {}
        written: dict[str, str] = {}
        positional: list[str] = []
        current: str | None = None
        for word in (part for one in words for part in (one.split(maxsplit=1) if _PAIR.fullmatch(one) else [one])):
            if _FLAG.fullmatch(word):
                flag, equals, value = word.partition("=")
                name = short.get(flag, flag.lstrip("-").replace("_", "-"))
                given[name] = [value] if equals else []
                written[name] = flag
                current = None if equals else name
            elif (
                current is None
                or word == "--"
                or ("[@]" in word and unknowns(word))
                or (current in switches and word.lower() not in ("true", "false"))
            ):
                positional.append(word)
            else:
                given[current].append(word)
                if several is not None and current not in several:
                    current = None
        return cls(given, positional, written)

    @classmethod
    def of_tree(cls, tree: Tree) -> LaunchArguments:
        """Keys of a config, joined by dots."""
        values = {key: value for key, value in flattened(tree).items() if value is not None and value != []}
        given = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
        return cls(given, written={name: name for name in given})

    def model(self, *names: str) -> Any:
        """The checkpoint: what one of these flags names, or the first word that belongs to none."""
        found = self.pop(*names) or next(iter(self.positional), None)
        self.models.add(str(found))
        return found

    def under(self, tree: Tree) -> None:
        """Flags of a file that the command names; its own go before. False is a switch that is off."""
        for key, value in tree.items():
            if value is not None and value is not False:
                one = json.dumps(value) if isinstance(value, Mapping) else value
                self.given.setdefault(key, value if isinstance(value, list) else [] if value is True else [one])

    def unpack(self, name: str, parse: Callable[[object], Tree]) -> None:
        """A flag whose value is a mapping, as flags of its keys; those that are given go before."""
        for key, value in parse(self.pop(name)).items():
            self.given.setdefault(f"{name}.{key}".replace("_", "-"), [value])

    def rename(self, name: str, whole: str) -> None:
        """Give a flag the name that it is short for, unless that is given too."""
        self.given.setdefault(whole, self.given.pop(name))
        self._written[whole] = self._written.get(name, f"--{name}")

    def _name(self, names: Iterable[str]) -> str:
        """The first of these flags that is given."""
        return next((one for one in _spelled(names) if one in self.given), "")

    def has(self, name: str) -> bool:
        """Whether this flag, or a key of this table, is given."""
        return bool(self._name([name])) or any(one.startswith(f"{name}.") for one in self.given)

    def read(self, name: str) -> bool:
        """Whether this flag is given and was read."""
        return name in self.given and name in self._taken

    def values(self, name: str) -> list[Any]:
        return self.given.get(self._name([name]), [])

    def first(self, name: str, default: object = None) -> Any:
        """The first value of a flag, which stays unread; the default where it is not given, or cut off before its value."""
        return next(iter(self.given.get(name, ())), default)

    def pop(self, *names: str, default: object = None) -> Any:
        """The value of the first of these flags, True for one without a value; None where none is given. All of them count as read."""
        self._taken |= {*_spelled(names)}
        found = self._name(names)
        return default if not found else self.given[found][0] if self.given[found] else True

    def put(self, launch: Launch, option: str, *names: str) -> None:
        """The option that these flags set."""
        value = self.pop(*names)
        if value is not None:
            digits = isinstance(value, str) and value.replace("_", "").isdigit()
            launch.put(option, value.replace("_", "") if digits else value, self.written(*names))

    def written(self, *names: str) -> str:
        """The first of these flags that is given, as it is written; a variable by its name."""
        name = self._name(names) or names[0]
        return self._written.get(name, name if name.isupper() else f"--{name}")

    def whole(self, launch: Launch, *names: str, default: int | None = None) -> int | None:
        """A whole number that several options follow from; what is not one makes the launch unreadable there."""
        value = self.pop(*names)
        if value is None or str(value).lower() in ("auto", "null", "none", ""):
            return default
        try:
            return int(str(value).replace("_", ""))
        except ValueError:
            name = self._name(names)
            text = "has no value" if value is True else f"{one_line(readable(str(value)))} is not a number"
            launch.missing.setdefault(f"?{name}", f"{self.written(name)} {text}")
            return default

    def count(self, *names: str) -> int | None:
        """A whole number; None where none is given."""
        found = str(self.pop(*names))
        return int(found) if found.isdigit() else None

    def unread(self) -> dict[str, list[str]]:
        """Flags that were not read, each with its words as written."""
        left = {name: values for name, values in self.given.items() if name not in self._taken}
        return {name: [self.written(name), *map(str, values)] for name, values in left.items()}

    def left(self, known: ToolFlags, also: Iterable[str] = ()) -> list[str]:
        """Flags that were neither read nor idle, with their values and what is assumed; and positional words that may hold flags."""
        patterns = (*known.reasons, *also, "_comment*", "*._comment*")  # JSON has no comments
        words = [word for word in self.positional if word not in self.models]
        found = [one_line(readable(word))[:80] for word in words if unknowns(word)]
        for name, values in self.given.items():
            spelled = {name, name.replace("_", "-"), name.replace("-", "_")}
            valued = {f"{one}={' '.join(map(str, values))}" for one in spelled}

            def matches(patterns: Iterable[str], names: set[str] = spelled, valued: set[str] = valued) -> Iterator[str]:
                return (p for p in patterns for one in (valued if "=" in p else names) if fnmatchcase(one, p))

            assumed = next((known.noted[pattern] for pattern in matches(known.noted)), "")
            off = str(values[:1]).lower() in _OFF and not any("=" in one for one in matches(known.noted))
            hidden = any(not known.strict or _costs(name) <= _costs(pattern) for pattern in matches(patterns))
            idle = not assumed and hidden
            if name in self._taken or off or idle:
                continue
            written = one_line(readable(" ".join([self.written(name), *map(str, values)])))[:80]
            found.append(f"{written} ({assumed})" if assumed else written)
        return found


def _costs(name: str) -> set[str]:
    """The parts of a name that bear on the cost."""
    return set(_COSTS.findall(name.lower().replace("-", "_")))


def _spelled(names: Iterable[str]) -> list[str]:
    """Flags as they may be written: a key of a config with `_` for `-`, and what argparse takes for a name that is cut short."""
    return [one for name in names for one in (name, name.replace("-", "_"), re.sub(r"-size$|(?<=seq)s$", "", name))]


def named_file(words: list[str], names: Iterable[str], any_suffix: bool = False) -> str:
    """The config that one of these flags names; empty for none."""
    args = LaunchArguments.of_words(words, many=())
    values = [str(args.pop(name)) for name in names]
    suffixes = ("/", ".json", ".yaml", ".yml", ".conf") if not any_suffix else ("",)
    return next((v for v in values if v not in ("None", "True") and v.endswith(suffixes)), "")


_ASSIGNED = re.compile(r"\+{0,2}([a-z][\w.]*)=(.*)", re.DOTALL)


def yaml_value(text: str) -> Any:
    """A word as the value that YAML reads in it; the word itself where it is none."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def assigned_keys(words: Iterable[str]) -> Options:
    """Keys that the words of a command set, as Hydra writes them: model.micro_batch_size=2."""
    return {match[1]: yaml_value(match[2]) for word in words if (match := _ASSIGNED.fullmatch(word))}


def overridden(tree: Tree, overrides: Options) -> Options:
    """A config with keys of the command that names it."""
    changed: Options = dict(tree)
    for key, value in overrides.items():
        table, _, inner = key.partition(".")
        below = changed.get(table)
        changed[table] = overridden(below if isinstance(below, Mapping) else {}, {inner: value}) if inner else value
    return changed


def interpolated(tree: object) -> Any:
    """Fill in defaults and references; a value that neither gives stays as written."""
    return _filled(tree, tree, 0)


def _filled(node: object, root: object, depth: int, above: tuple[Any, ...] = ()) -> Any:
    if depth > 60:
        return node
    if isinstance(node, Mapping):
        return {key: _filled(value, root, depth + 1, (node, *above)) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, root, depth + 1, above) for value in node]
    if not isinstance(node, str) or "${" not in node:
        return node

    def written(match: re.Match[str]) -> str:
        value = _value(match[1], root, depth, above)
        return match[0] if isinstance(value, (Mapping, list)) else "null" if value is None else str(value)

    text, before = node, ""
    while text != before and len(text) < 10_000:  # the innermost first
        if whole := _WHOLE.fullmatch(text):
            return _value(whole[1], root, depth, above)
        before, text = text, _WHOLE.sub(written, text)
    return text


# resolvers of OmegaConf and NeMo over numbers
_RESOLVERS: dict[str, Callable[..., Any]] = {
    "mul": lambda *some: prod(some), "multiply": lambda *some: prod(some), "add": lambda *some: sum(some), "sub": lambda one, other: one - other,
    "div": lambda one, other: one / other, "floor_div": lambda one, other: one // other, "floor": int, "oc.decode": lambda one: one,
}  # fmt: skip


def _value(inside: str, root: object, depth: int, above: tuple[Any, ...]) -> Any:
    name, _, operands = inside.partition(":")
    if name in _RESOLVERS:
        try:
            return _RESOLVERS[name](*(yaml.safe_load(one) for one in operands.split(",")))
        except (yaml.YAMLError, TypeError, ValueError, ZeroDivisionError):
            return f"${{{inside}}}"
    default = _ENVIRONMENT.fullmatch(inside)
    if default:
        try:
            return yaml.safe_load(default[2]) if default[2] else ""
        except yaml.YAMLError:
            return default[2]
    path = inside.strip().lstrip(".")
    table, _, rest = path.partition(".")
    if table in ("training", "fine_tuning", "peft") and isinstance(root, Mapping) and table not in root:
        path = rest  # NeMo's launcher has its configs under these keys
    # OmegaConf: one for the enclosing mapping, one more for each level above
    dots = len(inside.strip()) - len(inside.strip().lstrip("."))
    found = root if not dots else above[dots - 1] if dots <= len(above) else None
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return f"${{{inside}}}" if found is None else _filled(found, root, depth + 20, above)


def merged_trees(under: Json, over: Json) -> Json:
    """A config over the one that it extends."""
    both = {
        key: merged_trees(under[key], value)
        for key, value in over.items()
        if isinstance(value, dict) and isinstance(under.get(key), dict)
    }
    return {**under, **over, **both}


def flattened(tree: object, key: str = "") -> Options:
    """Values of a config by their keys, joined by dots."""
    if not isinstance(tree, Mapping):
        return {key: tree}
    found: Options = {}
    for name, inner in tree.items():
        found |= flattened(inner, f"{key}.{name}" if key else str(name))
    return found
