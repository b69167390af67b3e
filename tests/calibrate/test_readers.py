"""Every reader on what its tool writes: values in SI, the line they stand on, and refusals of what is cut short or something else."""

from __future__ import annotations

import gzip
import re

import pytest
from calibrate.logs import LOGS, MEGATRON, NCCL, SERVE, SGLANG

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import read, read_source, readers
from rooflinecli.importers.source import Source

# logs whose every line is whole in itself, so that a cut between two of them shows nowhere
LINES = (
    "sglang",
    "vllm-serve",
    "torchtitan",
    "maxtext",
    "deepspeed",
    "deepspeed-old",
    "llm-foundry",
    "mllog",
    "osu",
    "perftest",
    "mamf",
)
# where a log is cut, if not after three quarters
ENDS = {
    "megatron": "iteration (ms): 1",
    "hf-trainer": "train_steps_per_",
    "llama-bench-md": "tg128",
    "llama-bench-csv": "5120.0",
    "aiperf-csv": "Time to First Token (ms),230",
    "cutlass": "bf16:column",
    "nemo": "train_step_timing in",
}


@pytest.mark.parametrize("name", LOGS)
def test_reads_what_the_tool_writes(name):
    text, expected = LOGS[name]
    found = read_source(Source("log", text))
    assert [(r.where, r.quantity, r.unit) for r in found] == [
        (f"log:{line}", what, unit) for line, what, _, unit, _ in expected
    ]
    for reading, (_, _, value, _, said) in zip(found, expected, strict=True):
        assert reading.value == pytest.approx(value, rel=1e-9)
        assert said.items() <= {**reading.options, **reading.probe}.items() or all(
            {**reading.options, **reading.probe}[k] == pytest.approx(v, rel=1e-3) for k, v in said.items()
        )


@pytest.mark.parametrize("name", LOGS)
def test_one_reader_claims_a_log(name):
    assert len([r.TOOL for r in readers() if r.claims(Source("log", LOGS[name][0]))]) == 1


@pytest.mark.parametrize("name", sorted(set(LOGS) - set(LINES)))
def test_a_log_that_is_cut_short_is_refused_with_its_line(name):
    text = LOGS[name][0].rstrip()
    end = text.rindex(ENDS[name]) + len(ENDS[name]) if name in ENDS else int(len(text) * 0.75)
    with pytest.raises(DataError, match=r"^log:\d+: "):
        read_source(Source("log", text[:end]))


@pytest.mark.parametrize("name", ["sglang", "vllm-serve", "mllog"])
def test_a_cut_in_a_line_is_refused(name):
    with pytest.raises(DataError, match=r"^log:\d+: "):
        read_source(Source("log", LOGS[name][0].rstrip()[:-20]))


@pytest.mark.parametrize("text", ["", "hello\n", "{}", '{"loss": 1}', "Name,Time\na,1\n", "[1, 2]"])
def test_something_else_is_refused(text):
    with pytest.raises(DataError, match="log:1: unknown measurement format"):
        read_source(Source("log", text))


def test_files_gzipped_or_binary(tmp_path):
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(NCCL.encode()))
    assert len(read(packed)) == 2
    (tmp_path / "b").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(DataError, match="binary"):
        read(tmp_path / "b")
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "absent")


def test_a_stream_that_came_in_lumps_says_nothing_of_tokens():
    """SGLang prints a median of -0.00 where the server sent its answer at once."""
    text = SERVE.replace(
        "Median TPOT (ms):                        4.20", "Median TPOT (ms):                        -0.00"
    )
    assert [r.quantity for r in read_source(Source("log", text))] == ["ttft"]


def test_disaggregated_servers_are_refused_by_name():
    import json

    run = {**SGLANG, "server_info": {"internal_states": [{"model_path": "m", "disaggregation_mode": "decode"}]}}
    with pytest.raises(DataError, match=r"log:1: .*disaggregated"):
        read_source(Source("log", json.dumps(run)))


def test_a_reducing_table_names_its_own_ranks():
    """The ranks of one test are not those of the next in the same file."""
    second = NCCL.replace("all_reduce", "alltoall").replace(
        "#  Rank  1 Group  0 Pid 2 on node device  1 [0000:43:00] NVIDIA H100 80GB HBM3\n", ""
    )
    found = read_source(Source("log", NCCL + second))
    assert [(r.probe["op"], r.probe["n"]) for r in found] == [("all-reduce", 2)] * 2 + [("all-to-all", 1)] * 2


def test_warm_up_is_not_the_step():
    assert read_source(Source("log", MEGATRON))[0].value == pytest.approx(12.0)


@pytest.mark.parametrize("value", ["nan", "inf", "-4.20"])
def test_a_latency_that_is_no_time_is_named_and_not_dropped(value):
    text = SERVE.replace(
        "Mean TPOT (ms):                          4.20", f"Mean TPOT (ms):                          {value}"
    )
    found = read_source(Source("log", text))
    assert {r.quantity for r in found} == {"itl", "ttft"}  # the median stands in
    assert all(f"Mean TPOT (ms) {value}: not a time, not read" in r.notes for r in found)
    assert not any("not a time" in note for r in read_source(Source("log", SERVE)) for note in r.notes)
    nothing = text
    for name in ("Mean TTFT", "Median TTFT", "Median TPOT"):
        nothing = re.sub(rf"{name} \(ms\): .*", f"{name} (ms): {value}", nothing)
    with pytest.raises(
        DataError, match=r"^log:3: Mean TTFT \(ms\) .*Median TPOT \(ms\) .*: not a time; take the run out"
    ):
        read_source(Source("log", nothing))


@pytest.mark.parametrize(("name", "field"), [("vllm-serve", "mean_tpot_ms"), ("sglang", "mean_e2e_latency_ms")])
def test_the_same_in_json(name, field):
    text = re.sub(rf'"{field}": ?[-.0-9e]+', f'"{field}": NaN', LOGS[name][0])
    assert text != LOGS[name][0]
    assert any(
        f"{field} nan: not a time, not read" in note for r in read_source(Source("log", text)) for note in r.notes
    )


def test_a_result_that_every_rank_prints_is_one_row():
    text = LOGS["hf-trainer"][0]
    (once,) = read_source(Source("log", text))
    (row,) = read_source(Source("log", text * 16))
    assert (row.where, row.value) == (once.where, once.value)
    assert row.notes[-1] == "printed 16 times, read once"
    other = text.replace("1.25", "1.27").replace("200.0", "196.9")
    assert len(read_source(Source("log", text + other))) == 2
