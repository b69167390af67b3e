"""Pictures of answers: the front of a search and of a comparison with its limits, cost against time of a plan, percentiles of a
simulation, operations on the roofline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import Record
from rooflinecli.core.units import duration
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.measure.aot import AotAnswer
from rooflinecli.questions.compare.question import CompareAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.estimate.pipeline_timeline import KINDS, timeline
from rooflinecli.questions.fleet.question import FleetAnswer
from rooflinecli.questions.ops.answer import OpsAnswer
from rooflinecli.questions.plan.question import ServingChip, ServingPlan, TrainingChip, TrainingPlan
from rooflinecli.questions.report.answer import ServedLoad
from rooflinecli.questions.search.question import ServingRow, ServingSearch, TrainingRow, TrainingSearch
from rooflinecli.questions.simulate.answer import Run, curves
from rooflinecli.questions.simulate.question import SimulateAnswer, StudyAnswer
from rooflinecli.questions.sweep.question import SweepAnswer
from rooflinecli.render.blocks import Picture
from rooflinecli.render.numbers import label, layout, percent

DAY, MS = 86400.0, 1e3
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
_LIMIT = re.compile(r"(?:serve\.)?itl_s <= ([\d.e+-]+)")


def pictures(answer: Record) -> list[Picture]:
    """Pictures of an answer, none for those that are no set of points."""
    found = _picture(answer)
    return [found] if found is not None and found.points() else []


def _picture(answer: Record) -> Picture | None:
    if isinstance(answer, ServingSearch):
        rows = [row.serve for row in answer.results]
        title = f"{answer.model}: ITL against request rate per device"
        made = Picture(title, "requests per second and device", "ITL, ms", False)
        rows = [row for row in rows if "itl_s" in row]
        points = [(row["requests_per_s"] / row["devices"], row["itl_s"] * MS) for row in rows]
        made.series = _ranked(points, [(row["itl_s"], row.get("itl_at_bound_s", row["itl_s"])) for row in rows])
        made.names = _names(points, answer.results)
        made.limits = _limits(float(m[1]) for m in map(_LIMIT.match, answer.where) if m)
        return made
    if isinstance(answer, TrainingSearch):
        made = Picture(f"{answer.model}: step time against memory", "GB per device", "step, s", False)
        points = [(row.memory.total_bytes / 1e9, row.time_s) for row in answer.results]
        made.series = _ranked(points, [row.interval_s for row in answer.results])
        made.names = _names(points, answer.results)
        return made
    if isinstance(answer, CompareAnswer):
        name, unit = label(answer.rank), MS if answer.rank in ("decode.time_s", "prefill.time_s") else 1.0
        up = f"{name}, ms" if unit == MS else f"{name}, s" if answer.unit == "s" else name
        made = Picture(f"{answer.model['name']}: {name} against cost", "dollars per hour", up, False)
        for chip in answer.rows:
            if chip.value is not None and chip.usd_per_hour is not None:
                made.series[chip.name] = [(chip.usd_per_hour, chip.value * unit)]
        limit = next((s for name, s in answer.slo_s.items() if name.removesuffix("_s") in answer.rank), None)
        made.limits = _limits([limit] if limit is not None else [], unit)
        return made
    if isinstance(answer, TrainingPlan):
        made = Picture(f"{answer.model}: time against cost", "cost, thousand dollars", "days", False)
        for run in answer.rows:
            if isinstance(run, TrainingChip) and run.elapsed_usd is not None:
                made.series[run.hardware] = [(run.elapsed_usd / 1e3, run.elapsed_s / DAY)]
        made.limits = {} if answer.deadline_s is None else {"deadline": answer.deadline_s / DAY}
        return made
    if isinstance(answer, ServingPlan):
        made = Picture(f"{answer.model}: ITL against cost", "dollars per hour", "ITL, ms", False)
        for service in answer.rows:
            if isinstance(service, ServingChip) and service.usd_per_hour is not None:
                made.series[service.hardware] = [(service.usd_per_hour, (service.numbers.itl_s or 0.0) * MS)]
        made.limits = _limits(s for name, s in answer.limits_s.items() if name.startswith("itl"))
        return made
    if isinstance(answer, FleetAnswer):
        names = ", ".join(f"{i} {group.name}" for i, group in enumerate(answer.groups, 1))
        made = Picture("Devices of each group by model", names, "devices", False)
        for i, group in enumerate(answer.groups, 1):
            low, served = 0.0, [(row.name, row.devices) for row in answer.rows if row.group == group.name]
            for name, devices in (*served, ("unused", group.devices - group.used)):
                made.boxes.setdefault(name, []).append((i - 0.4, i + 0.4, low, low + devices))
                low += devices
        return made
    if isinstance(answer, SimulateAnswer):
        found = answer.simulate
        return _percentiles(
            {
                name: [(share, found.get(f"{name}_{key}_s") or 0.0) for key, share in PERCENTILES.items()]
                for name in ("ttft", "tpot", "e2e")
            }
        )
    if isinstance(answer, (OpsAnswer, AotAnswer)):
        made = Picture(f"{answer.model.name} on {answer.hardware.name}", "FLOP per byte", "FLOP/s per device", True)
        made.roofs = {
            dtype: (peak, answer.roofs.bandwidth_bytes_per_s) for dtype, peak in answer.roofs.peak_flops_per_s.items()
        }
        for phase, part in answer.phases.items():
            for row in part.operations:
                if row.flops and row.intensity_flops_per_byte and row.achieved_flops_per_s:
                    points = made.series.setdefault(f"{phase} {row.group}".strip(), [])
                    points.append((row.intensity_flops_per_byte, row.achieved_flops_per_s))
        return made
    if isinstance(answer, SweepAnswer) and answer.space is not None:
        from rooflinecli.render.formats.rows import Gathered

        gathered = Gathered("latency", answer.space)
        for block in answer.blocks:
            gathered.add(*block)
        return gathered.picture
    if isinstance(answer, StudyAnswer) and {"qps", "concurrency", "replicas"} & set(answer.axes):
        return over_rates(answer)
    return None


def memory(answer: EstimateAnswer) -> Picture:
    """What a device holds in each phase, part on part, and its capacity."""
    names = ", ".join(f"{i} {name}" for i, name in enumerate(answer.phases, 1))
    made = Picture(f"{answer.model.name}: memory of a device", names, "GB", False)
    for i, phase in enumerate(answer.phases.values(), 1):
        held, low = phase.memory, 0.0
        for part in ("weights", "gradients", "optimizer", "activations", "kv_cache"):
            high = low + float(getattr(held, f"{part}_bytes", 0.0) or 0.0) / 1e9
            if high > low:
                made.boxes.setdefault(label(f"{part}_bytes"), []).append((i - 0.4, i + 0.4, low, high))
            low = high
        made.limits = {"capacity": held.capacity_bytes / 1e9}
    return made


def pipeline(answer: EstimateAnswer) -> Picture:
    """The passes of a training step's micro-batches over its stages; what stays empty is the bubble.

    Raises UsageError for a step without stages, and for ZB-V where its passes take unequally long.
    """
    train = answer.phases.get("train")
    if not isinstance(train, TrainAnswer) or train.layout_of_phase.pp == 1:
        raise UsageError(
            "--plot-kind pipeline draws a training step over stages; add --phase train and --pp N", "plot-kind"
        )
    sizes = train.layout_of_phase
    schedule, again = sizes.unusual.get("schedule", "1f1b"), sizes.recompute == "full"
    if schedule == "zb-v" and again:
        raise UsageError(
            "--plot-kind pipeline draws zb-v for passes that take equally long; leave out --recompute full", "plot-kind"
        )
    passes = timeline(schedule, sizes.pp, int(train.microbatches), sizes.virtual_stages, 3.0 if again else 2.0)
    whole = max(each.end for each in passes)
    idle = 1 - sum(each.end - each.start for each in passes) / (sizes.pp * whole)
    chunks = f" of {sizes.virtual_stages} chunks" if sizes.virtual_stages > 1 else ""
    title = f"{answer.model.name}, {schedule}: {train.microbatches:g} micro-batches over {sizes.pp} stages{chunks}, idle {percent(idle)}"
    made = Picture(title, "time (weight gradients of a micro-batch on a stage take 1)", "stage", False)
    for kind in KINDS.values():
        boxes = [(each.start, each.end, each.stage + 0.65, each.stage + 1.35) for each in passes if each.kind == kind]
        made.boxes |= {kind: boxes} if boxes else {}
    return made


def _names(
    points: Sequence[tuple[float, float]], rows: Sequence[TrainingRow | ServingRow]
) -> dict[tuple[float, float], str]:
    """Layouts of points; of two at one place the better."""
    return dict(reversed([(point, layout(row.layout) or "1 device") for point, row in zip(points, rows, strict=True)]))


def _ranked(
    points: Sequence[tuple[float, float]], intervals: Sequence[Sequence[float]]
) -> dict[str, list[tuple[float, float]]]:
    """The best, those whose interval reaches into that of the best, and the others."""
    series: dict[str, list[tuple[float, float]]] = {
        "best": list(points[:1]),
        "interval overlaps the best": [],
        "others": [],
    }
    for point, (low, high) in zip(points[1:], list(intervals)[1:], strict=True):
        overlaps = low <= intervals[0][1] and high >= intervals[0][0]
        series["interval overlaps the best" if overlaps else "others"].append(point)
    return {name: found for name, found in series.items() if found}


def _limits(seconds: Iterable[float], unit: float = MS) -> dict[str, float]:
    return {f"SLO {duration(s)}": s * unit for s in seconds}


def served(found: ServedLoad) -> list[Picture]:
    """A simulated load: percentile curves, batch and queue over time, and the SLO or TTFT under less and more of it."""
    lines = {name: [(100 * p["share"], p["time_s"]) for p in line] for name, line in found.percentiles.items()}
    latencies = _percentiles(lines, "Percentiles of requests")
    busy = Picture("Batch and queue over time", "s since the start", "sequences of a replica", False, curves=True)
    busy.series = {name: [(p["at_s"], float(p[name])) for p in found.over_time] for name in ("batch", "queue")}
    rate = "requests per second" if "qps" in found.load else "requests in flight"
    title = f"Share inside {found.slo} against {rate}" if found.slo else f"TTFT, p99, against {rate}"
    loads = Picture(title, rate, "share of requests" if found.slo else "s", False, curves=True)
    loads.series[""] = [(p.load, p.slo_attainment if found.slo else p.ttft_p99_s) for p in found.loads]  # type: ignore[misc]
    return [one for one in (latencies, busy, *([loads] if len(found.loads) > 1 else [])) if any(one.series.values())]


def _percentiles(
    lines: Mapping[str, Iterable[tuple[float, float]]], title: str = "Latency by percentile of requests"
) -> Picture:
    """(per cent of requests, seconds) of each latency."""
    made = Picture(title, "percent of requests", "seconds", False, log_up=True, curves=True)
    for name, line in lines.items():
        if kept := [(share, seconds) for share, seconds in line if seconds > 0]:
            made.series["queueing" if name == "queue" else name.upper()] = kept
    return made


def of_run(run: Run, kind: str) -> Picture:
    """A simulation by --plot-kind: percentiles, or load over time. Raises UsageError for a kind that needs several."""
    if kind == "percentiles":
        return _percentiles({name: [(100 * share, s) for share, s in line] for name, line in curves(run).items()})
    if kind == "load":
        found = Picture("Sequences under way and waiting", "seconds", "sequences", False, curves=True)
        for place, replica in enumerate(run.replicas):
            which = f" {place}" if len(run.replicas) > 1 else ""
            found.series[f"batch{which}"] = [(now, float(batch)) for now, batch, _, _ in replica.tally.samples]
            found.series[f"queue{which}"] = [(now, float(queue)) for now, _, queue, _ in replica.tally.samples]
        return found
    if kind == "slo":
        raise UsageError("--plot-kind slo needs several rates: --qps 1,2,4,8", "plot-kind")
    raise UsageError(f"--plot-kind {kind}: expected percentiles, load, slo", "plot-kind")


def over_rates(result: StudyAnswer) -> Picture:
    """Of a study over rates: the share inside the limits, or the p99 of the first token where there are none."""
    axis = next((name for name in ("qps", "concurrency", "replicas") if name in result.axes), None)
    if axis is None:
        raise UsageError("--plot of a study needs several values of --qps, --concurrency or --replicas", "plot")
    what = "slo_attainment" if result.slo else "ttft_p99_s"
    found = Picture(f"{what} against {axis}", axis, what, False)
    for row in result.rows:
        if "requests" in row:  # one whose load is not sustained has numbers too
            name = " ".join(row[other] for other in result.axes if other != axis)
            found.series.setdefault(name, []).append((float(row[axis]), row[what]))
    return found
