"""The command as a process: what it prints is whole, its exit code its own, though the interpreter is left in a hurry."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "rooflinecli.interfaces.cli.main"]


@pytest.mark.slow
def test_everything_printed_reaches_a_pipe() -> None:
    run = subprocess.run([*COMMAND, "models", "--format", "json"], capture_output=True, text=True, check=True)
    assert len(json.loads(run.stdout)) > 80 and run.stderr == ""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("estimate", "nope", "--hw", "h100"), 2, "unknown model 'nope'"),
        (("estimate", "llama-3-70b", "--hw", "h100", "-n", "1", "--phase", "decode"), 1, ""),
        (("--version",), 0, ""),
        (("estimate", "llama-3-8b"), 2, "--hw"),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, words: str) -> None:
    run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    assert run.returncode == code and words in run.stderr and "Traceback" not in run.stderr


@pytest.mark.sampled(1)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is a Linux one")
@pytest.mark.parametrize("arguments", [("fit", "--help"), ("models",), ("--help",), ("--version",)])
def test_a_full_disk_is_one_sentence(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2 and run.stderr.startswith("roofline: standard output cannot be written")
    assert "Traceback" not in run.stderr
