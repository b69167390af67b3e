"""Points per CPU-second of `roofline sweep`, peak memory and its growth with the number of points.

python benchmarks/sweep.py            # dense inference: 1e4 to 1e7 points
python benchmarks/sweep.py --stream 8 # 10^8 points, one chunk at a time
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

CASES = {
    "decode, time only": ({"phase": "decode"}, ["decode.time_s"]),
    "decode, default columns": ({"phase": "decode"}, None),
    "prefill and decode": ({"phase": "prefill,decode"}, None),
    "decode, every column": ({"phase": "decode"}, ["decode.*"]),
    "MoE": ({"phase": "decode", "model": "mixtral-8x7b", "tp": "1,2,4,8"}, ["decode.time_s"]),
    "training": (
        {
            "phase": "train",
            "batch": "64..4096x2",
            "prompt": None,
            "micro_batch": "1..8",
            "seq": "128..8192/128",
            "dp": "1..64x2",
            "pp": "1,2,4,8",
        },
        ["train.time_s"],
    ),
}


def run(options: dict[str, object], columns: list[str] | None, limit: int) -> tuple[int, float]:
    """(points, CPU seconds) of the first `limit` points of a grid."""
    from rooflinecli.questions.sweep import run as sweep
    from rooflinecli.questions.sweep.axes import space

    base = {"model": "llama-3-70b", "hw": "h100", "batch": "1..512", "prompt": "64..65536/64", "tp": "1,2,4,8"}
    grid = space({k: v for k, v in {**base, **options}.items() if v is not None})
    shown = sweep.columns(grid, columns)
    stop = min(limit, grid.points)
    start = time.process_time()
    points = sum(len(sweep.table(shown, choice, found)["feasible"]) for choice, found in sweep.answers(grid, 0, stop))
    return points, time.process_time() - start


def peak() -> float:
    """Peak resident memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth() -> None:
    """Print the peak memory of a fresh process for 10^4 to 10^7 points."""
    print(f"\n{'points':>12} {'peak MiB':>9}")
    for exponent in (4, 5, 6, 7):
        code = f"import sys; sys.path.insert(0, 'benchmarks'); import sweep; sweep.run({{'output': '1..64', 'phase': 'decode'}}, None, 10**{exponent}); print(sweep.peak())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        print(f"{10**exponent:12,} {float(done.stdout):9.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", type=int, help="stream 10^N points of decode and print the peak")
    given = parser.parse_args()
    if given.stream:
        points, seconds = run({"output": "1..1024", "phase": "decode"}, None, 10**given.stream)
        print(f"{points:,} points in {seconds:.1f} CPU-s: {points / seconds:,.0f} per CPU-s, peak {peak():.0f} MiB")
        return
    print(f"{'case':26} {'points':>12} {'CPU s':>8} {'points per CPU-s':>18}")
    for name, (options, columns) in CASES.items():
        points, seconds = min((run(options, columns, 2_000_000) for _ in range(3)), key=lambda r: r[1] / r[0])
        print(f"{name:26} {points:12,} {seconds:8.3f} {points / seconds:18,.0f}", flush=True)
    growth()


if __name__ == "__main__":
    main()
