"""Trace formats: PyTorch, XLA on GPU and TPU, Nsight Systems, plain CSV; and files that are none of these."""

from __future__ import annotations

import gzip
import json

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers.profiles.read import read


def write(path, events, wrap=True):
    path.write_text(json.dumps({"traceEvents": events} if wrap else events))
    return path


def test_pytorch_gpu_kernels_with_the_shapes_of_their_operators(tmp_path):
    """torch.profiler: kernels carry an External id that leads to the operator and its recorded shapes."""
    file = write(
        tmp_path / "t.pt.trace.json",
        [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::addmm",
                "ts": 0,
                "dur": 9,
                "pid": 1,
                "tid": 1,
                "args": {"External id": 7, "Input Dims": [[4096], [512, 1024], [1024, 4096], [], []]},
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": "sm90_xmma_gemm_bf16bf16_tn",
                "ts": 10,
                "dur": 20,
                "pid": 0,
                "tid": 7,
                "args": {"External id": 7, "device": 0, "stream": 7},
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                "ts": 15,
                "dur": 30,
                "pid": 0,
                "tid": 20,
                "args": {"device": 0, "stream": 20},
            },
            {
                "ph": "X",
                "cat": "gpu_memcpy",
                "name": "Memcpy HtoD (Pageable -> Device)",
                "ts": 50,
                "dur": 5,
                "pid": 0,
                "tid": 7,
                "args": {"device": 0, "stream": 7},
            },
        ],
        wrap=False,
    )
    gemm, comm, copy = read(file)
    assert (gemm.m, gemm.k, gemm.n) == (512, 1024, 4096)
    assert [k.kind for k in (gemm, comm, copy)] == ["gemm", "collective", "copy"]
    assert gemm.seconds == pytest.approx(20e-6) and gemm.lane == "7"


def test_pytorch_without_a_gpu_counts_own_time(tmp_path):
    """A nested operator is not counted twice: linear spends 10 us, 8 of them inside addmm."""
    file = write(
        tmp_path / "t.json",
        [
            {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "ts": 0, "dur": 10, "pid": 1, "tid": 1},
            {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 1, "dur": 8, "pid": 1, "tid": 1},
        ],
    )
    assert {k.name: round(k.seconds * 1e6) for k in read(file)} == {"aten::linear": 2, "aten::addmm": 8}


def meta(pid, tid, name):
    where = {"ph": "M", "pid": pid, "name": "process_name" if tid is None else "thread_name", "args": {"name": name}}
    return where if tid is None else {**where, "tid": tid}


def test_xla_gpu_streams_are_read_and_derived_lines_are_not(tmp_path):
    """On a GPU the same work appears on its stream and again on the lines XLA derives from it."""
    file = write(
        tmp_path / "t.json",
        [
            meta(1, None, "/device:GPU:0"),
            meta(1, 13, "Stream #13(Compute)"),
            meta(1, 2, "XLA Ops"),
            meta(1, 3, "XLA Modules"),
            meta(9, None, "/host:CPU"),
            {
                "ph": "X",
                "pid": 1,
                "tid": 13,
                "ts": 0,
                "dur": 5,
                "name": "gemm_fusion_dot_1",
                "args": {"hlo_op": "gemm_fusion_dot.1"},
            },
            {"ph": "X", "pid": 1, "tid": 2, "ts": 0, "dur": 5, "name": "gemm_fusion_dot.1", "args": {}},
            {"ph": "X", "pid": 1, "tid": 3, "ts": 0, "dur": 6, "name": "jit_f(1)", "args": {}},
            {"ph": "X", "pid": 9, "tid": 1, "ts": 0, "dur": 60, "name": "PjitFunction(f)", "args": {}},
        ],
    )
    (kernel,) = read(file)
    assert (kernel.name, kernel.kind, kernel.device) == ("gemm_fusion_dot_1", "gemm", "/device:GPU:0")


def test_xla_tpu_op_lines_bring_flops_and_bytes(tmp_path):
    file = write(
        tmp_path / "t.json",
        [
            meta(1, None, "/device:TPU:0"),
            meta(1, 2, "XLA Ops"),
            meta(1, 4, "Steps"),
            {
                "ph": "X",
                "pid": 1,
                "tid": 2,
                "ts": 0,
                "dur": 100,
                "name": "fusion.7",
                "args": {
                    "hlo_category": "convolution fusion",
                    "model_flops": "1970000000",
                    "bytes_accessed": "8190000",
                },
            },
            {"ph": "X", "pid": 1, "tid": 4, "ts": 0, "dur": 200, "name": "1"},
        ],
    )
    (kernel,) = read(file)
    assert kernel.kind == "gemm"
    assert (kernel.flops, kernel.bytes) == (1.97e9, 8.19e6)


def test_the_busiest_device_is_reported_and_another_can_be_asked_for(cli, tmp_path):
    file = write(
        tmp_path / "t.json",
        [
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": dur, "args": {"device": device, "stream": 7}}
            for device, dur in ((0, 10), (1, 30))
        ],
    )
    assert cli("profile", str(file), "--format", "json").json["device"] == "1"
    assert cli("profile", str(file), "--format", "json", "--device", "0").json["time_s"] == pytest.approx(10e-6)
    ran = cli("profile", str(file), "--device", "7")
    assert ran.code == 2 and "0, 1" in ran.err


NSYS = """Processing [run.sqlite] with [cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,"6,000,000",3,2000000.0,2000000.0,1900000,2100000,10.0,"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(T1::Params, int)"
40.0,4000000,2,2000000.0,2000000.0,1900000,2100000,10.0,"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>"
"""


def test_nsight_systems_kernel_summary(tmp_path):
    file = tmp_path / "sum.csv"
    file.write_text(NSYS)
    gemm, add = read(file)
    assert (gemm.kind, gemm.calls, gemm.seconds) == ("gemm", 3, pytest.approx(6e-3))
    assert (add.kind, add.calls, add.seconds) == ("elementwise", 2, pytest.approx(4e-3))
    assert gemm.start_s is None


def test_nsight_systems_gpu_trace(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text(
        "Start (ns),Duration (ns),CorrId,GrdX,Bytes (MB),Device,Ctx,Strm,Name\n"
        "1000,500,1,8,,NVIDIA H100 (0),1,7,flash_fwd_kernel\n"
        "1500,200,2,,16.777,NVIDIA H100 (0),1,7,[CUDA memcpy Device-to-Device]\n"
    )
    attention, copy = read(file)
    assert (attention.kind, attention.start_s, attention.lane) == ("attention", pytest.approx(1e-6), "7")
    assert (copy.kind, copy.bytes) == ("copy", pytest.approx(16.777e6))


def test_gzip_and_folders(tmp_path):
    inner = tmp_path / "plugins" / "profile" / "run"
    inner.mkdir(parents=True)
    (inner / "host.trace.json.gz").write_bytes(
        gzip.compress(
            json.dumps(
                {
                    "traceEvents": [
                        {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 3, "name": "dot.1", "args": {"hlo_op": "dot.1"}}
                    ]
                }
            ).encode()
        )
    )
    assert [k.name for k in read(tmp_path)] == ["dot.1"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name,time\nx,1\n",
        "name,time_ms\n",
        "name,time_ms\nx,fast\n",
        "name,time_ms\nx,-1\n",
        "name,time_ms\nx,inf\n",
        "name,time_ms\nx,\n",
        "name,time_ms\nx,0\n",
        "name,time_ms,kind\nx,1,magic\n",
        "name,time_ms,bound\nx,1,magic\n",
        "{",
        "[1, 2]",
        "{}",
        '{"traceEvents": 3}',
        '{"traceEvents": []}',
        '{"traceEvents": [{"ph": "X"}]}',
        '{"traceEvents": [{"ph":"X","name":"a","ts":"x","dur":1}]}',
        "[" * 100000,
    ],
)
def test_anything_else_is_bad_data_with_a_remedy(cli, tmp_path, text):
    file = tmp_path / "bad"
    file.write_text(text)
    with pytest.raises(DataError):
        read(file)
    ran = cli("profile", str(file))
    assert ran.code == 3 and ran.err.startswith("roofline: ") and ran.err.count("\n") == 1


def test_unreadable_files(cli, tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    for name in ("absent.csv", "binary", "torn.gz", "."):
        assert cli("profile", str(tmp_path / name)).code == 3


def test_operators_that_launched_kernels_which_nobody_recorded_are_no_kernels(tmp_path):
    """torch.profiler without ProfilerActivity.CUDA, or with range profiling: times of the host say nothing of the GPU."""
    file = write(
        tmp_path / "t.json",
        [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 10, "pid": 1, "tid": 1},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 8, "pid": 1, "tid": 1},
        ],
    )
    with pytest.raises(DataError, match=r"not recorded.*ProfilerActivity\.CUDA"):
        read(file)


ROCM = {
    "rocprofv3 --kernel-trace": '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"KERNEL_DISPATCH","Agent 4",1,10,"Cijk_Alik_Bljk_BBS_BH_MT256x256x64.kd",3,1000000,1250000\n',
    "rocprof --stats": '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"Cijk_Alik_Bljk_BBS_BH_MT256x256x64.kd",2,250000,125000,100.0\n',
    "rocprof": '"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs","DurationNs"\n0,"Cijk_Alik_Bljk_BBS_BH_MT256x256x64.kd",4,0,1000000,1250000,250000\n',
}  # fmt: skip


@pytest.mark.parametrize("tool", ROCM)
def test_kernels_of_rocm_are_found_and_are_matrix_products(tool, tmp_path):
    file = tmp_path / "results.csv"
    file.write_text(ROCM[tool])
    (kernel,) = read(file)
    assert (kernel.kind, kernel.seconds) == ("gemm", pytest.approx(250e-6))


def test_a_trace_of_rocprof_has_its_gpus_as_processes_and_its_times_as_text(tmp_path):
    host, gpu = (
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((2, "CPU HIP API"), (6, "4 GPU0"))
    )
    launch = {
        "ph": "X",
        "name": "hipLaunchKernel",
        "pid": 2,
        "tid": 1,
        "ts": "10",
        "dur": "5",
        "args": {"BeginNs": "10000"},
    }
    ran = {
        "ph": "X",
        "name": "Cijk_Alik_Bljk",
        "pid": 6,
        "tid": 0,
        "ts": "20",
        "dur": "250",
        "args": {"BeginNs": "20000"},
    }
    (kernel,) = read(write(tmp_path / "results.json", [host, gpu, launch, ran]))
    assert (kernel.name, kernel.seconds, kernel.device) == ("Cijk_Alik_Bljk", pytest.approx(250e-6), "4 GPU0")


@pytest.mark.parametrize(
    ("unit", "seconds"), [("ns", 3e-9), ("us", 3e-6), ("ms", 3e-3), ("s", 3.0), ("sec", 3.0), ("seconds", 3.0)]
)
def test_a_time_is_in_the_unit_of_its_column(tmp_path, unit, seconds):
    path = tmp_path / "kernels.csv"
    path.write_text(f"Name,Time ({unit})\ngemm,3\n")
    assert sum(kernel.seconds for kernel in read(path)) == pytest.approx(seconds)
