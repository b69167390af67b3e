"""Runs that came after the constants (published_runs/inference_2.yaml): rows, and tables of throughput at the memory limit cell by cell."""

from __future__ import annotations

from typing import Any

from rooflinecli.specs.published_runs import published
from rooflinecli.validate.inference import Run, published_run


def runs() -> list[Run]:
    """Every row and cell as a run; what the serving constants have seen of its group stands in the file."""
    found = published("inference_2")
    return [published_run(row, found["fit"]) for row in (*found["rows"], *cells())]


def cells() -> list[dict[str, Any]]:
    """Every cell as a row of published_runs/inference.yaml would have it."""
    found = published("inference_2")
    return [
        _cell(table, lengths, found["requests"].get(lengths), rate)
        for table in found["tables"]
        for lengths, rate in table["rates"].items()
    ]


def _cell(table: dict[str, Any], lengths: str, requests: int | None, rate: float) -> dict[str, Any]:
    """A column of a table at one prompt x output: lengths (tokens), requests sent in all, output tokens per second, and a name."""
    prompt, output = (int(length) for length in lengths.split("x"))
    layout = "-".join(f"{axis}{table[axis]}" for axis in ("tp", "pp", "dp") if table.get(axis, 1) > 1) or "tp1"
    return {
        **{key: value for key, value in table.items() if key != "rates"},
        "id": f"{table['group']}-{table['hw']}-{table['model']}-{table['dtype']}-{layout}-{lengths}",
        "load": "max",
        "prompt": prompt,
        "output": output,
        "requests": requests,
        "output_tokens_per_s": rate,
    }
