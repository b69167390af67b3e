"""published_runs/implausible.yaml: volunteers' rows of local machines that were not measured on the machine they name.

`python -m lab.implausible_rows` rewrites the file; a test compares it with the rows.
"""

from __future__ import annotations

import yaml

from rooflinecli.core.num import value
from rooflinecli.engine.inference import decode
from rooflinecli.specs.hardware import HardwareSpec, load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.snapshots import PUBLISHED
from rooflinecli.validate.local_machines import VOLUNTEERS, contexts, rows
from rooflinecli.validate.stats import Row

FILE = PUBLISHED / "implausible.yaml"
_HEAD = """# Rows of desk.yaml in volunteers' databases that were not measured on the machine they name (python -m lab.implausible_rows): a lesser
# chip of the same vendor beats theirs twofold on the same file, the file exceeds the memory of the chip, or its bytes go at the rate of a host's memory.
"""
MIN_RATIO = 2.0  # by how much a lesser chip must be faster
HOST_RATE = 64e9  # bytes per second of two channels of memory
OF_BUS = 1 / 6  # share of a board's bus that every row above it exceeds


def implausible() -> frozenset[str]:
    """Ids of volunteers' rows that were not measured on the machine they name: beaten by a lesser chip, too large for its memory, or as slow as a host."""
    volunteers = [row for row in rows() if row["group"] in VOLUNTEERS]
    spilled = [row["id"] for row in volunteers if any(context.host for context in contexts(row))]
    hosts = [row["id"] for row in volunteers if "decode" in row and at_host_rate(row)]
    return beaten_by_lesser(rows()) | frozenset((*spilled, *hosts))


def at_host_rate(row: Row) -> bool:
    """Whether the bytes that its tokens read went at the rate of a host's memory, and far below that of the board it names."""
    read = [value(decode(context, Layout()).bytes_per_device) for context in contexts(row)]
    rate = row["decode"] * sum(read) / len(read)
    return bool(rate < min(HOST_RATE, OF_BUS * load_hardware(row["hardware"]).memory.bandwidth.si))


def beaten_by_lesser(rows: tuple[Row, ...]) -> frozenset[str]:
    """Ids of volunteers' rows whose chip a lesser one of its vendor beats twofold on the same file.

    A mean over users mixes drivers, slices of a virtual board and fallbacks to the CPU, and nothing in a row states which. The rule uses
    no prediction: it compares measured decode rates, which the memory bandwidth sets, on boards with no more bandwidth, matrix
    rate and memory. Prefill is not compared: matrix units of different years need different kernels.
    """
    volunteers = [row for row in rows if row["group"] in VOLUNTEERS]
    return frozenset(row["id"] for row in volunteers if any(_beats(other, row) for other in rows))


def _beats(other: Row, row: Row) -> bool:
    """Whether `other` shows that the chip of `row` did not run it."""
    if any(row.get(key, 1) != other.get(key, 1) for key in ("weights", "batch", "devices")) or _file(row) != _file(
        other
    ):
        return False
    if not other.get("decode", 0.0) > MIN_RATIO * row.get("decode", float("inf")):
        return False
    lesser, chip = load_hardware(other["hardware"]), load_hardware(row["hardware"])
    if lesser.id == chip.id or lesser.vendor != chip.vendor:
        return False
    return all(a <= b for a, b in zip(_figures(lesser), _figures(chip), strict=True))


def _file(row: Row) -> tuple[object, ...]:
    """What a row reads per token: the layers of its model, whichever release, by llama.cpp in whichever build, or another engine."""
    model, engine = load_model(row["model"]), str(row["engine"])
    llama = engine.startswith(("llamacpp", "llamafile"))
    return "llama.cpp" if llama else engine, model.d_model, model.n_layers, model.vocab_size, model.layers[0]


def _figures(spec: HardwareSpec) -> tuple[float, float, float]:
    rate = max(figure.si for name, figure in spec.peak.items() if name in ("fp16", "bf16", "fp32"))
    return spec.memory.bandwidth.si, rate, spec.memory.capacity.si


def text() -> str:
    """The file."""
    return _HEAD + yaml.safe_dump({"rows": sorted(implausible())})


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
