"""docs/rl.md: its command prints its tables, and its measured figures are those of the published rows."""

from __future__ import annotations

import re
import shlex

import pytest
from conftest import ROOT, run_cli

from rooflinecli.validate import rl

PAGE = (ROOT / "docs" / "rl.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(?:sh)?\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_command_of_the_page_prints_its_tables(tmp_path):
    log, command, parts, changes, *_ = BLOCKS
    (tmp_path / "step.log").write_text(log)
    words = shlex.split(command.replace("\\\n", " ").replace("step.log", str(tmp_path / "step.log")))
    ran = run_cli(*words[1:])
    assert ran.code == 0, ran.err
    for line in (parts + changes).splitlines():
        assert line.split() in [printed.split() for printed in ran.out.splitlines()], line


def test_the_page_measures_what_was_published():
    measured = {row["id"]: row["step_s"] for row in rl.rows("modes")}
    for name in ("verl-v1-sync", "verl-v1-colocate_async", "verl-v1-separate_async-2_2"):
        assert f"{measured[name]:.0f} s" in PAGE
