"""Fields of recorded loads: counts, instants and pauses at their bounds, and rows of chats, sessions and ShareGPT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers.traces import formats
from rooflinecli.importers.traces.formats import LONGEST, SPAN, Row


@pytest.mark.parametrize("written, found", [(1, 1), ("12", 12), ("3.0", 3), (LONGEST, LONGEST), ("1e3", 1000)])
def test_a_count_of_tokens(written: Any, found: int) -> None:
    assert formats.tokens("a:1", "prompt", written) == found


@pytest.mark.parametrize("written, why", [(0, "from 1 to"), (-1, "from 1"), (LONGEST + 1, "from 1 to"), (2.5, "whole number"), ("x", "expected a whole"), ("inf", "expected a whole"), ("", "is missing"), (None, "is missing")])  # fmt: skip
def test_what_is_no_count(written: Any, why: str) -> None:
    with pytest.raises(DataError, match=f"a:1: prompt .*{why}"):
        formats.tokens("a:1", "prompt", written)
    assert formats.tokens("a:1", "hit", 0, 0) == 0


def test_instants_and_pauses() -> None:
    assert formats.timestamp("a:1", "t", "1970-01-01 00:00:10.25") == 10.25
    assert formats.timestamp("a:1", "t", "1970-01-01T01:00:00.5+01:00") == 0.5
    assert formats.timestamp("a:1", "t", "1970-01-01T00:01:00Z") == 60
    assert formats.timestamp("a:1", "t", "2023-11-16 18:15:46.6805900") == pytest.approx(1700158546.68059, abs=1e-6)
    assert formats.seconds("a:1", "t", "2500", 1000) == 2.5 and formats.seconds("a:1", "t", -3) == -3
    assert formats.pause("a:1", "t", 500, 1000) == 0.5 and formats.pause("a:1", "t", 0) == 0
    for call, written in (
        (formats.timestamp, "noon"),
        (formats.seconds, "nan"),
        (formats.seconds, "1e18"),
        (formats.seconds, "x"),
        (formats.pause, -0.1),
    ):
        with pytest.raises(DataError, match="a:1: t is"):
            call("a:1", "t", written)


def test_tokens_of_texts_and_keys_of_prefixes() -> None:
    assert [formats.estimated("x" * n) for n in (0, 3, 4, 7, 8)] == [1, 1, 1, 1, 2]
    assert (
        formats.prefix_block_keys("s", 3 * SPAN - 1) == ("s/0", "s/1")
        and formats.prefix_block_keys("s", SPAN - 1) == ()
    )
    assert (
        formats.keys('[{"a": 1, "b": {"c": 2}}, {"d": 1}]') == {"a", "b"}
        and formats.keys('{"a": {"b": 1, ') == {"a", "b"}
        and formats.keys("x") == set()
    )
    assert formats.heading("Time, Prompt ,output\n1,2,3") == {"time", "prompt", "output"}


def rows(path: Path, text: str, read: Any) -> list[Any]:
    path.write_text(text)
    return list(read(path))


def test_requests_of_a_benchmark_s_input(tmp_path: Path) -> None:
    lines = [
        {"text": "x" * 40, "output_length": 7}, {"prompt": "x" * 8, "timestamp": 1500}, {"messages": [{"role": "user", "content": "x" * 12}, {"role": "a", "content": [{"text": "y" * 8}]}]},
        {"texts": ["x" * 8, "y" * 4]}, {"session_id": "s", "turn": 1, "text": "x" * 4, "delay": 250}, {"other": 1},
    ]  # fmt: skip
    found = rows(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)), formats.benchmark_input_rows)
    good = [row for row in found if isinstance(row, Row)]
    assert [(row.prompt, row.time, row.think) for row in good] == [
        (10, None, None),
        (2, 1.5, None),
        (5, None, None),
        (3, None, None),
        (1, None, 0.25),
    ]
    assert good[0].output == 7 and good[1].output == formats.ANSWER and isinstance(found[-1], DataError)
    turns = {"session_id": "t", "turns": [{"text": "x" * 400, "output_length": 9}, "y" * 40]}
    first, second = rows(tmp_path / "b.jsonl", json.dumps(turns), formats.benchmark_input_rows)
    assert (first.prompt, first.output, first.think) == (100, 9, None) and (second.prompt, second.think) == (
        100 + 9 + 10,
        0.0,
    )
    assert first.hashes == formats.prefix_block_keys("t", 100) and first.span == (SPAN if first.hashes else 0)


def test_conversations_of_sharegpt(tmp_path: Path) -> None:
    """A turn is asked with all that was said before it; what nobody answers is not asked."""
    talk = [{"from": "system", "value": "x" * 8}, {"from": "human", "value": "x" * 12}, {"from": "gpt", "value": "y" * 20}, {"from": "human", "value": "z" * 4},
            {"from": "gpt", "value": "w" * 8}, {"from": "human", "value": "z" * 4}]  # fmt: skip
    found = rows(
        tmp_path / "a.json",
        json.dumps([{"id": 5, "conversations": talk}, {"conversations": [{"value": 3}]}, 7]),
        formats.sharegpt_rows,
    )
    assert [(row.session, row.prompt, row.output, row.think) for row in found[:2]] == [
        ("5", 5, 5, None),
        ("5", 11, 2, 0.0),
    ]
    assert [str(error).partition(": ")[2][:14] for error in found[2:]] == ["conversation 2", "conversation 3"]
    assert found[1].hashes == formats.prefix_block_keys("5", 11)


def test_rows_of_csv_and_json_lines(tmp_path: Path) -> None:
    cells = rows(tmp_path / "a.csv", "Time,Prompt\n1,2\n\n3,4,5\n6\n7,8,\n", formats.table)
    assert [where.rpartition(":")[2] for where, _ in cells] == ["2", "4", "5", "6"]
    assert (
        cells[0][1] == {"time": "1", "prompt": "2"}
        and cells[2][1] == {"time": "6"}
        and cells[3][1] == {"time": "7", "prompt": "8"}
    )
    assert isinstance(cells[1][1], DataError) and "3 cells under 2 columns" in str(cells[1][1])
    objects = rows(tmp_path / "b.jsonl", '{"a": 1}\n\n[2]\n{x\n', formats.lines)
    assert [where.rpartition(":")[2] for where, _ in objects] == ["1", "3", "4"] and objects[0][1] == {"a": 1}
    assert "expected an object" in str(objects[1][1]) and "not JSON" in str(objects[2][1])
