"""What a serving run's load, lengths and latencies make of it, where one rule ends and the next begins; and the records that benchmarks are cut into."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from calibrate.logs import GUIDELLM

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import llama_bench, read_source, request_timings, serving, serving_run
from rooflinecli.importers.logs.serving_run import ServingRun
from rooflinecli.importers.source import MeasuredRow, Source

LOG = Source("log", "")
# a request takes 1 s + 99 x 0.01 s = 1.99 s, and 100 tokens a second are one request a second: 1.99 in flight
RUN = ServingRun({"prompt": 500, "output": 100}, ttft=1.0, itl=0.01, throughput=100.0)


def rows(**changed: Any) -> list[MeasuredRow]:
    return replace(RUN, **changed).rows(LOG, 7, "tool")


def test_a_request_and_those_in_flight() -> None:
    assert RUN.latency == pytest.approx(1.99) and RUN.in_flight == pytest.approx(1.99)
    assert replace(RUN, throughput=250.0).in_flight == pytest.approx(2.5 * 1.99)
    for lacking in ({"ttft": None}, {"itl": None}, {"options": {"prompt": 500}}):
        assert replace(RUN, **lacking).latency is None and replace(RUN, **lacking).in_flight is None
    assert replace(RUN, throughput=None).in_flight is None


@pytest.mark.parametrize("cap, doubted, noted", [(1.5, True, False), (1.54, False, False), (2.58, False, False), (2.6, False, True)])  # fmt: skip
def test_a_cap_that_its_own_rate_contradicts(cap: float, doubted: bool, noted: bool) -> None:
    """1.99 in flight are more than 1.3 x 1.5, or fewer than 2.6 / 1.3."""
    itl, ttft = rows(concurrency=cap)
    assert (itl.quantity, itl.value, ttft.quantity, ttft.value) == ("itl", 0.01, "ttft", 1.0)
    for row in (itl, ttft):
        assert row.options == {"prompt": 500, "output": 100, "concurrency": max(round(cap), 1)}
        assert bool(row.doubt) is doubted and bool(row.notes) is noted and row.where == "log:7" and not row.unread
    if doubted:
        assert "mean 1.99 requests in flight (Little's law), where at most 1.5 were" in itl.doubt
    if noted:
        assert itl.notes == ("1.99 requests in flight on average, of the 2.6 allowed",)


def test_a_cap_is_a_whole_number_and_at_least_one() -> None:
    assert rows(concurrency=0.2)[0].options["concurrency"] == 1
    assert rows(concurrency="12")[0].options["concurrency"] == 12
    assert rows(requests=1)[0].options["concurrency"] == 1  # a single request is a loop of one
    assert rows(requests=1, concurrency=4)[0].options["concurrency"] == 4


@pytest.mark.parametrize("requests, capped", [(8, True), (7.9, False)])
def test_fewer_in_flight_than_a_quarter_of_those_sent_at_once_mean_a_cap(requests: float, capped: bool) -> None:
    """1.99 of 8 are fewer than a quarter, of 7.9 more."""
    found = rows(requests=requests, duration=60.0)
    if capped:
        assert [row.quantity for row in found] == ["itl", "ttft"] and found[0].options["concurrency"] == 2
        assert found[0].notes == ("about 1.99 of its 8 requests in flight by its rate and latency (Little's law): a cap that it does not name",)  # fmt: skip
    else:
        (burst,) = found
        assert (burst.quantity, burst.value, burst.unit) == ("throughput", 100.0, "tokens/s")
        assert burst.options["concurrency"] == 8 and "all requests at once: a burst has no" in burst.notes[0]


@pytest.mark.parametrize("requests, said", [(256, 256), (257, "max"), (None, "max")])
def test_requests_at_once_beyond_what_engines_run_are_as_many_as_fit(requests: float | None, said: object) -> None:
    (row,) = rows(requests=requests, itl=None, ttft=None)
    assert row.options["concurrency"] == said and row.quantity == "throughput"


@pytest.mark.parametrize(
    "rate, duration, at_once",
    [(50.0, 10.0, False), (51.0, None, True), (50.2, None, False), (20.0, 99.0, False), (20.0, 101.0, True)],
)
def test_arrivals_within_a_request_or_a_twentieth_of_the_run_are_a_burst(rate: float, duration: float | None, at_once: bool) -> None:  # fmt: skip
    """100 requests at 50 a second come within 2 s; one takes 1.99 s, and a twentieth of 101 s is 5.05."""
    found = rows(requests=100, rate=rate, throughput=10_000.0, duration=duration)
    assert ("qps" not in found[0].options) is at_once
    if at_once:
        assert f"though sent at {rate:g} per second" in found[0].notes[0] and [r.quantity for r in found] == [
            "throughput"
        ]
    else:
        assert found[0].options["qps"] == rate and [r.quantity for r in found] == ["itl", "ttft"]


@pytest.mark.parametrize(
    "requests, duration, doubted", [(100, 15.9, False), (100, 16.0, True), (1000, 124.9, False), (1000, 125.1, True)]
)
def test_a_run_longer_than_its_arrivals_and_their_answers_has_a_growing_queue(requests: int, duration: float, doubted: bool) -> None:  # fmt: skip
    """At 10 a second 100 come within 10 s and drain in three requests more, 15.97 s; 1,000 within 100 s, a quarter more is 125."""
    found = rows(requests=requests, rate=10.0, duration=duration)
    assert [bool(row.doubt) for row in found] == [doubted] * 2
    if doubted:
        assert f"served {requests / duration:.3g} of 10 requests per second, so its queue grew" in found[0].doubt


def test_a_run_that_does_not_say_its_load() -> None:
    itl, ttft = rows(load_stated=False)
    assert itl.notes == ttft.notes == ("the load is not in the file",) and "concurrency" not in itl.options
    assert rows(load_stated=False, rate=1.0)[0].options["qps"] == 1.0


def test_answers_of_one_token_measure_prompts() -> None:
    (row,) = rows(options={"output": 1}, itl=None, ttft=None)
    assert row.unread == "answers of one token measure prompts, not decoding"
    assert not rows(options={"output": 2}, itl=None, ttft=None)[0].unread


def test_drafts_are_of_tokens_and_images_are_of_prompts() -> None:
    itl, ttft = rows(concurrency=2, drafted=2.5, images=True)
    assert (itl.probe, ttft.probe) == ({"drafted": 2.5}, {}) and (itl.unread, ttft.unread) == ("", serving_run.IMAGES)
    assert rows(drafted=2.5, itl=None, ttft=None)[0].probe == {"drafted": 2.5}


def test_a_quantity_has_a_line_of_its_own() -> None:
    itl, ttft = rows(concurrency=2, lines={"ttft": 3})
    assert (itl.where, ttft.where) == ("log:7", "log:3")


def test_lengths_are_whole_means() -> None:
    assert serving_run.lengths(1000, 260, 4) == {"prompt": 250, "output": 65}
    assert serving_run.lengths(1, 260, 4) == {"prompt": 1, "output": 65}
    assert serving_run.lengths(1000, None) == {"prompt": 1000}
    assert serving_run.lengths(1000, 260, None) == {}


@pytest.mark.parametrize("client, engine", [("openai-chat", "vllm"), ("vllm", "vllm"), ("sglang-oai", "sglang"), ("trt", "trtllm"), ("lmdeploy", "lmdeploy"), ("", None), (None, None)])  # fmt: skip
def test_the_engine_behind_a_client(client: str | None, engine: str | None) -> None:
    assert serving_run.engine_of(client) == engine


def test_latencies_that_are_none() -> None:
    said = serving_run.suspect(LOG, 3, {"mean": -1, "p99": "nan", "unit": {"avg": -1}, "none": None}, (), 0.5)
    assert said == ("mean -1, p99 nan: not a time, not read",)
    assert serving_run.suspect(LOG, 3, {"mean": 0.0, "median": 2}, ("mean", "median"), None) == ()
    with pytest.raises(DataError, match="log:3: mean -1: not a time; take the run out of the file"):
        serving_run.suspect(LOG, 3, {"mean": -1}, (), None)


@pytest.mark.parametrize("mean, noted", [(4.0, False), (4.2, True)])
def test_a_mean_far_above_its_median(mean: float, noted: bool) -> None:
    found = serving_run.suspect(LOG, 3, {"a": mean, "b": 2.0}, ("a", "b"), mean)
    assert found == (("a is 2.1 times its median: a few requests waited, or came first",) if noted else ())


def test_time_between_tokens_of_whole_requests() -> None:
    assert serving_run.between(5.0, 1.0, 9) == 0.5
    for whole, first, output in ((5.0, 5.0, 9), (5.0, 1.0, 1), (None, 1.0, 9), (5.0, None, 9), (5.0, 1.0, None)):
        assert serving_run.between(whole, first, output) is None


@pytest.mark.parametrize("mean, median, broken", [(100, 4.9, True), (100, 5, False), (0, -1, False), (None, 1, False), (100, None, False)])  # fmt: skip
def test_a_median_near_zero_means_tokens_that_came_together(mean: Any, median: Any, broken: bool) -> None:
    assert serving_run.lumped(mean, median) is broken


OVERVIEW = """= PYTORCH BACKEND
Model:\t\t\tmeta-llama/Llama-3.1-8B
TP Size:                2
PP Size:                2
Dtype:                  bfloat16
= PERFORMANCE OVERVIEW
Request Throughput (req/sec):                     2.0000
Total Output Throughput (tokens/sec):             200.0000
Total Token Throughput (tokens/sec):              1200.0000
Total Latency (ms):                               50000.0000
Average request latency (ms):                     4000.0000
"""


def test_a_report_of_trtllm_bench_says_lengths_and_load_by_its_rates() -> None:
    """1,000 tokens of prompts and 200 of answers a second at two requests: 500 and 100; each takes 4 s, so 8 are in flight; 100 in 50 s."""
    ((line, fields),) = serving._trtllm_reports(Source("log", "starting\n" + OVERVIEW))
    assert (
        line == 7 and fields["Average Input Length (tokens)"] == 500 and fields["Average Output Length (tokens)"] == 100
    )
    assert fields["Number of concurrent requests"] == 8 and fields["Number of requests"] == 100
    (row,) = read_source(Source("log", "starting\n" + OVERVIEW))
    assert (row.quantity, row.value, row.where) == ("throughput", 200.0, "log:7")
    said = {
        "engine": "trtllm",
        "tp": 2,
        "pp": 2,
        "n": 4,
        "dtype": "bf16",
        "prompt": 500,
        "output": 100,
        "concurrency": 8,
    }
    assert said.items() <= row.options.items()


def test_two_reports_stand_apart_and_one_without_an_overview_was_cut() -> None:
    found = list(serving._trtllm_reports(Source("log", OVERVIEW + OVERVIEW.replace("200.0000", "300.0000"))))
    assert [(line, fields["Total Output Throughput (tokens/sec)"]) for line, fields in found] == [(6, "200.0000"), (17, "300.0000")]  # fmt: skip
    with pytest.raises(DataError, match="log:5: the report has no PERFORMANCE OVERVIEW"):
        list(serving._trtllm_reports(Source("log", OVERVIEW[: OVERVIEW.index("= PERFORMANCE")].rstrip())))
    bare = OVERVIEW.replace("200.0000", "0.0000").replace("1200.0000", "0.0000")
    with pytest.raises(DataError, match="log:6: no throughput here"):
        list(serving._trtllm_reports(Source("log", bare)))


def test_perftest_reads_the_average_until_its_table_ends() -> None:
    """MB of perftest are 2^20 bytes, Gb 1e9 bits; the peak of an endless run is 0.00; a line of other numbers after the table is none of it."""
    head = " #bytes     #iterations    BW peak[{0}/sec]    BW average[{0}/sec]   MsgRate[Mpps]\n"
    row = " 65536      5000             0.00               {}              0.18\n"
    text = head.format("MB") + row.format("1000.0") + "-" * 80 + "\n" + row.format("7.0") + head.format("Gb") + row.format("80.00")  # fmt: skip
    found = read_source(Source("log", text))
    assert [(r.where, r.value) for r in found] == [
        ("log:2", pytest.approx(65536 / (1000 * 2**20))),
        ("log:6", pytest.approx(65536 / 10e9)),
    ]
    assert found[0].probe == {"op": "permute", "bytes": 65536, "n": 2, "streamed": True}
    with pytest.raises(DataError, match=r"log:2: a rate in KB; expected Gb, MB, MiB"):
        read_source(Source("log", head.format("KB") + row.format("1.0")))
    short = head.format("MB") + row.format("1000.0") + " 65536 5000 0.00\n 65536 x 0.0 9.0 1\n"
    assert len(read_source(Source("log", short))) == 1


OSU = "# OSU MPI-CUDA {} Test v7.2\n# Size      {}\n1024   {}\n"


@pytest.mark.parametrize(
    "name, unit, value, seconds, probe",
    [
        ("Allreduce Latency", "Avg Latency(us)", 20.0, 20e-6, {"op": "all-reduce", "n": None, "streamed": False}),
        ("Allgather Latency", "Avg Latency(us)", 20.0, 20e-6, {"op": "all-gather", "n": None, "streamed": False, "each": True}),
        ("All-to-All Latency", "Avg Latency(us)", 20.0, 20e-6, {"op": "all-to-all", "n": None, "streamed": False, "each": True}),
        ("Reduce_scatter Latency", "Avg Latency(us)", 20.0, 20e-6, {"op": "reduce-scatter", "n": None, "streamed": False}),
        ("Latency", "Latency (us)", 20.0, 20e-6, {"op": "permute", "n": 2, "streamed": False}),
        ("Bandwidth", "Bandwidth (MB/s)", 512.0, 2e-6, {"op": "permute", "n": 2, "streamed": True}),
    ],
)  # fmt: skip
def test_osu_by_name_and_unit(name: str, unit: str, value: float, seconds: float, probe: dict[str, object]) -> None:
    (row,) = read_source(Source("log", OSU.format(name, unit, value)))
    assert row.value == pytest.approx(seconds) and row.probe == {"bytes": 1024, **probe}
    assert not row.doubt and not row.unread
    (row,) = read_source(Source("log", OSU.replace("-CUDA", "").format(name, unit, value)))
    assert row.probe["cpu"] is True and row.probe["device"] == ["buffers in host memory"]
    (row,) = read_source(Source("log", OSU.format(name, unit, f"{value}   Fail")))
    assert row.doubt == "its validation failed"


def test_osu_tests_of_other_things_are_not_read() -> None:
    (row,) = read_source(Source("log", OSU.format("Bi-Directional Bandwidth", "Bandwidth (MB/s)", 9.0)))
    assert row.unread == "OSU's bi-directional test is none of a transfer or a collective by itself"


def nccl(body: str, head: str = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong", n: int = 8) -> list[MeasuredRow]:  # fmt: skip
    text = f"# nThread 1 nGpus {n} minBytes 8\n# {head}\n{body}# Avg bus bandwidth    : 1\n"
    return read_source(Source("log", text))


@pytest.mark.parametrize(
    "root, redop, out, bus, op",
    [
        ("-1", "sum", 100.0, 175.0, "all-reduce"),
        ("-1", "none", 100.0, 175.0, "all-reduce"),
        ("-1", "sum", 100.0, 87.5, "reduce-scatter"),
        ("-1", "none", 100.0, 87.5, None),
        ("0", "sum", 100.0, 100.0, "reduce"),
        ("0", "none", 100.0, 100.0, "broadcast"),
    ],
)
def test_a_table_of_nccl_names_its_collective_by_its_columns(root: str, redop: str, out: float, bus: float, op: str | None) -> None:  # fmt: skip
    (row,) = nccl(f"1048576 262144 float {redop} {root} 50.0 {out} {bus} 0 51.0 {out} {bus} 0\n")
    assert row.probe == {"op": op, "bytes": 1048576, "n": 8} and row.value == pytest.approx(50e-6) and not row.doubt
    assert bool(row.unread) is (op in ("reduce", "broadcast"))
    (row,) = nccl(f"1048576 262144 float {redop} {root} 50.0 {out} {bus} 3 51.0 {out} {bus} 0\n", n=1)
    assert row.probe["n"] is None and row.doubt == "3 results are wrong"


@pytest.mark.parametrize(
    "strategy, concurrency, rate",
    [
        ({"type_": "concurrent", "streams": 8}, 8, None), ({"kind": "throughput", "max_concurrency": 64}, 64, None), ({"type_": "throughput"}, None, None),
        ({"type_": "synchronous"}, 1.0, None), ({"type_": "constant", "rate": 2.5}, None, 2.5), ({"kind": "poisson", "rate": 4}, None, 4),
        ({"type_": "other", "rate": 4}, None, None),
    ],
)  # fmt: skip
def test_the_load_of_guidellm_by_its_strategy(
    strategy: dict[str, Any], concurrency: float | None, rate: float | None
) -> None:
    for record in ({"config": {"strategy": strategy}}, {"args": {"strategy": strategy}}):
        found = serving._guidellm(LOG, 1, record, replace(RUN))
        assert (found.concurrency, found.rate) == (concurrency, rate)


def test_the_layout_of_sglang_s_own_server() -> None:
    info = {"internal_states": [{"tp_size": 1}], "model_path": "m", "tp_size": 8, "dp_size": 4, "pp_size": 1}
    plain = serving._sglang(LOG, 1, {"server_info": info}, replace(RUN, options={}))
    assert plain is not None and plain.options == {"model": "m", "tp": 8, "dp": 4, "pp": 1} and not plain.images
    apart = serving._sglang(
        LOG, 1, {"server_info": {**info, "enable_dp_attention": True}, "dataset_name": "mmmu"}, replace(RUN, options={})
    )
    assert apart is not None and apart.options["tp"] == 2 and apart.images
    assert serving._sglang(LOG, 1, {"server_info": {**info, "disaggregation_mode": "prefill"}}, replace(RUN)) is None
    assert serving._sglang(LOG, 1, {"server_info": {**info, "disaggregation_mode": "null"}}, replace(RUN)) is not None
    assert serving._sglang(LOG, 1, {}, RUN) is RUN


def test_inferencex_counts_each_replica_of_attention() -> None:
    record = {"hw": "h200", "tp": 8, "dp_attention": "true", "isl": 1000, "osl": 100, "precision": "fp4", "conc": 64}
    found = serving._inferencex(LOG, 1, record, replace(RUN, options={}))
    assert found is not None and found.concurrency == 8
    assert found.options == {
        "hw": "h200",
        "tp": 1,
        "dp": 8,
        "n": 8,
        "ep": 8,
        "prompt": 900,
        "output": 90,
        "dtype": "bf16",
        "weight-dtype": "mxfp4",
    }
    plain = serving._inferencex(LOG, 1, {**record, "dp_attention": False, "hw": "b200"}, replace(RUN, options={}))
    assert plain is not None and plain.concurrency == 64 and plain.options["dtype"] == "nvfp4"
    assert (plain.options["tp"], plain.options["dp"], plain.options["ep"]) == (
        8,
        1,
        None,
    ) and "weight-dtype" not in plain.options
    for more in ({"disagg": True}, {"spec_decoding": "mtp"}):
        assert serving._inferencex(LOG, 1, {**record, **more}, replace(RUN)) is None
    assert serving._inferencex(LOG, 1, {**record, "spec_decoding": "none"}, replace(RUN)) is not None


def test_tasks_of_a_server_that_run_at_the_same_time_are_marked() -> None:
    """Task 2 runs within task 1, task 3 alone."""
    lines = (
        "slot | task 1 | processing task", "slot | task 1 | n_prompt_tokens = 100", "slot | task 2 | processing task", "slot | task 2 | stop processing",
        "slot | task 1 | stop processing", "slot | task 3 | processing task", "slot | task 3 | task.n_tokens = 50", "slot | task 3 | stop processing",
    )  # fmt: skip
    text = "".join(f"{line}\n" for line in lines)
    begins, named = request_timings._tasks(text)
    assert [text.count("\n", 0, at) for at in begins] == list(range(8))
    assert named[0] is named[1] is named[4] and named[0] == {"prompt": 100, "shared": True}
    assert named[2] == {"shared": True} and named[5] == named[7] == {"prompt": 50}


@pytest.mark.parametrize(
    "clock, scale, found", [("1h2m3.5s", 1.0, 3723.5), ("925.78 ms", 1.0, 0.92578), ("5µs", 1.0, 5e-6), ("7", 1e-9, 7e-9), ("", 1.0, 0.0), ("2m", 1.0, 120)]
)  # fmt: skip
def test_seconds_of_a_clock(clock: str, scale: float, found: float) -> None:
    assert request_timings._seconds(clock, scale) == pytest.approx(found)


def test_a_prompt_and_an_answer_of_a_request() -> None:
    """1,000 tokens of which 200 were cached, in 0.4 s; then 50 in 1 s, of which 20 were drafted: 50 tokens in 30 steps."""
    text = (
        '{"cache_n": 200, "prompt_n": 800, "prompt_ms": 400.0, "predicted_n": 50, "predicted_ms": 1000.0, "draft_n": 30, "draft_n_accepted": 20}\n'
        '{"prompt_n": 10, "prompt_ms": 5.0, "predicted_n": 1, "predicted_ms": 20.0}\n'
    )
    prompt, answer, again = read_source(Source("log", text))
    assert prompt.value == pytest.approx(0.4) and prompt.options["prompt"] in (800, 1000) and not prompt.unread
    assert answer.value == pytest.approx(0.02) and answer.probe["drafted"] == pytest.approx(50 / 30)
    assert again.where == "log:2" and again.value == pytest.approx(0.005)


def test_drafts_of_more_tokens_than_were_written_say_nothing() -> None:
    timing = '{"cache_n": 0, "prompt_n": 8, "prompt_ms": 4.0, "predicted_n": 50, "predicted_ms": 1000.0, "draft_n": 60, "draft_n_accepted": %d}\n'
    for accepted, drafted in ((49, 50.0), (50, None), (51, None), (0, None)):
        _, answer = read_source(Source("log", timing % accepted))
        assert answer.value == pytest.approx(0.02) and answer.probe.get("drafted") == drafted


def test_a_benchmark_of_guidellm_stands_where_its_name_does() -> None:
    """Of versions with `id_`, and of those that had it in their `config`; a report on one line is one place."""
    bench = GUIDELLM["benchmarks"][0]
    named = {key: value for key, value in bench.items() if key != "id_"} | {"config": {"id_": "22222222-bbbb"}}
    report = {**GUIDELLM, "benchmarks": [bench, named]}
    text = json.dumps(report, indent=1)
    lines = [
        next(i for i, line in enumerate(text.splitlines(), 1) if name in line) for name in ("11111111", "22222222")
    ]
    found = read_source(Source("log", text))
    assert sorted({row.where for row in found}) == sorted(f"log:{line}" for line in lines)
    assert {row.where for row in read_source(Source("log", json.dumps(report)))} == {"log:1"}


def test_a_run_of_no_time_is_no_row() -> None:
    text = "{'train_runtime': 0.0, 'train_samples_per_second': 3.0, 'epoch': 1.0, 'train_samples': 100}\n"
    with pytest.raises(DataError, match=r"log:1: .*train_runtime"):
        read_source(Source("log", text))


def test_the_name_of_a_model_that_llama_cpp_has_no_size_for() -> None:
    assert llama_bench._model({"model_type": "llama ?B Q4_0", "model_n_params": 8.03e9}) == "llama 8.03B Q4_0"
    assert (
        llama_bench._model({"model_filename": "a.gguf", "params": None}) == "a.gguf"
        and llama_bench._model({"model": "b ?B"}) == "b ?B"
        and llama_bench._model({}) == ""
    )
