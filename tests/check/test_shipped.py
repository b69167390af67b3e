"""What is shipped for use works: the action, the hook, the examples, the schema, and the CI snippet of the docs."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from check.plans import GOOD, check, plan, requiring
from conftest import ROOT, run_cli

from lab.plan_schema import plan_file

EXAMPLES = sorted(p for p in (ROOT / "examples").glob("*.yaml") if "\nchecks:" in p.read_text(encoding="utf-8"))
DOCS = (ROOT / "docs/check.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", DOCS, flags=re.DOTALL)
BIN = Path(sys.executable).parent


def block(first_line: str) -> str:
    (found,) = [b for b in BLOCKS if b.startswith(first_line)]
    return found


def linted(kind: str, path: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BIN / "check-jsonschema"), "--builtin-schema", kind, str(path)], capture_output=True, text=True
    )


@pytest.mark.slow
def test_action_keeps_to_githubs_schema(tmp_path):
    ran = linted("vendor.github-actions", ROOT / "action.yml")
    assert ran.returncode == 0, ran.stdout
    (tmp_path / "action.yml").write_text((ROOT / "action.yml").read_text().replace("using: composite", "using: magic"))
    assert linted("vendor.github-actions", tmp_path / "action.yml").returncode != 0


def test_action_passes_inputs_through_the_environment():
    """An expression inside a script would be pasted into it unquoted: `${{ inputs.plan }}` could run anything."""
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.mark.slow
def test_hook_keeps_to_pre_commits_own_check():
    ran = subprocess.run(
        [str(BIN / "pre-commit"), "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for name, meant in (
        ("capacity.yaml", True),
        ("plans/chat.capacity.yml", True),
        ("a.roofline.yaml", True),
        ("values.yaml", False),
        ("x/capacity.json", False),
    ):
        assert bool(re.search(hook["files"], name)) is meant


def test_the_hooks_snippet_is_a_pre_commit_config(tmp_path):
    (tmp_path / "c.yaml").write_text(block("# .pre-commit-config.yaml"))
    ran = subprocess.run(
        [str(BIN / "pre-commit"), "validate-config", str(tmp_path / "c.yaml")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout


def snippet_step(folder: Path) -> dict:
    """The CI snippet of the docs, checked as a workflow; the step that uses the action."""
    path = folder / "capacity.yml"
    path.write_text(block("# .github/workflows/capacity.yml"))
    ran = linted("vendor.github-workflows", path)
    assert ran.returncode == 0, ran.stdout
    steps = yaml.safe_load(path.read_text())["jobs"]["plan"]["steps"]
    assert steps[0]["uses"].startswith("actions/checkout@")
    return steps[1]


def act(folder: Path, step: dict, **more: str) -> tuple[subprocess.CompletedProcess, dict[str, str], str]:
    """Run the action's check step as the runner does: inputs over defaults, in the environment, under `bash -e`."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()} | step["with"] | more
    assert set(given) == set(action["inputs"])
    (script,) = [s for s in action["runs"]["steps"] if s.get("id") == "check"]
    env = {key: given[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)[1]] for key, value in script["env"].items()}
    files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("before\n" if file.name.endswith("summary") else "")
    env |= {"RUNNER_TEMP": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}", **{k: str(v) for k, v in files.items()}}
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script["run"]],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
    )
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return ran, outputs, files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.mark.slow
def test_the_ci_snippet_of_the_docs_runs(tmp_path):
    step = snippet_step(tmp_path)
    (tmp_path / step["with"]["plan"]).write_text(block("# capacity.yaml"))
    ran, outputs, summary = act(tmp_path, step)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert outputs["passed"] == "true" and json.loads(Path(outputs["report"]).read_text())["passed"] is True
    assert summary.startswith("before\n### 1 check: 1 pass;") and "::error" not in ran.stdout


@pytest.mark.slow
def test_the_snippet_fails_the_job_on_the_line_that_fails(tmp_path):
    step = snippet_step(tmp_path)
    text = block("# capacity.yaml").replace("<= 40 ms", "<= 4 ms")
    (tmp_path / step["with"]["plan"]).write_text(text)
    ran, outputs, summary = act(
        tmp_path, step, sarif="r.sarif", junit="r.xml", hold="expected", tolerance="5 %", **{"on-inconclusive": "warn"}
    )
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "<= 4 ms" in t)
    assert ran.returncode == 1 and outputs["passed"] == "false"
    assert f"::error file=capacity.yaml,line={line},title=" in ran.stdout and "fail" in summary
    assert (tmp_path / "r.sarif").exists() and (tmp_path / "r.xml").exists()


@pytest.mark.slow
def test_the_action_fails_on_a_plan_that_cannot_be_read(tmp_path):
    (tmp_path / "capacity.yaml").write_text("checks: {}")
    ran, outputs, _ = act(tmp_path, {"with": {"plan": "capacity.yaml"}})
    assert ran.returncode == 3 and outputs["passed"] == "false" and "::error file=capacity.yaml,line=1" in ran.stdout


@pytest.mark.slow
def test_several_plans_and_patterns(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(json.dumps(GOOD))
    ran, outputs, _ = act(tmp_path, {"with": {"plan": "*.yaml"}})
    assert ran.returncode == 0 and json.loads(Path(outputs["report"]).read_text())["summary"]["checks"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan, wanted",
    [("my plan.yaml", 1), ("-plan.yaml", 1), ("my plan.yaml\n-plan.yaml c.yaml", 3), ("*.yaml", 3), ("my pl*.yaml", 1), ("-p*.yaml\nmy *.yaml", 2)],
)  # fmt: skip
def test_a_plan_with_a_space_or_a_dash_in_its_path(plan, wanted, tmp_path):
    for name in ("my plan.yaml", "-plan.yaml", "c.yaml"):
        (tmp_path / name).write_text(json.dumps(GOOD))
    ran, outputs, _ = act(tmp_path, {"with": {"plan": plan}})
    assert ran.returncode == 0 and json.loads(Path(outputs["report"]).read_text())["summary"]["checks"] == wanted


def test_the_readme_shows_the_same_snippet():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if "actions/checkout" in readme:
        assert block("# .github/workflows/capacity.yml") in readme


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_hold(path):
    ran = run_cli("check", str(path))
    assert ran.code == 0, ran.out + ran.err


def test_there_are_three_examples_and_the_docs_link_each():
    assert len(EXAMPLES) >= 3 and all(f"(../examples/{p.name})" in DOCS for p in EXAMPLES)


def test_the_schema_is_current():
    assert (ROOT / "docs/schema/check.json").read_text(encoding="utf-8") == json.dumps(
        plan_file(), indent=2, ensure_ascii=False
    ) + "\n", "run python docs/generate.py"


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    """The generated schema, itself checked against the metaschema."""
    generated = plan_file()
    jsonschema.Draft202012Validator.check_schema(generated)
    return jsonschema.Draft202012Validator(generated)


def plans_in_docs() -> list[str]:
    return [b for b in BLOCKS if "\nchecks:" in b or b.startswith("checks:")]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        EXAMPLES[0].read_text(),
        *(pytest.param(t, marks=pytest.mark.slow) for t in [*(p.read_text() for p in EXAMPLES[1:]), *plans_in_docs()]),
    ],
)
def test_the_schema_accepts_what_the_command_accepts(tmp_path, text):
    validator().validate(yaml.safe_load(text))
    (tmp_path / "fleet.yaml").write_text(
        (ROOT / "examples/fleet.yaml").read_text(encoding="utf-8")
    )  # which one of them names
    assert check(tmp_path, text).code in (0, 1)


REFUSED = [
    {},
    {"checks": {}},
    {"checks": {"a": {}}},
    plan(bacth=3),
    plan(flash="yes"),
    plan(require={}),
    plan(hold="best"),
    plan(matrix={"colour": [1]}),
    plan(matrix={"batch": []}),
    requiring("decode.time_s", 40),
    requiring("decode.time_s", "40 ms"),
    plan() | {"extra": 1},
    plan() | {"defaults": {"x": 1}},
    plan(phase=["sleep"]),
    plan(batch={"a": 1}),
]


@pytest.mark.parametrize("made", REFUSED, ids=range(len(REFUSED)))
def test_the_schema_and_the_command_refuse_the_same(tmp_path, made):
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(made)
    assert check(tmp_path, made).code == 3


def test_every_option_in_the_docs_exists_and_every_one_is_there():
    helped = run_cli("check", "--help").out
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", helped)) - {"--help"}
    usage = DOCS[DOCS.index("```text\nroofline check") :]
    assert options == set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", usage[: usage.index("```", 8)]))
