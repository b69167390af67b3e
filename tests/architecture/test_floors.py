"""The direction of imports, one home for arithmetic, nothing heavy at start; and proof that these tests can fail."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "rooflinecli"

# from the ground up; a module imports only from its own floor and those below
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


def modules() -> dict[str, Path]:
    return {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in PACKAGE.rglob("*.py")
    }


def floor_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(source: str) -> list[tuple[str, bool]]:
    """(module, at import time?) of every import statement; those under TYPE_CHECKING do not count."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                found.append((child.module or "", top))
                found.extend((f"{child.module}.{alias.name}", top) for alias in child.names)
            visit(child, top and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(source), True)
    return found


def upward(module: str, source: str) -> list[str]:
    """Imports of a higher floor."""
    mine = floor_of(module)
    return [
        name
        for name, _ in imports(source)
        if name.startswith("rooflinecli.")
        and mine in RANK
        and floor_of(name) in RANK
        and RANK[floor_of(name)] > RANK[mine]
    ]


def test_every_module_stands_on_a_floor():
    unknown = {floor_of(m) for m in modules() if floor_of(m) and floor_of(m) not in RANK} - {
        "data",
        "published_runs",
        "engines",
    }
    assert not unknown, f"give these a floor: {unknown}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_point_downward(module):
    assert upward(module, modules()[module].read_text()) == []


@pytest.mark.parametrize("module", sorted(modules()))
def test_jax_lives_in_measure_only(module):
    if floor_of(module) == "measure":
        return
    heavy = [
        name
        for name, _ in imports(modules()[module].read_text())
        if name.split(".")[0] in ("jax", "jaxlib", "torch", "transformers")
    ]
    assert heavy == []


@pytest.mark.parametrize("module", sorted(modules()))
def test_numpy_is_never_imported_at_start(module):
    if floor_of(module) in ("measure", "validate", "calibrate") or module.startswith(
        ("rooflinecli.questions.sweep.", "rooflinecli.questions.search.", "rooflinecli.questions.fleet.")
    ):
        return  # reached only once a sweep, search, fleet or validation runs
    heavy = {"numpy", "matplotlib", "pyarrow", "pandas", "scipy"}
    assert [name for name, top in imports(modules()[module].read_text()) if top and name.split(".")[0] in heavy] == []


def test_starting_up_imports_nothing_heavy(python):
    code = (
        "import sys; import rooflinecli.interfaces.cli.main as m; from rooflinecli.interfaces.cli import estimate;"
        "print([n for n in ('numpy','jax','rich','yaml') if n in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_an_estimate_never_imports_numpy_or_jax(python):
    code = (
        "import sys; sys.argv=['roofline','estimate','llama70b','--hw','h100','--format','json']\n"
        "from rooflinecli.interfaces.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([n for n in ('numpy','jax','pandas') if n in sys.modules], file=sys.stderr)"
    )
    assert python(code).stderr.strip() == "[]"


def test_serving_loads_nothing_that_only_other_questions_need(python):
    """A check that serves starts in the time it has because training, tiers, picture rules and weight formats wait to be asked for."""
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


# --- the meta-tests: each check above fails on a planted offence --------------------------------------------------------------


def test_an_upward_import_is_caught():
    assert upward("rooflinecli.formulas.bad", "from rooflinecli.price.chip import Chip")
    assert upward("rooflinecli.ledger.ledger", "def f():\n    import rooflinecli.questions.estimate.answer")
    assert not upward("rooflinecli.questions.good", "from rooflinecli.formulas import counts")


def test_a_heavy_import_is_caught():
    assert ("numpy", True) in imports("import numpy")
    assert ("numpy", False) in imports("def f():\n    import numpy")
    assert ("jax.numpy", True) in imports("from jax import numpy") or ("jax", True) in imports("from jax import numpy")


def test_the_registries_find_what_a_new_file_adds(tmp_path, monkeypatch):
    """A folder is a registry: a file dropped in is found by its name."""
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "toychip.yaml").write_text("extends: h100-sxm\nname: Toy\naliases: [toy]\n")
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    from rooflinecli.specs.hardware import load_hardware

    assert load_hardware("toy").name == "Toy"
    assert sys.version_info >= (3, 11)
