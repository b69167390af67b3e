"""Step time and memory of published training runs, predicted and measured: `python benchmarks/training_rows.py [PREFIX]`."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict

from rooflinecli.validate.published_training import Compared, compared, rows


def summary(name: str, results: list[Compared]) -> str:
    errors = [r.error for r in results if r.error is not None]
    fits = sum(r.fits for r in results) / len(results)
    if not errors:
        return f"{name:<18} {len(results):>4} rows"
    size = [abs(e) for e in errors]
    return (
        f"{name:<18} {len(results):>4} rows  mean {statistics.mean(size):6.1%}  median {statistics.median(size):6.1%}  "
        f"bias {statistics.mean(errors):+6.1%}  fits {fits:.0%}"
    )


def main() -> None:
    prefix = sys.argv[1] if len(sys.argv) > 1 else ""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for row in rows():
        if row["id"].startswith(prefix) and "activation_bytes" not in row and "activation_percent" not in row:
            result = compared(row)
            groups[row["source"]].append(result)
            peak = row.get("peak_memory_bytes")
            memory = result.answer.memory.total_bytes
            measured = f" of {peak / 1e9:.0f} measured" if peak else ""
            print(
                f"{row['id']:<52} {result.answer.time_s:9.3f} s  {row['step_s']:9.3f} s  {result.error:+7.1%}  {memory / 1e9:5.1f} GB{measured}"
            )
    for name, results in groups.items():
        print(summary(name, results))


if __name__ == "__main__":
    main()
