"""JUnit XML as pytest and Jenkins write it: a suite per check, a test case per requirement."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from rooflinecli.render.views import check as words

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: dict[str, Any]) -> str:
    root = ET.Element("testsuites", {"name": "roofline check"})
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for check in report["checks"]:
        suite, counts = _suite(report, check)
        root.append(suite)
        totals = {k: totals[k] + counts[k] for k in totals}
    root.attrib |= {k: str(v) for k, v in totals.items()}
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(report: dict[str, Any], check: dict[str, Any]) -> tuple[ET.Element, dict[str, int]]:
    rows = check["requirements"] or [words.no_fix_text(check)]
    cases = [_case(report, check, row) for row in rows]
    counts = {
        "tests": len(cases),
        "failures": sum(c.find("failure") is not None for c in cases),
        "errors": 0,
        "skipped": sum(c.find("skipped") is not None for c in cases),
    }
    suite = ET.Element(
        "testsuite", {"name": _clean(check["name"]), "time": "0", **{k: str(v) for k, v in counts.items()}}
    )
    suite.extend(cases)
    return suite, counts


def _case(report: dict[str, Any], check: dict[str, Any], row: dict[str, Any]) -> ET.Element:
    case = ET.Element(
        "testcase",
        {
            "name": _clean(f"{row['quantity']} {row['written']}"),
            "classname": _clean(check["name"]),
            "file": _clean(row["file"]),
            "line": str(row["line"]),
            "time": "0",
        },
    )
    text = _clean(words.sentence(check, row))
    short = _clean(f"{row['verdict']}: {words.number(row['value'], row['unit'])}, required {row['written']}")
    if row["verdict"] == "pass":
        ET.SubElement(case, "system-out").text = text
    elif words.level(report, row["verdict"]) == "warning":
        ET.SubElement(case, "skipped", {"type": row["verdict"], "message": short}).text = text
    else:
        ET.SubElement(case, "failure", {"type": row["verdict"], "message": short}).text = text
    return case


def _clean(text: str) -> str:
    """Without the characters XML cannot hold."""
    return _ILLEGAL.sub("�", text)
