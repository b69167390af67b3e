"""A context, a layout and a phase in, a typed answer out: its quantities, those derived from them, and their intervals and bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.apply_calibration import calibrated
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.forward_step import LAUNCH_WAIT, lone_prefill_s
from rooflinecli.engine.inference import decode, decode_seconds, prefill
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, PrefillAnswer, TrainAnswer
from rooflinecli.engine.serving_load import load, prefill_interference_s, prompt_factor
from rooflinecli.formulas import cost, energy, roofline, serving
from rooflinecli.specs.grid import embodied_grams_per_device_hour
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import BLENDED, COST, DERIVED, Quantity, find, scales_with_time

# Of TDP, of a GPU whose host starts its kernels one by one: eight devices on a small batch (docs/energy.md).
IDLE_DRAW = 0.18


def train(ctx: EstimateContext, layout: Layout) -> TrainAnswer:
    """A training step (engine/training), whose modules serving does not load."""
    from rooflinecli.engine import training

    return training.train(ctx, layout)


SHIPPED: dict[str, Callable[[EstimateContext, Layout], PhaseAnswer]] = {
    "prefill": prefill,
    "decode": decode,
    "train": train,
}
PHASES = {phase: calibrated(phase, shipped) for phase, shipped in SHIPPED.items()}
ANSWERS: dict[str, type[PhaseAnswer]] = {"prefill": PrefillAnswer, "decode": DecodeAnswer, "train": TrainAnswer}


def answer(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """Answer of a phase under a layout whose sizes are lifted as the context's numbers are (`ctx.lifted`).

    Raises UsageError for a network that cannot join the layout's groups, Infeasible for a request rate no replica can sustain.
    """
    result = priced(ctx, layout, phase)
    derive(ctx, layout, phase, result)
    return result


def priced(ctx: EstimateContext, layout: Layout, phase: str) -> PhaseAnswer:
    """The answer without derived quantities, computed once: choosing a layout has priced it already."""
    return ctx.memoized(layout, phase, lambda: PHASES[phase](ctx, layout))


# --- derived quantities of a phase: the rows of specs/quantities with a formula, and their arguments that no answer has -----------

Source = Callable[[EstimateContext, Layout, PhaseAnswer], Number | None]
# Ends of an interval over its value, by the kind of quantity
Ends = dict[tuple[bool, int, tuple[str, ...]], tuple[Number, Number]]


def derive(ctx: EstimateContext, layout: Layout, phase: str, answer: PhaseAnswer) -> None:
    """Set every derived quantity of a phase, with the interval of those that have errors of their own; left out where the chip's
    file or the question lacks an argument."""
    derived: dict[str, Number] = {}
    intervals: dict[str, tuple[Number, Number]] = {}
    arguments: dict[str, Number | None] = {}
    ends: Ends = {}

    def argument(name: str) -> Number | None:
        if name in derived:
            return derived[name]
        if name not in arguments:
            source = SOURCES.get(name)
            arguments[name] = getattr(answer, name, None) if source is None else source(ctx, layout, answer)
        return arguments[name]

    for row in _rows(phase):
        values = [argument(name) for name in (*row.of, *row.errors)]
        if any(value is None for value in values):
            continue
        assert row.formula is not None  # of every derived row
        derived[row.name] = row.formula(*values[: len(row.of)])
        derived |= {name: arguments[name] for name in row.errors}
        if row.errors and not row.detail:
            low, high = interval(derived[row.name], row, answer, derived, ends)
            most = argument("power") if row.unit == "W" else None
            intervals[f"{row.name}_interval"] = (low, high if most is None else num.minimum(high, most))
    answer.derived, answer.derived_intervals = derived, intervals


def interval(
    value: Number,
    row: Quantity,
    answer: PhaseAnswer,
    derived: dict[str, Number] | None = None,
    ends: Ends | None = None,
) -> tuple[Number, Number]:
    """80% interval of a quantity of a phase: that of the time or the rate that it follows, joined with errors of its own. `ends` keeps what
    quantities of one kind have in common."""
    # of a prompt waiting is in the time, and takes no energy
    by_rate = row.rate or bool(row.errors and isinstance(answer, PrefillAnswer))
    ends, kind = {} if ends is None else ends, (by_rate, (row.time > 0) - (row.time < 0), row.errors)
    if kind not in ends:
        inverse = row.time > 0 if by_rate else row.time < 0
        base, both = answer.time_s, answer.interval_s
        if by_rate:
            base, both = answer.tokens_per_s, answer.tokens_per_s_interval
        low, high = (base / end if inverse else end / base for end in both) if row.time else (1.0, 1.0)
        low, high = num.minimum(low, high), num.maximum(low, high)
        for name in row.errors:
            error = (answer.derived if derived is None else derived).get(name, 0.0)
            together = POWER_AND_RATE if name == "power_error" and isinstance(answer, DecodeAnswer) else 0.0
            high = roofline.interval_high(1.0, energy.quotient_error(high - 1, error, together))
            low = roofline.interval_low(1.0, energy.quotient_error(1 / low - 1, error, together), 0.0)
        ends[kind] = low, high
    low, high = ends[kind]
    return value * low, value * high


@cache
def _rows(phase: str) -> tuple[Quantity, ...]:
    return tuple(row for row in DERIVED if row.phase in ("", phase))


def _compute_use(ctx: EstimateContext, layout: Layout, answer: PhaseAnswer) -> Number:
    """Model FLOP/s over peak: with recomputation in training, with the prompts of other requests in a served decode."""
    if isinstance(answer, TrainAnswer):
        return answer.hfu
    if not isinstance(answer, DecodeAnswer) or answer.load_kind == "static":
        return answer.mfu
    context = serving.mean_context(ctx.prompt, ctx.output)
    return served_compute_use(ctx, answer.batch, context, answer.tokens_per_s, layout.devices)


def served_compute_use(
    ctx: EstimateContext, batch: Number, context: Number, tokens_per_s: Number, devices: Number
) -> Number:
    """Model FLOP/s over peak of a server that makes `tokens_per_s`, decoding `batch` sequences at once."""
    cached = ctx.cached_prompt_tokens
    prompt = ctx.model_flops(1.0, ctx.uncached_prompt, ctx.prompt, ctx.logit_positions, decode=False, cached=cached)
    token = ctx.model_flops(batch, 1.0, context, 1.0, decode=True) / num.maximum(batch, 1e-12)
    peak = ctx.chip.peak(ctx.formats.compute)
    return energy.served_compute_utilization(token, prompt / num.maximum(ctx.output, 1), tokens_per_s, devices, peak)


def mean_power(ctx: EstimateContext, memory_use: Number, compute_use: Number, decode: bool) -> Number:
    """Watts of a device at the utilization of its memory and its matrix units, in decode steps or not. Only of a chip with a power."""
    static, memory, compute = (draw_constant(ctx, name, decode) for name in ("static", "memory", "compute"))
    share = energy.power_fraction(static, memory, compute, memory_use, compute_use)
    return energy.power_draw(share, ctx.chip.rated_power, ctx.chip.power)


def busy_seconds(ctx: EstimateContext, layout: Layout, answer: PhaseAnswer) -> Number:
    """Seconds of a pass without the time that requests wait for one."""
    if isinstance(answer, (DecodeAnswer, TrainAnswer)):
        return answer.time_s
    return lone_prefill_s(ctx, layout)


def draw_constant(ctx: EstimateContext, name: str, decode: bool) -> Number:
    """A constant of the power draw: decode steps of models with experts draw one share of TDP, where the chip has it."""
    draw = ctx.chip.draw
    if ctx.is_moe and draw.has_moe and decode:
        return draw.moe if name == "static" else 0.0
    return getattr(draw, name)


def _static_draw(ctx: EstimateContext, layout: Layout, answer: PhaseAnswer) -> Number:
    """The static share of the power draw, lower where the device waits for a host that starts kernels one by one."""
    static, wait = draw_constant(ctx, "static", isinstance(answer, DecodeAnswer)), answer.breakdown_s.get(LAUNCH_WAIT)
    return static if wait is None else energy.static_draw(static, IDLE_DRAW, wait / answer.time_s)


def _draw(name: str) -> Callable[[EstimateContext, Layout, PhaseAnswer], Number]:
    return lambda ctx, layout, answer: draw_constant(ctx, name, isinstance(answer, DecodeAnswer))


def _of_grid(ctx: EstimateContext, name: str, unit: str) -> Number | None:
    value = None if ctx.grid is None else getattr(ctx.grid, name)
    return None if ctx.grid is None or value is None else ctx.lift(name, value, unit, ctx.grid.source)


def _embodied(ctx: EstimateContext, layout: Layout, answer: PhaseAnswer) -> Number | None:
    """Embodied carbon is reported where carbon is asked for: with a region."""
    if ctx.grid is None:
        return None
    grams, source = embodied_grams_per_device_hour()
    return ctx.lift("g_h", grams, "g/h", source)


SOURCES: dict[str, Source] = {
    "devices": lambda ctx, layout, answer: layout.devices,
    "power": lambda ctx, layout, answer: ctx.chip.power,
    "rated_power": lambda ctx, layout, answer: None if ctx.chip.power is None else ctx.chip.rated_power,
    "static_draw": _static_draw,
    "memory_draw": _draw("memory"),
    "compute_draw": _draw("compute"),
    "power_error": lambda ctx, layout, answer: ctx.chip.draw.error_moe if ctx.is_moe else ctx.chip.draw.error,
    "memory_use": lambda ctx, layout, answer: answer.resources_s.memory / busy_seconds(ctx, layout, answer),
    "compute_use": _compute_use,
    "busy_s": busy_seconds,
    "output": lambda ctx, layout, answer: ctx.output,
    # nothing under load, where joules per token have the prompts in them; None for a batch, whose prefill is another phase
    "prompt_joules": lambda ctx, layout, answer: (
        0.0 if isinstance(answer, DecodeAnswer) and answer.load_kind != "static" else None
    ),
    "image_tokens": lambda ctx, layout, answer: ctx.request_tokens if ctx.spec.denoising is not None else None,
    "host_factor": lambda ctx, layout, answer: ctx.host_factor,
    "host_error": lambda ctx, layout, answer: HOST_ERROR,
    "grams_per_kwh": lambda ctx, layout, answer: _of_grid(ctx, "grams_per_kwh", "g/kWh"),
    "liters_per_kwh": lambda ctx, layout, answer: _of_grid(ctx, "liters_per_kwh", "L/kWh"),
    "embodied_grams": _embodied,
    "electricity": lambda ctx, layout, answer: (
        None
        if ctx.request.electricity is None
        else ctx.from_flag("$_kWh", ctx.request.electricity, "USD/kWh", "--electricity")
    ),
    "wall_factor": lambda ctx, layout, answer: ctx.host_factor * ctx.pue,
    "pue": lambda ctx, layout, answer: ctx.pue,
}
HOST_ERROR = 0.22  # 1.4 to 2.1 around the default factor
# Correlation of the errors of power and rate of decode steps: 0.51 in 245 serving runs, each model left out of the fit of the power. A rate
# that is estimated too high comes with a power that is (docs/energy.md).
POWER_AND_RATE = 0.5


# --- the bound of the 80% interval at which a quantity is ranked and a limit is checked; arrays or scalars ------------------------
#
# One meaning for every verb: `pessimistic` is the worse end of the interval, `expected` the middle, and `floor` what the time's
# roofline floor would make of it. A quantity that does not depend on a time has one value.


def time_at_bound(answer: PhaseAnswer, bound: str) -> Number:
    """The time of a phase at a bound of its interval."""
    return {"pessimistic": answer.interval_s[1], "floor": answer.floor_s}.get(bound, answer.time_s)


def interval_bound(value: Number, quantity: str, phase: PhaseAnswer | None, bound: str, less: bool) -> Number:
    """`value` of `quantity` at `bound`; `less`: whether less is better. It scales with the time or the rate of its phase."""
    scales = scales_with_time(quantity)
    if phase is None or not scales or bound == "expected" or isinstance(value, (str, bool)):
        return value
    if bound == "floor":
        return value * (phase.time_s / phase.floor_s if scales < 0 else phase.floor_s / phase.time_s)
    row = find(quantity)
    assert row is not None  # it scales
    ends = interval(value, row, phase)
    return ends[1] if less else ends[0]


# --- dollars per token: what input and output tokens cost adds up to what the server costs, in every verb -------------------------


def prefill_share_under_load(ctx: EstimateContext, layout: Layout) -> Number:
    """Fraction of a replica's busy time that prefills take, under the concurrency or the request rate asked for."""
    busy = load(ctx, layout)
    return prefill_share(ctx, layout, decode_seconds(ctx, layout, busy), busy.batch, busy.kind == "open")


def prefill_share(ctx: EstimateContext, layout: Layout, step_s: Number, batch: Number, open_loop: bool) -> Number:
    """The same where `batch` sequences decode in steps of `step_s` seconds."""
    factor = prompt_factor(ctx) if open_loop else 1.0
    return cost.prefill_share(factor * prefill_interference_s(ctx, layout) / layout.pp, step_s, batch, ctx.output)


def token_prices(
    usd_per_hour: Number,
    input_tokens_per_s: Number,
    output_tokens_per_s: Number,
    prefill_share: Number,
    utilization: Number,
) -> dict[str, Number]:
    """Dollars per million input tokens, output tokens, and tokens of both kinds, of a server that does both phases.

    input price x input tokens + output price x output tokens = blended price x all tokens = server dollars.
    """
    for_input = usd_per_hour * prefill_share
    return {
        COST["prefill"]: cost.usd_per_million_tokens(for_input, input_tokens_per_s, utilization),
        COST["decode"]: cost.usd_per_million_tokens(usd_per_hour - for_input, output_tokens_per_s, utilization),
        BLENDED: cost.usd_per_million_tokens(usd_per_hour, input_tokens_per_s + output_tokens_per_s, utilization),
    }


def token_price_at_qps(usd_per_hour: Number, qps: Number, request_tokens: Number) -> Number:
    """Dollars per million input and output tokens at the requests that come, of a server that may carry more."""
    return cost.usd_per_million_tokens(usd_per_hour, qps * request_tokens, 1.0)
