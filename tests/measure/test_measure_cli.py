"""The command line: no jax, no profile, a whole quick run."""

import json
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli import measure as cli
from rooflinecli.specs.hardware import load_hardware


def call(*args):
    return CliRunner().invoke(cli.app("measure"), list(args))


def test_help_lists_every_suite():
    text = call("--help").output
    assert all(
        name in text for name in ("matmul", "attention", "bandwidth", "elementwise", "collectives", "all", "model")
    )


def test_importing_the_command_imports_neither_jax_nor_numpy():
    code = "import sys, rooflinecli.interfaces.cli.measure; print([m for m in ('jax', 'numpy', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("args", [("--quick",), ("model", "gpt2"), ("matmul",)])
def test_without_jax_one_sentence_and_the_pip_line(args, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = call(*args)
    assert isinstance(answer.exception, UsageError) and answer.exception.exit_code == 2
    assert "[measure]'" in str(answer.exception)


@pytest.mark.parametrize(
    ("args", "said"), [(("--dtype", "fp7", "--quick"), "dtype"), (("matmul", "--processes", "2"), "--coordinator")]
)
def test_usage_errors(args, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = call(*args)
    assert isinstance(answer.exception, UsageError) and said in str(answer.exception)


@pytest.mark.slow
def test_a_short_run_writes_a_profile_that_the_engine_reads_and_resumes(tmp_path):
    out = tmp_path / "here.yaml"
    answer = call("bandwidth", "--quick", "--max-timings", "1", "--out", str(out), "--format", "json", "--force")
    assert answer.exit_code == 0, answer.exception
    found = json.loads(answer.stdout)
    assert found["roofs"]["bandwidth_bytes_per_s"] > 1e8 and {t["op"] for t in found["timings"]} >= {"copy", "matmul"}
    spec = load_hardware(str(out))
    assert spec.measured["device"] and spec.peak["fp32"].si > 1e9
    before = (tmp_path / "here.jsonl").read_text().count('"suite"')
    answer = call("matmul", "--quick", "--budget", "3", "--out", str(out), "--force")
    assert answer.exit_code == 0 and "wrote" in answer.output
    assert (tmp_path / "here.jsonl").read_text().count('"suite"') >= before
    assert yaml.safe_load(out.read_text())["measured"]["platform"] == "cpu"


@pytest.mark.parametrize("forced", [False, True])
def test_a_busy_machine_writes_no_profile_unless_forced(tmp_path, monkeypatch, capsys, forced):
    from types import SimpleNamespace

    from rooflinecli.interfaces.cli.measure import MeasureDelivery
    from rooflinecli.measure import run
    from rooflinecli.measure.question import SUITES
    from rooflinecli.render.blocks import Page

    for name, made in (
        ("fit_records", (None, [])),
        ("document", document := {"measured": {}}),
        ("profile_yaml", "name: x"),
    ):
        monkeypatch.setattr(run.profile, name, lambda *_a, made=made, **_k: made)
    monkeypatch.setattr("rooflinecli.measure.run.network", lambda *_: None)
    monkeypatch.setattr("rooflinecli.render.views.measure.view", lambda *_: Page())
    monkeypatch.setattr("rooflinecli.render.views.measure.warnings", lambda *_: [])
    env = SimpleNamespace(kind="somebody's desktop", platform="gpu", cores=2)
    answer = run.MeasureAnswer(env, tmp_path / "here.yaml", [{"busy": 2.0}])
    run._fit(SUITES["bandwidth"](force=forced, extends="none"), answer)
    assert cli._show(answer, MeasureDelivery()) == (0 if forced else 1)
    assert answer.out.exists() is forced
    assert document["measured"].get("forced") == ("100% of the timings were disturbed" if forced else None)
    assert ("no profile was written" in capsys.readouterr().err) is not forced


def test_readers_of_a_forced_profile_say_so(tmp_path):
    from rooflinecli.core.errors import RooflineWarning
    from rooflinecli.engine import build_request

    path = tmp_path / "forced.yaml"
    path.write_text("extends: h100\nname: forced\nmeasured: {forced: 31% of the timings were disturbed}\n")
    with pytest.warns(RooflineWarning, match="--force: 31%"):
        build_request.request({"model": "llama-3-8b", "hw": str(path)})


@pytest.mark.parametrize(("quiet", "loud", "held_back"), [(10, 0, False), (9, 1, False), (8, 2, True), (0, 1, True)])
def test_a_few_disturbed_timings_are_borne(quiet, loud, held_back):
    from rooflinecli.measure.run import DISTURBED, contended_fraction

    share = contended_fraction([{"busy": 1.0}] * quiet + [{"busy": 1.5}] * loud)
    assert share == loud / (quiet + loud) and (share > DISTURBED) is held_back
