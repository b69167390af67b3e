"""Step time and memory of published training runs against the engine, signed: `python benchmarks/training_rows.py [PREFIX]`."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict

from rooflinecli.validate.published_training import Compared, compared, rows


def summary(name: str, held: list[Compared]) -> str:
    errors = [h.error for h in held if h.error is not None]
    fits = sum(h.fits for h in held) / len(held)
    if not errors:
        return f"{name:<18} {len(held):>4} rows"
    size = [abs(e) for e in errors]
    return (
        f"{name:<18} {len(held):>4} rows  mean {statistics.mean(size):6.1%}  median {statistics.median(size):6.1%}  "
        f"bias {statistics.mean(errors):+6.1%}  fits {fits:.0%}"
    )


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for row in rows():
        if row["id"].startswith(wanted) and "activation_bytes" not in row and "activation_percent" not in row:
            held = compared(row)
            groups[row["source"]].append(held)
            peak = row.get("peak_memory_bytes")
            memory = held.answer.memory.total_bytes
            beside = f" of {peak / 1e9:.0f} measured" if peak else ""
            print(
                f"{row['id']:<52} {held.answer.time_s:9.3f} s  {row['step_s']:9.3f} s  {held.error:+7.1%}  {memory / 1e9:5.1f} GB{beside}"
            )
    for name, held in groups.items():
        print(summary(name, held))


if __name__ == "__main__":
    main()
