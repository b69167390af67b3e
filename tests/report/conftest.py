"""Verbs under test, should the table of verbs not have them yet; one page per question for all tests of a worker."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from rooflinecli.interfaces.cli import main

for _verb in ("report", "ops"):
    main.VERBS.setdefault(_verb, (_verb, "under test"))

QUESTIONS = {
    "llama": ("llama70b", "--hw", "h100"),
    "moe": ("deepseek-v3", "--hw", "h200", "--batch", "64", "--phase", "prefill", "--phase", "decode"),
    "tpu": ("gemma-3-27b", "--hw", "tpu-v5e", "--phase", "decode", "--dtype", "int8"),
    "toolarge": ("llama70b", "--hw", "h100", "-n", "1", "--phase", "decode", "--phase", "prefill"),
    "training": (
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--tp",
        "2",
        "--zero",
        "1",
        "--phase",
        "train",
        "--tokens",
        "1T",
    ),
}


@cache
def written(name: str, folder: Path) -> Path:
    from tests.conftest import run_cli

    path = folder / f"{name}.html"
    ran = run_cli("report", *QUESTIONS[name], "--out", str(path))
    assert ran.code == (1 if name == "toolarge" else 0), ran.err
    return path


@pytest.fixture(scope="session")
def page_of(tmp_path_factory):
    """Name of a question -> its page."""
    folder = tmp_path_factory.mktemp("pages")
    return lambda name: written(name, folder)


@cache
def embedded(html: str) -> dict:
    """The JSON a page carries."""
    return json.loads(
        re.search(r'<script type="application/json" id="roofline-data">(.*?)</script>', html, re.DOTALL)[1]
    )
