"""Micro-benchmarks as questions: a collective or a matmul under the constants of a phase, with an error of its own regime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli.calibrate.predicted_row import PredictedRow
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request
from rooflinecli.formulas import counts
from rooflinecli.importers.source import MeasuredRow
from rooflinecli.ledger.ops import Collective, Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.price.network import price_collective
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.options import OPTIONS

SMALLEST = 2.0**20  # bytes of a message: below it, a probe tells of launches, which a step hides
LARGEST_MATMUL = 512  # elements of the smallest side of a matmul that tells of the rate


@dataclass(eq=False)
class _Bare:
    """As much of a scene as a probe needs: the chip."""

    chip: Chip

    def on(self, chip: Chip) -> _Bare:
        return _Bare(chip)


@dataclass(eq=False)
class MicrobenchmarkRow(PredictedRow):
    """A micro-benchmark: `op` is a Collective with its devices, or an Op. Its phase is the one whose constants it is asked for."""

    op: Collective | Op | None = None
    devices: float = 1.0
    of: str = "train"

    @property
    def phase(self) -> str:
        return self.of

    def on(self, chip: Chip) -> Number:
        """Expected seconds under the constants of the phase's regime."""
        regime = "training" if self.of == "train" else "serving"
        if isinstance(self.op, Collective):
            return price_collective(self.op, chip, regime, self.devices).expected
        assert self.op is not None
        return price(self.op, chip, regime).expected

    @property
    def floor(self) -> float:
        """Seconds that physics allows."""
        regime = "training" if self.of == "train" else "serving"
        if isinstance(self.op, Collective):
            return float(price_collective(self.op, self.ctx.chip, regime, self.devices).floor)
        assert self.op is not None
        found = price(self.op, self.ctx.chip, regime)
        return float(max(found.t_compute, found.t_memory))


def probes(reading: MeasuredRow, given: dict[str, Any], chip: HardwareSpec) -> list[PredictedRow]:
    """A probe for each phase whose constants it tells of; none for one too small to. Raises UsageError for what is not said."""
    made = _collective(reading, given) if reading.quantity == "collective" else _matmul(reading, given, chip)
    if made is None:
        return []
    op, devices = made
    ctx: Any = _Bare(Chip(chip, PLAIN))
    return [
        MicrobenchmarkRow(
            ctx,
            Layout(),
            reading.quantity,
            reading.value,
            reading.where,
            reading.tool,
            reading.probe,
            op,
            devices,
            phase,
        )
        for phase in ("train", "decode", "prefill", "ttft")
    ]


def _collective(reading: MeasuredRow, given: dict[str, Any]) -> tuple[Collective, float] | None:
    said, size = reading.probe, float(reading.probe["bytes"])
    if size < SMALLEST:
        return None
    if said.get("op") is None:
        raise UsageError(
            f"{reading.where}: {reading.tool} does not say which collective; keep the line that names the program (…_perf)"
        )
    n = said.get("n") or (build_request.value(OPTIONS["n"], given["n"]) if given.get("n") is not None else None)
    if n is None:
        raise UsageError(f"{reading.where}: {reading.tool} does not say how many devices took part; give -n", "n")
    stride = (
        float(build_request.value(OPTIONS["tp"], given["tp"])) if said["op"] == "permute" and given.get("tp") else 1.0
    )
    return Collective("probe", said["op"], size, "probe", float(n), stride), float(n) * stride


def _matmul(reading: MeasuredRow, given: dict[str, Any], chip: HardwareSpec) -> tuple[Op, float] | None:
    m, n, k = (float(reading.probe[name]) for name in ("m", "n", "k"))
    if min(m, n, k) < LARGEST_MATMUL:
        return None
    dtype = reading.probe.get("dtype") or given.get("dtype")
    if dtype is None:
        raise UsageError(f"{reading.where}: {reading.tool} does not say the number format; give --dtype", "dtype")
    f = formats(str(dtype), None, None, chip.peak, chip.name)
    moved = counts.matmul_bytes(m, k, n, f.matmul_input, f.weight, f.activation)
    flops = counts.matmul_flops(m, k, n)
    return Op(
        name="matmul", kind="matmul", dtype=f.compute, flops=flops, bytes=moved, k=k, n=n, quantised=m * k, ramp=1 / k
    ), 1.0
