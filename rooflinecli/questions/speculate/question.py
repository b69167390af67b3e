"""`roofline speculate`: a question about speculative decoding."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Number, OptNumber, field


# fmt: off
class Speculate(Calculator):
    """Speculative decoding: tokens per step, speedup and best draft length, or the acceptance rate that a speedup takes."""

    verb = "speculate"
    examples = ("roofline speculate --acceptance-rate 0.8 --draft-cost 0.1", "roofline speculate -a 0.7 --draft llama-3.2-1b --target llama70b --itl '30 ms'")
    acceptance_rate: OptNumber = field("fraction", "Chance that a draft token is accepted, 0 to 1.", default=None, symbol="a", short="-a", metavar="SHARE", former=("acceptance",))
    draft_cost: OptNumber = field("positive", "Time of a draft step over a target step (0.1).", default=None, symbol="c", short="-c", least=0)
    draft: OptNumber = field("params", "Instead of --draft-cost: the draft's parameters or name.", default=None, symbol="N")
    target: OptNumber = field("params", "With --draft: the target's parameters or name.", default=None, symbol="N")
    num_speculative_tokens: OptNumber = field("positive", "Draft tokens per step; omitted: the best.", default=None, symbol="g", short="-k", metavar="COUNT", former=("draft-length",))
    speedup: OptNumber = field("positive", "Instead of --acceptance-rate: the speedup to reach (1 is break-even).", default=None, symbol="x")
    verify_cost: Number = field("positive", "Time to verify a draft over a plain decode step; above 1 once large batches make verification compute-bound.", default=1.0, symbol="v")
    itl: OptNumber = field("seconds", "Plain ITL ('20 ms'), to get the new one.", default=None, symbol="t")

    def check(self) -> None:
        if (self.acceptance_rate is None) == (self.speedup is None):
            raise UsageError("give --acceptance-rate for the speedup, or --speedup for the acceptance rate it takes")
        if self.draft_cost is None and (self.draft is None or self.target is None):
            raise UsageError("give --draft-cost, or --draft and --target")
        tokens = self.num_speculative_tokens
        if tokens is not None and tokens != int(tokens):
            raise UsageError(f"--num-speculative-tokens {tokens:g}: must be a whole number")
        if self.speedup is not None and tokens is None:
            raise UsageError("--speedup requires --num-speculative-tokens; add it")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.speculate import answer

        written = self.written()
        for name in ("draft", "target") if self.draft_cost is None else ():
            answer.written(f"--{name}", str(written[name]))
        cost = answer.draft_cost(self.draft, self.target) if self.draft_cost is None else self.draft_cost
        if self.speedup is not None:
            return answer.break_even(self.num_speculative_tokens, cost, self.speedup, self.verify_cost)
        return answer.speculate(self.acceptance_rate, cost, self.num_speculative_tokens, self.verify_cost, self.itl)
# fmt: on
