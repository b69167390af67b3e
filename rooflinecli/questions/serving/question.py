"""`roofline serving`: the cost of tokens, and what batching, beams, prefix caches, disaggregation and quantization save. `roofline speculate`:
what a draft of some acceptance rate and cost gains, the best draft length, and where it breaks even.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from rooflinecli.core import num
from rooflinecli.core.derivation import decreasing_root, label, solved_value
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Quantities
from rooflinecli.core.text import plural
from rooflinecli.formulas import counts, serving, textbook
from rooflinecli.formulas import speculation as spec
from rooflinecli.questions.question import Question, calculators, is_number
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Text, field

LONGEST = 256  # drafts beyond this are not searched
# of a draft step, verification, seconds of a plain step
Costs = Callable[[float], tuple[Quantity, Quantity, Quantity | None]]


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
        cost = textbook.draft_cost_of_sizes(self.draft, self.target)
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
            itl_s=None if itl is None else label(itl / chosen["speedup"], "t_itl"), lengths=rows, notes=notes,
        )

    def _gain(self, acceptance: Quantity, costs: Costs, length: Quantity) -> dict[str, Quantity]:
        """What one draft length gains."""
        draft_cost, verify_cost, _ = costs(num.value(length) or 1.0)
        tokens = spec.speculative_tokens(acceptance, length)
        step = textbook.speculative_step_cost(length, draft_cost, verify_cost)
        simple = textbook.speculative_tokens_simple(acceptance, length)
        return {
            "draft_length": length, "tokens_per_step": tokens, "step_cost": step, "speedup": textbook.speculative_speedup(tokens, step),
            "tokens_per_step_simplified": simple, "speedup_simplified": textbook.speculative_speedup(simple, step),
            "operations": textbook.speculative_operations(tokens, length, draft_cost),
        }

    def _break_even(self, draft_cost: Quantity, verify_cost: Quantity) -> Quantities:
        """The acceptance rate that the speedup takes, exact and simplified. Raises UsageError when none does."""
        length, speedup = self.num_speculative_tokens, self.speedup
        cost = textbook.speculative_step_cost(length, draft_cost, verify_cost)
        k, c, x = num.value(length), num.value(cost), num.value(speedup)
        most = textbook.speculative_speedup(spec.speculative_tokens(1.0, k), c)
        if most < x:
            raise UsageError(
                f"no acceptance gives {x:g}x with {k:g} draft tokens: all accepted gives {most:.4g}x; "
                "take a cheaper draft, or another draft length"
            )

        def short_of(acceptance: float) -> float:
            return float(x - textbook.speculative_speedup(spec.speculative_tokens(acceptance, k), c))

        exact = decreasing_root(short_of, 1e-12, 1.0) if short_of(1e-12) > 0 else 0.0
        simple = textbook.break_even_acceptance_simple(speedup, cost, length)
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
        step = textbook.speculative_step_cost(length, draft, verify)
        return float(num.value(textbook.speculative_speedup(spec.speculative_tokens(acceptance, length), step)))

    best = 1
    while best < LONGEST and speedup(best + 1) > speedup(best):
        best += 1
    return best if speedup(best) > 1 else 0


# fmt: off
class ServerPrice(Group):
    """Price of a server and the fraction of time it is busy."""

    usd_per_hour: Number = field("usd_per_hour", "Price of all devices of the server.", symbol="price")
    utilization: Number = field("positive", "Fraction of time the server is busy, 0 to 1.", default=1.0, symbol="u", most=1, short="-u", metavar="SHARE", former=("utilisation",))


class Own(Question[Quantities]):
    """Rent or own a device: dollars per hour of both, and when owning pays."""

    verb = "serving own"
    capex: OptNumber = field("usd", "What a device costs to buy, with its part of the server; omitted: by published costs of owning the chip.", default=None, symbol="$")
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the rent and the power.", default=None)
    rent: OptNumber = field("usd_per_hour", "Rent of a device-hour, instead of the chip's offers.", default=None, symbol="r")
    watts: OptNumber = field("watts", "Power of a device with its part of the server; omitted: TDP x 1.6.", default=None, symbol="P")
    pue: Number = field("positive", "Power of the data center over that of its servers.", default=1.09, symbol="PUE", least=1)
    electricity: Number = field("electricity", "Price of electricity.", default=0.09, symbol="$_kWh")
    life: Number = field("time", "How long it is used; 4 years are 1461d.", default=4 * 31_557_600.0, symbol="T")
    resale: Number = field("fraction", "Share of the price that it sells for afterwards.", default=0.0, symbol="s")
    bought: OptText = field("free", "Day from which it is used without a pause, such as 2026-12-01, for the date of the break-even.", default=None, metavar="DATE")

    def check(self) -> None:
        super().check()
        try:
            date.fromisoformat(self.bought or "2026-12-01")
        except ValueError:
            raise UsageError(f"--bought {self.bought}: write a date such as 2026-12-01", "bought") from None

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        """Intervals of the break-even are over the offers of the chip, and over what others say that owning costs where no --capex is given. A date
        beyond the life is left out: owning never pays there. published_usd_per_hour: 10 to 90% of what others say that owning the chip costs."""
        from rooflinecli.specs import prices
        from rooflinecli.specs.hardware import load_hardware

        spec = None if self.hw is None else load_hardware(self.hw)
        chosen = None if spec is None or self.rent is not None else prices.choose(spec)
        rent, watts = self.rent, self.watts
        if rent is None:
            if chosen is None:
                raise UsageError(f"--hw {self.hw}: no rental price is known; give --rent", "rent")
            rent = lift("r", chosen.offer.usd, "USD/h", f"{chosen.offer.where}; {chosen.offer.provider} {chosen.offer.date}")
        if watts is None:
            if spec is None or spec.power is None:
                raise UsageError(f"--hw {self.hw}: its file has no power; give --watts", "watts")
            watts = lift("P", 1.6 * spec.power.si, "W", f"{spec.document.location('power')} x 1.6 of host, fans and idle machines")
        electricity = textbook.ownership_usd_per_hour(0.0, 0.0, self.life, watts, self.pue, self.electricity)
        if num.value(rent) <= num.value(electricity):
            raise UsageError("the rent is below the electricity alone; owning never pays", "rent")
        implied = [] if spec is None or self.capex is not None else [
            (textbook.implied_capex(lift("o", o.usd, "USD/h", f"{o.where}; {o.source}"), self.resale, self.life, watts if o.kw is None else 1000 * o.kw, self.electricity), o)
            for o in sorted(prices.offers(spec), key=lambda o: o.usd) if o.kind == "ownership"
        ]
        if self.capex is None and not implied:
            raise UsageError(f"--hw {self.hw}: nothing is published of what it costs to own; give --capex", "capex")
        capex = self.capex if self.capex is not None else sum(c for c, _ in implied) / len(implied)
        least, most = (capex, capex) if not implied else (implied[0][0], implied[-1][0])
        when = textbook.break_even_time(capex, self.resale, rent, watts, self.pue, self.electricity)
        cheap, dear = (rent, rent) if chosen is None else (chosen.low, chosen.high)
        ends = tuple(
            textbook.break_even_time(price, self.resale, usd, watts, self.pue, self.electricity)
            for price, usd in ((least, dear), (most, cheap)) if num.value(usd) > num.value(electricity)
        ) if chosen is not None or implied else ()
        owned = () if spec is None else prices.spread(spec, "ownership")
        own = textbook.ownership_usd_per_hour(capex, self.resale, self.life, watts, self.pue, self.electricity)
        both = len(ends) == 2
        return Quantities.of(
            "serving-own/1", rent_usd_per_hour=rent, own_usd_per_hour=own, electricity_usd_per_hour=electricity, break_even_s=when, capex_usd=capex,
            break_even_date=self._date(when), break_even_earliest=self._date(ends[0]) if both else None,
            break_even_latest=self._date(ends[1]) if both else None, break_even_s_interval=ends if both else None,
            owning_pays=bool(num.value(when) < num.value(self.life)), published_usd_per_hour=tuple(owned[:2]) if owned else None,
            notes=[
                *([f"Capex: mean of what {plural(len(implied), 'published cost')} of owning the chip imply ({', '.join(f'{o.provider} {o.date}, {o.where}' for _, o in implied)})."] if implied else []),
                "The break-even counts continuous use: hours in which nothing would have been rented postpone it.",
                "Space, staff, network and interest are left out; published figures have them.",
            ],
        )

    def _date(self, seconds: Quantity) -> str | None:
        """The day on which so much use has passed since it was bought; None beyond its life."""
        if self.bought is None or num.value(seconds) > num.value(self.life):
            return None
        return (date.fromisoformat(self.bought) + timedelta(seconds=float(num.value(seconds)))).isoformat()


class BreakEven(ServerPrice, Question[Quantities]):
    """The batch at which a price per token pays for the hardware, and whether memory holds it."""

    verb = "serving break-even"
    price_per_million: Number = field("usd", "What a million output tokens sell for.", symbol="$", former=("usd-per-million",))
    tokens_per_s: Number = field("tokens_per_s", "Tokens per second of one sequence (batch 1).", symbol="r")
    model: OptText = field("name", "Model whose weights and KV cache must fit.", default=None)
    seq_len: OptNumber = field("tokens", "Tokens per sequence (8192).", default=None, symbol="S", former=("seq",))
    kv_per_token: OptNumber = field("bytes", "KV-cache bytes per token ('320 KiB').", default=None, symbol="b")
    dtype: Text = field("free", "Format of weights and cache.", default="bf16", metavar="FORMAT")
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the peak and the price.", default=None)
    devices: Number = field("positive", "Devices of the server.", default=1.0, symbol="n", short="-n", metavar="COUNT")
    device_memory: OptNumber = field("bytes", "Memory per device, instead of --hw ('80 GB').", default=None, symbol="M", former=("memory",))

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        sold = self.usd_per_hour, self.price_per_million, self.utilization
        batch = textbook.break_even_batch(*sold, self.tokens_per_s)
        found: dict[str, Quantity] = {"tokens_per_s": textbook.break_even_rate(*sold), "batch": batch}
        if self.seq_len is not None or self.model is not None or self.kv_per_token is not None:
            weights: Quantity = 0.0
            tokens = lift("S", 8192.0, "tokens", "--seq-len") if self.seq_len is None else self.seq_len
            if self.model is None:
                cache = counts.bytes_of(tokens, self.kv_per_token)
            else:
                cache, weights = _sequence_and_weights(self.model, float(tokens), self.dtype, lift)
            found["kv_cache_bytes"] = counts.bytes_of(batch, cache)
            memory = self.device_memory if self.hw is None else _capacity(self.hw, lift)
            if memory is not None:
                whole = counts.bytes_of(self.devices, memory)
                most = serving.sequences_in_room(whole - weights, cache)
                found |= {"weights_bytes": weights, "capacity_bytes": whole, "largest_batch": most}
                found["feasible"] = bool(num.value(most) >= num.value(batch))
        return Quantities.of(
            "serving-break-even/1", **found,
            notes=["Throughput grows with the batch while decode streams mostly weights; the KV cache makes it less."],
        )

    def infeasible(self, answer: Quantities) -> str:
        if answer.get("feasible") is not False:
            return ""
        return (
            f"break-even takes {float(answer.batch):g} sequences and memory holds {float(answer.largest_batch):g}; "
            "use more devices, shorter sequences or a narrower cache"
        )


class Batching(Question[Quantities]):
    """Static against continuous batching: the fraction of slots that do useful work."""

    verb = "serving batching"
    mean_output: OptNumber = field("tokens", "Mean output length in tokens.", default=None, symbol="o")
    max_output: OptNumber = field("tokens", "Longest output of a batch.", default=None, symbol="o_max")
    lengths: OptText = field("free", "Instead: the output lengths of a batch (100,200,500).", default=None, metavar="COUNTS")
    batch: OptNumber = field("positive", "Concurrent sequences, for the cache freed per step.", default=None, symbol="B", metavar="COUNT")
    prompt: OptNumber = field("tokens", "Prompt tokens, for the cache freed per step.", default=None, symbol="P")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        from rooflinecli.specs.parse_values import number

        mean, longest = self.mean_output, self.max_output
        if self.lengths is not None:
            sizes = [number("--lengths", part, "amount") for part in self.lengths.split(",")]
            mean, longest = lift("o", sum(sizes) / len(sizes), "tokens", "--lengths"), lift("o_max", max(sizes), "tokens", "--lengths")
        if num.value(mean) > num.value(longest):
            raise UsageError("the mean answer is longer than the longest; swap them")
        used = textbook.static_batching_utilization(mean, longest)
        return Quantities.of(
            "serving-batching/2", mean_output_tokens=mean, max_output_tokens=longest, static_utilization=used, continuous_utilization=1.0,
            continuous_speedup=textbook.continuous_gain(used),
            evicted_tokens_per_step=None if self.batch is None or self.prompt is None
            else textbook.evicted_tokens_per_step(self.batch, self.prompt, mean),
            notes=["Continuous batching refills a slot as soon as its answer ends; 100% assumes a queue that never empties."],
        )


class QuantizeWeights(Question[Quantities]):
    """Quantization: weight bytes, devices, sequences and memory-bound decode speed in two formats."""

    verb = "serving quantize"
    params: Number = field("params", "Parameters (70B), or a model's name.", symbol="N", short="-p")
    before: Text = field("free", "Number format before.", default="bf16", metavar="FORMAT", long="from")
    after: Text = field("free", "Number format after.", metavar="FORMAT", long="to")
    kv_per_sequence: OptNumber = field("bytes", "KV-cache bytes of a sequence ('2.68 GB').", default=None, symbol="b_kv")
    kv_after: OptNumber = field("bytes", "The same after, if the cache is quantized too.", default=None, symbol="b_kv'")
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the peak and the price.", default=None)
    device_memory: OptNumber = field("bytes", "Memory per device, instead of --hw ('16 GB').", default=None, symbol="M", former=("memory",))
    devices: OptNumber = field("positive", "Devices, for the sequences that fit.", default=None, symbol="n", short="-n", metavar="COUNT")

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        memory = self.device_memory if self.hw is None else _capacity(self.hw, lift)
        caches = self.kv_per_sequence, self.kv_per_sequence if self.kv_after is None else self.kv_after
        formats = {}
        for name, kv in zip((self.before, self.after), caches, strict=True):
            width = lift("b", *self._width(name))
            weights = counts.bytes_of(self.params, width)
            row = formats[name] = {"bytes_per_param": width, "weights_bytes": weights}
            if memory is not None:
                row["devices_for_weights"] = textbook.devices_for_bytes(weights, memory)
                if kv is not None and self.devices is not None:
                    whole = counts.bytes_of(self.devices, memory)
                    row["free_bytes"] = whole - weights
                    row["largest_batch"] = serving.sequences_in_room(whole - weights, kv)
        streamed = (0.0, 0.0) if self.kv_per_sequence is None else caches
        weights_of = formats[self.before]["weights_bytes"], formats[self.after]["weights_bytes"]
        speedup = textbook.quantization_speedup(*weights_of, *streamed)
        return Quantities.of(
            "serving-quantize/1", params=self.params, formats=formats, memory_bound_speedup=speedup,
            notes=[
                "The speedup holds at batch 1 and while decode streams weights and cache from memory; "
                "a compute-bound prefill gains only if the chip multiplies in the narrow format."
            ],
        )

    def _width(self, name: str) -> tuple[float, str, str]:
        """Bytes per parameter of any format of --weight-dtype, their unit and source; of one that parts of a model share out, such as GGUF
        mixtures, those of the model, or of Llama 3.1 8B where --params is a number."""
        from rooflinecli.engine import build_request, stored_weights
        from rooflinecli.quantization.formats import FORMATS
        from rooflinecli.quantization.gguf import file_type
        from rooflinecli.specs.model import load_model
        from rooflinecli.specs.options import OPTIONS

        text = build_request.parse_choice(OPTIONS["weight-dtype"], name)
        if text in FORMATS:
            return FORMATS[text][0], "B", f"bytes per element of {text}"
        written = str(self.written()["params"])
        spec = stored_weights.with_weight_format(load_model("llama-3.1-8b" if is_number(written) else written), file_type(text) or text)
        return stored_weights.mean_width(spec), "B", f"bytes per parameter of {spec.name} in {name}"
# fmt: on


TABLE = calculators(__file__, (ServerPrice,))
QUESTIONS = (
    TABLE["TokenCost"], Own, BreakEven, Batching, TABLE["BeamSearch"], TABLE["PrefixCaching"], TABLE["Disaggregation"], QuantizeWeights,
)  # fmt: skip


def _capacity(hw: str, lift: PlainLift) -> Quantity:
    """Memory of a device in bytes."""
    from rooflinecli.price.chip import Chip
    from rooflinecli.specs.hardware import load_hardware

    return Chip(load_hardware(hw), lift).capacity


def _sequence_and_weights(model: str, tokens: float, dtype: str, lift: PlainLift) -> tuple[Quantity, Quantity]:
    """Bytes of the KV cache of one sequence of `tokens` tokens, and of the weights a token passes through."""
    from rooflinecli.layers.build import ledger
    from rooflinecli.layers.parameter_counts import parameters
    from rooflinecli.memory import kv_cache
    from rooflinecli.quantization.formats import Formats, size_of
    from rooflinecli.specs.layout import Layout
    from rooflinecli.specs.model import load_model

    width, spec = size_of(dtype), load_model(model)
    formats = Formats(2.0, 2.0, 2.0, 2.0, width, dtype, dtype, dtype)
    cache = float(kv_cache(ledger(spec), Layout(), formats, 1.0, tokens, PLAIN))
    active = lift("N", float(parameters(spec).active), "params", f"--model {model}: active parameters of {spec.name}")
    weights = counts.bytes_of(active, lift("b", width, "B", f"bytes per element of {dtype}"))
    return lift("b_kv", cache, "B", f"KV cache of {spec.name}, {tokens:g} tokens in {dtype}"), weights
