"""The example notebook runs from top to bottom, and shows what it says."""

from __future__ import annotations

import pytest
from conftest import ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


@pytest.mark.slow
def test_the_example_notebook_runs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ledger = nbformat.read(ROOT / "examples" / "sizing.ipynb", as_version=4)
    nbclient.NotebookClient(ledger, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output for cell in ledger.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in o.get("data", {}) and "decode" in o["data"]["text/html"] for o in shown)
    assert any("vllm serve" in o.get("text", "") for o in shown)


def test_the_notebook_is_kept_without_outputs():
    ledger = nbformat.read(ROOT / "examples" / "sizing.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in ledger.cells)
