"""The docs do what they say: the tutorial and the cookbook run, the site builds, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, run_cli

DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w+)(?: title=\"([\w.-]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(name: str) -> list[str]:
    return [
        line
        for kind, _, body in _FENCE.findall((DOCS / name).read_text())
        for line in body.splitlines()
        if kind == "sh" and line.startswith("roofline ")
    ]


def questions() -> list[tuple[str, str]]:
    return re.findall(r"\*\*(.+?)\*\*\n\n```sh\n(roofline .+)\n```", (DOCS / "cookbook.md").read_text())


def test_the_cookbook_has_thirty_questions_each_with_its_command():
    asked = questions()
    assert len(asked) >= 30 and len({q for q, _ in asked}) == len({c for _, c in asked}) == len(asked) == len(
        commands("cookbook.md")
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for _, c in questions()])
def test_a_recipe_answers(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    ran = run_cli(*shlex.split(command)[1:])
    assert ran.code == 0 and ran.out.strip(), ran.err


@pytest.mark.slow
def test_the_tutorial_runs_from_the_question_to_the_check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = None
    for kind, title, body in _FENCE.findall((DOCS / "tutorial.md").read_text()):
        if title:
            (tmp_path / title).write_text(body)
        for line in body.splitlines() if kind == "sh" else ():
            ran = run_cli(*shlex.split(line)[1:])
            assert ran.code == 0, f"{line}: {ran.err}"
    assert ran is not None and "the plan passes" in ran.out
    script = (tmp_path / "serve.sh").read_text()
    (tmp_path / "serve.sh").write_text(script.replace("--tensor-parallel-size 4", "--tensor-parallel-size 1"))
    assert run_cli("check", "capacity.yaml").code == 1, "an edited launch script must fail the check"


def test_launch_page_commands_run():
    for line in commands("launch.md"):
        ran = run_cli(*shlex.split(line)[1:])
        assert ran.code == 0, ran.err


def test_every_page_is_in_the_navigation():
    def pages(node):
        for item in node if isinstance(node, list) else node.values() if isinstance(node, dict) else [node]:
            yield from [item] if isinstance(item, str) else pages(item)

    named = set(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert named == {path.name for path in DOCS.glob("*.md")}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id") or "")
        self.found += [given[key] for key in ("href", "src") if given.get(key) and tag in ("a", "img")]


@cache
def links(page: Path) -> Links:
    parser = Links()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


@pytest.mark.slow
def test_the_site_builds_and_its_links_lead_somewhere(tmp_path):
    pytest.importorskip("material")
    tree, site = tmp_path / "tree", tmp_path / "site"
    shutil.copytree(DOCS, tree / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", tree)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)], cwd=tree, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    broken = []
    for page in site.rglob("*.html"):
        for link in links(page).found if page.name != "404.html" else ():
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:|//", link) or "/examples/" in target:
                continue  # elsewhere, or files of the repository that another test looks for
            goal = (page.parent / target).resolve() if target else page
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.is_file() or (anchor and anchor not in links(goal).ids):
                broken.append(f"{page.relative_to(site)} -> {link}")
    assert broken == []
