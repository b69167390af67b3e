"""Plan files -> cases: every named check with its defaults filled in and its matrix expanded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from rooflinecli.core import files
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.files import missing_reason
from rooflinecli.engine import build_request
from rooflinecli.questions.check import requirement
from rooflinecli.questions.check.fleet_quantities import FLEET
from rooflinecli.questions.check.interval_bounds import phase_of
from rooflinecli.questions.check.plan_file import CheckFile, CheckSpec, load_checks
from rooflinecli.questions.check.requirement import Requirement
from rooflinecli.questions.file_options import as_options, path_of
from rooflinecli.specs import options as table
from rooflinecli.specs.request import HOLDS
from rooflinecli.specs.yaml_loader import Document, KeyPath

FROM = "from"  # a check's launch: a script, a config or a command, in place of options

FILES = {"model": "models", "hw": "hardware"}
LARGEST_MATRIX = 10_000
_SERVING = ["prefill", "decode"]


@dataclass(frozen=True)
class CheckCase:
    """One estimate and its requirements."""

    name: str
    options: dict[str, Any]
    requirements: tuple[Requirement, ...]
    hold: str
    where: str
    description: str
    lines: dict[str, str]
    simulate: tuple[tuple[str, Any], ...] = ()
    measured: tuple[Path, ...] = ()
    fleet: Path | None = None

    @property
    def line(self) -> int:
        return int(self.where.rpartition(":")[2])

    @property
    def file(self) -> str:
        return self.where.rpartition(":")[0]


def load(path: Path, hold: str | None = None) -> tuple[list[CheckCase], CheckFile]:
    """Every case of a plan file, and the file. Raises DataError with file:line."""
    plan, document = load_checks(path)
    defaults = as_options(plan.defaults, document, ("defaults",))
    cases: list[CheckCase] = []
    for name, check in plan.checks.items():
        if check.fleet is not None:
            cases.append(_of_fleet(name, check, plan, document, hold))
            continue
        cases.extend(_cases(name, check, plan, document, defaults, hold))
    return cases, plan


def _cases(
    name: str, check: CheckSpec, plan: CheckFile, document: Document, defaults: dict[str, Any], hold: str | None
) -> Iterator[CheckCase]:
    key = ("checks", name)
    where = document.location(*key)
    own = _launched(check, document, key, defaults) | as_options(_but_from(check.options), document, key)
    axes = as_options(check.matrix, document, (*key, "matrix"))
    lines = {
        table.find(k).name: document.location(*at, k)
        for at, group in ((("defaults",), plan.defaults), (key, check.options), ((*key, "matrix"), check.matrix))
        for k in group
        if k != FROM
    }
    for option in axes:
        if option in own:
            raise DataError(
                f"{lines[option]}: {option}: given twice, once as an option and once in the matrix; keep one"
            )
    if prod(map(len, axes.values())) > LARGEST_MATRIX:
        raise DataError(
            f"{document.location(*key, 'matrix')}: matrix: more than {LARGEST_MATRIX} combinations; split it or drop values"
        )
    wanted = tuple(_requirements(check, document, key))
    held = check.hold or plan.hold
    measured = _measured(check, wanted, document, key)
    for values in product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        options = _asked({**defaults, **own, **point}, wanted, document.path.parent)
        options, end = _held({**options, "hold": hold} if hold else options, held)
        label = ", ".join(f"{k}={v}" for k, v in point.items())
        yield CheckCase(
            f"{name}[{label}]" if label else name,
            options,
            wanted,
            end,
            where,
            check.description,
            lines,
            _load(check, document.path.parent),
            measured,
        )


def _of_fleet(name: str, check: CheckSpec, plan: CheckFile, document: Document, hold: str | None) -> CheckCase:
    """The case of a whole fleet. Raises DataError for a file that is not there, and for what belongs to an estimate."""
    key = ("checks", name)
    path = document.path.parent / str(check.fleet)
    if not path.is_file():
        raise DataError(
            f"{document.location(*key, 'fleet')}: fleet: {path}: {missing_reason(path)}; give the file of a fleet, relative to the plan"
        )
    others = [*check.options, *(field for field in ("matrix", "simulate", "measured") if getattr(check, field))]
    for other in others:
        raise DataError(
            f"{document.location(*key, other)}: {other}: not allowed in a fleet check; set it in {check.fleet}"
        )
    wanted = tuple(_requirements(check, document, key))
    for requirement_ in wanted:
        if not requirement_.quantity.startswith(FLEET):
            raise DataError(
                f"{requirement_.where}: {requirement_.quantity}: not a fleet quantity; use for example fleet.growth: '>= 1.2'"
            )
    held = hold or check.hold or plan.hold
    return CheckCase(name, {}, wanted, held, document.location(*key), check.description, {}, fleet=path)


def _held(options: dict[str, Any], held: str) -> tuple[dict[str, Any], str]:
    """Options with the end of the interval that is held, by which the layout is chosen too, and that end; one of the options wins."""
    end = str(build_request.value(table.OPTIONS["hold"], options.get("hold", held)))
    others = {name: written for name, written in options.items() if name != "hold"}
    return ({**others, "hold": end} if end != HOLDS[0] else others), end


def _load(check: CheckSpec, folder: Path) -> tuple[tuple[str, Any], ...]:
    """What `simulate:` says, a trace beside the plan found there."""
    found = dict(check.simulate)
    trace = found.get("trace")
    if isinstance(trace, str) and (folder / trace).is_file():
        found["trace"] = str(folder / trace)
    return tuple(found.items())


def _measured(
    check: CheckSpec, wanted: tuple[Requirement, ...], document: Document, key: tuple[str, ...]
) -> tuple[Path, ...]:
    """The measured files, found beside the plan. Raises DataError for one that is not there, and where nothing is required of it."""
    where = document.location(*key, "measured")
    names = (
        check.measured if isinstance(check.measured, list) else [check.measured] if check.measured is not None else []
    )
    found = tuple(document.path.parent / str(name) for name in names)
    for path in found:
        if not path.is_file():
            raise DataError(
                f"{where}: measured: {path}: {missing_reason(path)}; give benchmark results or a training log, relative to the plan"
            )
    if found and not any(r.quantity.startswith("measured.") for r in wanted):
        raise DataError(f"{where}: measured: has no requirement; add one, for example measured.gap: '<= 20%'")
    return found


def _but_from(written: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in written.items() if k != FROM}


def _launched(check: CheckSpec, document: Document, key: tuple[str, ...], defaults: dict[str, Any]) -> dict[str, Any]:
    """Options of the launch that `from` names, a file beside the plan or a command. Raises DataError with file:line."""
    written = check.options.get(FROM)
    if written is None:
        return {}
    from rooflinecli.importers.launch import read

    where = document.location(*key, FROM)
    beside = document.path.parent / str(written)
    given = {k: v for k, v in {**defaults, **_but_from(check.options)}.items() if k not in check.matrix}
    given |= {name: values[0] for name, values in check.matrix.items()}
    try:
        found = read.options(
            str(beside) if files.is_existing_file(beside, "#") else str(written), given, build_request.warn
        )
    except (UsageError, DataError) as error:
        raise DataError(f"{where}: {FROM}: {error}") from None
    taken = {table.find(name).name for name in (*given, *check.matrix)}
    return {k: v for k, v in found.items() if k not in taken}


def _requirements(check: CheckSpec, document: Document, key: tuple[str, ...]) -> Iterator[Requirement]:
    for quantity, written in check.require.items():
        several = isinstance(written, list)
        for i, one in enumerate(written if several else [written]):  # type: ignore[arg-type]
            at: KeyPath = (*key, "require", quantity, i) if several else (*key, "require", quantity)
            yield requirement.parse(quantity.removeprefix("phases."), one, document.location(*at))


def _asked(options: dict[str, Any], wanted: tuple[Requirement, ...], folder: Path) -> dict[str, Any]:
    """The options with files found beside the plan, and the phases the check speaks of when it gives none."""
    asked = dict(options)
    for option, kind in FILES.items():
        if isinstance(asked.get(option), str):
            asked[option] = path_of(kind, asked[option], folder)
    if "phase" not in asked:
        asked["phase"] = _phases(asked, wanted)
    return asked


def _phases(asked: dict[str, Any], wanted: tuple[Requirement, ...]) -> list[str]:
    """Those the requirements name; without any, training when an option only training has is given, else serving."""
    named = {phase_of(r.quantity) for r in wanted} - {""}
    if not named:
        return ["train"] if any(table.OPTIONS[name].phase == "train" for name in asked) else list(_SERVING)
    return [*(_SERVING if named - {"train"} else []), *(["train"] if "train" in named else [])]
