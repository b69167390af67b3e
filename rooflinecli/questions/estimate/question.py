"""`roofline estimate MODEL --hw HW` and its explanation as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.record import Record
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import LOAD, EstimateOptions, OptNumber, OptText, Text, Whole, field

if TYPE_CHECKING:  # a help page needs none of them
    from rooflinecli.importers.source import Options
    from rooflinecli.questions.estimate.answer_types import EstimateAnswer
    from rooflinecli.specs.request import Request


class Estimate(EstimateOptions, Question["EstimateAnswer"]):
    """What training, prefill and decode cost: time, throughput, memory and dollars, as floor, expected and interval.

    Exit code 1 when what was asked does not fit (without a phase: when neither serving nor training does); the answer is printed all the
    same, with what is missing.
    """

    verb = "estimate"
    examples = (
        "roofline estimate llama70b --hw h100 -n 8 --prompt 8k --concurrency 32",
        "roofline estimate llama-3-8b --hw tpu-v5p -n 64 --phase train --tokens 15T",
    )
    # fmt: off
    model: OptText = field("name", EstimateOptions.model.help, default=None, panel=LOAD, positional=True, kw_only=False)  # type: ignore[assignment]
    hw: OptText = field("name", EstimateOptions.hw.help, default=None, panel=LOAD, fills="hardware", also=("hardware",), kw_only=False)  # type: ignore[assignment]
    mfu: OptNumber = field("real", "A measured training MFU to compare with the estimate.", default=None, metavar="SHARE")
    measured: OptNumber = field("time", "A measured time of the one --phase, such as '35 ms', to compare with the floor.", default=None)
    source: OptText = field("free", "Read options from a launch script, a config or a command in quotes.", default=None, metavar="LAUNCH", long="from")
    # fmt: on

    def request(self) -> Request:
        """The request of the options, those of the launch included. Raises UsageError, DataError."""
        return self.request_of(self.all_options())

    def request_of(self, options: Options) -> Request:
        """The request of options, as `all_options` gives them."""
        from rooflinecli.engine import build_request

        return build_request.request(options)

    def all_options(self) -> Options:
        """The options given and those of the launch, as written, by their keys."""
        from rooflinecli.engine import build_request

        own = self.options()
        if self.source is None:
            return own
        from rooflinecli.importers.launch.read import options

        return options(self.source, own, build_request.warn)

    def answer(self) -> EstimateAnswer:
        return self.answer_to(self.request())

    def answer_to(self, request: Request) -> EstimateAnswer:
        """The answer to the request, with the measured values compared."""
        from rooflinecli.engine.context import EstimateContext
        from rooflinecli.questions.estimate.answer import estimate, warn_of_idle

        result = estimate(request)
        warn_of_idle(self.options(), (EstimateContext(request), result))
        if self.mfu is not None or self.measured is not None:
            from rooflinecli.questions.estimate.explain import note

            note(request, result, self.mfu, self.measured)
        return result


class Explanation(Record):
    """A quantity of an estimate, its value in SI, and its derivation as text."""

    quantity: str
    value: float
    unit: str
    text: str


class Explain(EstimateOptions, Question[Explanation]):
    """How one quantity of an estimate follows, down to the figures of the files."""

    verb = "explain"
    # fmt: off
    quantity: Text = field("free", "Dotted path in the estimate's JSON, such as decode.time_s.", metavar="QUANTITY", kw_only=False)
    depth: Whole = field("whole", "Levels of the explanation.", default=3, least=0, most=50)
    # fmt: on

    def answer(self) -> Explanation:
        from rooflinecli.core.derivation_text import explain
        from rooflinecli.engine import build_request
        from rooflinecli.questions.estimate.explain import derivation

        found = derivation(build_request.request(self.options()), self.quantity)
        return Explanation(
            quantity=self.quantity, value=float(found.value), unit=found.unit, text=explain(found, self.depth)
        )
