"""Recorded load: every format is read, a malformed row is placed, and sessions follow one another."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from conftest import ROOT

from rooflinecli.errors import DataError, UsageError
from rooflinecli.simulate.traces.row import read

EXAMPLES = ROOT / "examples" / "traces"
KNOWN = {
    "azure.csv": ("azure", 60), "burstgpt.csv": ("burstgpt", 59), "mooncake.jsonl": ("mooncake", 60), "sharegpt.json": ("sharegpt", 31),
    "bench.jsonl": ("bench", 20), "sessions.csv": ("plain", 39), "bursty.csv": ("plain", 800),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_examples_are_read(name):
    found = read(str(EXAMPLES / name), skip_bad=True)
    assert (found.format, len(found.rows)) == KNOWN[name]
    assert all(row.prompt >= 1 and row.output >= 1 for row in found.rows)


def test_every_reader_has_an_example():
    from rooflinecli.specs.registry import kinds

    assert {format for format, _ in KNOWN.values()} == set(kinds("simulate/traces")) - {"row"}


def test_instants_and_lengths_are_those_written(tmp_path):
    """By hand, a row of each format that has instants."""
    rows = {
        "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
        "azure2.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,374,44\n2024-05-10 00:00:04.324509+00:00,396,109\n",
        "burst.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,374,44,418,API log\n9.314579,GPT-4,396,109,505,API log\n",
        "moon.jsonl": '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [1]}\n{"timestamp": 4314.579, "input_length": 396, "output_length": 109, "hash_ids": [1]}\n',
        "plain.csv": "time,prompt,output\n1,374,44\n5.314579,396,109\n",
    }
    for name, text in rows.items():
        (tmp_path / name).write_text(text)
        found = read(str(tmp_path / name)).rows
        assert [(r.prompt, r.output) for r in found] == [(374, 44), (396, 109)], name
        assert [r.time for r in found] == [0, pytest.approx(4.314579, abs=1e-6)], name


def test_a_malformed_row_is_placed_and_can_be_skipped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,prompt,output\n0,10,5\n1,ten,5\n2,10,5\nx,10,5\n3,10,-1\n")
    with pytest.raises(DataError, match=r"t\.csv:3: prompt is 'ten'.*--skip-bad"):
        read(str(path))
    found = read(str(path), skip_bad=True)
    assert (len(found.rows), found.skipped) == (2, 3)
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"timestamp": 0, "input_length": 10, "output_length": 1}\n{"timestamp": \n')
    with pytest.raises(DataError, match=r"t\.jsonl:2: not JSON"):
        read(str(lines))


def test_what_is_no_trace_says_so(tmp_path):
    (tmp_path / "t.txt").write_text("hello")
    for name in (str(tmp_path / "t.txt"), str(tmp_path / "none.csv")):
        with pytest.raises(UsageError):
            read(name)


def test_a_window_and_a_speed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,prompt,output\n" + "".join(f"{100 + i},{10 + i},5\n" for i in range(60)))
    found = read(str(path), speed=2.0, window="10:20")
    assert [r.prompt for r in found.rows] == list(range(20, 30))
    assert [r.time for r in found.rows] == [i / 2 for i in range(10)]
    assert len(read(str(path), window="0:1min").rows) == 60
    with pytest.raises(UsageError, match="--window"):
        read(str(path), window="20:10")


def test_turns_wait_for_the_answer_before_them(prices):
    """A session's next turn comes a think time after the last answer ended, and knows what was said."""
    from simulate.test_schedulers import scheduler

    from rooflinecli.simulate.fleet import Fleet, opened
    from rooflinecli.simulate.prefix import Store
    from rooflinecli.simulate.replica import Replica
    from rooflinecli.simulate.residents import Limits
    from rooflinecli.specs.registry import load

    trace = read(str(EXAMPLES / "sessions.csv"))
    jobs, follow = trace.jobs()
    replicas = [Replica(prices, Limits(10**6, 64), scheduler(), Store()) for _ in range(2)]
    ended = opened(Fleet(replicas, load("simulate/routers", "prefix")), jobs, follow)
    assert len(ended) == len(trace.rows)
    by: dict[str, list] = {}
    for job in sorted(ended, key=lambda j: j.arrival):
        by.setdefault(job.session, []).append(job)
    turns = [pair for said in by.values() for pair in pairwise(said)]
    assert turns and all(b.arrival == pytest.approx(a.finish + b.think) for a, b in turns)
    assert sum(job.hit for job in ended) > 0


def test_text_is_counted_at_four_characters_a_token(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(
        json.dumps(
            [
                {
                    "id": "a",
                    "conversations": [
                        {"from": "human", "value": "x" * 400},
                        {"from": "gpt", "value": "y" * 200},
                        {"from": "human", "value": "z" * 40},
                        {"from": "gpt", "value": "y" * 80},
                    ],
                }
            ]
        )
    )
    assert [(r.prompt, r.output) for r in read(str(path)).rows] == [(100, 50), (160, 20)]
