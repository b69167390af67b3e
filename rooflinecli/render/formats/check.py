"""Formats of checks for CI: GitHub workflow commands, JUnit XML and SARIF."""

from __future__ import annotations

import hashlib
import json
import re
from urllib.parse import quote
from xml.etree import ElementTree as ET

from rooflinecli.questions.check.question import PASS, CaseAnswer, CheckAnswer, RequirementAnswer
from rooflinecli.render.numbers import text
from rooflinecli.render.views import check as view

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def github(answer: CheckAnswer) -> str:
    """GitHub workflow commands: an annotation on the line of every requirement that did not pass, then one line of summary."""
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
    lines += [f"::notice title={title}::{_text(view.change_text(change))}" for change in answer.changes or ()]
    return "\n".join([*lines, f"roofline check: {view.summary(answer)}"])


def annotation(level: str, file: str, line: int, title: str, text: str) -> str:
    """A workflow command that GitHub shows at a line of a file."""
    return f"::{level} file={_property(file)},line={line},title={_property(title)}::{_text(text)}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")


def junit(answer: CheckAnswer) -> str:
    """JUnit XML as pytest and Jenkins write it: a suite per case, a test case per requirement."""
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


def sarif(answer: CheckAnswer) -> str:
    """SARIF 2.1.0 for code scanning: a rule per quantity, a result per requirement that did not pass."""
    findings = view.findings(answer)
    names = list(dict.fromkeys(row.quantity for _, row in findings))
    rules = [
        {
            "id": name,
            "shortDescription": {"text": f"{name} meets the capacity plan"},
            "fullDescription": {"text": f"The estimate of {name} must meet the limit written in the plan file."},
            "defaultConfiguration": {"level": "error"},
        }
        for name in names
    ]
    results = []
    for case, row in findings:
        uri = quote(row.file.replace("\\", "/"), safe="/.-_~")
        key = f"{row.file}\n{case.name}\n{row.quantity}\n{row.written}"
        results.append(
            {
                "ruleId": row.quantity,
                "ruleIndex": names.index(row.quantity),
                "level": view.level(answer, row.verdict),
                "message": {"text": view.sentence(case, row)},
                "locations": [
                    {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": row.line}}}
                ],
                "partialFingerprints": {"rooflineCheck/v1": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()},
                "properties": {"check": case.name, **{key: row[key] for key in ("verdict", "value", "limit", "unit")}},
            }
        )
    run = {
        "tool": {"driver": {"name": "roofline check", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)
