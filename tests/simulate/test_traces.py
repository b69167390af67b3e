"""Recorded load: every format is read, a malformed row is placed, and sessions follow one another."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from conftest import ROOT

from rooflinecli.core.errors import DataError, RooflineWarning, UsageError
from rooflinecli.importers.traces.formats import FORMATS
from rooflinecli.interfaces.cli.main import notes_after_the_answer
from rooflinecli.simulate.request_load import read

EXAMPLES = ROOT / "examples" / "traces"
KNOWN = {
    "azure.csv": ("azure", 60), "burstgpt.csv": ("burstgpt", 59), "mooncake.jsonl": ("mooncake", 60), "sharegpt.json": ("sharegpt", 31),
    "bench.jsonl": ("benchmark-inputs", 20), "sessions.csv": ("simple-csv", 39), "bursty.csv": ("simple-csv", 800), "classes.csv": ("simple-csv", 120), "bailian.jsonl": ("bailian", 40),
    "aiperf.jsonl": ("aiperf", 29), "guidellm.json": ("guidellm", 23), "vllm.json": ("vllm", 19),
}  # fmt: skip
FAILED = {"burstgpt.csv": 1, "aiperf.jsonl": 1, "guidellm.json": 2, "vllm.json": 1}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_examples_are_read(name):
    found = read(str(EXAMPLES / name))
    assert (found.format, len(found.rows), found.failed) == (*KNOWN[name], FAILED.get(name, 0))
    assert all(row.prompt >= 1 and row.output >= 1 for row in found.rows)


def test_every_reader_has_an_example():
    assert {format for format, _ in KNOWN.values()} == set(FORMATS)


def test_instants_and_lengths_are_those_written(tmp_path):
    """By hand, a row of each format that has instants."""
    rows = {
        "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
        "azure2.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,374,44\n2024-05-10 00:00:04.324509+00:00,396,109\n",
        "burst.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,374,44,418,API log\n9.314579,GPT-4,396,109,505,API log\n",
        "moon.jsonl": '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [1]}\n{"timestamp": 4314.579, "input_length": 396, "output_length": 109, "hash_ids": [1]}\n',
        "plain.csv": "time,prompt,output\n1,374,44\n5.314579,396,109\n",
        "dated.csv": "time,prompt,output\n2026-01-05T09:00:00Z,374,44\n2026-01-05T09:00:04.314579Z,396,109\n",
        "vidur.csv": "arrived_at,num_prefill_tokens,num_decode_tokens\n0,374,44\n4.314579,396,109\n",
        "bailian.jsonl": '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.0, "input_length": 374, "output_length": 44, "type": "text", "turn": 1, "hash_ids": [5]}\n'
        '{"chat_id": 2, "parent_chat_id": 1, "timestamp": 65.314579, "input_length": 396, "output_length": 109, "type": "text", "turn": 2, "hash_ids": [5, 6]}\n',
        "aiperf.jsonl": '{"metadata": {"request_start_ns": 1759813207000000000}, "metrics": {"input_sequence_length": {"value": 374, "unit": "tokens"}, "output_sequence_length": {"value": 44}}, "error": null}\n'
        '{"metadata": {"request_start_ns": 1759813211314579000}, "metrics": {"input_sequence_length": {"value": 396, "unit": "tokens"}, "output_sequence_length": {"value": 109}}, "error": null}\n',
        "guide.json": '{"benchmarks": [{"requests": {"successful": [{"prompt_tokens": 374, "output_tokens": 44, "request_start_time": 100}], "errored": [{}]}}, '
        '{"requests": {"successful": [{"input_metrics": {"text_tokens": 396}, "output_metrics": {"text_tokens": 109}, "info": {"timings": {"request_start": 104.314579}}}]}}]}',
        "vllm.json": '{"duration": 5, "input_lens": [374, 396, 7], "output_lens": [44, 109, 0], "start_times": [10.0, 14.314579, 15], "errors": ["", "", "timeout"]}',
        "chat.jsonl": '{"timestamp": 0, "messages": [{"role": "user", "content": "'
        + "x" * 1496
        + '"}], "output_length": 44}\n'
        '{"timestamp": 4314.579, "custom_id": "b", "body": {"messages": [{"role": "user", "content": [{"type": "text", "text": "'
        + "x" * 1584
        + '"}]}], "max_tokens": 109}}\n',
    }
    for name, text in rows.items():
        (tmp_path / name).write_text(text)
        found = read(str(tmp_path / name)).rows
        assert [(r.prompt, r.output) for r in found] == [(374, 44), (396, 109)], name
        assert [r.time for r in found] == [0, pytest.approx(4.314579, abs=1e-6)], name
    bare = read(str(tmp_path / "plain.csv")).rows[0]
    stated = (bare.session, bare.hashes, bare.span, bare.think, bare.label, bare.images)
    assert stated == ("", (), 0, None, "", 0)  # of what no column has


def test_a_malformed_row_is_placed_and_can_be_skipped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,prompt,output\n0,10,5\n1,ten,5\n2,10,5\nx,10,5\n3,10,-1\n")
    with pytest.raises(DataError, match=r"t\.csv:3: prompt is 'ten'.*--skip-invalid"):
        read(str(path))
    found = read(str(path), skip_bad=True)
    assert (len(found.rows), found.skipped) == (2, 3)
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"timestamp": 0, "input_length": 10, "output_length": 1}\n{"timestamp": \n')
    with pytest.raises(DataError, match=r"t\.jsonl:2: not JSON"):
        read(str(lines))


def test_what_is_no_trace_says_so(tmp_path):
    (tmp_path / "t.txt").write_text("hello")
    for name, error in (("t.txt", UsageError), ("none.csv", DataError)):
        with pytest.raises(error):
            read(str(tmp_path / name))


def test_a_window_and_a_speed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,prompt,output\n" + "".join(f"{100 + i},{10 + i},5\n" for i in range(60)))
    found = read(str(path), speed=2.0, window="10:20")
    assert [r.prompt for r in found.rows] == list(range(20, 30))
    assert [r.time for r in found.rows] == [i / 2 for i in range(10)]
    assert len(read(str(path), window="0:1min").rows) == 60
    with pytest.raises(UsageError, match="--trace-window"):
        read(str(path), window="20:10")


def test_turns_wait_for_the_answer_before_them(prices):
    """A session's next turn comes a think time after the last answer ended, and knows what was said."""
    from simulate.test_schedulers import scheduler

    from rooflinecli.simulate.cluster import Cluster, run_open_loop
    from rooflinecli.simulate.prefix_cache import PrefixCache
    from rooflinecli.simulate.replica import Replica, ReplicaLimits
    from rooflinecli.specs.registry import load

    trace = read(str(EXAMPLES / "sessions.csv"))
    jobs, follow = trace.jobs()
    replicas = [Replica(prices, ReplicaLimits(10**6, 64), scheduler(), PrefixCache()) for _ in range(2)]
    ended = run_open_loop(Cluster(replicas, load("simulate/routers", "prefix")), jobs, follow)
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


def test_a_request_that_failed_is_counted_and_not_simulated(tmp_path):
    """BurstGPT's release: a response of 0 tokens is a failure. It needs no --skip-invalid, and is no malformed row."""
    path = tmp_path / "b.csv"
    path.write_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log\n19440193.0,,0,ChatGPT,300,0,300,API log\n"
    )
    found = read(str(path))
    assert (len(found.rows), found.failed, found.skipped, found.rows[0].label) == (1, 1, 0, "Conversation log")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("0,50", "output is missing"),
        ("0,1,234,5", "4 cells under 3 columns"),
        ("2026-13-01 00:00:00,50,5", "expected for example"),
        ("nan,50,5", "expected seconds"),
    ],
)
def test_a_row_that_is_not_its_heading_is_an_error(tmp_path, row, why):
    (tmp_path / "t.csv").write_text(f"time,prompt,output\n{row}\n")
    with pytest.raises(DataError, match=rf"t\.csv:2: .*{why}"):
        read(str(tmp_path / "t.csv"))


def test_nobody_answers_before_it_was_said(tmp_path):
    (tmp_path / "t.csv").write_text("time,prompt,output,session,think\n0,50,5,a,\n,50,5,a,-3\n")
    (tmp_path / "t.jsonl").write_text('{"delay": -1, "input_length": 10, "output_length": 1, "session_id": "a"}\n')
    for name in ("t.csv", "t.jsonl"):
        with pytest.raises(DataError, match="no less than 0"):
            read(str(tmp_path / name))


def test_what_gzip_packed_is_read_as_it_was(tmp_path):
    import gzip

    packed = tmp_path / "mooncake.jsonl.gz"
    packed.write_bytes(gzip.compress((EXAMPLES / "mooncake.jsonl").read_bytes()))
    assert read(str(packed)).rows == read(str(EXAMPLES / "mooncake.jsonl")).rows
    packed.write_bytes(packed.read_bytes()[:200])
    with pytest.raises(DataError, match="gzip cannot unpack"):
        read(str(packed))


def test_a_window_leaves_out_the_turns_of_sessions_that_began_before_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,prompt,output,session,think\n0,10,5,a,\n,11,5,a,3\n50,20,5,b,\n,21,5,b,3\n")
    assert [row.prompt for row in read(str(path), window="10:100").rows] == [20, 21]


def test_a_turn_of_a_session_is_asked_with_what_was_said_before(tmp_path):
    """AIPerf's multi turn: 400 characters, 10 tokens of answer, 40 characters more."""
    turns = [{"text": "x" * 400, "output_length": 10}, {"text": "y" * 40, "delay": 500, "output_length": 7}]
    (tmp_path / "t.jsonl").write_text(json.dumps({"session_id": "a", "turns": turns}) + "\n")
    first, second = read(str(tmp_path / "t.jsonl")).rows
    assert (first.prompt, second.prompt, second.think) == (100, 120, 0.5) and first.hashes == second.hashes[: 100 // 16]
    payloads = [{"messages": [{"role": "user", "content": "x" * n}], "max_completion_tokens": 9} for n in (40, 400)]
    (tmp_path / "inputs.json").write_text(json.dumps({"data": [{"session_id": "b", "payloads": payloads}]}, indent=1))
    found = read(str(tmp_path / "inputs.json"))
    assert [(row.prompt, row.output, row.think) for row in found.rows] == [(10, 9, None), (100, 9, 0.0)]
    assert not found.timed


def test_a_rate_counts_requests_also_where_sessions_have_turns(tmp_path):
    """Four turns a session at 8 requests/s: sessions come at 2 a second."""
    from rooflinecli.questions.simulate.answer import run
    from rooflinecli.questions.simulate.question import Simulate

    path = tmp_path / "t.csv"
    lines = [f",{100},1,s{i},{0 if turn else ''}" for i in range(400) for turn in range(4)]
    path.write_text("time,prompt,output,session,think\n" + "\n".join(lines) + "\n")
    found = run(Simulate.read({"model": "llama-3-8b", "hw": "h100", "engine": "vllm", "trace": str(path), "qps": 8}))
    assert found.values["requests"] == 1600
    assert found.values["requests_per_s"] == pytest.approx(8, rel=0.15)


@pytest.mark.parametrize(
    "more",
    [{"prompt": "2k"}, {"lengths": "0.8:1"}, {"qps": 2, "speed": 2}, {"arrivals": "gamma:2"}, {"prompts_per_slot": 3}, {"kv_link": "1GB/s"}],
)  # fmt: skip
def test_what_a_trace_leaves_no_use_for_is_refused(more):
    from rooflinecli.questions.simulate.question import Simulate

    with pytest.raises(UsageError):
        Simulate.read({"model": "llama-3-8b", "hw": "h100", "trace": str(EXAMPLES / "bursty.csv"), **more})


MOONCAKE = '{{"timestamp": {}, "input_length": {}, "output_length": 2, "hash_ids": {}}}\n'
BAILIAN = (
    '{{"chat_id": {}, "parent_chat_id": {}, "timestamp": {}, "input_length": {}, "output_length": 2, "type": "{}", "turn": 1, "hash_ids": {}}}\n'
)  # fmt: skip


def test_a_hash_names_the_tokens_of_its_block(tmp_path):
    """The releases' own READMEs: a block of Mooncake's has 512 tokens, one of Bailian's 16; a prompt that begins as another shares whole blocks."""
    (tmp_path / "m.jsonl").write_text(MOONCAKE.format(0, 1300, [1, 2, 3]) + MOONCAKE.format(1000, 1100, [1, 2, 9]))
    (tmp_path / "b.jsonl").write_text(
        BAILIAN.format(1, -1, 0.0, 40, "text", [1, 2, 3]) + BAILIAN.format(2, -1, 1.0, 40, "file", [1, 2, 9])
    )
    for name, shared in (("m.jsonl", 2 * 512), ("b.jsonl", 2 * 16)):
        first, second = read(str(tmp_path / name)).rows
        same = sum(a == b for a, b in zip(first.hashes, second.hashes, strict=True))
        assert (same * first.span, first.span) == (shared, second.span), name
    assert [row.label for row in read(str(tmp_path / "b.jsonl")).rows] == ["text", "file"]
    (tmp_path / "m.jsonl").write_text(MOONCAKE.format(0, 1300, []))
    assert (read(str(tmp_path / "m.jsonl")).rows[0].span, read(str(tmp_path / "m.jsonl")).rows[0].hashes) == (0, ())


def test_chats_that_lead_to_one_first_turn_are_a_session(tmp_path):
    turns = [(1, -1), (2, -1), (3, 1), (4, 3), (5, 2), (6, 99)]  # 99 began before the file
    (tmp_path / "b.jsonl").write_text(
        "".join(BAILIAN.format(chat, parent, float(chat), 40, "text", [chat]) for chat, parent in turns)
    )
    assert [row.session for row in read(str(tmp_path / "b.jsonl")).rows] == ["1", "2", "1", "1", "2", "6"]


@pytest.mark.parametrize(
    "name, text, where",
    [
        ("v.json", '{"input_lens": [5, 6, 7.5], "output_lens": [1, 0, 1], "start_times": [0, 1, 2]}', "request 3"),
        ("i.json", '{"data": [{"session_id": "a", "payloads": [{"prompt": "x"}]}, {"payloads": 3}]}', "session 2"),
        ("g.json", '{"benchmarks": [{"requests": {"successful": [{"prompt_tokens": 1, "output_tokens": 1, "start_time": 0}]}}, '
                   '{"requests": {"errored": [{}], "successful": [{"prompt_tokens": 1, "output_tokens": 1, "start_time": 0}, 5]}}]}',
         "benchmark 2, successful request 2"),
        ("g.json", '{"benchmarks": [{"requests": {}}, {}]}', "benchmark 2"),
    ],
)  # fmt: skip
def test_a_malformed_request_is_named_by_its_place_from_one(tmp_path, name, text, where):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=rf"{name}: {where}:"):
        read(str(tmp_path / name))


def test_garbage_is_collected_again_after_a_simulation():
    """Whoever calls from Python has the collector as it was, also where it was off, also after an error."""
    import gc

    from rooflinecli.simulate.cluster import gc_paused

    assert gc.isenabled()
    with pytest.raises(KeyError), gc_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_images_of_a_multimodal_trace_are_noted_since_no_encoder_is_simulated(tmp_path, capsys):
    """Azure's trace of 2025: TIMESTAMP,NumImages,ContextTokens,GeneratedTokens."""
    file = tmp_path / "azure3.csv"
    file.write_text(
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00.00,2,1200,20\n2024-10-15 00:00:00.50,0,120,30\n2024-10-15 00:00:01,,90,30\n"
    )
    with pytest.warns(RooflineWarning, match="2 images in 1 of 3 requests.*encoder is left out"):
        found = read(str(file))
    with notes_after_the_answer():  # a run reads its trace from several places
        read(str(file))
        found = read(str(file))
    assert capsys.readouterr().err.count("2 images in 1 of 3 requests") == 1
    assert [(row.prompt, row.images) for row in found.rows] == [(1200, 2), (120, 0), (90, 0)]
    file.write_text(file.read_text().replace(",2,1200", ",two,1200"))
    with pytest.raises(DataError, match=r"azure3\.csv:2: NumImages is 'two'"):
        read(str(file))


def test_the_first_requests_of_a_trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("time,prompt,output\n0,10,1\n1,20,2\n2,30,3\n")
    assert [row.prompt for row in read(str(path), most=2).rows] == [10, 20]


def test_requests_of_a_trace_arrive_as_recorded_at_a_rate_or_when_others_end():
    """In a closed loop and at a rate every turn, or every session in proportion to its turns, arrives anew."""
    from rooflinecli.questions.simulate.answer import _trace_requests
    from rooflinecli.questions.simulate.question import Simulate

    trace = read(str(EXAMPLES / "sessions.csv"))
    question = Simulate(model="llama-3-8b", hw="h100", trace=str(EXAMPLES / "sessions.csv"))
    jobs, follow = _trace_requests(question, trace)
    assert follow is not None and len(jobs) < len(trace.rows)
    assert [job.arrival for job in jobs] == sorted(row.time for row in trace.rows if row.time is not None)
    jobs, follow = _trace_requests(question.replace(concurrency=4), trace)
    assert follow is None and [job.arrival for job in jobs] == [0.0] * len(trace.rows)
    jobs, follow = _trace_requests(question.replace(qps=2.0, arrivals="constant"), trace)
    gaps = {round(b.arrival - a.arrival, 9) for a, b in pairwise(jobs)}
    assert follow is not None and gaps == {round(len(trace.rows) / 2.0 / len(jobs), 9)}
