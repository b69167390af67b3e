"""JUnit XML as pytest and Jenkins write it: a suite per case, a test case per requirement."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from rooflinecli.questions.check.question import PASS, CaseAnswer, CheckAnswer, RequirementAnswer
from rooflinecli.render.numbers import text
from rooflinecli.render.views import check as view

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(answer: CheckAnswer) -> str:
    """The XML document."""
    root = ET.Element("testsuites", {"name": "roofline check"})
    for case in answer.checks:
        suite = ET.SubElement(root, "testsuite", {"name": _clean(case.name), "time": "0"})
        suite.extend(_case(answer, case, row) for row in view.rows(case))
    for element in (*root, root):
        element.attrib |= {
            "tests": str(len(element.findall(".//testcase"))),
            "failures": str(len(element.findall(".//failure"))),
            "errors": "0",
            "skipped": str(len(element.findall(".//skipped"))),
        }
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _case(answer: CheckAnswer, case: CaseAnswer, row: RequirementAnswer) -> ET.Element:
    element = ET.Element(
        "testcase",
        {
            "name": _clean(f"{row.quantity} {row.written}"),
            "classname": _clean(case.name),
            "file": _clean(row.file),
            "line": str(row.line),
            "time": "0",
        },
    )
    sentence = _clean(view.sentence(case, row))
    if row.verdict == PASS:
        ET.SubElement(element, "system-out").text = sentence
    else:
        kind = "skipped" if view.level(answer, row.verdict) == "warning" else "failure"
        short = _clean(f"{row.verdict}: {text(row.value, row.quantity)}, required {row.written}")
        ET.SubElement(element, kind, {"type": row.verdict, "message": short}).text = sentence
    return element


def _clean(text: str) -> str:
    """Without the characters XML cannot represent."""
    return _ILLEGAL.sub("�", text)
