"""How many of each chip make a comparison an equal one: the same devices, the same hourly bill or the same memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rooflinecli.core.errors import DataError, RooflineError, UsageError, unknown
from rooflinecli.engine import build_request
from rooflinecli.questions.check.run import Estimator
from rooflinecli.questions.compare.question import ISO
from rooflinecli.questions.multi_chip import Options
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.prices import hourly

Counts = dict[str, list[int] | str]
Own = dict[str, Options]  # chip -> options that are its alone: its price


def counts(
    options: Options, specs: dict[str, HardwareSpec], iso: str, answer: Estimator, own: Own | None = None
) -> tuple[Counts, str]:
    """Device counts to try on each chip, best first, or why there is none; and one sentence on what is equal."""
    if iso not in ISO:
        raise unknown("setting of --iso", iso, ISO)
    given = build_request.value(OPTIONS["n"], options["n"]) if options.get("n") is not None else None
    if iso == "same-devices":
        return _same_devices(options, specs, given, answer)
    reference = next(iter(specs))
    n = int(given) if given is not None else _fewest(options, reference, answer)
    if isinstance(n, str):
        raise UsageError(
            f"--iso {iso} measures by {reference}, the first chip, where the layout does not fit ({n}); put another first or give -n"
        )
    prices = {name: _price(spec, (own or {}).get(name, {})) for name, spec in specs.items()}
    return _same_cost(prices, reference, n) if iso == "same-cost" else _same_memory(specs, reference, n)


def _same_devices(
    options: Options, specs: dict[str, HardwareSpec], given: float | None, answer: Estimator
) -> tuple[Counts, str]:
    if given is not None:
        return {s: [int(given)] for s in specs}, f"{int(given)} device{'s' * (given != 1)} each"
    fewest = {s: _fewest(options, s, answer) for s in specs}
    n = max((c for c in fewest.values() if isinstance(c, int)), default=0)
    if not n:
        return {s: str(why) for s, why in fewest.items()}, "it fits on no chip"
    return {
        s: [n] for s in specs
    }, f"{n} device{'s' * (n != 1)} each, the smallest power of two that fits on every chip that can"


def _same_cost(prices: dict[str, float | None], reference: str, n: int) -> tuple[Counts, str]:
    price = prices[reference]
    if price is None:
        raise UsageError(
            f"--iso same-cost: no price is known for {reference}; add --price {reference}=USD, or put a chip with a price first"
        )
    return {
        s: _affordable(s, own, n * price) for s, own in prices.items()
    }, f"at most {n * price:,.2f} USD/h, {n} x {reference}"


def _same_memory(specs: dict[str, HardwareSpec], reference: str, n: int) -> tuple[Counts, str]:
    total = n * float(specs[reference].memory.capacity.si)
    return {
        s: _as_large(spec, total) for s, spec in specs.items()
    }, f"at least {total / 1e9:,.0f} GB in all, {n} x {reference}"


def _fewest(options: Options, chip: str, answer: Estimator) -> int | str:
    """The fewest devices that hold it on a chip, or why there are none."""
    try:
        result = answer({k: v for k, v in options.items() if k != "n"} | {"hw": chip})
    except DataError:
        raise
    except RooflineError as error:
        return str(error)
    unfit = [v.message for v in result.violations]
    return unfit[0] if unfit else max(p.layout_of_phase.devices for p in result.phases.values())


def _price(spec: HardwareSpec, own: Options) -> float | None:
    if "price" in own:
        given = build_request.value(OPTIONS["price"], own["price"])
        return hourly(spec, given) if isinstance(given, str) else float(given)
    return hourly(spec)


def _affordable(name: str, price: float | None, budget: float) -> list[int] | str:
    if price is None:
        return f"no price is known for it; add --price {name}=USD"
    most = math.floor(budget / price + 1e-9) if price else 0
    return list(_down(most)) if most >= 1 else f"one costs {price:.2f} USD/h, above the budget of {budget:,.2f} USD/h"


def _as_large(spec: HardwareSpec, total: float) -> list[int] | str:
    least = math.ceil(total / float(spec.memory.capacity.si) - 1e-9)
    return list(_up(max(least, 1)))


def _down(most: int) -> Iterator[int]:
    """Counts to try from `most` down: itself, then multiples of a host's eight, then the power of two below."""
    yield from dict.fromkeys(n for n in (most, most // 8 * 8, 2 ** (most.bit_length() - 1)) if n)


def _up(least: int) -> Iterator[int]:
    yield from dict.fromkeys((least, math.ceil(least / 8) * 8, 2 ** (least - 1).bit_length()))
