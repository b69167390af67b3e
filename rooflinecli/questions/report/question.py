"""`roofline report MODEL --hw HW` as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import EstimateOptions, OptText, field

if TYPE_CHECKING:
    from rooflinecli.core.derivation import Traced
    from rooflinecli.questions.report.answer import ReportAnswer


class Report(EstimateOptions, Question["ReportAnswer"]):
    """One HTML page: times, memory, the roofline, latency against throughput, derivations that unfold, sources.

    It loads nothing from anywhere, fits a phone, has a dark scheme and prints, and embeds its numbers as JSON. Exit code 1
    when the layout does not fit; the page is written all the same.
    """

    verb = "report"
    examples = (
        "roofline report llama70b --hw h100 -n 8 --out report.html",
        "roofline report llama-3-8b --hw tpu-v5e -n 8 --phase train --batch 256",
    )
    # fmt: off
    slo: OptText = field("free", "With --qps or --concurrency: the SLO to compare with other loads: ttft=2s,itl=50ms@99.", default=None, metavar="LIMITS", listed=True)
    profile: OptText = field("file", "A trace of the one phase asked for, as `roofline profile` reads it: measured next to expected.", default=None, metavar="TRACE")
    # fmt: on

    def answer(self) -> ReportAnswer:
        return self.explained()[0]

    def explained(self) -> tuple[ReportAnswer, dict[str, Traced]]:
        """The answer and the derivations of its main numbers. Raises UsageError for a trace next to several phases."""
        from pathlib import Path

        from rooflinecli.engine import build_request
        from rooflinecli.engine.context import EstimateContext
        from rooflinecli.importers.profiles.read import read
        from rooflinecli.questions.estimate.answer import warn_of_idle
        from rooflinecli.questions.profile.compare_estimate import against
        from rooflinecli.questions.report.answer import report, served

        options, trace = self.options(), None
        request = build_request.request(options)
        if self.profile is not None:
            if len(request.phases) != 1:
                raise UsageError("--profile: a trace is of one phase; add --phase train, prefill or decode")
            trace = against(read(Path(self.profile)), request)
        serves = "decode" in request.phases and request.model.lm_head and request.model.vocab_size
        answer, derivations = report(request, served(options, self.slo) if serves else None, trace)
        warn_of_idle(options, (EstimateContext(request), answer.estimate))
        return answer, derivations
