"""Pictures of simulations: percentile curves, batch and queue over time, the share inside the limits against the rate."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.questions.simulate.question import StudyAnswer
from rooflinecli.questions.simulate.run import Run, curves
from rooflinecli.questions.sweep.plot_points import Picture

KINDS = ("percentiles", "load", "slo")


def picture(run: Run, kind: str) -> Picture:
    """Of one run. Raises UsageError for a kind that needs several."""
    if kind == "percentiles":
        found = Picture(
            "Latency by percentile of requests", "percent of requests", "seconds", False, log_up=True, curves=True
        )
        for name, line in curves(run).items():
            kept = [(100 * share, seconds) for share, seconds in line if seconds > 0]
            if kept:
                found.series["queueing" if name == "queue" else name.upper()] = kept
        return found
    if kind == "load":
        found = Picture("Sequences under way and waiting", "seconds", "sequences", False, curves=True)
        for place, replica in enumerate(run.replicas):
            samples = replica.tally.samples
            which = f" {place}" if len(run.replicas) > 1 else ""
            found.series[f"batch{which}"] = [(now, float(batch)) for now, batch, _, _ in samples]
            found.series[f"queue{which}"] = [(now, float(queue)) for now, _, queue, _ in samples]
        return found
    if kind == "slo":
        raise UsageError("--plot-kind slo needs several rates: --qps 1,2,4,8", "plot-kind")
    raise UsageError(f"--plot-kind {kind}: expected {', '.join(KINDS)}", "plot-kind")


def over_rates(result: StudyAnswer) -> Picture:
    """Of a study over rates: the share inside the limits, or the p99 of the first token where there are none."""
    axis = next((name for name in ("qps", "concurrency", "replicas") if name in result.axes), None)
    if axis is None:
        raise UsageError("--plot of a study needs several values of --qps, --concurrency or --replicas", "plot")
    what = "slo_attainment" if result.slo else "ttft_p99_s"
    found = Picture(f"{what} against {axis}", axis, what, False)
    for row in result.rows:
        if row["feasible"]:
            name = " ".join(row[other] for other in result.axes if other != axis)
            found.series.setdefault(name, []).append((float(row[axis]), row[what]))
    return found
