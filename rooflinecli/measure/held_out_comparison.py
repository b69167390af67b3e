"""The measured profile and the chip's shipped constants compared on held-out shapes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rooflinecli.measure.cases import Record
from rooflinecli.measure.fit import usable
from rooflinecli.measure.stats import quantile
from rooflinecli.price.chip import Chip
from rooflinecli.questions.kernel.operations import alone, attention_op, matmul_op
from rooflinecli.questions.kernel.question import KernelAnswer
from rooflinecli.specs.hardware import HardwareSpec, hardware_from, load_hardware
from rooflinecli.specs.yaml_loader import parse


def compared(records: Iterable[Record], text: str, path: Path, extends: str) -> list[Record]:
    """A row per class and dtype with held-out shapes: median error and fraction inside the interval, shipped and measured.

    `text` is the profile's YAML, `path` where it goes, `extends` the chip whose constants ship.
    """
    known = {"shipped": load_hardware(extends), "measured": hardware_from(parse(text, path, base="hardware"))}
    rows = []
    for (regime, kind, dtype), held in sorted(usable(records).items()):
        tested = [r for r in held if r["held_out"] and r["op"] in ("matmul", "prefill", "decode")]
        if regime == "kernel" and tested:
            row: Record = {"kind": kind, "dtype": dtype, "shapes": len(tested)}
            for name, chip in known.items():
                row |= {f"{name}_{what}": value for what, value in _errors(tested, chip).items()}
            rows.append(row)
    return rows


def _errors(records: list[Record], chip: HardwareSpec) -> dict[str, float]:
    """Median |predicted / measured - 1|, and the fraction of the measured times inside the predicted interval."""
    found = [(ask(r, chip), float(r["time_s"])) for r in records]
    errors = sorted(abs(answer.time_s / seconds - 1) for answer, seconds in found)
    inside = [answer.interval_s[0] <= seconds <= answer.interval_s[1] for answer, seconds in found]
    return {"median": float(quantile(errors, 0.5)), "inside": sum(inside) / len(inside)}


def ask(record: Record, chip: HardwareSpec) -> KernelAnswer:
    """The answer of `roofline kernel` for a timed matmul or attention, without separate passes, which are not timed."""
    s, dtype = record["sizes"], record["dtype"]
    if record["op"] == "matmul":
        op = matmul_op(s["m"], s["k"], s["n"], dtype, chip)
    else:
        decode = record["op"] == "decode"
        keys, queries = (s["t"], 1) if decode else (s["s"], s["s"])
        given = (float(s["b"]), float(queries), float(keys), float(s["h"]), float(s["kv"]), float(s["d"]))
        op = attention_op(*given, causal=not decode, decode=decode, fused=True, dtype=dtype, hardware=chip)
    return alone(op._replace(quantized=0), dtype, Chip(chip))
