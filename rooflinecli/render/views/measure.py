"""What `roofline measure` prints: every timing with its rate, every fit with its held-out error, warnings with remedies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rooflinecli.core import units
from rooflinecli.measure.canary import was_contended
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE

# columns of a table go in this order where there is no room for all
_DROP = ("MAD", "runs", "by", "time (p10)", "shapes", "p", "p90", "overhead", "memory", "floor")


def rate(record: dict[str, Any]) -> str:
    """The figure that matters for a record: FLOP/s where it computes, B/s where it streams."""
    if record.get("suite") == "collectives":
        return f"{units.si(record['bus_bytes'] / record['time_s'], 'B/s')} bus"
    if record["flops"] and record["op"] != "decode":
        return units.si(record["flops"] / record["time_s"], "FLOP/s")
    return units.si(record["bytes"] / record["time_s"], "B/s")


def label(record: dict[str, Any]) -> str:
    sizes = " ".join(f"{k}={v}" for k, v in record["sizes"].items())
    return f"{record['op']} {sizes} {record['dtype']}"


def timings(records: list[dict[str, Any]], width: int = PIPE) -> str:
    """A table of all records: time (10th percentile), median, scatter, rate, engine."""
    rows = [
        (
            label(r),
            r["engine"],
            units.duration(r["time_s"]),
            units.duration(r["median_s"]),
            f"{r['mad_s'] / r['median_s']:.1%}",
            str(r["runs"]),
            rate(r),
        )
        for r in records
    ]
    return _table(("kernel", "by", "time (p10)", "median", "MAD", "runs", "rate"), rows, width)


def fits(found: list[Any], limits: Any, width: int = PIPE) -> str:
    """A table of fits: constants as rates, and errors on the shapes the fit never saw."""
    rows = []
    for f in found:
        c = f.constants
        rows.append(
            (
                f"{f.kind} {f.dtype}{'' if f.regime == 'kernel' else ' ' + f.regime}",
                units.si(c.compute, "FLOP/s") if f.kind not in ("elementwise", "gather", "optimizer") else "-",
                units.si(c.memory, "B/s"),
                units.duration(c.overhead),
                f"{c.p:g}",
                f"{f.n_fit}+{f.n_held}",
                f"{f.median:.1%}",
                f"{f.p90:.1%}",
                f"{f.raw:.1%}",
            )
        )
    head = ("class", "compute", "memory", "overhead", "p", "shapes", "median", "p90", "roofline")
    peaks = ", ".join(f"{d} {units.si(p, 'FLOP/s')}" for d, p in sorted(limits.peaks.items()))
    lines = [
        *terminal.prose(f"roofs: {peaks}; {units.si(limits.bandwidth, 'B/s')}", width),
        "",
        _table(head, rows, width),
    ]
    return "\n".join([*lines, *(line for said in _fit_notes(found) for line in terminal.prose(said, width, "  "))])


def _fit_notes(found: list[Any]) -> list[str]:
    """Held-out errors of groups of shapes, and fits that nobody should use."""
    lines = []
    for f in found:
        for name, (n, median, p90) in f.groups.items():
            lines.append(f"{f.kind} {f.dtype}, {name}: median {median:.1%}, p90 {p90:.1%} over {n} held-out shapes")
        if f.worse:
            lines.append(
                f"{f.kind} {f.dtype}: the fit ({f.median:.1%}) is worse than the bare roofline ({f.raw:.1%}) on held-out shapes; "
                "left out of the profile (--force writes it)"
            )
    return lines


def held(rows: list[dict[str, Any]], width: int = PIPE) -> str:
    """The constants that ship and those just measured, on shapes that neither fit saw."""
    head = ("held-out shapes", "n", "shipped", "inside", "measured", "inside ")
    body = [
        (
            f"{r['kind']} {r['dtype']}",
            str(r["shapes"]),
            f"{r['shipped_median']:.1%}",
            f"{r['shipped_inside']:.0%}",
            f"{r['measured_median']:.1%}",
            f"{r['measured_inside']:.0%}",
        )
        for r in rows
    ]
    return "\n".join(
        [
            *terminal.prose("median error of the shipped and of the measured constants:", width),
            "",
            _table(head, body, width),
        ]
    )


def warnings(records: list[dict[str, Any]], failed: dict[str, str]) -> list[str]:
    """Sentences for stderr: what is doubtful or failed, and what to do."""
    busy = [r for r in records if was_contended(r)]
    result = []
    if busy:
        result.append(
            f"{len(busy)} of {len(records)} kernels were timed while the machine was busy (a reference kernel ran up to "
            f"{max(r['busy'] for r in busy):.1f}x slower than at best): measure again when it is idle; they are looked at again first"
        )
    noisy = [r for r in records if r.get("warning") and r not in busy]
    result += [f"{label(r)}: {r['warning']}" for r in noisy[:3]]
    if len(noisy) > 3:
        result.append(f"{len(noisy) - 3} more kernels scatter; --format json lists them")
    groups: dict[str, list[str]] = {}
    for key, why in failed.items():
        groups.setdefault(why, []).append(key)
    result += [f"{len(keys)} kernel(s) could not run, such as {keys[0]}: {why}" for why, keys in groups.items()]
    return result


def as_json(
    environment: dict[str, Any], records: list[dict[str, Any]], found: list[Any], limits: Any, extra: dict[str, Any]
) -> str:
    """Everything, in SI."""
    constants = [
        {
            "regime": f.regime,
            "kind": f.kind,
            "dtype": f.dtype,
            "compute_flops_per_s": f.constants.compute,
            "memory_bytes_per_s": f.constants.memory,
            "overhead_s": f.constants.overhead,
            "p": None if f.constants.p == float("inf") else f.constants.p,
            "k0": f.constants.k0,
            "tau_s": f.constants.tau,
            "shapes_fitted": f.n_fit,
            "shapes_held_out": f.n_held,
            "held_out_median": float(f.median),
            "held_out_p90": float(f.p90),
            "roofline_median": float(f.raw),
            "worse_than_roofline": bool(f.worse),
            "groups": {k: {"shapes": n, "median": float(m), "p90": float(q)} for k, (n, m, q) in f.groups.items()},
        }
        for f in found
    ]
    roofs = {"peak_flops_per_s": limits.peaks, "bandwidth_bytes_per_s": limits.bandwidth} if limits else None
    whole = {
        "schema": "roofline-measure/1",
        "environment": environment,
        "roofs": roofs,
        "fits": constants,
        "timings": records,
        **extra,
    }
    return json.dumps(whole, indent=2, default=float)


def loop(rows: list[dict[str, Any]], checks: list[str], width: int = PIPE) -> str:
    """Predicted against measured for each phase of a model."""
    table = _table(
        ("phase", "predicted", "measured", "off", "floor"),
        [
            (
                r["phase"],
                units.duration(r["predicted_s"]),
                units.duration(r["measured_s"]),
                f"{r['predicted_s'] / r['measured_s'] - 1:+.1%}",
                units.duration(r["floor_s"]),
            )
            for r in rows
        ],
        width,
    )
    return "\n".join([*(line for c in checks for line in terminal.prose(c, width)), "", table])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int) -> str:
    """Text left and figures right."""
    return "\n".join(terminal.table([head, *rows], width, drop=_DROP)) if rows else "nothing was timed"
