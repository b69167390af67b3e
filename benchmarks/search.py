"""Layouts per CPU-second of `roofline search`.

The space of calculon's paper (6.6 M layouts) includes settings that are not layouts here (offloading, fused activations,
communication overlap); `--wide` searches the same model over 64 device counts and 64 micro-batch sizes, for as many layouts.
"""

from __future__ import annotations

import argparse
import resource
import time

CASES = {
    "GPT-3 175B, 512 A100": {"model": "gpt3-175b", "hw": "a100", "n": 512, "batch": 3072, "seq": 2048},
    "Llama 3 70B, 2048 H100": {"model": "llama-3-70b", "hw": "h100", "n": 2048, "batch": 1024},
    "DeepSeek-V3, 2048 H100": {"model": "deepseek-v3", "hw": "h100", "n": 2048, "batch": 4096},
}
WIDE = {"model": "gpt3-175b", "hw": "a100", "n": "8..512/8", "batch": 3072, "seq": 2048, "micro_batch": "1..64"}


def run(options: dict[str, object]) -> tuple[int, int, float, str]:
    """(layouts, layouts that fit, CPU seconds, the winner)."""
    from rooflinecli.questions.search.search_request import question
    from rooflinecli.questions.search.training import search

    asked = question({**options, "phase": "train"}, "throughput", [])
    start = time.process_time()
    result = search(asked)
    seconds = time.process_time() - start
    best = result.top(1)
    return result.layouts, result.fitting, seconds, str(best[0].layout) if best else "nothing fits"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wide", action="store_true", help="millions of layouts")
    given = parser.parse_args()
    for name, options in ({"GPT-3 175B, wide": WIDE} if given.wide else CASES).items():
        layouts, fit, seconds, best = min((run(options) for _ in range(1 if given.wide else 3)), key=lambda r: r[2])
        print(
            f"{name}: {layouts:,} layouts ({fit:,} fit) in {seconds:.2f} CPU-s, {layouts / seconds:,.0f} per CPU-s\n  {best}"
        )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
