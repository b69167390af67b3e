"""What is shipped: wheel and sdist are whole and run, the image and the recipe say what the package says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def ran(*words, **about):
    done = subprocess.run(words, capture_output=True, text=True, **about)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist of the tree as it is, the wheel made from the sdist."""
    pytest.importorskip("build"), pytest.importorskip("hatchling")
    source, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("rooflinecli", "hardware", "models", "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "img"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    ran(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source))
    return {path.suffix: path for path in out.iterdir()}


@pytest.mark.slow
def test_wheel_and_sdist_pass_the_checks(built):
    pytest.importorskip("twine"), pytest.importorskip("check_wheel_contents")
    assert "FAILED" not in ran(sys.executable, "-m", "twine", "check", "--strict", *map(str, built.values()))
    ran(
        sys.executable, "-m", "check_wheel_contents", "--ignore", "W002", str(built[".whl"])
    )  # equal files: empty __init__.py


@pytest.mark.slow
def test_the_wheel_carries_data_pages_and_notices(built):
    names = zipfile.ZipFile(built[".whl"]).namelist()
    assert not any(name.startswith("lab/") for name in names)
    for wanted in (
        "rooflinecli/data/models/llama-3-70b.yaml",
        "rooflinecli/interfaces/web/static/app.js",
        "rooflinecli/render/report/style.css",
    ):
        assert wanted in names
    assert any(n.endswith("/LICENSE") for n in names) and any(n.endswith("/NOTICE") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "docs/")) or "__pycache__" in n]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".whl", ".gz"])
def test_the_main_job_runs_from_what_is_shipped(built, suffix, tmp_path):
    ran(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site"), str(built[suffix]))  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = "import rooflinecli; print(rooflinecli.__file__); from rooflinecli.interfaces.cli.main import main; main()"
    out = ran(sys.executable, "-c", code, "estimate", "llama70b", "--hw", "h100", cwd=tmp_path, env=env)
    assert out.startswith(str(tmp_path / "site")) and "decode ITL" in out


def test_the_recipe_is_the_package():
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    recipe = yaml.safe_load(text)
    assert recipe["context"]["version"] == PROJECT["version"]
    wanted = {re.sub(r"\s", "", line) for line in PROJECT["dependencies"]} | {f"python{PROJECT['requires-python']}"}
    assert {re.sub(r"\s", "", line) for line in recipe["requirements"]["run"]} == wanted
    assert f"roofline = {PROJECT['scripts']['roofline']}" in text


def test_the_image_runs_without_rights_and_from_pinned_ground():
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    stages = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert all(":" in image and not image.endswith(":latest") for image in stages)
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert (
        users
        and users[-1] not in ("root", "0")
        and lines.index(f"USER {users[-1]}") < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    )
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / name.removeprefix("./")).exists() for name in line.split()[1:-1]), line
    kept = (ROOT / ".dockerignore").read_text()
    assert all(f"!{name}" in kept for name in ("rooflinecli", "hardware", "models", "NOTICE", "pyproject.toml"))


def test_workflows_are_jobs_over_the_three_systems():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    systems = " ".join(jobs["test"]["strategy"]["matrix"]["os"])
    assert all(name in systems for name in ("ubuntu", "macos", "windows"))
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert (
        release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
        and release["jobs"]["publish"]["needs"] == "build"
    )


def test_the_linters_are_pinned():
    assert all("==" in line for line in PROJECT["optional-dependencies"]["lint"])


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow_is_well_formed(name):
    """What actionlint would say first: steps that do one thing, actions at a version, needs that exist, contexts that GitHub has."""
    text = (ROOT / ".github" / "workflows" / name).read_text()
    tree = yaml.safe_load(text)
    assert tree.get("on", tree.get(True)) and tree["jobs"]
    for job in tree["jobs"].values():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(tree["jobs"]) and job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            assert "uses" not in step or re.fullmatch(r"[\w.-]+/[\w./-]+@[\w./-]+", step["uses"]), step
    used = {match.split(".")[0] for match in re.findall(r"\$\{\{\s*([\w.]+)", text)}
    assert used <= {"github", "matrix", "runner", "env", "secrets", "steps", "needs", "inputs", "hashFiles"}
