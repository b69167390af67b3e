"""What `roofline measure` prints: every timing with its rate, every fit with its held-out error, warnings with remedies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflinecli.measure.answer_types import ModelReport
from rooflinecli.measure.contention import was_contended
from rooflinecli.render.blocks import Block, Column, Page, Prose, Table, page
from rooflinecli.render.numbers import error, percent, text

if TYPE_CHECKING:
    from rooflinecli.measure.fit import Fit
    from rooflinecli.measure.profile import MeasuredPeaks
    from rooflinecli.measure.run import MeasureAnswer

Record = dict[str, Any]  # a line of the log
_TIMINGS = (
    Column("kernel", text=True),
    Column("by", text=True, drop=3),
    Column("time (p10)", drop=4),
    Column("median"),
    Column("MAD", drop=1),
    Column("runs", drop=2),
    Column("rate"),
)
_FITS = (
    Column("class", text=True),
    Column("compute"),
    Column("memory", drop=5),
    Column("overhead", drop=4),
    Column("p", drop=2),
    Column("shapes", drop=1),
    Column("median"),
    Column("p90", drop=3),
    Column("roofline"),
)
_HELD_OUT = tuple(map(Column, ("held-out shapes", "n", "shipped", "inside", "measured", "inside ")))
_PHASES = (
    Column("phase", text=True),
    Column("predicted"),
    Column("measured"),
    Column("error"),
    Column("floor", drop=1),
)


def view(answer: MeasureAnswer) -> Page:
    """Timings, fits, the comparison with the shipped constants, and the profile that was written."""
    rows = [
        (
            label(r), r["engine"], text(r["time_s"], "time_s"), text(r["median_s"], "median_s"),
            error(r["mad_s"] / r["median_s"]), str(r["runs"]), rate(r),
        )
        for r in answer.records
    ]  # fmt: skip
    held_out = answer.extra.get("held_out")
    return page(
        [Table(_TIMINGS, rows) if rows else Prose("nothing was timed")],
        *(_fits(answer.fits, answer.roofs) if answer.roofs else ()),
        [Prose("median error of the shipped and of the measured constants:"), held(held_out)] if held_out else [],
        [Prose(f"wrote {answer.out}; use it as --hw {answer.out}")] if answer.text is not None else [],
    )


def rate(record: Record) -> str:
    """FLOP/s of a record that computes, B/s of one that streams."""
    seconds = record["time_s"]
    if record.get("suite") == "collectives":
        return f"{text(record['bus_bytes'] / seconds, 'bytes_per_s')} bus"
    if record["flops"] and record["op"] != "decode":
        return text(record["flops"] / seconds, "flops_per_s")
    return text(record["bytes"] / seconds, "bytes_per_s")


def label(record: Record) -> str:
    """'matmul m=1 n=4096 k=4096 bf16'."""
    sizes = " ".join(f"{k}={v}" for k, v in record["sizes"].items())
    return f"{record['op']} {sizes} {record['dtype']}"


def _fits(fits: Sequence[Fit], roofs: MeasuredPeaks) -> list[list[Block]]:
    """The roofs and constants as rates, errors on held-out shapes, and fits that are not to be used."""
    peaks = ", ".join(f"{dtype} {text(peak, 'flops_per_s')}" for dtype, peak in sorted(roofs.peaks.items()))
    rows = [
        (
            f"{f.kind} {f.dtype}{'' if f.regime == 'kernel' else ' ' + f.regime}",
            text(f.constants.compute, "flops_per_s") if f.kind not in ("elementwise", "gather", "optimizer") else "-",
            text(f.constants.memory, "bytes_per_s"),
            text(f.constants.overhead, "overhead_s"),
            f"{f.constants.p:g}",
            f"{f.n_fit}+{f.n_held}",
            error(f.median),
            error(f.p90),
            error(f.raw),
        )
        for f in fits
    ]
    notes = []
    for f in fits:
        for name, (n, median, p90) in f.groups.items():
            notes.append(
                f"{f.kind} {f.dtype}, {name}: median {error(median)}, p90 {error(p90)} over {n} held-out shapes"
            )
        if f.worse:
            notes.append(
                f"{f.kind} {f.dtype}: the fit ({error(f.median)}) is worse than the bare roofline ({error(f.raw)}) on held-out shapes; "
                "left out of the profile (--force writes it)"
            )
    table: list[Block] = [Table(_FITS, rows)] if rows else []
    roof = Prose(f"roofs: {peaks}; {text(roofs.bandwidth, 'bytes_per_s')}")
    return [[roof], [*table, *(Prose(note, 2) for note in notes)]]


def held(rows: Sequence[Record]) -> Table:
    """The shipped and the measured constants on shapes that neither fit saw."""
    return Table(
        _HELD_OUT,
        [
            (
                f"{r['kind']} {r['dtype']}",
                str(r["shapes"]),
                error(r["shipped_median"]),
                percent(r["shipped_inside"]),
                error(r["measured_median"]),
                percent(r["measured_inside"]),
            )
            for r in rows
        ],
    )


def warnings(records: Sequence[Record], failed: dict[str, str]) -> list[str]:
    """Sentences for stderr: what is doubtful or failed, and what to do."""
    busy = [r for r in records if was_contended(r)]
    result = []
    if busy:
        result.append(
            f"{len(busy)} of {len(records)} kernels were timed while the machine was busy (a reference kernel ran up to "
            f"{max(r['busy'] for r in busy):.1f}x slower than at best): measure again when it is idle; these are repeated first"
        )
    noisy = [r for r in records if r.get("warning") and r not in busy]
    result += [f"{label(r)}: {r['warning']}" for r in noisy[:3]]
    if len(noisy) > 3:
        result.append(f"{len(noisy) - 3} more kernels scatter; --format json lists them")
    groups: dict[str, list[str]] = {}
    for key, why in failed.items():
        groups.setdefault(why, []).append(key)
    return result + [f"{len(keys)} kernel(s) could not run, such as {keys[0]}: {why}" for why, keys in groups.items()]


def comparison(answer: ModelReport) -> Page:
    """Counts that must be equal, and prediction against measurement for each phase."""
    rows = [
        (
            r.phase,
            text(r.predicted_s, "time_s"),
            text(r.measured_s, "time_s"),
            error(r.error, signed=True),
            text(r.floor_s, "floor_s"),
        )
        for r in answer.phases
    ]
    return page([Prose(check) for check in answer.checks], [Table(_PHASES, rows)])
