"""One `roofline measure` run from options to answer: environment, timings, fits, profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from rooflinecli.core.num import quantile
from rooflinecli.core.record import SPREAD, Quantities
from rooflinecli.core.record import Record as Entries
from rooflinecli.core.text import plural
from rooflinecli.measure import device, profile, shape_grids
from rooflinecli.measure.cases import KernelCase, Record, size_of
from rooflinecli.measure.collectives import chosen, network
from rooflinecli.measure.device import Environment, compute_capability, environment, keep_pages, known_chip
from rooflinecli.measure.fit import Fit, best_records
from rooflinecli.measure.question import Suite
from rooflinecli.measure.session import Log, ReferenceKernel, Session, was_contended
from rooflinecli.measure.shape_grids import cases_of_other_engines, missing
from rooflinecli.measure.timing import FULL, QUICK, dispatch_overhead
from rooflinecli.price.chip import Chip
from rooflinecli.questions.kernel.operations import alone, attention_op, matmul_op
from rooflinecli.specs.hardware import HardwareSpec, hardware_from, load_hardware
from rooflinecli.specs.yaml_loader import parse

QUICK_BUDGET, FULL_BUDGET = 21.0, 900.0
DISTURBED = 0.1  # fraction of timings taken on a busy machine beyond which no profile is written
PATIENCE = 0.2  # fraction of the budget for waiting until other programs finish


class MeasureReport(Entries):
    """Timings of a run as lines of its log, and the constants fitted to them."""

    schema: str = "roofline/measure/1"
    environment: Record
    roofs: Record | None
    fits: list[Fit]
    timings: list[Record]
    extra: Record = field(metadata=SPREAD)


@dataclass
class MeasureAnswer:
    """Result of a run. `text` is the profile to be written to `out`, None where nothing could be fitted."""

    environment: Environment
    out: Path
    records: list[Record]
    leader: bool = True
    fits: list[Fit] = field(default_factory=list)
    roofs: profile.MeasuredPeaks | None = None
    text: str | None = None
    interrupted: bool = False
    withheld: bool = False  # fitted, but on too busy a machine to write the profile
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    extra: Record = field(default_factory=dict)

    def report(self) -> MeasureReport:
        """What is printed as JSON."""
        environment, roofs = self.environment.record(), None
        if self.roofs is not None:
            roofs = {"peak_flops_per_s": self.roofs.peaks, "bandwidth_bytes_per_s": self.roofs.bandwidth}
        return MeasureReport(
            environment=environment, roofs=roofs, fits=self.fits, timings=self.records, extra=self.extra
        )


def execute(suite: Suite, progress: Callable[[KernelCase, Record | None, int], None]) -> MeasureAnswer:
    """Measure and fit; `progress` is called before and after each kernel, with its record then, and with how many there are. Ctrl-C returns an answer with the completed cases. Raises UsageError or DataError."""
    for dtype in suite.dtype:
        size_of(dtype)
    keep_pages()
    device.join_processes(suite.coordinator, suite.processes, suite.process_id)
    env = environment()
    out = Path(suite.out or f"{env.slug}.yaml")
    log = Log(Path(suite.log or out.with_suffix(".jsonl")), env.fingerprint, fresh=suite.restart)
    if not device.is_leader():
        log.mute()
    known = log.records.get("canary", {}).get("time_s", float("inf"))
    canary = ReferenceKernel(known) if env.platform == "cpu" and env.processes == 1 else None
    dispatch = dispatch_overhead()
    log.append({"key": "environment", **env.record(), "dispatch_s": dispatch})
    if canary:
        log.append({"key": "canary", "time_s": canary.best})
    budget = suite.budget or (QUICK_BUDGET if suite.quick else FULL_BUDGET)
    max_timings, protocol = suite.max_timings or (2 if suite.quick else 4), QUICK if suite.quick else FULL
    session = Session(env, log, protocol, budget, canary=canary, dispatch=dispatch)
    session.max_timings, session.patience = max_timings, PATIENCE * budget
    alone = suite.suites == ("collectives",) or env.processes > 1
    cases: list[KernelCase] = [] if alone else shape_grids.chosen(suite.suites, env.platform, suite.quick, suite.dtype)
    if suite.pallas and not alone:
        cases += cases_of_other_engines(cases)
    if "collectives" in suite.suites:
        cases += chosen(env, suite.quick)
    planned = len([c for c in cases if c.key not in log])
    session.progress = lambda case, record: progress(case, record, planned)
    session.run(cases)
    return _answer(suite, session, out, len(cases))


def _answer(suite: Suite, session: Session, out: Path, planned: int) -> MeasureAnswer:
    """Fit every record of this machine in the log, not only this run's suites."""
    env = session.environment
    records = [r for r in session.log.records.values() if "suite" in r]
    answer = MeasureAnswer(
        env, out, records, device.is_leader(), interrupted=session.interrupted, failed=session.failed
    )
    if session.interrupted:
        answer.notes.append(
            f"stopped after {len(records)} of {planned} kernels; run the same command again to go on from {session.log.path}"
        )
    elif session.skipped:
        answer.notes.append(
            f"the budget ended before {session.skipped} kernels were timed; run the same command again, or give a larger --budget"
        )
    if session.log.foreign:
        answer.notes.append(
            f"{session.log.path}: {session.log.foreign} lines from another machine or jax version were ignored"
        )
    lacking = missing(env.platform, compute_capability(), find_spec("absl") is not None) if suite.pallas else ""
    answer.notes += [lacking] if lacking else []
    if answer.leader:
        _fit(suite, answer)
    return answer


def contended_fraction(records: list[Record]) -> float:
    """Fraction of the timings that other programs disturbed."""
    return sum(map(was_contended, records)) / len(records) if records else 0.0


def _fit(suite: Suite, answer: MeasureAnswer) -> None:
    env = answer.environment
    extends = None if suite.extends == "none" else suite.extends or known_chip(env.kind)
    try:
        answer.roofs, answer.fits = profile.fit_records(answer.records, env, extends)
    except ValueError as error:
        answer.notes.append(f"no profile: {error}; run `roofline measure` without a suite, or with a larger --budget")
        return
    name = f"{env.kind}, {env.cores} cores, measured" if env.platform == "cpu" else f"{env.kind}, measured"
    levels = network(answer.records, answer.roofs, env)
    data = profile.document(answer.roofs, answer.fits, env, name=name, force=suite.force, network=levels)
    if conditions := device.summary(answer.records):
        data["measured"]["conditions"] = f"lowest / median / highest: {conditions}"
    if contended := contended_fraction(answer.records):
        data.setdefault("measured", {})["contended_fraction"] = round(contended, 3)
    if suite.force:  # what would otherwise have been withheld
        worse = sum(f.worse_than_roofline for f in answer.fits)
        why = [f"{contended:.0%} of the timings were disturbed"] if contended > DISTURBED else []
        why += [f"{plural(worse, 'fit')} worse than the bare roofline"] if worse else []
        data["measured"] |= {"forced": "; ".join(why)} if why else {}
    text = profile.profile_yaml(data, answer.out)
    answer.withheld = contended > DISTURBED and not suite.force
    if answer.withheld:
        answer.notes.append(
            f"no profile was written: other programs disturbed too many timings; run the same command again when the machine "
            f"is idle to repeat the disturbed ones, or write {answer.out} anyway with --force"
        )
        return
    answer.text = text
    if extends:
        answer.extra["held_out"] = compared(answer.records, text, answer.out, extends)


def compared(records: Iterable[Record], text: str, path: Path, extends: str) -> list[Record]:
    """A row per class and dtype with held-out shapes: median error and fraction inside the interval, shipped and measured.

    `text` is the profile's YAML, `path` where it goes, `extends` the chip whose constants ship.
    """
    known = {"shipped": load_hardware(extends), "measured": hardware_from(parse(text, path, base="hardware"))}
    rows = []
    for (regime, kind, dtype), held in sorted(best_records(records).items()):
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


def ask(record: Record, chip: HardwareSpec) -> Quantities:
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
