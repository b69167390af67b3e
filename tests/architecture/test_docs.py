"""Docs tell the truth: generated pages are current, README's commands run, nothing names what does not exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT, run_cli

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_generated_pages_are_current():
    ran = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, f"{ran.stdout} run `make docs`"


def commands(text: str) -> list[str]:
    """`roofline ...` lines of shell blocks, those continued on a next line joined; of console blocks those at the prompt."""
    lines = [
        line.removeprefix("$ ").split("  #")[0].strip()
        for kind, block in re.findall(r"```(sh|console)\n(.*?)```", text, re.DOTALL)
        for line in block.replace("\\\n", " ").splitlines()
        if kind == "sh" or line.startswith("$ ")
    ]
    return [
        line
        for line in lines
        if line.startswith("roofline ") and "measure" not in line and not re.search(r"[|>]|my-|config\.json", line)
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("line", commands(README))
def test_readme_commands_run(line, tmp_path, monkeypatch):
    args = shlex.split(line)[1:]
    if args[0] != "check":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.chdir(ROOT)
    ran = run_cli(*args)
    assert ran.code in (0, 1) and "Traceback" not in ran.err, ran.err


ESTIMATES = re.compile(r"^(?:    )?(roofline estimate [^|>\n]*?)(?: {2}#.*)?$", re.MULTILINE)


@pytest.mark.slow
def test_the_estimates_of_the_docs_are_feasible(tmp_path, monkeypatch):
    """Each exits with 0, those of a reader's own file apart."""
    monkeypatch.chdir(tmp_path)
    pages = "\n".join(page.read_text(encoding="utf-8").replace("\\\n", " ") for page in (ROOT / "docs").glob("*.md"))
    lines = [line for line in ESTIMATES.findall(pages) if ".yaml" not in line]
    failed = [line for line in lines if run_cli(*shlex.split(line)[1:]).code]
    assert len(lines) > 40 and failed == []


def test_readme_transcript_is_what_the_command_prints(monkeypatch):
    """The screen shown under the first command is today's output."""
    match = re.search(r"```console\n\$ (roofline estimate [^\n]*)\n(.*?)```", README, re.DOTALL)
    assert match
    monkeypatch.setenv("COLUMNS", "80")
    printed = run_cli(*shlex.split(match[1])[1:]).out
    assert [line.rstrip() for line in match[2].strip().splitlines()] == [
        line.rstrip() for line in printed.strip().splitlines()
    ]


def test_links_point_at_files_that_exist():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_help_fits_a_terminal_of_eighty_columns():
    blocks = re.findall(
        r"^```\w*\n(.*?)^```", (ROOT / "docs/cli.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert [line for block in blocks for line in block.splitlines() if len(line) > 80] == []


def test_the_glossary_names_options_that_exist():
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    of_other_tools = {
        option for text in re.findall(r"launch commands \((.*?)\)", glossary) for option in OPTION.findall(text)
    }
    known = set(OPTION.findall((ROOT / "docs/cli.md").read_text(encoding="utf-8")))
    assert set(OPTION.findall(glossary)) - of_other_tools <= known
