"""Any encoding of standard output takes every answer; a mistake of ours is one sentence with an exit code of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "rooflinecli.interfaces.cli.main"]
TABLES = [
    ("estimate", "llama-3-8b", "--hw", "h100"),
    ("sweep", "llama-3-8b", "--hw", "h100", "--batch", "1..8x2", "--plot", "-"),
    ("hardware", "h100"),
    ("kernel", "matmul", "64", "64", "64", "--hw", "h100", "--explain", "time_s"),
]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", TABLES, ids=lambda c: c[0])
def test_an_encoding_that_lacks_our_characters_gets_their_likeness(command: tuple[str, ...], encoding: str) -> None:
    asked = [*COMMAND, *command]
    plain = subprocess.run(asked, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    rich = subprocess.run(asked, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert plain.returncode == 0 and plain.stderr == b""
    lines, whole = plain.stdout.decode(encoding).splitlines(), rich.stdout.decode().splitlines()
    assert len(lines) == len(whole) and not any("?" in a and "?" not in b for a, b in zip(lines, whole, strict=True))


@pytest.mark.slow
def test_the_columns_stay_where_they_are_in_ascii() -> None:
    asked = [*COMMAND, *TABLES[0]]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    rows = subprocess.run(asked, capture_output=True, text=True, env=env).stdout.splitlines()
    head = next(i for i, row in enumerate(rows) if "80% interval" in row)
    end = rows[head].index("interval") + len("interval")
    assert all(row[end - 1] == "s" and row[end] == " " for row in rows[head + 1 : head + 4]), "intervals end in a unit"


@pytest.mark.slow
def test_the_locale_c_is_enough(tmp_path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    env |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    run = subprocess.run([*COMMAND, *TABLES[0]], capture_output=True, env=env)
    assert run.returncode == 0 and b"Traceback" not in run.stderr


@pytest.fixture
def broken(monkeypatch):
    """A verb with a mistake in it."""

    def fail(*_args):
        raise LookupError("a mistake\nof ours")

    monkeypatch.setattr("rooflinecli.questions.models.answer.parameters", fail)


def test_a_mistake_of_ours_is_one_sentence(broken, cli, monkeypatch) -> None:
    monkeypatch.delenv("ROOFLINE_TRACEBACK")
    ran = cli("models", "gpt2")
    assert ran.code == 70 and ran.out == ""
    assert ran.err.startswith("roofline: internal error (LookupError: a mistake of ours); please report")
    assert ran.err.count("\n") == 1


def test_tests_see_the_mistake_itself(broken, cli) -> None:
    with pytest.raises(LookupError):
        cli("models", "gpt2")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("estimate gpt2 --hw h100 --phase train --seq 0", 2, "--seq-len 0: must be at least 1"),
        ("goodput -n 1e30 --checkpoint 30s", 1, "no progress: a failure every"),
        ("goodput -n 0 --checkpoint 30s", 2, "-n 0: must be at least 1"),
        ("goodput -n -1 --checkpoint 30s", 2, "-n -1: must be at least 1"),
        ("search llama-3-8b --hw h100 -n 8 --objective train.interval_s.high", 2, "no quantity"),
        ("sweep gpt2 --hw h100 --phase train --columns train.interval_s.high", 2, "unknown column"),
    ],
)
def test_what_used_to_end_in_a_traceback(cli, command: str, code: int, words: str) -> None:
    import re

    ran = cli(*command.split())
    assert ran.code == code and re.search(words, ran.err) and ran.err.count("\n") == 1
