"""Each format is read by that format's own tools, and says what the JSON report says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import junitparser
import pytest
from check.plans import check, plan, report, requiring, written
from conftest import run_cli

HERE = Path(__file__).parent
ODD = 'a|b <c> & "d", 100%: é漢 ]]>'
MIXED = {
    "defaults": {"model": "llama-3.3-70b", "hw": "h100", "batch": 32},
    "checks": {
        "holds": {"devices": 8, "require": {"decode.time_s": "<= 1 s", "feasible": True}},
        ODD: {
            "description": ODD,
            "devices": 8,
            "require": {"decode.time_s": "<= 1 us", "memory.headroom_fraction": ">= 1 %"},
        },
        "doubtful": {"devices": 8, "tp": 8, "require": {"decode.tokens_per_s": ">= 2700 tokens/s"}},
        "too-big": {"devices": 1, "require": {"prefill.time_s": "<= 1 s"}},
        "nowhere": {"tp": 1, "pp": 1, "dp": 1, "require": {"feasible": True}},
    },
}


@pytest.fixture(scope="module", autouse=True)
def _doubt():
    """A limit inside the interval, whatever the engine says of it today."""
    now = run_cli(
        "estimate", "llama-3.3-70b", "--hw", "h100", "-n", "8", "--tp", "8", "--phase", "decode", "--format", "json"
    ).json["phases"]["decode"]
    MIXED["checks"]["doubtful"]["require"] = {"decode.tokens_per_s": f">= {now['tokens_per_s']!r} tokens/s"}


@pytest.fixture
def truth(tmp_path):
    found = report(tmp_path, MIXED)
    assert [c["verdict"] for c in found["checks"]] == ["pass", "fail", "inconclusive", "fail", "fail"]
    return found


def missed(truth):
    return [(c, r) for c in truth["checks"] for r in c["requirements"] if r["verdict"] != "pass"]


@pytest.mark.slow
def test_json_has_the_fields_the_docs_name(truth):
    text = (HERE.parent.parent / "docs/check.md").read_text()
    named = text[text.index("The JSON report") :]
    for fields in (truth, truth["checks"][1], truth["checks"][1]["requirements"][0], truth["checks"][2]["fixes"][0]):
        for field in fields:
            assert field in named or field in ("schema", "description", "problem"), field


@pytest.mark.slow
@pytest.mark.parametrize("unsure", ["fail", "warn"])
def test_junit_is_read_by_junitparser(tmp_path, truth, unsure):
    ran = check(tmp_path, MIXED, "--format", "junit", "--unsure", unsure)
    assert ran.code == 1
    path = tmp_path / "report.xml"
    path.write_text(ran.out, encoding="utf-8")
    xml = junitparser.JUnitXml.fromfile(str(path))
    suites = list(xml)
    assert [s.name for s in suites] == [c["name"] for c in truth["checks"]]
    cases = [case for suite in suites for case in suite]
    rows = [r for c in truth["checks"] for r in c["requirements"]]
    assert len(cases) == len(rows) == xml.tests
    failing = ("fail", "inconclusive") if unsure == "fail" else ("fail",)
    for case, row in zip(cases, rows, strict=True):
        assert case.name == f"{row['quantity']} {row['written']}"
        kinds = [type(r) for r in case.result]
        expected = (
            []
            if row["verdict"] == "pass"
            else [junitparser.Failure]
            if row["verdict"] in failing
            else [junitparser.Skipped]
        )
        assert kinds == expected
    before = (xml.tests, xml.failures, xml.errors, xml.skipped)
    xml.update_statistics()
    assert before == (xml.tests, xml.failures, xml.errors, xml.skipped)


@pytest.mark.slow
def test_sarif_keeps_to_the_official_schema(tmp_path, truth):
    schema = json.loads((HERE / "data/sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    log = json.loads(check(tmp_path, MIXED, "--format", "sarif").out)
    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())
    validator.validate(log)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(log | {"version": "2.0.0"})
    (run,) = log["runs"]
    assert [(r["ruleId"], r["locations"][0]["physicalLocation"]["region"]["startLine"]) for r in run["results"]] == [
        (r["quantity"], r["line"]) for _, r in missed(truth)
    ]
    assert all(run["tool"]["driver"]["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    prints = [r["partialFingerprints"]["rooflineCheck/v1"] for r in run["results"]]
    assert len(set(prints)) == len(prints)
    levels = [
        r["level"]
        for r in json.loads(check(tmp_path, MIXED, "--format", "sarif", "--unsure", "warn").out)["runs"][0]["results"]
    ]
    assert levels.count("warning") == 1
    validator.validate(json.loads(check(tmp_path, plan(), "--format", "sarif").out))


COMMAND = re.compile(r"^::(error|warning|notice) (.*?)::(.*)$")


def command(line: str) -> dict[str, str]:
    """A workflow command as the GitHub runner reads it (ActionCommand.TryParseV2): properties at commas, then unescaping."""
    found = COMMAND.match(line)
    assert found, line
    pairs = dict(item.split("=", 1) for item in found[2].split(","))
    escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def plain(text: str, table: dict[str, str]) -> str:
        for code, char in table.items():
            text = text.replace(code, char)
        return text

    data = {k: v for k, v in escapes.items() if k not in ("%3A", "%2C")}
    return {"level": found[1], "text": plain(found[3], data), **{k: plain(v, escapes) for k, v in pairs.items()}}


@pytest.mark.slow
def test_github_annotations_are_read_as_the_runner_reads_them(tmp_path, truth):
    ran = check(tmp_path, MIXED, "--format", "github", "--unsure", "warn")
    *lines, last = ran.out.splitlines()
    found = [command(line) for line in lines]
    assert [(f["file"], int(f["line"])) for f in found] == [(r["file"], r["line"]) for _, r in missed(truth)]
    assert [f["level"] for f in found].count("warning") == 1
    assert all(c["name"] in f["text"] for f, (c, _) in zip(found, missed(truth), strict=True))
    assert not last.startswith("::") and "the plan fails" in last


@pytest.mark.slow
def test_a_file_name_with_a_comma_stays_one_property(tmp_path):
    path = written(tmp_path, MIXED, "a,b:c=d.yaml")
    first = command(run_cli("check", str(path), "--format", "github").out.splitlines()[0])
    assert first["file"] == str(path) and int(first["line"]) > 1


def test_a_plan_that_cannot_be_read_is_annotated_too(tmp_path):
    ran = check(tmp_path, requiring("decode.time_s", "<= 40"), "--format", "github")
    assert ran.code == 3 and ran.err.count("\n") == 1
    found = command(ran.out.strip())
    assert (
        found["level"] == "error"
        and found["file"].endswith("plan.yaml")
        and int(found["line"]) > 1
        and "unit is missing" in found["text"]
    )


@pytest.mark.slow
def test_markdown_is_one_table_row_per_requirement(tmp_path, truth):
    text = check(tmp_path, MIXED, "--format", "markdown").out
    rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("|")]
    for columns in (5, 4):  # verdicts, and the intervals of the details
        table = [r for r in rows if len(r) == columns + 2]
        assert len(table) - 2 * len(truth["checks"]) == sum(len(c["requirements"]) for c in truth["checks"])
    assert "<c>" not in text


@pytest.mark.slow
def test_markdown_is_parsed_as_that_table(tmp_path, truth):
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(check(tmp_path, MIXED, "--format", "markdown").out)
    assert sum(t.type == "table_open" for t in tokens) == 2 * len(truth["checks"])  # verdicts, and intervals
    assert sum(t.type == "tr_open" for t in tokens) == 2 * sum(1 + len(c["requirements"]) for c in truth["checks"])
    assert not any("html" in t.type for t in tokens)


@pytest.mark.slow
def test_the_table_says_what_a_person_needs(tmp_path):
    out = check(tmp_path, MIXED, "--details").out
    for word in (
        "PASS",
        "FAIL",
        "INCONCLUSIVE",
        "margin",
        "expected",
        "bound by memory",
        "passes with:",
        "plan.yaml:",
        "infeasible layout",
        "pessimistic",
    ):
        assert word in out, word
    assert re.search(r" -\d[\d.]*%", out)  # the margin of a limit that is missed


@pytest.mark.slow
def test_reports_go_to_files_as_well(tmp_path):
    ran = check(
        tmp_path,
        MIXED,
        "--report",
        f"sarif={tmp_path}/r.sarif",
        "--report",
        f"junit={tmp_path}/r.xml",
        "--out",
        f"{tmp_path}/r.txt",
    )
    assert ran.out == "" and ran.code == 1
    assert json.loads((tmp_path / "r.sarif").read_text())["version"] == "2.1.0"
    assert (
        junitparser.JUnitXml.fromfile(str(tmp_path / "r.xml")).failures
        and "INCONCLUSIVE" in (tmp_path / "r.txt").read_text()
    )
    for bad in ("sarif", "pdf=x", "=x", "sarif="):
        assert check(tmp_path, MIXED, "--report", bad).code == 2
