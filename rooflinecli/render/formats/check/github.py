"""GitHub workflow commands: an annotation on the line of every requirement that did not pass, then one line of summary."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.views import check as words


def render(report: dict[str, Any]) -> str:
    lines = [
        annotation(
            words.level(report, row["verdict"]),
            row["file"],
            row["line"],
            f"roofline check: {row['verdict']}",
            words.sentence(check, row),
        )
        for check, row in words.findings(report)
    ]
    lines += [
        f"::notice title={_property('roofline check: moved')}::{_text(words.moved(c))}"
        for c in report.get("moved") or ()
    ]
    return "\n".join([*lines, f"roofline check: {words.summary(report)}"])


def annotation(level: str, file: str, line: int, title: str, text: str) -> str:
    return f"::{level} file={_property(file)},line={line},title={_property(title)}::{_text(text)}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
