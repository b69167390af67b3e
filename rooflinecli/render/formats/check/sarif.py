"""SARIF 2.1.0 for code scanning: a rule per quantity, a result per requirement that did not pass."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import quote

from rooflinecli.questions.check.question import CheckAnswer
from rooflinecli.render.views import check as view

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(answer: CheckAnswer) -> str:
    """The log as JSON."""
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
                "properties": {
                    "check": case.name,
                    "verdict": row.verdict,
                    "value": row.value,
                    "limit": row.limit,
                    "unit": row.unit,
                },
            }
        )
    run = {
        "tool": {"driver": {"name": "roofline check", "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)
