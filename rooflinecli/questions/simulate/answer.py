"""A simulation as an answer: what was asked, every number, and its 80% interval; and studies of several."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.num import Number
from rooflinecli.core.parallel_map import Spread
from rooflinecli.engine.build_request import warn
from rooflinecli.questions.simulate.question import (
    SCHEMA,
    STUDY_SCHEMA,
    LoadAnswer,
    Simulate,
    SimulateAnswer,
    SloAnswer,
    SloTarget,
    StudyAnswer,
)
from rooflinecli.questions.simulate.run import (
    QUICK,
    SEEDS,
    Run,
    drawn,
    figures,
    intervals,
    min_replicas,
    recorded,
    repeats,
    run,
)
from rooflinecli.simulate import slo
from rooflinecli.simulate.cluster import Progress

Cell = tuple[Simulate, dict[str, str]]
NOTES = (
    "four of five measured runs are inside such an interval, first tokens by an error of their own; what a scheduler of another version does is not in it",
)


def answered(
    question: Simulate, progress: Progress | None = None, over: Spread | None = None
) -> tuple[SimulateAnswer, Run]:
    """The answer with the run that it is of. Raises UsageError or Infeasible as an estimate does."""
    ran, fewer = (
        min_replicas(question, progress=progress) if question.replicas == "min" else (run(question, progress), None)
    )
    values, cut = _intervals(ran, over)
    trace = recorded(ran.question)
    _warn_long(ran)
    between = None if trace is not None else list(drawn(ran.question)[0].spread)
    notes = [*NOTES]
    if not question.fixed_lengths and not question.length_range and between and between[1] > 1:
        notes.append(
            f"lengths vary from {between[0]:.2g} to {between[1]:.2g} of --prompt and --output; --fixed-lengths: equal"
        )
    if trace is not None and ran.values["steady_s"] >= ran.values["duration_s"]:
        notes.append("the trace is too short for a steady window: rates are over the whole run")
    if not ran.sustained:
        rate = "" if question.qps is None else f"{question.qps:g} requests/s "
        notes.append(
            f"the load cannot be sustained: {rate or 'requests '}arrive and {ran.values['requests_per_s']:.3g}/s end; the queue grows "
            "as long as they arrive, and the latencies are of this run alone"
        )
    answer = SimulateAnswer(
        schema=SCHEMA,
        **ran.about,
        load=LoadAnswer.like(
            question,
            kind=question.load_kind,
            format=trace.format if trace else None,
            invalid_rows=trace.skipped if trace else 0,
            failed_requests=trace.failed if trace else 0,
            length_range=between,
            warmup_s=question.warmup,
        ),
        simulate=ran.values,
        interval=values,
        slo=_slo(ran, fewer),
        classes=slo.classes(ran.times, question.limits),
        interrupted=cut,
        search_interrupted=ran.sought,
        sustained=ran.sustained,
        notes=notes,
    )
    return answer, ran


def _intervals(ran: Run, over: Spread | None) -> tuple[dict[str, list[float]], bool]:
    """Intervals where repeats are asked for or are quick, and whether the run or its repeats were interrupted."""
    question = ran.question
    quick = len(ran.times.arrival) <= QUICK
    if ran.cut or not (question.interval or (question.interval is None and (quick or question.num_seeds))):
        return {}, ran.cut
    seeds = question.num_seeds or (SEEDS if quick else 1)
    try:
        others = (over or map)(figures, repeats(question, seeds))
        return intervals(ran.values, others, ran.first_token_error), False
    except KeyboardInterrupt:  # the run itself is known; a range of some of its repeats would look surer than it is
        return {}, True


def _slo(ran: Run, fewer: Run | None) -> SloAnswer | None:
    limits = ran.question.limits
    if limits is None:
        return None
    return SloAnswer(
        limits=dict(limits.main.seconds),
        target=limits.main.share,
        met=ran.meets_slo,
        targets=[
            SloTarget.like(
                target,
                label=target.label or None,
                limits=dict(target.seconds),
                requests=int(target.requests(ran.times).sum()),
                target=target.share,
                attainment=(share := slo.attainment(ran.times, target)),
                met=share >= target.share,
            )
            for target in limits.slos
        ],
        attainment_with_one_fewer_replica=None if fewer is None else fewer.values["slo_attainment"],
        margin_with_one_fewer_replica=None if fewer is None else fewer.values["slo_attainment_margin"],
    )


def _warn_long(ran: Run) -> None:
    """Warn of requests that the model was not made for, where the mean of them all, which an estimate looks at, is not."""
    most = ran.about["max_context"]
    tokens = ran.every.prompt + ran.every.output
    beyond = int((tokens > most).sum()) if most else 0
    if beyond > 0 and float(tokens.mean()) <= float(most or 0):
        warn(
            f"{beyond:,} of {len(tokens):,} requests exceed the {most:,} tokens of {ran.about['model']}; an engine refuses them"
        )


def cell_values(cell: Cell) -> dict[str, Number]:
    """The numbers of one cell of a study; what does not fit has its reason instead."""
    question, apart = cell
    try:
        ran = min_replicas(question)[0] if question.replicas == "min" else run(question)
    except Infeasible as error:
        return {**apart, "feasible": False, "violation": str(error)}
    if ran.cut:
        raise KeyboardInterrupt  # a part of a cell is no cell
    return {**apart, **ran.values, "feasible": True, "violation": ""}


def study(cells: list[Cell], spread: Spread, progress: Callable[[int], None] | None = None) -> StudyAnswer:
    """Return a row for each cell in order; after an interrupt, for the cells that had ended."""
    rows: list[dict[str, Number]] = []
    try:
        for row in spread(cell_values, cells):
            rows.append(row)
            if progress is not None:
                progress(1)
    except KeyboardInterrupt:
        if not rows:
            raise
    limits = cells[0][0].limits
    met = all(row["feasible"] and (limits is None or row["slo_attainment_margin"] >= 0) for row in rows)
    return StudyAnswer(
        schema=STUDY_SCHEMA, axes=list(cells[0][1]), slo=limits.text if limits else None, rows=rows, met=met
    )
