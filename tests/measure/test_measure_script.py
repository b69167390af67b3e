"""examples/measure-gpu.sh with a stand-in for `roofline`: stages in order, each once, what failed again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "measure-gpu.sh"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a bash script")


@pytest.fixture
def ran(tmp_path):
    """run(**environment) -> (exit code, the commands that were called since)."""
    called, stand_in = tmp_path / "called", tmp_path / "roofline"
    stand_in.write_text(
        f'#!/bin/sh\necho "$@" >> {called}\ncase "$*" in *"$FAIL"*) [ -n "$FAIL" ] && exit 3;; esac\nexit 0\n'
    )
    stand_in.chmod(0o755)

    def run(**environment):
        called.write_text("")
        done = subprocess.run(
            ["bash", str(SCRIPT), str(tmp_path / "out")],
            env={**os.environ, "ROOFLINE": str(stand_in), "FAIL": "", **environment},
            capture_output=True,
            timeout=60,
        )
        return done.returncode, called.read_text().splitlines()

    return run


def test_stages_run_once_each_and_in_order(ran, tmp_path):
    code, first = ran()
    verbs = [line.split()[:2] for line in first]
    assert code == 0 and verbs[:4] == [["measure", s] for s in ("matmul", "attention", "bandwidth", "elementwise")]
    assert any("qwen3-30b-a3b" in line for line in first) and first[-1].startswith("profile ")
    assert ran() == (0, [])
    assert (tmp_path / "out" / "all.log").read_text().count("== matmul") == 1


def test_a_stage_that_failed_is_run_again_and_told(ran):
    code, first = ran(FAIL="measure attention", QUICK="")
    assert code == 3 and len(first) > 5
    again, second = ran()
    assert again == 0 and [line.split()[1] for line in second] == ["attention"]


def test_no_stage_begins_without_time(ran):
    code, called = ran(LIMIT="5")
    assert code == 75 and called == []


def test_the_shipped_constants_are_held_beside_where_a_chip_is_named(ran):
    _, called = ran(QUICK="1", CHIP="h100")
    assert sum("--hw h100" in line for line in called) == 3
