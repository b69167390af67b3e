"""Three launches on two streams as every profiler writes them, and products as XLA's HLO has them: the same kernels, sizes and overlaps."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

from rooflinecli.importers.profiles.hlo_shapes import gemm_shapes
from rooflinecli.importers.profiles.read import read
from rooflinecli.questions.profile.rollup import profile

TIMELINE = (
    ("nvjet_tst_128x256", 10, 40, 7),
    ("ncclDevKernel_AllReduce", 30, 50, 20),
    ("flash_fwd_kernel", 90, 25, 7),
)  # us
NSYS = "create table CUPTI_ACTIVITY_KIND_{} (start integer, end integer, deviceId integer, streamId integer{})"


def chrome(*meta, **one):
    """A Chrome trace: `one` makes further fields of an event from its name, its start and duration in us, and its stream."""
    made = [
        {"ph": "X", "ts": row[1], "dur": row[2], "name": row[0]} | {k: of(*row) for k, of in one.items()}
        for row in TIMELINE
    ]
    return json.dumps({"traceEvents": [*meta, *made]})


def named(what, pid, name, **more):
    return {"ph": "M", "name": f"{what}_name", "pid": pid, "args": {"name": name}, **more}


def cells(heading, of):
    return "\n".join([heading, *(",".join(map(str, of(*row))) for row in TIMELINE)]) + "\n"


WRITTEN = {
    "torch.json": chrome(cat=lambda *_: "kernel", args=lambda n, s, d, stream: {"device": 0, "stream": stream}, pid=lambda *_: 5, tid=lambda *_: 6),
    "torch-bare.json": chrome(cat=lambda *_: "kernel", pid=lambda *_: 0, tid=lambda n, s, d, stream: stream),
    "xla.json": chrome(
        named("process", 1, "/device:GPU:0"), named("process", 2, "/device:CUSTOM:x"), named("thread", 1, "Stream #7(Compute)", tid=3), named("thread", 1, "Stream #20(NCCL)", tid=4),
        {"ph": "X", "ts": 0, "dur": 99, "name": "host", "pid": 2, "tid": 1}, pid=lambda *_: 1, tid=lambda n, s, d, stream: 3 if stream == 7 else 4,
    ),
    "rocprof.json": chrome(named("process", 6, "4 GPU0"), named("process", 2, "CPU HIP API"), {"ph": "X", "ts": "0", "dur": "99", "name": "hipLaunchKernel", "pid": 2, "tid": 1},
                           pid=lambda *_: 6, tid=lambda n, s, d, stream: stream, ts=lambda n, s, *_: str(s), dur=lambda n, s, d, _: str(d)),
    "nsys.csv": cells("Start (ns),Duration (ns),CorrId,Device,Ctx,Strm,Name", lambda n, s, d, stream: (s * 1000, d * 1000, 1, "NVIDIA H100 (0)", 1, stream, n)),
    "own.csv": cells("stream,name,device,dur_ms,start_us", lambda n, s, d, stream: (stream, n, "x", d / 1000, s)),
    "rocprofv3.csv": cells('"Kind","Agent_Id","Queue_Id","Kernel_Name","Start_Timestamp","End_Timestamp"', lambda n, s, d, stream: ("KERNEL_DISPATCH", "Agent 4", stream, n, s * 1000, (s + d) * 1000)),
    "rocprof.csv": cells('"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs","DurationNs"', lambda n, s, d, stream: (0, n, 4, stream, s * 1000, (s + d) * 1000, d * 1000)),
    "nsys.sqlite": None,
}  # fmt: skip


def database(file):
    link = sqlite3.connect(file)
    link.execute("create table StringIds (id integer, value text)")
    link.execute(NSYS.format("KERNEL", ", demangledName integer"))
    link.execute(NSYS.format("MEMSET", ""))
    for i, (name, start, dur, stream) in enumerate(TIMELINE):
        link.execute("insert into StringIds values (?, ?)", (i, name))
        link.execute(
            "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, ?, ?)",
            (start * 1000, (start + dur) * 1000, stream, i),
        )
    link.commit()
    link.close()


@pytest.mark.parametrize("name", WRITTEN)
def test_every_profiler_writes_the_same_launches(name, tmp_path):
    """By hand: 115 us of launches in 105, 10 of them idle; the all-reduce is hidden for 20 us and exposed for 30."""
    file = tmp_path / name
    database(file) if WRITTEN[name] is None else file.write_text(WRITTEN[name])
    kernels = sorted(read(file), key=lambda kernel: kernel.start_s)
    found = [(k.name, k.start_s * 1e6, k.seconds * 1e6, int(re.search(r"\d+", k.lane)[0])) for k in kernels]
    assert [one[::3] for one in found] == [one[::3] for one in TIMELINE]
    assert [x for one in found for x in one[1:3]] == pytest.approx([x for one in TIMELINE for x in one[1:3]])
    assert [(k.kind, k.calls) for k in kernels] == [("gemm", 1), ("collective", 1), ("attention", 1)]
    assert len({k.device for k in kernels}) == 1 and kernels[0].device
    answer = profile(kernels)
    assert (answer["time_s"], answer["wall_s"]) == pytest.approx((115e-6, 105e-6))
    assert answer["idle_share"] == pytest.approx(10 / 105)
    shown = answer["communication"]
    assert (shown["overlapped_s"], shown["exposed_s"]) == pytest.approx((20e-6, 30e-6))


def field(number, value):
    """A field of a protobuf message (protobuf.dev, encoding): a number, a text or a message; several numbers are packed."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = (
        value.encode()
        if isinstance(value, str)
        else value
        if isinstance(value, bytes)
        else b"".join(map(varint, value))
    )
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def operation(i, name, opcode, shape, operands=(), target="", dot=(), batch=(), called=(), several=False):
    """An HloInstructionProto: the numbers of its fields are those of xla/service/hlo.proto."""
    dims = field(3, shape)
    parts = [
        field(1, name),
        field(2, opcode),
        field(3, field(4, dims) + field(4, field(3, [9])) if several else dims),
        field(35, i),
    ]
    parts += (
        [field(36, one) for one in operands]
        + [field(28, target)] * bool(target)
        + [field(38, list(called))] * bool(called)
    )
    return b"".join([*parts, field(30, field(1, list(dot)) + field(3, list(batch)))] if opcode == "dot" else parts)


def module(name, *computations):
    made = [b"".join(field(2, op) for op in ops) + field(5, i) for i, ops in enumerate(computations, 1)]
    return field(1, field(1, name) + b"".join(field(3, one) for one in made))


def test_products_of_hlo_have_the_sizes_of_their_operands(tmp_path):
    """By hand. Six products of 32 x 64 by 64 x 16 have 192 rows; a cuBLAS call lays its left matrix out either way."""
    fused = [
        operation(20, "left", "parameter", [300, 200]),
        operation(21, "right", "parameter", [200, 500]),
        operation(22, "inner", "dot", [300, 500], (20, 21), dot=(1,)),
    ]
    two = [
        operation(32, "one", "dot", [300, 500], (20, 21), dot=(1,)),
        operation(33, "other", "dot", [300, 500], (20, 21), dot=(1,)),
    ]
    entry = [
        operation(1, "a", "parameter", [6, 32, 64]), operation(2, "b", "parameter", [6, 64, 16]),
        operation(3, "batched", "dot", [6, 32, 16], (1, 2), dot=(2,), batch=(0,)),
        operation(4, "x", "parameter", [128, 64]), operation(5, "w", "parameter", [64, 256]), operation(6, "t", "parameter", [64, 128]),
        operation(7, "plain", "custom-call", [128, 256], (4, 5), "__cublas$gemm", several=True),
        operation(8, "turned", "custom-call", [128, 256], (6, 5), "__cublas$lt$matmul"),
        operation(9, "norm", "custom-call", [128, 256], (4, 5), "__cudnn$norm"), operation(10, "odd", "custom-call", [128, 100], (4, 5), "__cublas$gemm"),
        operation(11, "fusion", "fusion", [300, 500], called=(1,)), operation(12, "both", "fusion", [300, 500], called=(2,)),
        operation(13, "sum", "add", [300, 500], (11, 12)),
    ]  # fmt: skip
    again = [
        operation(1, "a", "parameter", [2, 3]),
        operation(2, "b", "parameter", [3, 4]),
        operation(3, "batched", "dot", [2, 4], (1, 2), dot=(1,)),
    ]
    protos = [
        module("jit_f", fused, two, entry),
        module("jit_g", again),
        module("jit_g", [*again[:1], operation(2, "b", "parameter", [3, 5]), again[2]]),
    ]
    plane = field(2, "/host:metadata") + b"".join(
        field(4, field(1, 7) + field(2, field(5, field(6, one)))) for one in protos
    )
    other = field(2, "/device:GPU:0") + field(4, field(2, field(5, field(6, module("jit_h", again)))))
    (tmp_path / "vm.xplane.pb").write_bytes(field(1, other) + field(1, plane))
    assert gemm_shapes(tmp_path / "vm.trace.json.gz") == {
        ("jit_f", "batched"): (192, 64, 16),
        ("jit_f", "plain"): (128, 64, 256),
        ("jit_f", "turned"): (128, 64, 256),
        **{("jit_f", name): (300, 200, 500) for name in ("inner", "one", "other", "fusion")},
    }
