"""The hardware YAML of a measured machine: constants of the fits, with provenance. A known chip is extended; an unknown one is described by the measurements.

Peak and bandwidth of an unknown chip are the best rates measured, or the asymptotes of the fits where those are higher, so
every efficiency is at most 1 and no priced time beats its floor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import yaml

from rooflinecli.measure.cases import Record
from rooflinecli.measure.device import Environment
from rooflinecli.measure.fit import Fit, fit_all
from rooflinecli.specs.hardware import hardware_from, load_hardware
from rooflinecli.specs.yaml_loader import parse

VENDORS = (("nvidia", "nvidia"), ("amd", "amd"), ("intel", "intel"), ("tpu", "google"), ("apple", "apple"))
KINDS = {"cpu": "cpu", "gpu": "gpu", "tpu": "tpu"}
SOURCE = "measured"
# terms that a kernel's constants may have, with the values at which they do nothing. Separate passes (quant_bytes) are not timed with the kernel
_TERMS = ("k0", "tau", "softmax_width", "tail_rows", "per_item", "half_length", "unpack", "unit_bytes")
NEUTRAL = {"p": math.inf, **dict.fromkeys(_TERMS, 0)}


@dataclass(frozen=True)
class MeasuredPeaks:
    """FLOP/s per dtype and byte/s: the datasheet's when a known chip is extended, else the best measured."""

    peaks: dict[str, float]
    bandwidth: float
    extends: str | None


def measured_peaks(records: list[Record], extends: str | None) -> MeasuredPeaks:
    """Peak FLOP/s and bandwidth. Raises ValueError when neither a datasheet nor a measurement gives one."""
    if extends:
        spec = load_hardware(extends)
        return MeasuredPeaks({d: p.si for d, p in spec.peak.items()}, spec.memory.bandwidth.si, extends)
    peaks: dict[str, float] = {}
    for r in records:
        if r["op"] == "matmul":
            peaks[r["dtype"]] = max(peaks.get(r["dtype"], 0.0), r["flops"] / r["time_s"])
    streams = [r["bytes"] / r["time_s"] for r in records if r["suite"] == "bandwidth"]
    if not peaks or not streams:
        raise ValueError("no matmul or no memory stream was timed")
    return MeasuredPeaks(peaks, max(streams), None)


def raised_to_asymptotes(limits: MeasuredPeaks, fits: list[Fit]) -> MeasuredPeaks:
    """Peaks of an unknown chip, raised to what the fit of its matmuls tends to for large shapes, by a quarter at most."""
    if limits.extends:
        return limits
    peaks = dict(limits.peaks)
    for f in fits:
        if f.regime == "kernel" and f.kind == "matmul" and f.dtype in peaks:
            peaks[f.dtype] = max(peaks[f.dtype], min(f.compute_flops_per_s, 1.25 * peaks[f.dtype]))
    return MeasuredPeaks(peaks, limits.bandwidth, None)


def efficiency(f: Fit, limits: MeasuredPeaks, date: str) -> Record:
    """One entry of `efficiency.REGIME.CLASS.DTYPE`, as specs.hardware.Efficiency reads it."""
    entry: Record = {
        "compute": _fraction(f.compute_flops_per_s, limits.peaks.get(f.dtype, math.inf)), "memory": _fraction(f.memory_bytes_per_s, limits.bandwidth),
        "overhead": f"{f.overhead_s * 1e6:.4g} us", "error": round(f.error, 3),
    }  # fmt: skip
    entry |= {} if f.p is None else {"p": f.p}
    entry |= {"k0": f.k0, "tau": f"{f.tau_s * 1e9:.3g} ns"} if f.k0 else {}
    note = (
        f"{f.shapes_fitted} shapes fitted, {f.shapes_held_out} held out: median error {f.held_out_median:.1%}, "
        f"90th percentile {f.held_out_p90:.1%}, bare roofline {f.roofline_median:.1%}; {date}"
    )
    return {**entry, "source": SOURCE, "note": note}


def _fraction(rate: float, roof: float) -> float:
    """rate / roof, never above 1 and never so small that it rounds to nothing."""
    return float(f"{min(rate / roof, 1.0):.4g}") if math.isfinite(roof) else 1.0


def fit_records(
    records: list[Record], environment: Environment, extends: str | None
) -> tuple[MeasuredPeaks, list[Fit]]:
    """Peaks and fits of a set of records."""
    limits = measured_peaks(records, extends)
    fits = fit_all(records, limits.peaks, limits.bandwidth, environment.platform)
    return raised_to_asymptotes(limits, fits), fits


def document(
    limits: MeasuredPeaks,
    fits: list[Fit],
    environment: Environment,
    *,
    name: str,
    force: bool = False,
    network: list[Record] | None = None,
) -> Record:
    """The YAML as plain data. Fits worse than the bare roofline are excluded unless `force`."""
    regimes: dict[str, dict[str, Record]] = {}
    for f in fits:
        if force or not f.worse_than_roofline:
            regimes.setdefault(f.regime, {}).setdefault(f.kind, {})[f.dtype] = {
                **_neutral_terms(f, limits.extends),
                **efficiency(f, limits, environment.date),
            }
    head: Record = {"extends": limits.extends, "name": name, "sources": {SOURCE: "this file's `measured` section"}}
    if not limits.extends:
        head = _unknown_chip(limits, environment, name)
    if network:
        head["network"] = network
    return {**head, "efficiency": regimes, "measured": provenance(environment, fits, bool(limits.extends))}


def _neutral_terms(f: Fit, extends: str | None) -> Record:
    """Neutral values of the terms that the known chip's own entry sets and this fit lacks, because the files are merged."""
    if not extends:
        return {}
    under = load_hardware(extends).efficiency.get(f.regime, {}).get(f.kind, {}).get(f.dtype)
    given = under.given if under else {}
    return {name: neutral for name, neutral in NEUTRAL.items() if name in given}


def _unknown_chip(limits: MeasuredPeaks, environment: Environment, name: str) -> Record:
    """The head of a file that extends no known chip."""
    text = environment.kind.lower()
    vendor = next((v for word, v in VENDORS if word in text), "unknown")
    best = "best rate seen or the fit's asymptote: a measurement, not a datasheet"
    peaks = {
        d: f"{p / 1e12:.5g} TFLOP/s" if p >= 1e12 else f"{p / 1e9:.5g} GFLOP/s" for d, p in sorted(limits.peaks.items())
    }
    return {
        "name": name,
        "vendor": vendor,
        "kind": KINDS.get(environment.platform, "accelerator"),
        "sources": {SOURCE: "roofline measure; see the `measured` section"},
        "peak": {d: {"value": rate, "basis": best, "source": SOURCE} for d, rate in peaks.items()},
        "memory": {
            "capacity": {
                "value": f"{environment.memory / 2**30:.4g} GiB",
                "basis": "what the device reports",
                "source": SOURCE,
            },
            "bandwidth": {
                "value": f"{limits.bandwidth / 1e9:.4g} GB/s",
                "basis": "fastest stream timed",
                "source": SOURCE,
            },
        },
    }


def provenance(environment: Environment, fits: list[Fit], extends: bool) -> dict[str, str | float | int]:
    """The `measured` section: device, versions, clocks, date, errors."""
    result: dict[str, str | float | int] = {
        "date": environment.date, "device": environment.kind, "platform": environment.platform, "devices": environment.devices,
        "cores": environment.cores, "jax": environment.jax, "jaxlib": environment.jaxlib, "python": environment.python, "system": environment.system,
        "clocks": environment.clocks,
    }  # fmt: skip
    if environment.driver:
        result["driver"] = environment.driver
    if not extends:
        result["complete"] = 1  # use no default constants of the kind
    for f in fits:
        result[f"{f.regime}.{f.kind}.{f.dtype}.held_out_median"] = round(f.held_out_median, 4)
    return result


def profile_yaml(data: Record, path: Path) -> str:
    """The profile as YAML, checked with the engine's own loader. Raises DataError when that rejects it."""
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=140)
    hardware_from(parse(text, path, base="hardware"))
    return text
