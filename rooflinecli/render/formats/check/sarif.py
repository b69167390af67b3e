"""SARIF 2.1.0 for code scanning: a rule per quantity, a result per requirement that did not pass."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from rooflinecli.render.views import check as words

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: dict[str, Any]) -> str:
    found = words.findings(report)
    names = list(dict.fromkeys(row["quantity"] for _, row in found))
    driver = {"name": "roofline check", "rules": [_rule(name) for name in names]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, names, *pair) for pair in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": f"{name} keeps to the capacity plan"},
        "fullDescription": {"text": f"The estimate of {name} must keep to the limit written in the plan file."},
        "defaultConfiguration": {"level": "error"},
    }


def _result(report: dict[str, Any], names: list[str], check: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    uri = quote(row["file"].replace("\\", "/"), safe="/.-_~")
    key = f"{row['file']}\n{check['name']}\n{row['quantity']}\n{row['written']}"
    return {
        "ruleId": row["quantity"],
        "ruleIndex": names.index(row["quantity"]),
        "level": words.level(report, row["verdict"]),
        "message": {"text": words.sentence(check, row)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": row["line"]}}}],
        "partialFingerprints": {"rooflineCheck/v1": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()},
        "properties": {
            "check": check["name"],
            "verdict": row["verdict"],
            "value": row["value"],
            "limit": row["limit"],
            "unit": row["unit"],
        },
    }
