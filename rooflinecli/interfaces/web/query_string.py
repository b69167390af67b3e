"""The address bar as options: names of the table, nothing that reaches the disk, nothing longer than a person would type."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import one_line
from rooflinecli.importers.source import Options
from rooflinecli.questions.estimate.question import Estimate
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import KINDS, OPTIONS, Option, find

LONGEST = 200
DEFAULTS = {"model": "llama-3-70b", "hw": "h100", "phase": "prefill,decode"}
PLAN = {
    "model": "llama-3-70b",
    "hw": "h100,mi300x",
    "qps": "20",
    "slo": "ttft=1s,itl=50ms",
}  # training runs take longer
_ENDINGS = (".yaml", ".yml", ".json")


def example(question: type[Question[Any]]) -> Options:
    """The options of the first example of a question, with which its page opens."""
    if question.verb in ("estimate", "plan"):
        return dict(DEFAULTS if question is Estimate else PLAN)
    words, found = shlex.split(question.examples[0])[1 + len(question.verb.split()) :], {}
    places = question.positional()
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            found[question.fields()[places.pop(0)].name] = word
            continue
        named = next((f for f in question.fields().values() if word == f.short), None)
        field = named or question.named(word.lstrip("-"))
        found[field.name] = "yes" if field.kind == "switch" else words.pop(0)
    return found


def fields(question: type[Question[Any]]) -> list[Option]:
    """Fields that a page has: none that is a file, or that reads one."""
    if question is Estimate:
        return list(OPTIONS.values())
    return [field for field in question.fields().values() if field.kind != "file" and field.name != "from"]


def options(pairs: Iterable[tuple[str, str]], question: type[Question[Any]] = Estimate) -> Options:
    """Options of a query; those left empty are as if not given, and without any the page opens on an example.

    Raises UsageError for a name that does not exist, one given twice, a value that is too long or names a file.
    """
    found: Options = {}
    for name, value in pairs:
        known = one_line(name)[:60]
        option = (
            find(known, "the page's fields show those there are") if question is Estimate else question.named(known)
        )
        text = value.strip()
        if not text:
            continue
        if len(text) > LONGEST or not text.isprintable():
            raise UsageError(
                f"{option.flag}: longer than {LONGEST} characters, or not plain text; shorten it", option.name
            )
        if option not in fields(question) or (
            not KINDS[option.kind].unit and any(_is_path(word, option) for word in re.split(r"[,=:;\s]+", text))
        ):
            raise UsageError(
                f"{option.flag} {text}: a page answers for names of the registry, not for files", option.name
            )
        if option.name in found:
            raise UsageError(f"{option.flag} is given twice; keep one", option.name)
        found[option.name] = text
    return found or example(question)


def _is_path(word: str, option: Option) -> bool:
    """Whether a word could name a file. A name of the registry is looked up there, whatever files lie around."""
    is_file = option.kind != "name" and os.path.isfile(word)
    return is_file or bool({"/", "\\"} & set(word)) or word.lower().endswith(_ENDINGS)
