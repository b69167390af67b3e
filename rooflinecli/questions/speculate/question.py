"""`roofline speculate`: what a draft of some acceptance rate and cost gains, the best draft length, and where it breaks even."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from rooflinecli.core import num
from rooflinecli.core.derivation import decreasing_root, solved_value
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities
from rooflinecli.formulas import speculation as spec
from rooflinecli.questions.question import Question, is_number
from rooflinecli.specs.options import Number, OptNumber, OptText, field

LONGEST = 256  # drafts beyond this are not searched
Costs = Callable[
    [float], tuple[Quantity, Quantity, Quantity | None]
]  # of a draft step, verification, seconds of a plain step


# fmt: off
class Speculate(Question[Quantities]):
    """Speculative decoding: tokens per step, speedup and best draft length, or the acceptance rate that a speedup takes."""

    verb = "speculate"
    examples = ("roofline speculate --acceptance-rate 0.8 --draft-cost 0.1", "roofline speculate -a 0.7 --draft llama-3.2-1b --target llama-3.3-70b --hw h100 -n 4")
    acceptance_rate: OptNumber = field("fraction", "Chance that a draft token is accepted, 0 to 1.", default=None, symbol="a", short="-a", metavar="SHARE", former=("acceptance",))
    draft_cost: OptNumber = field("positive", "Time of a draft step over a target step (0.1).", default=None, symbol="c", short="-c", least=0)
    draft: OptNumber = field("params", "Instead of --draft-cost: the draft's parameters or name.", default=None, symbol="N")
    target: OptNumber = field("params", "With --draft: the target's parameters or name.", default=None, symbol="N")
    num_speculative_tokens: OptNumber = field("positive", "Draft tokens per step; omitted: the best.", default=None, symbol="g", short="-k", metavar="COUNT", former=("draft-length",))
    speedup: OptNumber = field("positive", "Instead of --acceptance-rate: the speedup to reach (1 is break-even).", default=None, symbol="x")
    verify_cost: Number = field("positive", "Time to verify a draft over a plain decode step; above 1 once large batches make verification compute-bound.", default=1.0, symbol="v")
    hw: OptText = field("name", "Chip on which draft and target, both models, are priced as in `estimate --speculative-method`.", default=None)
    devices: OptNumber = field("positive", "With --hw: devices of the server; omitted: as many as hold it.", default=None, symbol="n", short="-n", metavar="COUNT")
    batch: OptNumber = field("positive", "With --hw: sequences (32).", default=None, symbol="B", metavar="COUNT")
    itl: OptNumber = field("seconds", "Plain ITL ('20 ms'), to get the new one.", default=None, symbol="t")

    @property
    def names_models(self) -> bool:
        """Whether draft and target are models, rather than sizes."""
        written = self.written()
        return not any(is_number(str(written.get(name, 0))) for name in ("draft", "target"))

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        costs = self._costs_on_hardware(lift) if self.hw is not None else self._costs_of_sizes()
        return self._break_even(*costs(num.value(self.num_speculative_tokens))[:2]) if self.acceptance_rate is None else self._gains(self.acceptance_rate, costs)

    def _costs_on_hardware(self, lift: PlainLift) -> Costs:
        """Costs of draft and verification at each draft length, as `estimate --speculative-method` prices them."""
        from rooflinecli.engine import build_request
        from rooflinecli.engine.phase_answer import DecodeAnswer
        from rooflinecli.questions.estimate.answer import estimate

        self._costs_of_sizes()  # which refuses models that cannot draft
        written = self.written()
        rate = 0.5 if self.acceptance_rate is None else num.value(self.acceptance_rate)  # which no cost depends on
        options = {"model": written["target"], "hw": self.hw, "n": written.get("devices"),"batch": written.get("batch"), "phase": "decode", "speculative-method": written["draft"], "acceptance-rate": rate}

        @cache
        def costs(length: float) -> tuple[Quantity, Quantity, Quantity]:
            decode = estimate(build_request.request({**options, "num-speculative-tokens": length})).phases["decode"]
            assert isinstance(decode, DecodeAnswer) and decode.speculation is not None
            plain = float(decode.time_s) * float(decode.speculation.speedup)
            where = f"`estimate` on {self.hw} with {length:g} draft tokens"
            return (
                lift("c", float(decode.speculation.draft_s) / length / plain, "1", where),
                lift("v", float(decode.speculation.verify_s) / plain, "1", where),
                lift("t", plain, "s", where),
            )

        return costs

    def _costs_of_sizes(self) -> Costs:
        """The costs given, or the draft's by the parameters of the models. Raises UsageError for models that cannot draft."""
        if self.draft_cost is not None:
            return lambda length: (self.draft_cost, self.verify_cost, None)
        for name in ("draft", "target"):
            model = str(self.written()[name])
            if not is_number(model):
                from rooflinecli.specs.model import load_model

                if not (found := load_model(model)).writes:
                    raise UsageError(f"--{name} {model}: {found.name} is not autoregressive; name a decoder")
        if num.value(self.draft) >= num.value(self.target):
            raise UsageError("the draft is not smaller than the target; swap --draft and --target")
        cost = spec.draft_cost_of_sizes(self.draft, self.target)
        return lambda length: (cost, self.verify_cost, None)

    def _gains(self, acceptance: Quantity, costs: Costs) -> Quantities:
        """Tokens per step and speedup at the draft length given and at the best one, exact and simplified."""
        longest = best_length(num.value(acceptance), costs)
        best = solved_value(longest, acceptance, "g*", "tokens", "the draft length with the largest speedup, by search")
        given = self.num_speculative_tokens
        lengths = {"best": best} if given is None else {"as_given": given, "best": best}
        rows = {name: self._gain(acceptance, costs, length) for name, length in lengths.items()}
        chosen = next(iter(rows.values()))
        cost, _, plain = costs(num.value(chosen["draft_length"]) or 1.0)
        notes = [
            "speedup: exact, a run of accepted tokens ends at the first rejection (Leviathan et al. 2023)",
            "speedup simplified: acceptance x draft length, as the Scaling Book workbook counts; it overstates long drafts",
            "operations: arithmetic per token over plain decoding, with draft FLOPs per token in the ratio of the draft's cost",
        ]
        if self.hw is None and self.draft_cost is None:
            notes.append("draft cost by parameters alone, the least it can be; --hw prices launches, attention and verification too")
        if longest == LONGEST:
            notes.append(f"still rising at {LONGEST} draft tokens, the longest searched")
        itl = plain if self.itl is None else self.itl
        return Quantities.of(
            "speculate/1", acceptance=acceptance, draft_cost=cost,
            **{name: chosen[name] for name in ("draft_length", "tokens_per_step", "speedup")}, best_draft_length=best,
            itl_s=None if itl is None else spec.speculative_latency(itl, chosen["speedup"]), lengths=rows, notes=notes,
        )

    def _gain(self, acceptance: Quantity, costs: Costs, length: Quantity) -> dict[str, Quantity]:
        """What one draft length gains."""
        draft_cost, verify_cost, _ = costs(num.value(length) or 1.0)
        tokens = spec.speculative_tokens(acceptance, length)
        step = spec.speculative_step_cost(length, draft_cost, verify_cost)
        simple = spec.speculative_tokens_simple(acceptance, length)
        return {
            "draft_length": length, "tokens_per_step": tokens, "step_cost": step, "speedup": spec.speculative_speedup(tokens, step),
            "tokens_per_step_simplified": simple, "speedup_simplified": spec.speculative_speedup(simple, step),
            "operations": spec.speculative_operations(tokens, length, draft_cost),
        }

    def _break_even(self, draft_cost: Quantity, verify_cost: Quantity) -> Quantities:
        """The acceptance rate that the speedup takes, exact and simplified. Raises UsageError when none does."""
        length, speedup = self.num_speculative_tokens, self.speedup
        cost = spec.speculative_step_cost(length, draft_cost, verify_cost)
        k, c, x = num.value(length), num.value(cost), num.value(speedup)
        most = spec.speculative_speedup(spec.speculative_tokens(1.0, k), c)
        if most < x:
            raise UsageError(
                f"no acceptance gives {x:g}x with {k:g} draft tokens: all accepted gives {most:.4g}x; "
                "take a cheaper draft, or another draft length"
            )

        def short_of(acceptance: float) -> float:
            return float(x - spec.speculative_speedup(spec.speculative_tokens(acceptance, k), c))

        exact = decreasing_root(short_of, 1e-12, 1.0) if short_of(1e-12) > 0 else 0.0
        simple = spec.break_even_acceptance_simple(speedup, cost, length)
        notes = [
            "acceptance: exact, (1 - a^(k+1)) / (1 - a) = speedup x (k c + 1)",
            "acceptance simplified: a k = speedup x (k c + 1), as the Scaling Book workbook counts",
        ]
        if num.value(simple) > 1:
            notes.append("above 100% the simplified convention has no solution: it leaves out the target's own token")
        return Quantities.of(
            "speculate/1", draft_length=length, draft_cost=draft_cost, speedup=speedup,
            break_even_acceptance=solved_value(exact, speedup, "a*", "1", "root of speculative_speedup = wanted"),
            break_even_simplified_acceptance=simple, notes=notes,
        )

# fmt: on


def best_length(acceptance: float, costs: Costs) -> int:
    """The draft length with the highest exact speedup, up to LONGEST, where the speedup has one maximum; 0: do not speculate."""

    def speedup(length: int) -> float:
        draft, verify, _ = costs(float(length))
        step = spec.speculative_step_cost(length, draft, verify)
        return float(num.value(spec.speculative_speedup(spec.speculative_tokens(acceptance, length), step)))

    best = 1
    while best < LONGEST and speedup(best + 1) > speedup(best):
        best += 1
    return best if speedup(best) > 1 else 0
