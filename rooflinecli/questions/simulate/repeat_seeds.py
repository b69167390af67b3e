"""A question many times over: intervals from the seeds and from the error of the step price, and studies over several cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rooflinecli.core.num import Number
from rooflinecli.questions.simulate.deployment import deployment
from rooflinecli.questions.simulate.question import Simulate
from rooflinecli.questions.simulate.run import Run, drawn, recorded

QUICK = 20_000  # requests up to which a run is repeated for its interval without being asked to
SEEDS = 3


def repeats(question: Simulate, seeds: int) -> list[tuple[Simulate, float]]:
    """The same question with further seeds, and with every step as fast and as slow as the interval of a decode step is wide."""
    trace = recorded(question)
    means = trace.means if trace is not None else tuple(d.mean for d in drawn(question))
    low, high = deployment(question.estimate_options, *means).error
    drawn_again = trace is None or question.qps  # a trace at a rate of one's own has its arrivals drawn
    again = [] if not drawn_again else [(question.replace(seed=question.seed + i), 1.0) for i in range(1, seeds)]
    return [*again, *((question, end) for end in (low, high))]


def intervals(
    values: dict[str, Number], others: Iterable[dict[str, Number]], first_token_error: float = 0.0
) -> dict[str, list[float]]:
    """Least and most of every number over a run and its repeats, where they differ; of first tokens wider by their own error.

    With it 78 % of measured first tokens of models left out are inside, without 51 %; of further tokens 86 % are without more.
    """
    rows = [values, *others]
    found = {}
    for name, value in values.items():
        seen = [row[name] for row in rows if isinstance(row.get(name), (int, float))]
        if isinstance(value, float) and min(seen) < max(seen):
            beyond = 1 + first_token_error if name.startswith("ttft_") else 1.0
            found[name] = [min(seen) / beyond, max(seen) * beyond]
    return found


def curves(run: Run, points: int = 200) -> dict[str, list[tuple[float, float]]]:
    """(share of requests, seconds) of each time: the picture of its percentiles."""
    import numpy as np

    shares = np.linspace(0, 1, points + 1)
    return {
        name: [(float(s), float(v)) for s, v in zip(shares, np.quantile(getattr(run.times, name), shares), strict=True)]
        for name in ("ttft", "tpot", "e2e", "queue")
    }


def over_time(run: Run) -> Iterator[tuple[int, list[tuple[float, int, int, float]]]]:
    """(replica, its samples of instant, batch, queue and share of the cache)."""
    for i, replica in enumerate(run.replicas):
        yield i, replica.tally.samples
