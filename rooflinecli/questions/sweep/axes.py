"""What a sweep runs over: structure (loops), sizes and hardware figures (array dimensions), each as an Axis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from math import prod

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request
from rooflinecli.price import overrides
from rooflinecli.questions.multi_chip import Options
from rooflinecli.specs import parse_values, prices
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.layout import LEFT_OPEN
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import OPTIONS, Option
from rooflinecli.specs.request import MOST, kinds_of_work

LARGEST = 1_000_000  # values of a range
MOST_CHOSEN = 500  # points: each is a choice of some milliseconds, in training of some tenths of a second
_RANGE = re.compile(r"^(?P<low>.+?)\.\.(?P<high>[^/x*]+?)(?:\s*(?P<op>[/x*])\s*(?P<step>[^\s/x*]+))?$")
_UNIT = re.compile(r"^(?P<numbers>.*[0-9x])\s*(?P<unit>[A-Za-z%][A-Za-z%/$]*)$")

Read = Callable[[str], float]


def values(flag: str, text: str, read: Read, unit_shared: bool = False) -> tuple[float, ...]:
    """The numbers an axis names, in the order written, repeats dropped.

    `read` turns one written number into SI; with `unit_shared` a unit at the very end holds for every number of an item
    (`2..5/0.5 TB/s`). Raises UsageError with the flag when a range is empty, endless or not a range.
    """
    found: list[float] = []
    for item in str(text).split(","):
        found += _item(flag, item.strip(), read, unit_shared)
    return tuple(dict.fromkeys(found))


def _item(flag: str, item: str, read: Read, unit_shared: bool) -> list[float]:
    if ".." not in item:
        return [read(item)]
    unit = ""
    if unit_shared and (with_unit := _UNIT.match(item)) and with_unit["unit"] != "x":
        item, unit = with_unit["numbers"], " " + with_unit["unit"]
    match = _RANGE.match(item)
    if not match:
        raise UsageError(f"{flag} {item}: not a range; write 1..512, 1..512/8 (step) or 1..512x2 (factor)")
    low, high = read(match["low"].strip() + unit), read(match["high"].strip() + unit)
    if high < low:
        raise UsageError(f"{flag} {item}: ends below its start; write {match['high']}..{match['low']}")
    if match["op"] in ("x", "*"):
        try:
            factor = float(match["step"])
        except ValueError:
            raise UsageError(f"{flag} {item}: '{match['step']}' is not a factor; write for example 1..512x2") from None
        if factor <= 1 or low <= 0:
            raise UsageError(
                f"{flag} {item}: a geometric range starts above zero and its factor is above one, as in 1..512x2"
            )
        result = []
        while low <= high * (1 + 1e-12):
            result.append(low)
            low *= factor
        return result
    step = read(match["step"] + unit) if match["op"] == "/" else 1.0
    if step <= 0:
        raise UsageError(f"{flag} {item}: the step must be above zero")
    count = int((high - low) / step * (1 + 1e-12)) + 1
    if count > LARGEST:
        many = f"{count:,}" if count < 1e15 else f"{float(count):.3g}"
        raise UsageError(f"{flag} {item}: {many} values; give a step (/8) or a factor (x2)")
    return [low + i * step for i in range(count)]


@dataclass(frozen=True)
class Axis:
    """One thing that varies. kind: structure, number (a field of Request) or figure (a dotted path of the hardware file).

    Values are SI; `tokens` marks a batch written in tokens, `relative` a figure written as a multiple of the file's.
    """

    name: str
    kind: str
    values: tuple[Number, ...]
    tokens: bool = False
    relative: bool = False


@dataclass(frozen=True)
class Space:
    """The product of all axes, structure outermost; `fixed` holds what was given once."""

    structure: tuple[Axis, ...]
    sizes: tuple[Axis, ...]
    phases: tuple[str, ...]
    hardware: tuple[str, ...] = field(default=())

    @property
    def points(self) -> int:
        return prod(len(axis.values) for axis in (*self.structure, *self.sizes))

    @property
    def chooses(self) -> bool:
        """Whether a size of the layout is left out, which `estimate` would choose; a large sweep takes it as 1."""
        given = {axis.name.replace("-", "_") for axis in (*self.structure, *self.sizes)}
        return self.points <= MOST_CHOSEN and any(set(LEFT_OPEN[kind]) - given for kind in kinds_of_work(self.phases))

    @property
    def swept(self) -> tuple[Axis, ...]:
        return tuple(a for a in (*self.structure, *self.sizes) if len(a.values) > 1)


def space(options: Options, figures: list[str] | None = None, quantities: Iterable[str] = ()) -> Space:
    """Options by any of their names -> the space they span; `quantities`: those that are asked for. Raises UsageError naming the flag that is wrong."""
    given = build_request.named(options, "`roofline sweep --help` lists them")
    default = "train" if build_request.implied(given, quantities) == "train" else "prefill,decode"
    phases = build_request.phases(given.pop("phase", default))
    axes = [axis(option, given[name]) for name, option in OPTIONS.items() if name in given]
    structure = tuple(a for a in axes if a.kind == "structure")
    chips = next(a.values for a in structure if a.name == "hw")
    specs = [load_hardware(name) for name in chips]
    sizes = (*(a for a in axes if a.kind == "number"), *(_figure(text, specs) for text in figures or []))
    build_request.check_conflicts(given, phases)
    # what `estimate` would remark on at the largest point of each structure
    largest = {a.name: max(a.values) for a in sizes if a.kind == "number"}
    named = {a.name: a.values for a in structure}
    at_largest = {**largest, "phases": phases} | ({"weight_dtype": ""} if "weight-dtype" in named else {})
    for model, dtype in product(named["model"], named.get("dtype", (None,))):
        build_request.warn_about(load_model(model), at_largest | {"dtype": dtype})
    for spec, region in product(specs, named.get("region", ()) if "price" not in given else ()):
        build_request.warn_of_offer(spec, None, str(region))
    return Space(structure, sizes, phases, chips)


def axis(option: Option, written: object) -> Axis:
    """What an option ranges over: numbers as ranges, anything else as a list (of lists: with semicolons)."""
    flag = option.flag
    each = [str(item) for item in written] if isinstance(written, (list, tuple)) else str(written).split(",")
    names_offer = option.kind == "price" and any(map(prices.parse, each))
    if not names_offer and (option.numeric or option.kind in ("stage", "pictures")):
        text = ",".join(map(str, written)) if isinstance(written, (list, tuple)) else str(written)
        tokens = [parse_values.in_tokens(item) for item in text.split(",")]
        if any(tokens) and not all(tokens):
            raise UsageError(f"{flag} {text}: give every value in tokens, or none", option.name)
        found = values(flag, text, lambda item: build_request.parse_number(option, item, flag))
        for end in (min(found), max(found)):
            build_request.check_bounds(option, end, flag)
        if max(found) == MOST and len(found) > 1:
            raise UsageError(f"{flag} {text}: max stands alone; sweep numbers, or leave the rest out", option.name)
        if option.kind in ("stage", "pictures"):
            return Axis(option.name, "structure", tuple(int(each) for each in found))
        return Axis(option.name, "number", found, tokens=any(tokens))
    items = written if isinstance(written, (list, tuple)) else str(written).split(";" if option.kind == "list" else ",")
    words = [str(item).strip() for item in items if str(item).strip()]
    if not words:
        raise UsageError(f"{flag} {written!r}: expected a value", option.name)
    read = [w if option.kind == "name" else build_request.value(option, w, flag) for w in words]
    return Axis(option.name, "structure", tuple(dict.fromkeys(read)))


def _figure(text: str, specs: list[HardwareSpec]) -> Axis:
    """`memory.bandwidth=2..5/0.5 TB/s`, `peak.bf16=x1,x1.5,x2` or `efficiency.matmul.compute=0.5..0.9/0.1`."""
    path, equals, written = text.partition("=")
    path = path.strip()
    if not equals:
        raise UsageError(f"--set {text}: write --set FIGURE=VALUES, for example --set 'memory.bandwidth=2..5/0.5 TB/s'")
    relative = written.strip().startswith("x")
    if relative and path.startswith("efficiency."):
        raise UsageError(f"--set {text}: constants differ by number format; give values, not multiples")
    dimension = {overrides.unit(spec, path) for spec in specs}.pop()

    def read(item: str) -> float:
        try:
            if relative:
                return units.parse(item.strip().removeprefix("x").strip(), "1")
            return units.parse(item.strip() if dimension == "1" else item, dimension)
        except ValueError as error:
            raise UsageError(f"--set {text}: {error}") from None

    found = values(f"--set {path}", written.strip(), read, unit_shared=True)
    if min(found) <= 0:
        raise UsageError(f"--set {text}: figures are above zero", "set")
    bound = overrides.most(path)
    if bound is not None and max(found) > bound:  # beyond it an expected time would beat its floor
        raise UsageError(f"--set {text}: {path} is a share of what the chip can do; give at most {bound:g}", "set")
    return Axis(path, "figure", found, relative=relative)
