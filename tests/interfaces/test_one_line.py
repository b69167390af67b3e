"""One line in a copy of the package: an option in every interface, a quantity in the answer of every verb."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

SIMULATE = '    seed: o.Whole = o.field("whole"'
DRAIN = '    drain_seconds: o.OptNumber = o.field("time", "Time to drain a replica.", default=None, metavar="TIME")\n'
ENGINE = '    engine: OptText = field("word"'
WARM = (
    '    warm_up: OptNumber = field("time", "Time to warm an engine up.", default=None, panel=ENGINE, phase="serve")\n'
)
ENERGY = "  energy_j: {unit: J"
FLOOR = "  floor_energy_j: {unit: J, label: energy of the floor, better: less, formula: energy.energy, of: devices power_w floor_s}\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package: an option of simulations, one that estimates share with them, and a quantity, a line each."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "rooflinecli", folder / "rooflinecli", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "generate.py", folder / "docs")
    for name in ("models", "hardware", "lab"):
        (folder / name).symlink_to(ROOT / name)
    for file, before, line in (
        ("questions/simulate/question.py", SIMULATE, DRAIN),
        ("specs/options.py", ENGINE, WARM),
        ("specs/quantities.yaml", ENERGY, FLOOR),
    ):
        path = folder / "rooflinecli" / file
        text = path.read_text()
        assert text.count(before) == 1, file
        path.write_text(text.replace(before, line + before))
    return folder


def run(copy, *argv: str, env: dict[str, str] | None = None) -> str:
    ran = subprocess.run(
        [sys.executable, *argv],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "100", **(env or {})},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def roofline(copy, *argv: str) -> str:
    return run(copy, "-m", "rooflinecli", *argv)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("flag", ["--drain-seconds", "--warm-up"])
def test_an_option_is_in_help_and_completion_of_the_command_line(copy, flag):
    assert f"{flag} TIME" in roofline(copy, "simulate", "--help")
    words = {"_ROOFLINE_COMPLETE": "complete_bash", "COMP_WORDS": f"roofline simulate {flag[:5]}", "COMP_CWORD": "2"}
    assert flag in run(copy, "-c", "from rooflinecli.interfaces.cli.main import main; main()", env=words)


def asked(copy) -> dict:
    """What the interfaces other than the command line show of both options."""
    code = inspect.cleandoc("""
        import inspect, json, runpy
        import rooflinecli
        from rooflinecli.core.errors import UsageError
        from rooflinecli.interfaces.mcp import tools
        from rooflinecli.interfaces.web import form
        from lab.plan_schema import plan_file
        check = plan_file()["$defs"]["CheckSpec"]["properties"]
        print(json.dumps({
            "tool": list(tools.schema("simulate")["properties"]),
            "python": list(inspect.signature(rooflinecli.simulate).parameters),
            "plan": [*check, *check["simulate"]["properties"]],
            "docs": runpy.run_path("docs/generate.py")["cli"](),
            "page": form.page({}, form.problem(UsageError("x"))),
        }))
    """)
    return json.loads(run(copy, "-c", code))


@pytest.mark.slow
def test_an_option_is_a_tools_a_functions_a_plans_the_documents_and_the_pages(copy):
    """The page asks estimates, so that it has the option that they share."""
    found = asked(copy)
    assert {"drain-seconds", "warm-up"} <= set(found["tool"])
    assert {"drain_seconds", "warm_up"} <= set(found["python"])
    assert {"drain-seconds", "warm-up"} <= set(found["plan"])
    simulate = found["docs"].partition("## roofline simulate\n")[2].partition("\n## roofline ")[0]
    assert "--drain-seconds TIME" in simulate and "--warm-up TIME" in simulate
    assert 'name="warm-up"' in found["page"] and "Time to warm an engine up." in found["page"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["estimate", "sweep", "search", "compare", "check", "report"])
def test_a_quantity_is_in_the_answer_of_every_verb(copy, verb):
    """Energy of the floor: power of the chips over the time of the floor."""
    name, base = "decode.floor_energy_j", ("llama-3-8b", "--hw", "h100", "--phase", "decode")
    if verb == "estimate":
        answer = json.loads(roofline(copy, verb, *base, "-n", "1", "-f", "json"))["phases"]["decode"]
        assert answer["floor_energy_j"] == pytest.approx(answer["energy_j"] * answer["floor_s"] / answer["time_s"])
        assert "J energy of the floor" in re.sub(r"\s+", " ", roofline(copy, verb, *base, "-n", "1", "--details"))
    elif verb == "sweep":
        out = roofline(copy, verb, *base, "-n", "1", "--batch", "1,2", "--columns", name, "-f", "json")
        assert all(point[name] > 0 for point in json.loads(out)["points"])
    elif verb == "search":
        out = roofline(copy, verb, *base, "-n", "2", "--where", f"{name} < 1 kJ", "-f", "json")
        assert name in json.dumps(json.loads(out)["results"])
    elif verb == "compare":
        found = json.loads(roofline(copy, verb, *base, "-n", "1", "--hw", "h100,a100", "--rank-by", name, "-f", "json"))
        assert found["unit"] == "J" and found["better"] == "less" and found["rows"][0]["value"] > 0
    elif verb == "check":
        plan = {"model": "llama-3-8b", "hw": "h100", "n": 1, "phase": "decode", "require": {name: "< 1 kJ"}}
        (copy / "plan.yaml").write_text(json.dumps({"checks": {"energy": plan}}))
        assert name in roofline(copy, verb, "plan.yaml", "--details")
    else:
        page = roofline(copy, verb, *base, "-n", "1", "--out", "-")
        data = re.search(r'id="roofline-data">(.*?)</script>', page, re.DOTALL)
        assert data and json.loads(data[1])["estimate"]["phases"]["decode"]["floor_energy_j"] > 0
