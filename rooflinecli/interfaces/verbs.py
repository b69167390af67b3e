"""The questions that may be asked over a wire or in Python, by verb, and how each is answered.

A class is imported when its verb is asked for; to add a verb to every interface is to add its line to verbs.yaml.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rooflinecli.core.errors import RooflineWarning, UsageError
from rooflinecli.core.files import is_existing_file, write
from rooflinecli.core.record import Record, plain
from rooflinecli.questions.question import Question
from rooflinecli.specs.snapshots import packaged

if TYPE_CHECKING:
    from rooflinecli.importers.source import Options
    from rooflinecli.questions.compare.question import MeasuredGap

AnswerT = TypeVar("AnswerT")
_TABLE = packaged(__file__)
NAMES: tuple[str, ...] = tuple(_TABLE["questions"])
COMMANDS: tuple[str, ...] = tuple(_TABLE["commands"])


def question(verb: str) -> type[Question[object]]:
    """The record of a verb."""
    if " " in verb:
        return next(each for each in several(verb.partition(" ")[0]) if each.verb == verb)
    module, _, name = (_TABLE["questions"] | _TABLE["commands"])[verb].partition(":")
    found: type[Question[object]] = getattr(import_module(f"rooflinecli.{module}"), name)
    return found


def several(group: str) -> tuple[type[Question[object]], ...]:
    """The questions of a verb that has several."""
    found: tuple[type[Question[object]], ...] = import_module(f"rooflinecli.questions.{group}.question").QUESTIONS
    return found


def answer(asked: Question[Any]) -> dict[str, object]:
    """The answer as the object of the JSON contract. Raises the errors of rooflinecli.core.errors."""
    return dict(plain(answered(asked)))


def answered(asked: Question[Any]) -> Any:
    """The answer, measured rows read where the question names them."""
    if asked.verb == "check":
        return asked.answer(measured_rows)  # type: ignore[call-arg]
    if asked.verb == "compare":
        return compared(asked)
    if asked.verb == "calibrate":
        from rooflinecli.calibrate.answer import report

        return report(asked.answer())
    return asked.answer()


@contextmanager
def with_file(name: str, written: Options) -> Iterator[Options]:
    """Options with what is written as field `name`, where it is no file, put into one. Raises UsageError where neither is given."""
    import tempfile

    text = written.get(name)
    if name and not text:
        raise UsageError(f"no {name} given; give its path, or its YAML", name)
    with tempfile.TemporaryDirectory() if isinstance(text, str) else nullcontext() as folder:
        if folder is not None and ("\n" in str(text) or not is_existing_file(Path(str(text)))):
            path = Path(folder) / ("plan.yaml" if name in ("plan", "file") else "sent.txt")
            write(path, str(text))
            written = {**written, name: str(path)}
        yield written


def compared(asked: Any) -> Record:
    """The comparison of chips, or measured rows next to the estimate on one of them."""
    if not asked.measured:
        found: Record = asked.answer()
        return found
    from rooflinecli.calibrate.answer import against, aside
    from rooflinecli.calibrate.resolve_rows import resolve
    from rooflinecli.importers.logs import read
    from rooflinecli.questions.compare.question import MeasuredAnswer

    if len(asked.chips) != 1:
        raise UsageError("--measured compares with one chip; give one --hw", "hw")
    rows = resolve(
        [row for file in asked.measured for row in read(Path(file))], asked.options() | {"hw": asked.chips[0]}
    )
    return MeasuredAnswer(rows=against(rows.rows), aside=aside([*rows.doubts, *rows.aside]), notes=rows.notes)


def measured_rows(files: Sequence[Path], options: Options) -> list[MeasuredGap]:
    """Rows of the measured files of a plan with their estimates; their readers are imported only where a plan names one."""
    from rooflinecli.calibrate.answer import rows_of_plan

    return rows_of_plan(files, options)


_WARNINGS_LOCK = threading.Lock()  # warnings belong to the whole process


def answer_with_sources(asked: Callable[[], Question[object]], options: dict[str, object]) -> dict[str, object]:
    """The answer, the warnings that the command line would print, and the sources of its figures.

    Raises the errors of rooflinecli.core.errors.
    """
    with _WARNINGS_LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RooflineWarning)
        found = answer(asked())
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, RooflineWarning))
    return {"answer": found, "remarks": list(texts), "sources": _sources(options)}


def without_warnings(answer: Callable[[], AnswerT]) -> AnswerT:
    """An answer alone, one at a time."""
    with _WARNINGS_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", RooflineWarning)
        return answer()


def _sources(options: dict[str, object]) -> dict[str, object]:
    """Return citations of the model's file and of the chips' files, for those that are given."""
    from rooflinecli.engine import build_request
    from rooflinecli.specs.hardware import load_hardware
    from rooflinecli.specs.model import load_model

    found: dict[str, object] = {}
    if options.get("model"):
        found["model"] = load_model(str(options["model"])).source
    written = options.get("hw") or options.get("hardware") or ""
    chips = ",".join(map(str, written)) if isinstance(written, (list, tuple)) else str(written)
    cited = {}
    for chip in filter(None, chips.split(",")):
        spec = load_hardware(build_request.named({"model": "-", "hw": chip.strip()})["hw"])
        cited[chip] = {key: str(text) for key, text in spec.sources.items()}
    return found | ({"hardware": cited} if cited else {})
