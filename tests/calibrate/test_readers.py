"""Every reader on what its tool writes: values in SI, the line they stand on, and refusals of what is cut short or something else."""

from __future__ import annotations

import gzip
import json
import re
from types import SimpleNamespace

import pytest
from calibrate.logs import LOGS, MEGATRON, NCCL, SERVE, SGLANG

from rooflinecli.calibrate import resolve_rows
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.importers import logs
from rooflinecli.importers.logs import read, read_source, readers, step_logs
from rooflinecli.importers.source import MeasuredRow, Source, number

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
    with pytest.raises(DataError, match="log:1: unknown measurement format; `roofline calibrate --help` and docs"):
        read_source(Source("log", text))


def test_a_format_that_the_file_names_is_said():
    with pytest.raises(DataError, match=r"unknown measurement format \(it names Megatron, and has no result of it\);"):
        read_source(Source("log", "Megatron started\n"))


def test_files_gzipped_or_binary(tmp_path):
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(NCCL.encode()))
    assert len(read(packed)) == 2
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"):
        packed.write_bytes(gzip.compress(NCCL.replace("\n", "\r\n").encode(encoding)))
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


def test_a_line_is_counted_as_an_editor_counts_it(tmp_path):
    """Progress bars return to the start of their line."""
    (tmp_path / "log").write_text("".join(f"  {i}%|# | {i}/3\r" for i in range(3)) + "\n" + SERVE, newline="")
    (tmp_path / "dos").write_text(SERVE.replace("\n", "\r\n"), newline="")
    (bars, _), (plain, _) = read(tmp_path / "log"), read(tmp_path / "dos")
    assert int(bars.where.rpartition(":")[2]) == int(plain.where.rpartition(":")[2]) + 1
    assert (bars.value, bars.options) == (plain.value, plain.options)


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
    assert [(r.probe["op"], r.probe["n"]) for r in found] == [("all-reduce", 2)] * 2 + [("all-to-all", None)] * 2


def test_warm_up_is_not_the_step():
    assert read_source(Source("log", MEGATRON))[0].value == pytest.approx(12.0)


@pytest.mark.parametrize("value", ["nan", "inf", "-4.20"])
def test_a_latency_that_is_no_time_is_named_and_not_dropped(value):
    text = SERVE.replace(
        "Mean TPOT (ms):                          4.20", f"Mean TPOT (ms):                          {value}"
    )
    found = read_source(Source("log", text))
    assert {r.quantity for r in found} == {"itl", "ttft"}  # the median stands in
    assert all(f"Mean TPOT {value}: not a time, not read" in r.notes for r in found)
    assert not any("not a time" in note for r in read_source(Source("log", SERVE)) for note in r.notes)
    nothing = text
    for name in ("Mean TTFT", "Median TTFT", "Median TPOT"):
        nothing = re.sub(rf"{name} \(ms\): .*", f"{name} (ms): {value}", nothing)
    with pytest.raises(DataError, match=r"^log:3: Mean TTFT .*Median TPOT .*: not a time; take the run out"):
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


PREFIXES = {
    "Open MPI --tag-output": lambda rank: f"[1,{rank}]<stdout>:",
    "srun -l": lambda rank: f"{rank:2d}: ",
    "torchrun": lambda rank: f"[rank{rank}]:",
    "Hydra": lambda rank: f"[{rank}] ",
    "pdsh": lambda rank: f"worker-{rank}: ",
    "kubectl --timestamps": lambda rank: "2026-05-01T12:00:00.123456789Z ",
}


@pytest.mark.parametrize("launcher", PREFIXES)
@pytest.mark.parametrize("name", ["nccl", "osu", "megatron", "hf-trainer", "vllm-serve", "serve-text"])
def test_prefixes_of_launchers_are_not_of_the_log(launcher, name):
    text = LOGS[name][0]
    prefixed = "\n".join(PREFIXES[launcher](0) + line for line in text.split("\n"))
    assert read_source(Source("log", prefixed)) == read_source(Source("log", text))


def test_a_column_of_osu_7_says_whether_a_size_passed_its_validation():
    text = LOGS["osu"][0].replace("(MB/s)", "(MB/s)   Validation").replace("23000.50", "23000.50   Pass")
    passed, failed = read_source(Source("log", text.replace("24000.00", "24000.00   Fail")))
    assert (passed.where, passed.doubt, failed.doubt) == ("log:4", "", "its validation failed")


@pytest.mark.parametrize(
    "title", ["MPI Multiple Bandwidth / Message Rate", "MPI_Put Bandwidth", "MPI Non-blocking Allreduce"]
)
def test_other_tests_of_osu_are_not_taken_for_a_collective(title):
    found = read_source(Source("log", LOGS["osu"][0].replace("MPI-CUDA Bandwidth", title)))
    assert found and all("none of a transfer or a collective by itself" in row.unread for row in found)


def test_a_size_of_osu_is_that_of_one_rank_where_ranks_gather_or_exchange():
    (row,) = read_source(
        Source("log", "# OSU MPI Allgather Latency Test v7.3\n# Size       Avg Latency(us)\n1048576   90.5\n")
    )
    assert row.probe["each"] and row.probe["n"] is None


def test_devices_of_a_test_without_a_list_of_ranks_are_those_of_its_header():
    """One process with eight GPUs; a list of ranks that a copy has shortened counts by its last rank."""
    lines = [line for line in NCCL.splitlines() if "Rank" not in line]
    found = read_source(Source("log", "\n".join(lines).replace("nGpus 1", "nGpus 8")))
    assert {r.probe["n"] for r in found} == {8}
    cut = NCCL.replace("#  Rank  0 Group  0 Pid 1 on node device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n", "...\n")
    assert {r.probe["n"] for r in read_source(Source("log", cut.replace("Rank  1 ", "Rank 71 ")))} == {72}


def test_wrong_results_of_a_collective_are_no_measurement():
    first, second = read_source(Source("log", NCCL.replace("141.03  141.03       0", "141.03  141.03       7")))
    assert (first.doubt, second.doubt) == ("7 results are wrong", "")


def test_ranks_that_share_a_device_measure_no_link():
    shared = NCCL.replace(
        "Rank  1 Group  0 Pid 2 on node device  1 [0000:43:00]", "Rank  1 Group  0 Pid 2 on node device  0 [0000:1b:00]"
    )
    assert shared != NCCL
    assert {r.doubt for r in read_source(Source("log", shared))} == {
        "all 2 ranks are on one device, so no link is measured"
    }
    other = shared.replace("Pid 2 on node", "Pid 2 on node2")
    assert {r.doubt for r in read_source(Source("log", other))} == {""}


def test_experts_that_a_command_or_a_column_keeps_on_the_host():
    table = "| model | backend | {head} test | t/s |\n| --- | --- | {rule} --- | --- |\n| qwen3moe 30B.A3B Q4_0 | CUDA | {cell} {test} | 20.0 |\n"
    plain = table.format(head="", rule="", cell="", test="tg64@pp128")
    (row,) = read_source(Source("log", plain))
    assert (row.options["prompt"], row.options.get("experts-on"), row.unread) == (128.0, None, "")
    command = "$ ./llama-bench -m a.gguf -ngl 99 -ot {}\n"
    column = table.format(head="ot |", rule="--- |", cell="exps=CPU |", test="tg128")
    for text in (command.format("exps=CPU") + plain, command.format('"\\.ffn_.*_exps\\.=CPU"') + plain, column):
        assert read_source(Source("log", text))[0].options["experts-on"] == "host"
    (row,) = read_source(Source("log", command.format("blk.1.ffn_up_exps=CPU") + plain))
    assert row.unread and "experts-on" not in row.options
    both = command.format("exps=CPU") + plain + "$ ./llama-bench -m b.gguf\n" + plain
    assert [r.options.get("experts-on") for r in read_source(Source("log", both))] == ["host", None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('\n:::MLLOG {"key": "loadgen_version", "value": "4.1"}', "LoadGen's detail log"),
        (':::MLLOG {"key": "power_reading", "value": 5056, "metadata": ""}', "5056 W of the whole system"),
        ("| model | test | t/s (main) | t/s (PR) |\n|---|---|---|---|\n| llama 8B Q4_0 | pp512 | 123.46 | 165.26 |\n", ":1: a table with a t/s column for each build"),
        ("epoch,train_runtime,train_samples_per_second\n0.25,1830.0024,6.995\n", "unknown measurement format"),
    ],
)  # fmt: skip
def test_what_is_next_to_a_result_is_refused_by_its_name(text, reason):
    with pytest.raises(DataError, match=reason):
        read_source(Source("log", text))


def test_deepspeed_prints_its_configuration_behind_a_time_and_a_place():
    said = {
        "train_batch_size .............": 384,
        "train_micro_batch_size_per_gpu ": 24,
        "world_size ...................": 16,
    }
    lines = [
        f"[2024-07-08 05:54:22,084] [INFO] [config.py:1001:print]   {name} {value}" for name, value in said.items()
    ]
    lines += [
        "[2024-07-08 05:54:22,084] [INFO] [config.py:1001:print]   zero_config .................. stage=2 reduce_scatter=True"
    ]
    lines += [
        "[2024-07-08 05:54:24,854] [INFO] [timer.py:258:stop] epoch=0/global_step=10, CurrSamplesPerSec=1682.49, MemAllocated=5.5GB"
    ]
    for prefix in ("", "node-019: "):
        (row,) = read_source(Source("log", "\n".join(prefix + line for line in lines)))
        assert {"batch": 384, "micro-batch": 24, "n": 16, "zero": 2}.items() <= row.options.items()


@pytest.mark.parametrize(
    "line", ["chosen: -31.9, rejected: -33.9, loss: 0.66", "{'loss': 0.6, 'rewards/chosen': -0.1}"]
)
def test_a_loss_of_pairs_is_the_recipe_of_a_run(line):
    (row,) = read_source(Source("log", f"{line}\n{MEGATRON}"))
    assert row.options["recipe"] == "dpo" and "reference model" in row.notes[-1]
    assert "recipe" not in read_source(Source("log", MEGATRON))[0].options


# the first: oumi-ai/oumi, notebooks/Oumi - Train a Letter Counting Model using GRPO.ipynb
@pytest.mark.parametrize(
    "said",
    ["'reward': -1.0625, 'completion_length': 47.8125", "'completions/mean_length': 88.7", "'objective/kl': '1.2'"],
)
def test_a_step_that_generates_its_answers_is_no_training_step(said):
    end = "{'train_runtime': 701.9971, 'train_samples_per_second': 0.62, 'train_steps_per_second': 0.043, 'epoch': 15.0}\n"
    (row,) = read_source(Source("log", f"{{'loss': 0.1, {said}}}\n{end}"))
    assert "generates its answers" in row.unread
    assert not read_source(Source("log", end))[0].unread


# Megatron-LM's line; -n 19 is what its TFLOP/s, batch and time are of
STEP = "iteration 90/100 | elapsed time per iteration (ms): 6955.0 | throughput per GPU (TFLOP/s/GPU): 412.5 | global batch size: 128 |\n"
MAXTEXT = "completed step: 7, seconds: 6.955, TFLOP/s/device: {}, Tokens/s/device: 18846.3\n"


@pytest.mark.parametrize(
    ("step", "n", "left_out", "noted"),
    [
        (STEP, 8, "states 412.5 TFLOP/s per device, these options imply 970; -n 19 or", False),
        (STEP, 19, "", False),
        (STEP, 64, "", True),
        (STEP.replace("throughput per GPU (TFLOP/s/GPU): 412.5 | ", ""), 8, "", False),
        (
            MAXTEXT.format(412.5),
            8,
            "these options imply 970; another model",
            False,
        ),  # tokens of a device, so of any count
        (MAXTEXT.format(900), 8, "", False),
    ],
)
def test_a_log_that_states_other_flops_than_its_options_imply(step, n, left_out, noted):
    given = {"hw": "h100", "model": "llama-3-8b", "n": n, "seq": 8192}
    found = resolve_rows.resolve(read_source(Source("log", step)), given)
    assert len(found.rows) == (not left_out) and len(found.doubts) == bool(left_out)
    assert all(left_out in why for _, why in found.doubts)
    assert any("states 412.5 TFLOP/s" in note for note in found.notes) == noted


def test_rows_of_other_models_are_set_aside_where_a_file_has_some_of_this_one():
    sizes = {"concurrency": 4, "prompt": 512, "output": 128}
    names = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B")
    rows = [MeasuredRow(f"log:{i}", "a", "itl", 0.01, options={"model": name, **sizes}) for i, name in enumerate(names)]
    given = {"hw": "h100", "model": "llama-3.1-8b", "n": 1}
    found = resolve_rows.resolve(rows, given)
    assert [row.where for row in found.rows] == ["log:0"] and found.aside[0][0] == "log:1"
    with pytest.raises(DataError, match="log:1: a log of 'Qwen/Qwen3-32B'"):
        resolve_rows.resolve(rows[1:], given)


def test_a_run_of_the_trainer_is_its_time_over_its_steps():
    """Two decimals of a rate are not a step: 701.9971 s at 0.043 steps a second are 30 steps. The dictionary and the table are one run."""
    said = "{'train_runtime': 701.9971, 'train_samples_per_second': 0.62, 'train_steps_per_second': 0.043, 'epoch': 15.0}\n"
    (row,) = read_source(Source("log", said))
    assert row.value == pytest.approx(701.9971 / 30)
    head = "  Total train batch size (w. parallel, distributed & accumulation) = 15\n  Total optimization steps = 30\n"
    table = "***** train metrics *****\n  epoch = 15.0\n  train_runtime = 0:11:41.99\n  train_samples_per_second = 0.62\n  train_steps_per_second = 0.043\n"
    (row,) = read_source(Source("log", head + said + table))
    assert (row.value, row.options["batch"]) == (pytest.approx(701.9971 / 30), 15.0)
    (row,) = read_source(Source("log", said.replace("701.9971", "70199.71")))
    assert (row.value, row.unit) == (0.62, "samples/s")  # 3018 steps, 35 more or fewer
    memory = "".join(f"  'train_mem_gpu_{i}_delta': {i},\n" for i in range(40))
    (row,) = read_source(Source("log", said.replace("'epoch'", memory + "'epoch'")))  # skip_memory_metrics=False
    assert row.value == pytest.approx(701.9971 / 30)


def test_a_prompt_behind_a_context_is_one_with_a_cached_prefix():
    row = json.loads(LOGS["llama-bench-jsonl"][0].splitlines()[1])
    (found,) = read_source(
        Source("log", json.dumps({**row, "n_depth": 1536, "backends": "Vulkan", "gpu_info": "A, A", "type_k": "q8_0"}))
    )
    assert (found.quantity, found.value) == ("prefill", 0.1)
    wanted = {"prompt": 2048.0, "prefix-hit": 0.75, "engine": "llamacpp-vulkan", "n": 2, "pp": 2, "kv-dtype": "q8_0"}
    assert wanted.items() <= found.options.items()


def test_two_runs_in_a_log_are_two_rows_and_a_batch_that_ramps_up_counts_when_it_is_up():
    second = (
        MEGATRON.replace("size: 64", "size: 128")
        .replace("size: 2,", "size: 4,")
        .replace("(ms): 12", "(ms): 6")
        .replace("(ms): 119", "(ms): 59")
    )
    first, other = read_source(Source("log", MEGATRON + second))
    assert [(r.options["n"], r.options["dp"]) for r in (first, other)] == [(64, 2), (128, 4)]
    assert first.value == pytest.approx(12.0) and other.value < 7
    lines = MEGATRON.splitlines()
    ramp = "\n".join(
        [
            *lines[:-2],
            *(line.replace("1024 |", "512 |").replace("(ms): 12", "(ms): 7") for line in lines[-4:-2]),
            *lines[-2:],
        ]
    )
    assert read_source(Source("log", ramp))[0].value == pytest.approx(12.0)


def test_sizes_of_early_megatron_and_gpt_neox():
    text = MEGATRON.split("\n", 1)[1]
    neox = (
        "  model_parallel_size ......................... 2\n  pipe_parallel_size .......................... 4\n" + text
    )
    assert {"tp": 2, "pp": 4}.items() <= read_source(Source("log", neox))[0].options.items()
    early = "using world size: 16 and model-parallel size: 8 \n" + text
    assert {"n": 16, "tp": 8}.items() <= read_source(Source("log", early))[0].options.items()


def test_a_figure_of_no_size_of_this_world_is_none():
    """Ratios of it would overflow."""
    assert number("1e-320") is None and number(10**400) is None and number("1e308") is None
    assert number("0") == 0.0 and number("6,785") == 6785.0


def test_every_log_of_steps_says_how_a_line_that_is_cut_begins():
    """Else the last step of a file cut short is dropped in silence; a step of llm.c has its time first."""
    assert [reader.TOOL for reader in step_logs.READERS if "begins" not in reader.row] == ["llm.c"]
    text = "[INFO] [timer.py:258:stop] global_step=10, RunningAvgSamplesPerSec=9.5, CurrSamplesPerSec=9.4, MemAllocated=5.53GB\n"
    with pytest.raises(DataError, match=r"log:2: .*cut short"):
        read_source(Source("log", text + text[: text.index("9.4")]))


def test_sides_of_a_matmul_are_read_in_their_order():
    text = "Command line: ./mamf-finder.py --dtype bfloat16\n    1 |  501.2 TFLOPS @ 1024x2048x4096 (MxNxK) | best:  501.2 TFLOPS\n"
    (row,) = read_source(Source("log", text))
    assert [row.probe[side] for side in ("m", "n", "k")] == [1024, 2048, 4096]
    assert row.value == pytest.approx(2 * 1024 * 2048 * 4096 / 501.2e12)


def test_a_run_of_mlperf_has_the_layout_that_its_configuration_prints():
    """The benchmark's own events state batch and length; the configuration of NeMo before them has the parallel sizes."""
    config = "  tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 8\n  context_parallel_size: 2\n  micro_batch_size: 1\n  global_batch_size: 2\n"
    text = LOGS["mllog"][0]
    (plain,), (row,) = read_source(Source("log", text)), read_source(Source("log", config + text))
    assert row.options == plain.options | {"tp": 4, "pp": 8, "cp": 2, "micro-batch": 1} and row.value == plain.value


@pytest.mark.parametrize(
    ("name", "written", "nothing"),
    [("perftest", "192.50", "0.00"), ("osu", "23000.50", "0.00"), ("mamf", None, "0.0")],
)
def test_a_rate_of_nothing_is_no_measurement(name, written, nothing):
    """A size whose test failed: its rate is zero, and the other sizes are read all the same."""
    text, expected = LOGS[name]
    line = text.splitlines()[expected[0][0] - 1]
    rate = written or re.search(r"[\d.]+(?= TFLOPS|(?=.*\(mean\)))", line)[0]
    more = text.replace(line, f"{line}\n{line.replace(rate, nothing)}", 1)
    assert len(read_source(Source("log", more))) == len(read_source(Source("log", text)))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_value_that_is_no_measurement_is_refused_whatever_read_it(monkeypatch, value):
    row = MeasuredRow("log:3", "some bench", "itl", value)
    reader = SimpleNamespace(TOOL="some bench", claims=lambda source: True, read=lambda source: [row])
    monkeypatch.setattr(logs, "readers", lambda: (reader,))
    with pytest.raises(DataError, match=r"log:3: some bench: (0|-1|nan|inf) s is no measurement"):
        read_source(Source("log", "text"))


@pytest.mark.parametrize(
    ("quantity", "options", "missing"),
    [
        ("itl", {"prompt": 8}, "--concurrency, --output"),
        ("itl", {"prompt": 8, "output": 8}, "--concurrency"),
        ("itl", {"prompt": 8, "output": 8, "batch": 4}, ""),
        ("ttft", {"prompt": 8}, "--concurrency"),
        ("prefill", {}, "--prompt"),
        ("prefill", {"prompt": 8}, ""),
        ("static", {"prompt": 8, "output": 8}, "--batch"),
        ("train", {"batch": 8}, "--seq-len"),
        ("train", {"batch": 8, "seq": 64}, ""),
    ],
)
def test_what_a_row_leaves_open_is_asked_for_by_its_flags(quantity, options, missing):
    """Answers have a length, prompts alone have none; a batch of steps is no load of requests."""
    row = MeasuredRow("log:3", "some bench", quantity, 0.5)
    given = {"model": "llama-3-8b", "n": 1, **options}
    if not missing:
        resolve_rows._complete(row, given)
        return
    with pytest.raises(UsageError, match="log:3: some bench leaves options open; give ") as refused:
        resolve_rows._complete(row, given)
    assert sorted(str(refused.value).partition("give ")[2].split(", ")) == sorted(missing.split(", "))


@pytest.mark.parametrize(
    ("hardware", "read"), [("SambaNova SN40L", False), ("Nvidia A100 GPU", False), ("our H100 node", True)]
)
def test_a_row_of_a_table_is_of_the_chip_that_its_column_names(cli, tmp_path, hardware, read):
    table = tmp_path / "results.csv"
    header = "Hardware,Num of Hardware,Framework,Model,Concurrency,Input Tokens,Output Tokens,TPOT (ms)\n"
    table.write_text(f"{header}{hardware},1,vllm,meta-llama/Meta-Llama-3-8B,8,512,128,9.5\n")
    ran = cli("calibrate", str(table), "--hw", "h100")
    assert (ran.code == 0) == read
    assert read or ("measured on" in ran.err and "not on H100" in ran.err)
