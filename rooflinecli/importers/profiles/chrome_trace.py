"""Kernel times from a Chrome trace (JSON): what jax.profiler, XLA and the PyTorch profiler write."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.profiles.hlo_shapes import Shapes
from rooflinecli.importers.profiles.kernel import Kernel, classify, own_times
from rooflinecli.importers.source import number, parse, positive

Event = Json
Counts = Callable[[Event], dict[str, float]]
_TORCH_GPU = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
# of a GPU, by the host
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_api", "xpu_runtime", "cuda_profiler_range")
_REDUCES = re.compile(r"split.?k.?reduce", re.IGNORECASE)  # a part of a product whose sizes are those of the whole
_MATMULS = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul")
_MICRO = 1e-6  # ts and dur are microseconds in this format


def read_chrome(path: Path, text: str, shapes: Shapes | None = None) -> list[Kernel]:
    """The kernels of a trace: device lanes where there are any, else the host's operations by their own time.

    `shapes`: sizes of XLA's matrix products. Raises DataError where the host launched kernels that were not recorded.
    """
    data = parse(text, str(path))
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        raise DataError(f"{path}: 'traceEvents' is missing; give the Chrome trace of jax.profiler or torch.profiler")
    for event in events:
        if isinstance(event.get("ts"), str) or isinstance(event.get("dur"), str):  # as rocprof writes them
            event |= {"ts": number(event.get("ts")), "dur": number(event.get("dur"))}
    named = [e for e in events if e.get("ph") == "X" and "name" in e]
    timed = [e for e in named if all(isinstance(t := e.get(k), (int, float)) and t >= 0 for k in ("ts", "dur"))]
    names = {e.get("pid"): str(_args(e).get("name", "")) for e in events if e.get("name") == "process_name"}
    counts = partial(_xla_counts, shapes=shapes or {})
    marked = [e for e in timed if "hlo_op" in _args(e) and not e["name"].startswith("end: ")]  # by XLA's CPU backend
    kernels = (
        _torch(timed)
        or _xla_device(timed, events, names, counts)
        or _rocprof(timed, names)
        or _own(marked, lambda e: str(_args(e)["hlo_op"]), counts)
    )
    if not kernels and any(str(e.get("cat")).lower() in _LAUNCHES for e in timed):
        raise DataError(
            f"{path}: the host's operators launched kernels on a GPU, which were not recorded, and their own times are no kernels; "
            "profile with ProfilerActivity.CUDA"
        )
    # without a GPU, operators of PyTorch by the time that each spends outside those it calls
    kernels = kernels or _own([e for e in timed if e.get("cat") == "cpu_op"], lambda e: e["name"], _torch_shape)
    if not kernels:
        why = f"{path}: no kernels among its {len(events)} events; profile a compiled step, with the device traced"
        raise DataError(why)
    return kernels


def _args(event: Event) -> Json:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _kernel(event: Event, name: str, device: object, lane: object, seconds: float | None = None, **more: Any) -> Kernel:
    own = event["dur"] * _MICRO if seconds is None else seconds
    return Kernel(name, own, 1, event["ts"] * _MICRO, str(device), str(lane), **more)


def _torch(timed: list[Event]) -> list[Kernel]:
    """GPU kernels of a PyTorch trace, with the shapes of the operator that launched them where they were recorded."""
    shapes = {_args(e)["External id"]: e for e in timed if e.get("cat") == "cpu_op" and "External id" in _args(e)}
    found = []
    for e in timed:
        if str(e.get("cat")).lower() in _TORCH_GPU:
            args = _args(e)
            device, lane = args.get("device", e.get("pid", "")), args.get("stream", e.get("tid", ""))
            found.append(_kernel(e, e["name"], device, lane, **_torch_shape(shapes.get(args.get("External id")))))
    return found


def _torch_shape(event: Event | None) -> dict[str, float]:
    """m, k, n of a matrix product from the operator's recorded input shapes."""
    if event is None or event["name"].removeprefix("aten::") not in _MATMULS:
        return {}
    dims = [d for d in _args(event).get("Input Dims", []) if isinstance(d, list) and len(d) >= 2]
    if len(dims) < 2 or not all(isinstance(size, int) for d in dims for size in d):
        return {}
    x, w = dims[-2:]
    columns = w[0] if event["name"] == "aten::linear" else w[-1]
    return {"m": float(prod(x[:-1])), "k": float(x[-1]), "n": float(columns)}


def _rocprof(timed: list[Event], names: dict[object, str]) -> list[Kernel]:
    """Kernels and copies of a trace by rocprof, whose processes are those of the GPUs and of the host's calls."""
    gpus = {pid: name for pid, name in names.items() if re.search(r"\bGPU ?\d+$", name) or name.startswith("COPY")}
    return [_kernel(e, e["name"], gpus[e.get("pid")], e.get("tid", "")) for e in timed if e.get("pid") in gpus]


def _xla_device(timed: list[Event], events: list[Event], names: dict[object, str], counts: Counts) -> list[Kernel]:
    """Operations on the device processes of an XLA trace: the streams of a GPU, the op lines of a TPU."""
    lanes = {
        (e.get("pid"), e.get("tid")): str(_args(e).get("name", "")) for e in events if e.get("name") == "thread_name"
    }
    devices = {pid: name for pid, name in names.items() if name.startswith("/device:") and "CUSTOM" not in name}
    streams = {lane for lane, name in lanes.items() if lane[0] in devices and name.startswith("Stream")}
    others = {pid for pid in devices if pid not in {pid for pid, _ in streams}}
    lines = {
        lane for lane, name in lanes.items() if lane[0] in others and name.startswith(("XLA Ops", "Async XLA Ops"))
    }

    def name(event: Event) -> str:
        category = _args(event).get("hlo_category")
        return f"{event['name']} ({category})" if category else str(event["name"])

    mine = [e for e in timed if (e.get("pid"), e.get("tid")) in streams | lines]
    return _own(mine, name, counts, devices, lanes)


def _xla_counts(event: Event, shapes: Shapes) -> dict[str, float]:
    """FLOPs and bytes that XLA recorded with an operation (TPU traces have them), else the sizes of a matrix product."""
    args, counts = _args(event), {}
    sizes = shapes.get((str(args.get("hlo_module")), str(args.get("hlo_op"))))
    for key, names in (("flops", ("model_flops", "flops")), ("bytes", ("bytes_accessed", "raw_bytes_accessed"))):
        if found := [value for name in names if (value := positive(args.get(name)))]:
            counts[key] = found[0]
    name = str(event.get("name", ""))
    gemm = not _REDUCES.search(name) and "gemm" in (classify(name), classify(str(args.get("hlo_op"))))
    return dict(zip("mkn", map(float, sizes), strict=True)) if sizes and not counts and gemm else counts


def _own(
    events: list[Event],
    name: Callable[[Event], str],
    counts: Counts,
    devices: dict[object, str] | None = None,
    lanes: dict[tuple[object, object], str] | None = None,
) -> list[Kernel]:
    """Kernels by the time each event spends outside those nested in it on the same lane."""
    groups: dict[tuple[object, object], list[Event]] = defaultdict(list)
    for event in events:
        groups[event.get("pid"), event.get("tid")].append(event)
    result = []
    for (pid, tid), group in groups.items():
        times = own_times([(e["ts"], e["ts"] + e["dur"]) for e in group])
        device, lane = (devices or {}).get(pid, pid), (lanes or {}).get((pid, tid), tid)
        result += [
            _kernel(e, name(e), device, lane, own * _MICRO, **counts(e))
            for e, own in zip(group, times, strict=True)
            if own > 0
        ]
    return result
