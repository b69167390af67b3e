"""What a sweep runs over: structure (loops), sizes and hardware figures (array dimensions), each as an Axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rooflinecli import units
from rooflinecli.answers import ask
from rooflinecli.answers.sweep import ranges
from rooflinecli.errors import UsageError, unknown
from rooflinecli.price import settable
from rooflinecli.specs.hardware import HardwareSpec, load_hardware

STRUCTURE = ("model", "hw", *ask.WORDS, "zero", *ask.SWITCHES)
AT_LEAST_ONE = tuple(o for o in ask.WHOLE if o not in ("output", "lora-rank"))


@dataclass(frozen=True)
class Axis:
    """One thing that varies. kind: structure, number (a field of Request) or figure (a dotted path of the hardware file).

    Values are SI; `tokens` marks a batch written in tokens, `relative` a figure written as a multiple of the file's.
    """

    name: str
    kind: str
    values: tuple[Any, ...]
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
        total = 1
        for axis in (*self.structure, *self.sizes):
            total *= len(axis.values)
        return total

    @property
    def swept(self) -> tuple[Axis, ...]:
        return tuple(a for a in (*self.structure, *self.sizes) if len(a.values) > 1)


def space(options: dict[str, Any], figures: list[str] | None = None) -> Space:
    """Options by their long names -> the space they span. Raises UsageError naming the flag that is wrong."""
    given = {k.replace("_", "-"): v for k, v in options.items() if v is not None}
    asked = given.pop("phase", "prefill,decode")
    phases = ask.phases(asked if isinstance(asked, str) else ",".join(asked))
    for key in given:
        if key not in ask.OPTIONS:
            raise unknown("option", key, ask.OPTIONS, "`roofline sweep --help` lists them")
    for key in ("model", "hw"):
        if key not in given:
            raise UsageError(f"no {'model' if key == 'model' else '--hw'} given")
    structure = tuple(_structure(name, given[name]) for name in STRUCTURE if name in given)
    sizes = tuple(_number(name, given[name]) for name in ask.NUMBERS if name in given)
    chips = next(a.values for a in structure if a.name == "hw")
    specs = [load_hardware(name) for name in chips]
    return Space(structure, (*sizes, *(_figure(text, specs) for text in figures or [])), phases, chips)


def _structure(name: str, written: Any) -> Axis:
    items = written if isinstance(written, (list, tuple)) else str(written).split(";" if name == "stages" else ",")
    if name in ask.SWITCHES:
        return Axis(name, "structure", tuple(dict.fromkeys(_switch(name, i) for i in items)))
    if name == "zero":
        stages = ranges.values("--zero", ",".join(map(str, items)), lambda text: ask.number("zero", text))
        if any(s not in (0, 1, 2, 3) for s in stages):
            raise UsageError(f"--zero {written}: stages are 0, 1, 2 and 3")
        return Axis(name, "structure", tuple(int(s) for s in stages))
    words = tuple(dict.fromkeys(str(i).strip() for i in items if str(i).strip()))
    return Axis(name, "structure", tuple(ask.word(name, w) for w in words) if name in ask.WORDS else words)


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in ("true", "false", "yes", "no", "on", "off"):
        raise UsageError(f"--{name} {value}: expected yes or no")
    return word in ("true", "yes", "on")


def _number(name: str, written: Any) -> Axis:
    text = ",".join(map(str, written)) if isinstance(written, (list, tuple)) else str(written)
    tokens = [item.strip().endswith("-tokens") for item in text.split(",")]
    if any(tokens) and not all(tokens):
        raise UsageError(f"--{name} {text}: give every value in tokens, or none")
    found = ranges.values(f"--{name}", text, lambda item: ask.number(name, item))
    if max(found) == float("inf") and len(found) > 1:
        raise UsageError(f"--{name} {text}: max stands alone; sweep numbers, or leave the rest out")
    if name in AT_LEAST_ONE and min(found) < 1:
        raise UsageError(f"--{name} {min(found):g}: must be at least 1")
    if min(found) < 0 or (name == "utilisation" and not 0 < min(found) <= max(found) <= 1):
        raise UsageError(f"--{name} {text}: out of range")
    return Axis(name, "number", found, tokens=any(tokens))


def _figure(text: str, specs: list[HardwareSpec]) -> Axis:
    """`memory.bandwidth=2..5/0.5 TB/s`, `peak.bf16=x1,x1.5,x2` or `efficiency.matmul.compute=0.5..0.9/0.1`."""
    path, equals, written = text.partition("=")
    path = path.strip()
    if not equals:
        raise UsageError(f"--set {text}: write --set FIGURE=VALUES, for example --set 'memory.bandwidth=2..5/0.5 TB/s'")
    relative = written.strip().startswith("x")
    if relative and path.startswith("efficiency."):
        raise UsageError(f"--set {text}: constants differ by number format; give values, not multiples")
    dimension = {settable.unit(spec, path) for spec in specs}.pop()
    read = (
        (lambda item: _parse(text, item.strip().removeprefix("x"), "1"))
        if relative
        else (lambda item: _parse(text, item, dimension))
    )
    found = ranges.values(f"--set {path}", written.strip(), read, unit_shared=True)
    if min(found) <= 0:
        raise UsageError(f"--set {text}: figures are above zero")
    return Axis(path, "figure", found, relative=relative)


def _parse(text: str, item: str, dimension: str) -> float:
    try:
        return units.parse(item if dimension != "1" else item.strip(), dimension)
    except ValueError as error:
        raise UsageError(f"--set {text}: {error}") from None
