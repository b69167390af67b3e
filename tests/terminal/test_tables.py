"""Tables obey the terminal: at any width no line is wider, no figure is cut, and no column of an answer is lost."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rooflinecli.render.blocks import Column, Headline, Page, Prose, Table, page
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal import columns

COMMANDS = [
    ("estimate", "llama70b", "--hw", "h100"),
    ("estimate", "llama-3-8b", "--hw", "h100", "--explain", "plan"),
    ("sweep", "llama-3-8b", "--hw", "h100", "--batch", "1..8x2"),
    ("search", "llama-3-8b", "--hw", "h100", "-n", "8"),
    ("compare", "llama-3-8b", "--hw", "h100,h200"),
    ("ops", "llama-3-8b", "--hw", "h100", "--phase", "decode"),
    ("models",),
    ("models", "llama-3-8b"),
    ("hardware",),
    ("hardware", "h100"),
    ("hardware", "h100", "h200"),
    ("layouts", "llama-3-8b", "--hw", "h100", "-n", "8"),
    ("collective", "all-reduce", "1GB", "--hw", "h100", "-n", "16"),
    ("kernel", "matmul", "64", "64", "64", "--hw", "h100"),
    ("goodput", "-n", "1000", "--checkpoint", "30s"),
    ("scaling", "run", "-p", "70B", "--tokens", "15T", "-n", "1000", "--hw", "h100", "--mfu", "0.4"),
    ("formula",),
]
FIGURE = re.compile(r"\d[\d.,]*… | \d[\d.,]*…$")


def lines_of(grid: list[list[str]], width: int, text=(), drop=None, indent: int = 0) -> list[str]:
    """The lines of a table whose first row has the headings; `drop`: rank by column."""
    columns = [Column(head, text=i in text, drop=(drop or {}).get(i, 0)) for i, head in enumerate(grid[0])]
    return terminal.table(Table(columns, grid[1:], indent=indent), width)


def at(width: int, cli, monkeypatch, *command: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    ran = cli(*command)
    assert ran.code == 0, ran.err
    return ran.out.splitlines()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_eighty_columns_hold_every_table(cli, monkeypatch, command: tuple[str, ...]) -> None:
    lines = at(80, cli, monkeypatch, *command)
    assert max(map(terminal.cells, lines)) <= 80
    assert not any(FIGURE.search(line) for line in lines), "a figure that is cut is a wrong figure"


@pytest.mark.slow
@pytest.mark.parametrize("width", [20, 33, 47, 60, 100, 120, 200])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_width_breaks_a_table(cli, monkeypatch, command: tuple[str, ...], width: int) -> None:
    lines = at(width, cli, monkeypatch, *command)
    assert all(terminal.cells(line) <= width for line in lines if "--" not in line), "an option is never broken"


def test_a_long_list_says_what_it_lacks_and_wide_shows_every_column(cli, monkeypatch) -> None:
    sweep = ("sweep", "llama-3-8b", "--hw", "h100", "--batch", "1..20")
    wide, narrow = at(80, cli, monkeypatch, *sweep, "--wide"), at(80, cli, monkeypatch, *sweep)
    assert "not shown" not in " ".join(wide) and "$/M output tokens" in " ".join(wide)
    assert "not shown for lack of room" in " ".join(narrow) and "decode MFU" in " ".join(narrow)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("width", [25, 40, 80])
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c[0] in ("sweep", "search", "compare", "collective")], ids=" ".join
)
def test_a_narrow_answer_has_every_word_of_the_wide_one(cli, monkeypatch, command: tuple[str, ...], width: int) -> None:
    whole = [] if command[0] == "sweep" else ["--details"]
    wide, narrow = at(80, cli, monkeypatch, *command, "--wide"), at(width, cli, monkeypatch, *command, *whole)
    assert "not shown" not in " ".join(narrow) and "…" not in "".join(narrow)
    figures = re.compile(r"[\d.,]*\d")
    assert set(figures.findall(" ".join(wide))) <= set(figures.findall(" ".join(narrow)))


def test_a_table_folds_under_the_columns_that_tell_its_rows_apart() -> None:
    grid = [["", "layout", "step", "memory"], ["1", "tp8", "65.3 s", "76.0 GB"], ["2", "tp4 pp2", "67.6 s", "64.6 GB"]]
    assert lines_of(grid, 20, text=(1,)) == [
        "   layout     step", "1  tp8      65.3 s", "2  tp4 pp2  67.6 s", "    memory", "1  76.0 GB", "2  64.6 GB",
    ]  # fmt: skip
    marked = [[row[0] and "*", *row[1:]] for row in grid]
    marked[2][0] = "*"
    assert lines_of(marked, 20, text=(1,))[3] == "   layout    memory"
    assert lines_of([["name", "bandwidth of the link"], ["x", "1.00 TB/s"]], 20) == ["x", "bandwidth   1.00", "of the      TB/s", "link"]  # fmt: skip


def test_a_first_screen_leaves_columns_that_may_go_to_the_details() -> None:
    columns = [Column("", text=True), Column("layout" * 8), Column("step"), Column("memory" * 5, drop=1)]
    first = page([Headline("x")], [Table(columns, [["1", "tp8", "65.3 s", "76.0 GB"]])], about="more")
    assert terminal.draw(first, 80).splitlines()[-1] == f"--details shows {'memory' * 5}"
    assert "76.0 GB" not in terminal.draw(first, 80) and "65.3 s" in terminal.draw(first, 80)
    assert "76.0 GB" in terminal.draw(first, 80, details=True) and "76.0 GB" in terminal.draw(first, 60)
    assert terminal.draw(first, 100).splitlines()[-1].split() == ["1", "tp8", "65.3", "s", "76.0", "GB"]
    essential = replace(first.groups[1][0], columns=[replace(c, drop=0) for c in columns])
    assert "76.0 GB" in terminal.draw(replace(first, groups=[[essential]]), 80)


def test_a_pipe_has_a_width_that_nothing_changes(cli, monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert columns() == 120 and columns(to_file=True) == 120
    for hostile in ("0", "-5", "x", "9" * 5000, ""):
        monkeypatch.setenv("COLUMNS", hostile)
        assert columns() >= 20


@pytest.mark.slow
def test_a_terminal_is_asked_for_its_width() -> None:
    """In a real pseudo-terminal of 72 columns, with colors."""
    leader, follower = pty.openpty()
    import fcntl
    import termios

    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "rooflinecli.interfaces.cli.main", "models", "--family", "llama"]
    run = subprocess.Popen(command, stdout=follower, stderr=follower, env=env)
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert run.wait() == 0
    lines = re.sub(r"\x1b\[\d+m", "", shown.decode()).splitlines()
    assert 40 < max(map(len, lines)) <= 72


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw reads the tables of Unicode
@given(
    st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(words, min_size=n, max_size=n), min_size=1, max_size=5)),
    st.integers(8, 200),
)
def test_any_text_in_any_width(grid: list[list[str]], width: int) -> None:
    lines = lines_of(grid, width)
    assert all(terminal.cells(line) <= width for line in lines)
    assert not any(c in line for line in lines for c in "\x1b\n\r\x07")


@pytest.mark.parametrize("width", [24, 60, 100])
def test_a_terminal_with_styles_shows_the_same_cells(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    grid = [["chip", "memory\nGB", "note"], ["h100", "80", "a 漢字 and [bold]"], ["b200", "192", "no"]]
    plain = lines_of(grid, width, indent=2)
    monkeypatch.setattr(terminal, "colored", lambda: True)
    drawn = [re.sub(r"\x1b\[\d+m", "", line) for line in lines_of(grid, width, indent=2)]
    assert all(terminal.cells(line) <= width for line in drawn)
    assert [line.rstrip() for line in drawn] == plain


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(words, words), max_size=5), st.integers(20, 200))
def test_any_pairs_in_any_width(rows: list[tuple[str, str]], width: int) -> None:
    assert all(terminal.cells(line) <= width for line in terminal.pairs(rows, width))


@given(st.text(alphabet="ab  .\n\t\x0bé漢", max_size=20), st.integers(4, 24))
def test_a_line_that_fits_is_what_breaking_it_gives(text: str, width: int) -> None:
    """Text that needs no break is answered at once, and just as textwrap would."""
    plain = terminal.clean(text)
    room = max(width if terminal.cells(plain) <= len(plain) else width // 2, 4)
    assert terminal.wrap(text, width) == textwrap.wrap(plain, room, break_on_hyphens=False)


def test_columns_go_in_the_order_stated() -> None:
    grid = [["name", "alpha", "beta", "gamma"], *[["x", "1", "2", "3"]] * 13]
    assert lines_of(grid, 19, drop={1: 1})[:2] == ["name  beta  gamma", "x        2      3"]
    assert lines_of(grid, 19)[:2] == ["name  alpha  beta", "x         1     2"]
    assert lines_of(grid, 200)[:2] == ["name  alpha  beta  gamma", "x         1     2      3"]


def test_a_command_line_that_is_folded_can_still_be_run() -> None:
    line = "roofline estimate llama-3-70b --hw h100 --phase train -n 16 --tp 1 --pp 1 --cp 2 --dp 8"
    folded = terminal.command(line, 40)
    assert len(folded) > 2 and max(map(len, folded)) <= 40
    assert " ".join("\n".join(folded).replace("\\\n", " ").split()) == line


def test_a_kernel_begins_with_its_time(cli):
    out = cli("kernel", "attention", "1", "8192", "--decode", "--heads", "32", "--kv-heads", "8", "--hw", "h100").out
    first, *rows = out.splitlines()
    first = f"{first} {rows.pop(0).strip()}".strip()  # a narrow terminal breaks it
    assert first.startswith("attention on H100") and "expected" in first and "80% interval" in first
    assert "memory bound, " in first and first.endswith("x compute")
    assert not any(row.startswith(("op ", "hardware", "dtype")) for row in rows)


def test_a_matmul_shows_what_tiles_and_waves_lose_and_what_each_memory_holds(cli):
    """129 rows are two tiles of 128, 64 tiles a part of one wave of 132 SMs; a sum is 4 bytes, a slab 64 deep of 2-byte elements."""
    found = cli("kernel", "matmul", "129x4096x4096", "--hw", "h100", "--format", "json").json
    assert found["tiling"] == pytest.approx(
        {"output_tiles": 64, "output_tile_utilization": 129 / 256, "waves": 1, "wave_utilization": 64 / 132}
    )
    held = {name: level["held_bytes"] for name, level in found["memory_levels"].items()}
    assert held["registers_per_unit"] == 128 * 128 * 4 and held["shared_memory_per_unit"] == 2 * 128 * 64 * 2
    assert held["l2"] == 2 * (129 * 4096 + 4096 * 4096) and held["memory"] == found["bytes"]
    array = cli("kernel", "matmul", "256x64x128", "--hw", "tpu-v5e", "--format", "json").json["tiling"]
    assert array["weight_tile_utilization"] == 0.5 and array["cycle_utilization"] == 256 * 64 / (128 * (256 + 254))


def test_tables_of_errors_have_their_columns_in_order_under_their_headings():
    from rooflinecli.render.blocks import Table
    from rooflinecli.render.views.report_tables import LEGEND, _table

    row = {"rank": 3.0, "coverage": 0.81, "bias": -0.02, "mean": 0.104, "group": "h100", "rows": 12, "note": "own", "seconds": 2.25}  # fmt: skip
    made = _table([row])
    assert isinstance(made, Table) and "geometric mean" in LEGEND
    assert [c.head for c in made.columns] == [
        "group", "rows", "CPU s", "mean error", "bias", "in the 80% interval", "rank of the published", "note",
    ]  # fmt: skip
    assert made.rows[0][:5] == ["h100", "12", "2.2", "10.4%", "-2.0%"]


@pytest.mark.parametrize(("groups", "lines", "left"), [(5, 4, 4), (7, 3, 3), (5, 5, 2)])
def test_the_last_groups_stand_close_where_that_keeps_the_screen(groups, lines, left):
    """Blank lines beyond a screen of 24 go from the end, but for the first two; no other line does."""
    blocks = [[Prose(f"{i} {n}") for n in range(lines)] for i in range(groups)]
    text = terminal.draw(Page(blocks, about="more"), 80)
    assert text.replace("\n\n", "\n").split("\n") == [block.text for group in blocks for block in group]
    assert [text.index(f"{i + 1} 0") - text.index(f"{i} {lines - 1}") for i in range(groups - 1)] == [5] * left + [
        4
    ] * (groups - 1 - left)
