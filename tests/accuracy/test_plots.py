"""Pictures of a validation: one per table that has points, linked from the Markdown."""

from __future__ import annotations

import pytest
from conftest import ROOT, run_cli

from rooflinecli.render.views.report_tables import preface, view

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def one_report(monkeypatch, report):
    monkeypatch.setattr("rooflinecli.validate.question.Validate.tables", lambda self, *_: report(self.subject))


@pytest.mark.slow
def test_a_picture_per_table(tmp_path):
    out = tmp_path / "accuracy.md"
    ran = run_cli("validate", "training", "--plot", str(tmp_path / "img"), "--format", "markdown", "--out", str(out))
    assert ran.code == 0, ran.err
    picture = tmp_path / "img" / "training-seconds-per-step.png"
    assert picture.read_bytes().startswith(b"\x89PNG") and "](img/training-seconds-per-step.png)" in out.read_text()


@pytest.mark.slow
def test_a_folder_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    ran = run_cli("validate", "training", "--plot", str(tmp_path / "file" / "img"))
    assert ran.code == 2 and "writable folder" in ran.err and ran.err.count("\n") == 1


def test_the_page_is_headed_and_illustrated_as_the_command_would():
    page = (ROOT / "docs" / "accuracy.md").read_text()
    assert page.startswith(preface() + "\n\n### ")
    shipped = sorted(p.name for p in (ROOT / "docs" / "img").glob("*.png"))
    assert shipped and all(f"](img/{name})" in page for name in shipped) and page.count("](img/") == len(shipped)


def test_every_column_of_a_calibration_is_written_for_people():
    """Shares are percentages with their sign where they may have one, seconds have one decimal, and none is left to Python."""
    from rooflinecli.core.record import ReportTable
    from rooflinecli.render.blocks import Table

    row = {
        "group": "decode",
        "by": "batch",
        "rows": 4,
        "before": 0.15,
        "calibrated": 0.09,
        "change": -0.4,
        "half_width": 0.19,
    }
    row |= {"families": 21, "one_factor": 0.11, "worse": 0.05, "kept": 0.5, "cost": 0.011, "seconds": 3.7242714}
    (table,) = (block for block in view([ReportTable(title="t", rows=[row])], []).groups[0] if isinstance(block, Table))
    (line,) = table.rows
    said = dict(zip([column.head for column in table.columns], line, strict=True))
    assert (said["before"], said["change"], said["cost"], said["CPU s"]) == ("15.0%", "-40.0%", "+1.1%", "3.7")
    assert all(len(text) < 8 for text in line)
