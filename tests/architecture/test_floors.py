"""The direction of imports between packages, where jax may be imported, and nothing heavy at start; and proof that these tests can fail."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "rooflinecli"

# from the bottom up; a module imports only from its own level and those below. CONTRIBUTING.md prints this list.
FLOORS = [
    {"core"},
    {"formulas"},
    {"specs"},
    {"quantization"},
    {"ledger"},
    {"layers"},
    {"parallel"},
    {"phases"},
    {"memory"},
    {"price"},
    {"engine"},
    {"importers"},
    {"simulate"},
    {"questions"},
    {"calibrate", "measure", "validate"},
    {"render"},
    {"interfaces"},
    {"__main__"},
]
RANK = {name: rank for rank, floor in enumerate(FLOORS) for name in floor}
DEVICE_LIBRARIES = {"jax", "jaxlib", "torch", "transformers"}
SLOW_TO_IMPORT = {"numpy", "matplotlib", "pyarrow", "pandas", "scipy"}
# reached only once a sweep, search, fleet, measurement, validation or the choice of a training layout runs
IMPORTED_LATE = tuple(
    f"rooflinecli.{package}."
    for package in (
        "measure",
        "validate",
        "calibrate",
        "engine.layout_space",
        "engine.training_layout",
        "questions.sweep",
        "questions.search",
        "questions.fleet",
        "questions.sensitivity",
        "simulate.request_load",
        "simulate.step_times",
        "simulate.summary",
        "render.formats.rows",  # of sweeps alone
    )
)


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(source: str) -> list[tuple[str, bool]]:
    """(module, at import time?) of every import statement; those under TYPE_CHECKING do not count."""
    names: list[tuple[str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                names.extend((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                names.append((child.module or "", top))
                names.extend((f"{child.module}.{alias.name}", top) for alias in child.names)
            if not isinstance(child, ast.expr):  # an expression holds no statement
                visit(child, top and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))

    visit(ast.parse(source), True)
    return names


@cache
def modules(mention: frozenset[str] = frozenset({""})) -> dict[str, list[tuple[str, bool]]]:
    """The imports of every module of the package whose text has one of these words, each parsed once."""
    texts = {p.relative_to(ROOT).with_suffix(""): p.read_text() for p in PACKAGE.rglob("*.py")}
    return {
        ".".join(path.parts).removesuffix(".__init__"): imports(text)
        for path, text in texts.items()
        if any(word in text for word in mention)
    }


def upward(module: str, imported: list[tuple[str, bool]]) -> list[str]:
    """Imports of a higher level."""
    mine = RANK.get(package_of(module), len(FLOORS))
    return [name for name, _ in imported if name.startswith("rooflinecli.") and RANK.get(package_of(name), 0) > mine]


def of_libraries(imported: list[tuple[str, bool]], libraries: set[str], at_start: bool = False) -> list[str]:
    return [name for name, top in imported if name.split(".")[0] in libraries and (top or not at_start)]


@pytest.mark.slow
def test_every_package_has_a_level():
    assert {package_of(m) for m in modules()} - {""} == set(RANK)


def test_contributing_prints_the_levels():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    printed = re.search(r"```\n(core\n.*?)```", text, re.DOTALL)
    assert printed
    assert [set(line.split()) for line in printed[1].splitlines()] == FLOORS[:-1]


@pytest.mark.slow
def test_imports_point_downward():
    assert {m: names for m, imported in modules().items() if (names := upward(m, imported))} == {}


def test_device_libraries_are_imported_in_measure_only():
    mentioned = modules(frozenset(DEVICE_LIBRARIES))
    others = {
        m: of_libraries(imported, DEVICE_LIBRARIES) for m, imported in mentioned.items() if package_of(m) != "measure"
    }
    assert "measure" in {package_of(m) for m in mentioned}
    assert {m: names for m, names in others.items() if names} == {}


def test_numpy_is_never_imported_at_start():
    early = {
        m: of_libraries(imported, SLOW_TO_IMPORT, at_start=True)
        for m, imported in modules(frozenset(SLOW_TO_IMPORT)).items()
        if not f"{m}.".startswith(IMPORTED_LATE)
    }
    assert {m: names for m, names in early.items() if names} == {}


def test_starting_up_imports_nothing_heavy(python):
    """Of a second start: the first reads the tables of formulas."""
    code = (
        "import sys; import rooflinecli.interfaces.cli.main as m; from rooflinecli.interfaces.cli import estimate;"
        "print([n for n in ('numpy','jax','rich','yaml') if n in sys.modules])"
    )
    python(code)
    assert python(code).stdout.strip() == "[]"


@pytest.mark.slow
def test_an_estimate_never_imports_numpy_or_jax(python):
    code = (
        "import sys; sys.argv=['roofline','estimate','llama70b','--hw','h100','--format','json']\n"
        "from rooflinecli.interfaces.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([n for n in ('numpy','jax','pandas') if n in sys.modules], file=sys.stderr)"
    )
    assert python(code).stderr.strip() == "[]"


@pytest.mark.slow
def test_serving_imports_nothing_that_only_other_questions_need(python):
    """A serving check starts fast because training, KV tiers, image rules and weight formats are imported on first use."""
    others = (
        "engine.training",
        "engine.extrapolation",
        "engine.kv_tiers",
        "engine.stored_weights",
        "specs.training_envelope",
        "layers.images",
    )
    code = (
        "import sys; sys.argv=['roofline','estimate','llama70b','--hw','h100','--phase','decode','--format','json']\n"
        "from rooflinecli.interfaces.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "assert 'rooflinecli.engine.inference' in sys.modules\n"
        f"print([n for n in {others} if 'rooflinecli.' + n in sys.modules], file=sys.stderr)"
    )
    assert python(code).stderr.strip() == "[]"


# --- the meta-tests: each check above fails on a planted offense --------------------------------------------------------------


def test_an_upward_import_is_caught():
    assert upward("rooflinecli.formulas.bad", imports("from rooflinecli.price.chip import Chip"))
    assert upward("rooflinecli.importers.bad", imports("from rooflinecli.questions import load"))
    assert upward("rooflinecli.ledger.ledger", imports("def f():\n    import rooflinecli.questions.estimate.answer"))
    assert not upward("rooflinecli.questions.good", imports("from rooflinecli.formulas import counts"))


def test_a_heavy_import_is_caught():
    assert ("numpy", True) in imports("if True:\n    try:\n        import numpy\n    except ImportError:\n        pass")
    assert ("numpy", False) in imports("class A:\n    def f(self):\n        import numpy")
    assert of_libraries(imports("from jax import numpy"), DEVICE_LIBRARIES)
    assert not of_libraries(imports("def f():\n    import numpy"), SLOW_TO_IMPORT, at_start=True)


def test_the_registries_find_what_a_new_file_adds(tmp_path, monkeypatch):
    """A folder is a registry: a file dropped in is found by its name."""
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "toychip.yaml").write_text("extends: h100-sxm\nname: Toy\naliases: [toy]\n")
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    from rooflinecli.specs.hardware import load_hardware

    assert load_hardware("toy").name == "Toy"
    assert sys.version_info >= (3, 11)
