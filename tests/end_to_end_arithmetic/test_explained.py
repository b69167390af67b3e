"""An explanation is the arithmetic that ran: its value is the estimate's, its leaves are lines of the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from end_to_end_arithmetic.conftest import HAND
from end_to_end_arithmetic.families import GIVEN

from rooflinecli.interfaces.python import api

SERVING = {"n": 2, "tp": 2, "batch": 4, "prompt": 200, "output": 100}


@pytest.mark.parametrize(
    ("phase", "options"),
    [
        ("decode", SERVING),
        ("decode", {**SERVING, "efficiency": "ideal"}),
        ("prefill", SERVING),
        ("decode", {"n": 2, "tp": 2, "concurrency": 4, "prompt": 200, "output": 100}),
        ("prefill", {"n": 2, "tp": 2, "qps": 40, "prompt": 200, "output": 100}),
        ("train", {**GIVEN, "n": 2, "dp": 2, "batch": 8}),
        ("train", {**GIVEN, "efficiency": "ideal"}),
    ],
)
def test_the_value_explained_is_the_value(folder: Path, phase, options):
    model = str(folder / "dense.yaml")
    seconds = api.estimate(model, HAND, phase=phase, **options)["phases"][phase]["time_s"]
    first = api.explain(model, HAND, f"{phase}.time_s", depth=1, phase=phase, **options).splitlines()[0]
    assert float(re.search(r"\((.*)\)", first)[1]) == seconds


@pytest.mark.parametrize(("phase", "options"), [("decode", {"batch": 4}), ("train", GIVEN)])
def test_the_flops_of_the_head_are_read_from_the_model(folder: Path, phase, options):
    text = api.explain(str(folder / "dense.yaml"), HAND, f"{phase}.flops", depth=20, phase=phase, n=1, **options)
    head = " ".join(text[text.index("F[lm_head] =") :].split())
    assert "D = 256 [" in head and "V = 1,000 [" in head.replace("V = 1000", "V = 1,000")


def test_leaves_name_the_line_they_come_from(folder: Path):
    text = api.explain(
        str(folder / "dense.yaml"), HAND, "decode.time_s", depth=20, phase="decode", n=1, batch=4, prompt=200
    )
    flat = " ".join(text.split())
    lines = Path(HAND).read_text(encoding="utf-8").splitlines()
    at = {
        name: next(i for i, line in enumerate(lines, 1) if name in line)
        for name in ("bandwidth:", "bf16:", "decode_attention:")
    }
    assert f"W = 1.00 TB/s (1000000000000.0) [{HAND}:{at['bandwidth:']}; by hand]" in flat
    assert f"P_bf16 = 100 TFLOP/s (100000000000000.0) [{HAND}:{at['bf16:']}; by hand]" in flat
    assert f"e_c[decode_attention] = 0.3 [{HAND}:{at['decode_attention:'] + 1}; by hand]" in flat
    assert "b = 4 sequences [--batch]" in flat and "S_o = 256 tokens [--output (default)]" in flat
    assert "S_p = 200 tokens [--prompt]" in flat and "per_step = 200 µs (0.0002) [engines/python-server.yaml:" in flat
