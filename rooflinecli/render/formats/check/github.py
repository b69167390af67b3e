"""GitHub workflow commands: an annotation on the line of every requirement that did not pass, then one line of summary."""

from __future__ import annotations

from rooflinecli.questions.check.question import CheckAnswer
from rooflinecli.render.views import check as view


def render(answer: CheckAnswer) -> str:
    """Lines for the log of a job."""
    lines = [
        annotation(
            view.level(answer, row.verdict),
            row.file,
            row.line,
            f"roofline check: {row.verdict}",
            view.sentence(case, row),
        )
        for case, row in view.findings(answer)
    ]
    title = _property("roofline check: changed")
    lines += [f"::notice title={title}::{_text(view.change_text(change))}" for change in answer.moved or ()]
    return "\n".join([*lines, f"roofline check: {view.summary(answer)}"])


def annotation(level: str, file: str, line: int, title: str, text: str) -> str:
    """A workflow command that GitHub shows at a line of a file."""
    return f"::{level} file={_property(file)},line={line},title={_property(title)}::{_text(text)}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
