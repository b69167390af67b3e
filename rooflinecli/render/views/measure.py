"""What `roofline measure` prints: every timing with its rate, every fit with its held-out error, warnings with remedies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflinecli.core.record import Json
from rooflinecli.measure.question import ModelReport
from rooflinecli.measure.session import was_contended
from rooflinecli.render.blocks import Block, Column, Page, Prose, page, records
from rooflinecli.render.numbers import error, percent, text

if TYPE_CHECKING:
    from rooflinecli.measure.fit import Fit
    from rooflinecli.measure.profile import MeasuredPeaks
    from rooflinecli.measure.run import MeasureAnswer

Record = Json  # a line of the log
_TIMINGS = (
    Column("kernel", lambda r: label(r), text=True),
    Column("by", "engine", text=True, drop=3),
    Column("time (p10)", "time_s", drop=4),
    Column("median", lambda r: text(r["median_s"], "time_s")),
    Column("MAD", lambda r: error(r["mad_s"] / r["median_s"]), drop=1),
    Column("runs", lambda r: str(r["runs"]), drop=2),
    Column("rate", lambda r: rate(r)),
)
_FITS = (
    Column("class", lambda f: f"{f.kind} {f.dtype}{'' if f.regime == 'kernel' else ' ' + f.regime}", text=True),
    Column(
        "compute",
        lambda f: (
            "-" if f.kind in ("elementwise", "gather", "optimizer") else text(f.compute_flops_per_s, "flops_per_s")
        ),
    ),
    Column("memory", lambda f: text(f.memory_bytes_per_s, "bytes_per_s"), drop=5),
    Column("overhead", lambda f: text(f.overhead_s, "overhead_s"), drop=4),
    Column("p", lambda f: "inf" if f.p is None else f"{f.p:g}", drop=2),
    Column("shapes", lambda f: f"{f.shapes_fitted}+{f.shapes_held_out}", drop=1),
    Column("median", lambda f: error(f.held_out_median)),
    Column("p90", lambda f: error(f.held_out_p90), drop=3),
    Column("roofline", lambda f: error(f.roofline_median)),
)
HELD_OUT = (
    Column("held-out shapes", lambda r: f"{r['kind']} {r['dtype']}"),
    Column("n", lambda r: str(r["shapes"])),
    Column("shipped", lambda r: error(r["shipped_median"])),
    Column("inside", lambda r: percent(r["shipped_inside"])),
    Column("measured", lambda r: error(r["measured_median"])),
    Column("inside ", lambda r: percent(r["measured_inside"])),
)
_PHASES = (
    Column("phase", "phase", text=True),
    Column("predicted", "predicted_s"),
    Column("measured", "measured_s"),
    Column("error", lambda r: error(r["error"], signed=True)),
    Column("floor", "floor_s", drop=1),
)


def view(answer: MeasureAnswer) -> Page:
    """Timings, fits, the comparison with the shipped constants, and the profile that was written."""
    held_out = answer.extra.get("held_out")
    timings = [records(_TIMINGS, answer.records) if answer.records else Prose("nothing was timed")]
    return page(
        *(_fits(answer.fits, answer.roofs) if answer.roofs else (timings,)),
        [Prose("median error of the shipped and of the measured constants:"), records(HELD_OUT, held_out)]
        if held_out
        else [],
        [Prose(f"wrote {answer.out}; use it as --hw {answer.out}")] if answer.text is not None else [],
        details=[timings] if answer.roofs else [],
        about=f"{len(answer.records)} timings",
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
    notes = []
    for f in fits:
        for name, g in f.groups.items():
            notes.append(
                f"{f.kind} {f.dtype}, {name}: median {error(g.median)}, p90 {error(g.p90)} over {g.shapes} held-out shapes"
            )
        if f.worse_than_roofline:
            notes.append(
                f"{f.kind} {f.dtype}: the fit ({error(f.held_out_median)}) is worse than the bare roofline ({error(f.roofline_median)}) on held-out shapes; "
                "left out of the profile (--force writes it)"
            )
    table: list[Block] = [records(_FITS, fits)] if fits else []
    roof = Prose(f"roofs: {peaks}; {text(roofs.bandwidth, 'bytes_per_s')}")
    return [[roof], [*table, *(Prose(note, 2) for note in notes)]]


def warnings(log: Sequence[Record], failed: dict[str, str]) -> list[str]:
    """Sentences for stderr: what is doubtful or failed, and what to do."""
    busy = [r for r in log if was_contended(r)]
    result = []
    if busy:
        result.append(
            f"{len(busy)} of {len(log)} kernels were timed while the machine was busy (a reference kernel ran up to "
            f"{max(r['busy'] for r in busy):.1f}x slower than at best): measure again when it is idle; these are repeated first"
        )
    noisy = [r for r in log if r.get("warning") and r not in busy]
    result += [f"{label(r)}: {r['warning']}" for r in noisy[:3]]
    if len(noisy) > 3:
        result.append(f"{len(noisy) - 3} more kernels scatter; --format json lists them")
    groups: dict[str, list[str]] = {}
    for key, why in failed.items():
        groups.setdefault(why, []).append(key)
    return result + [f"{len(keys)} kernel(s) could not run, such as {keys[0]}: {why}" for why, keys in groups.items()]


def comparison(answer: ModelReport) -> Page:
    """Counts that must be equal, and prediction against measurement for each phase."""
    return page([Prose(check) for check in answer.checks], [records(_PHASES, answer.phases)])
