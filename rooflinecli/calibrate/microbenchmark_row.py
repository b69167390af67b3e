"""Micro-benchmark as a measured row: a collective or a matmul under the constants of a phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli.calibrate.predicted_row import PredictedRow
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request
from rooflinecli.formulas import counts
from rooflinecli.importers.source import MeasuredRow, Options
from rooflinecli.ledger.ops import Collective, Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.price.network import price_collective
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.options import OPTIONS

SMALLEST_MESSAGE = 2.0**20  # bytes: below it a collective measures launches, which a step hides
SMALLEST_SIDE = 512  # elements: matmuls with a smaller side do not measure the rate


@dataclass(eq=False)
class _Bare:
    """The part of a context that a micro-benchmark needs: the chip."""

    chip: Chip

    def on(self, chip: Chip) -> _Bare:
        return _Bare(chip)


@dataclass(eq=False)
class MicrobenchmarkRow(PredictedRow):
    """A micro-benchmark: `op` is a Collective with its devices, or an Op; `of` is the phase whose constants it measures."""

    op: Collective | Op | None = None
    devices: float = 1.0
    of: str = "train"

    @property
    def phase(self) -> str:
        return self.of

    def on(self, chip: Chip) -> Number:
        """Expected seconds under the constants of the phase's regime."""
        return self._priced(chip).expected

    @property
    def floor(self) -> float:
        """Seconds at peak rates."""
        priced = self._priced(self.ctx.chip)
        if isinstance(self.op, Collective):
            return float(priced.floor)
        return float(max(priced.t_compute, priced.t_memory))

    def _priced(self, chip: Chip) -> Any:
        regime = "training" if self.of == "train" else "serving"
        if isinstance(self.op, Collective):
            return price_collective(self.op, chip, regime, self.devices)
        assert self.op is not None
        return price(self.op, chip, regime)


def microbenchmark_rows(row: MeasuredRow, given: Options, chip: HardwareSpec) -> list[PredictedRow]:
    """A row for each phase; none where the benchmark is too small to inform its constants. Raises UsageError for missing options."""
    made = _collective(row, given) if row.quantity == "collective" else _matmul(row, given, chip)
    if made is None:
        return []
    op, devices = made
    ctx: Any = _Bare(Chip(chip, PLAIN))
    return [
        MicrobenchmarkRow(ctx, Layout(), row.quantity, row.value, row.where, row.tool, row.probe, op, devices, phase)
        for phase in ("train", "decode", "prefill", "ttft")
    ]


def _collective(row: MeasuredRow, given: Options) -> tuple[Collective, float] | None:
    stated = row.probe
    if stated["bytes"] < SMALLEST_MESSAGE and not stated.get("each"):
        return None
    if stated.get("op") is None:
        raise UsageError(
            f"{row.where}: {row.tool} does not state which collective; keep the line that names the program (…_perf)"
        )
    n = stated.get("n") or (build_request.value(OPTIONS["n"], given["n"]) if given.get("n") is not None else None)
    if n is None:
        raise UsageError(f"{row.where}: {row.tool} does not state how many devices took part; give -n", "n")
    size = float(stated["bytes"]) * (float(n) if stated.get("each") else 1.0)
    if size < SMALLEST_MESSAGE:
        return None
    stride = (
        float(build_request.value(OPTIONS["tp"], given["tp"])) if stated["op"] == "permute" and given.get("tp") else 1.0
    )
    return Collective("microbenchmark", stated["op"], size, "microbenchmark", float(n), stride), float(n) * stride


def _matmul(row: MeasuredRow, given: Options, chip: HardwareSpec) -> tuple[Op, float] | None:
    m, n, k = (float(row.probe[name]) for name in ("m", "n", "k"))
    if min(m, n, k) < SMALLEST_SIDE:
        return None
    dtype = row.probe.get("dtype") or given.get("dtype")
    if dtype is None:
        raise UsageError(f"{row.where}: {row.tool} does not state the number format; give --dtype", "dtype")
    f = formats(str(dtype), None, None, chip.peak, chip.name)
    moved = counts.matmul_bytes(m, k, n, f.matmul_input, f.weight, f.activation)
    flops = counts.matmul_flops(m, k, n)
    return Op(
        name="matmul", kind="matmul", dtype=f.compute, flops=flops, bytes=moved, k=k, n=n, quantized=m * k, ramp=1 / k
    ), 1.0
