"""Files of logs: encodings, limits, prefixes of launchers, lines as an editor counts them, and the JSON between other lines."""

from __future__ import annotations

import gzip
import json

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers import source
from rooflinecli.importers.source import Source, read_text

TEXT = "step 1: 0.5 s (µs)\nstep 2: 0.6 s\n"
PREFIXES = (
    "[1,0]<stdout>:", "[1,12]<stderr>: ", "[rank0]: ", "[default3]:", "[worker 7]: ", "[0] ", "2026-01-02T03:04:05.678Z ", "0: ", "  gpu-node-12: ",
)  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_text_is_read_in_its_encoding_packed_or_not(tmp_path, encoding):
    plain, packed = tmp_path / "a.log", tmp_path / "b.log"
    raw = TEXT.replace("\n", "\r\n").encode(encoding)
    plain.write_bytes(raw)
    packed.write_bytes(gzip.compress(raw))
    for path in (plain, packed):
        assert read_text(path) == TEXT
        with source.open_text(path) as stream:
            assert stream.read() == TEXT
        assert read_text(path, largest=len(raw)) == TEXT
        with pytest.raises(DataError, match=r"more than .* MB; give a log"):
            read_text(path, largest=len(raw) - 1)


@pytest.mark.parametrize("raw", [bytes(range(256)) * 4, b"ab\0\0\0\0\0\0", b"\x1f\x8b"])
def test_what_is_no_text_is_refused(tmp_path, raw):
    path = tmp_path / "x"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"x:1: (a binary file|cannot be read).*; give a log"):
        read_text(path)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_prefix_of_a_launcher_is_taken_off(prefix):
    """Off most lines, or off four in a row; a line or two that look so are a program's own."""
    lines = [f"loss {i}" for i in range(8)]
    tagged = [prefix + line for line in lines]
    assert Source("x", "\n".join(tagged)).lines == lines
    assert Source("x", "\n".join([*lines, *lines, *tagged[:4]])).lines == [*lines, *lines, *lines[:4]]
    for few in (1, 3):
        own = [*lines, *tagged[:few], *lines]
        assert Source("x", "\n".join(own)).lines == own


def test_colors_are_taken_off():
    assert Source("x", "\x1b[32mok\x1b[0m [31mbad[0m\x1b[1;33m!").plain == "ok bad!"


def test_lines_are_those_of_an_editor():
    """A progress bar returns to the start of its line: four states of it are one line of the file."""
    log = Source("run.log", "start\n10%\r20%\r30%\rdone\nloss 1\n")
    assert log.lines == ["start", "10%", "20%", "30%", "done", "loss 1", ""]
    assert [log.at(i) for i in range(1, 7)] == [f"run.log:{i}" for i in (1, 2, 2, 2, 2, 3)]
    assert [log.line_of(log.plain.index(word)) for word in ("start", "30%", "loss")] == [1, 4, 6]


def test_objects_between_other_lines_have_the_line_they_begin_on():
    one, two = {"a": 1, "b": {"a": 2}}, {"a": 3, "b": []}
    mixed = "INFO: {not json} starts\n" + json.dumps(one) + "\nwarning\n\n  " + json.dumps(two, indent=1) + "\nend\n"
    log = Source("x", mixed)
    assert log.objects == [(2, one), (5, two)] and log.looks_like_json
    assert log.members == [(2, one), (2, {"a": 2}), (5, two)]
    array = Source("x", "[\n" + ",\n".join(map(json.dumps, (one, 5, two, one))) + "\n]\n")
    assert array.objects == [(2, one), (4, two), (5, one)]
    assert Source("x", json.dumps([one, two, one])).objects == [(1, one), (1, two), (1, one)]
    with pytest.raises(DataError, match=r"x:3: not valid JSON .*cut short"):
        _ = Source("x", "ok\n" + json.dumps(one) + '\n{"a": ').objects
    assert not Source("x", "plain\n").looks_like_json


def test_tables_end_where_a_listing_does():
    log = Source("x", "note\nname,time\na,1\nb,2\n\nname,time\nc,3\n```\nd,4\n")
    assert list(source.csv_rows(log, "name,")) == [
        (3, {"name": "a", "time": "1"}), (4, {"name": "b", "time": "2"}), (7, {"name": "c", "time": "3"}),
    ]  # fmt: skip
    with pytest.raises(DataError, match="x:2: 1 cells under 2 columns"):
        list(source.csv_rows(Source("x", "name,time\na\n"), "name,"))


def test_numbers_as_logs_write_them():
    given = {"6,785": 6785.0, "8": 8.0, 0: 0.0, "0.0": 0.0, 1e-101: None, 1e100: None, "1e99": 1e99, True: None, None: None, "x": None, "nan": None, (): None}  # fmt: skip
    assert {value: source.number(value) for value in given} == given
    assert [source.positive(value) for value in (-1, 0, "2", None)] == [None, None, 2.0, None]
    holder = {"a.b": 1, "a": {"b": 2, "c": {"d": 3}}, "zero": 0}
    assert [source.at(holder, path) for path in ("a.b", "a.c.d", "a.x", "x.y", "a.c.d.e", None)] == [
        1,
        3,
        None,
        None,
        None,
        None,
    ]
    log = Source("x", "")
    assert source.need(log, 1, holder, "none", "a.c.d", "a.b") == 3.0
    with pytest.raises(DataError, match="x:1: zero: expected a number above zero, got '0'"):
        source.need(log, 1, holder, "zero", "a.b")
    with pytest.raises(DataError, match="x:1: p or q: missing"):
        source.need(log, 1, holder, "p", "q")
