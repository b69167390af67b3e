"""The Python functions as mypy sees them: every field of every question, and figures of an answer as floats."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import ROOT

import rooflinecli
from rooflinecli.interfaces import verbs

pytest.importorskip("mypy")
FUNCTIONS = [verb for verb in verbs.NAMES if verb in rooflinecli.__all__]


@pytest.mark.slow
def test_functions_take_every_field_of_their_question_and_figures_are_floats(tmp_path):
    lines = ["import rooflinecli as rl", 'e = rl.estimate("llama70b", hw="h100", tp=8)']
    revealed = (
        "e.decode.time_s",
        "e.decode.interval_s[0]",
        "e.prefill.flops",
        "e.train.memory.total_bytes",
        "e.decode.batch",
        "e.cost.training_usd",
    )
    lines += [f"reveal_type({figure})" for figure in revealed]
    for verb in FUNCTIONS:
        fields = verbs.question(verb).fields()
        known = {name: "[]" if field.several else '"x"' for name, field in fields.items() if field.required}
        for name, field in fields.items():
            given = {**known, name: "True" if field.kind == "switch" else '"x"'}
            lines.append(f"rl.{verb}({', '.join(f'{n}={value}' for n, value in given.items())})")
    lines += [
        'rl.simulate("llama70b", hw="h100", qps=4, interval=True)',
        'rl.simulate("llama70b", hw="h100", nonsense=1)',
    ]
    file = tmp_path / "uses.py"
    file.write_text("\n".join(lines))
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(file)], capture_output=True, text=True, cwd=ROOT
    )
    notes = re.findall(r'Revealed type is "([^"]*)"', ran.stdout)
    assert notes == ["float"] * (len(revealed) - 1) + ["float | None"]
    (error,) = [line for line in ran.stdout.splitlines() if ": error:" in line]
    assert f":{len(lines)}: error: Unexpected keyword argument" in error
