"""Power of a device from what it does, and energy from power: chips, server, data center."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_MEASURED = (
    "form fitted to measured vLLM runs of ML.ENERGY, models left out (docs/energy.md); constants are the chip file's"
)


@formula("u_P", "1", _MEASURED)
def power_fraction(static: Number, memory: Number, compute: Number, u_mem: Number, u_flop: Number) -> Number:
    """Power over TDP: a part that any load has, one in proportion to memory bandwidth used, one to the root of FLOP/s over peak."""
    return num.minimum(1.0, static + memory * num.minimum(u_mem, 1.0) + compute * num.sqrt(u_flop))


@formula("s", "1", "H100 and B200 wait at 0.15 to 0.2 of TDP between kernels that the host starts one by one; docs/energy.md")  # fmt: skip
def static_draw(static: Number, idle: Number, waiting: Number) -> Number:
    """The static share of TDP where a device waits for its host during a part of a pass."""
    return static + (idle - static) * waiting


@formula("P", "W", "a power cap cuts what the form says; the peak rate falls with it (power_capped_rate)")
def power_draw(fraction: Number, rated: Number, limit: Number) -> Number:
    """Watts of one device under its power limit."""
    return num.minimum(fraction * rated, limit)


@formula("u_flop", "1", "definition; the prompts of other requests count")
def served_compute_utilization(
    decode_flops: Number, prompt_flops: Number, tokens_per_s: Number, devices: Number, peak: Number
) -> Number:
    """Model FLOP/s per device over peak: FLOPs of an output token, and of its part of the prompt."""
    return (decode_flops + prompt_flops) * tokens_per_s / (devices * peak)


@formula("E", "J", "power over time")
def energy(devices: Number, watts: Number, seconds: Number) -> Number:
    """Joules of the devices."""
    return devices * watts * seconds


@formula("E_t", "J", "power over throughput")
def joules_per_token(devices: Number, watts: Number, tokens_per_s: Number) -> Number:
    """Joules of the devices per token; under load, those of the prompts are in it."""
    return devices * watts / tokens_per_s


@formula("1/E_t", "1/J", "definition")
def tokens_per_joule(joules_per_token: Number) -> Number:
    """Tokens per joule of the devices."""
    return 1 / joules_per_token


@formula("E_r", "J", "a request's prompt and its output tokens")
def joules_per_request(prompt_joules: Number, joules_per_token: Number, output: Number) -> Number:
    """Joules of the devices per request."""
    return prompt_joules + joules_per_token * output


@formula("E_s", "J", "host CPU, memory, fans and idle machines, as a factor of what the chips draw")
def server_energy(joules: Number, host_factor: Number) -> Number:
    """Joules of the servers, at their plugs."""
    return joules * host_factor


@formula("E_f", "J", "power usage effectiveness: cooling and power conversion, as a factor of what the servers draw")
def facility_energy(joules: Number, pue: Number) -> Number:
    """Joules of the data center."""
    return joules * pue


@formula("e", "1", "errors add in squares, and what raises both parts of a quotient cancels in it")
def quotient_error(first: Number, second: Number, correlation: Number) -> Number:
    """80% relative error of a quotient of parts whose errors are correlated."""
    return num.sqrt(first * first + second * second - 2 * correlation * first * second)


@formula("g", "g", "energy of the data center times the carbon intensity of its grid")
def grams_co2e(joules: Number, grams_per_kwh: Number) -> Number:
    """Grams of CO2e of the electricity."""
    return joules / 3.6e6 * grams_per_kwh


@formula("g_M", "g", "energy of the data center times the carbon intensity of its grid")
def grams_co2e_per_million(joules_per_token: Number, grams_per_kwh: Number) -> Number:
    """Grams of CO2e of the electricity of a million tokens."""
    return grams_co2e(joules_per_token, grams_per_kwh) * 1_000_000


@formula("g_e", "g", "carbon of making devices and servers, over the hours of their life")
def embodied_grams_per_million(devices: Number, grams_per_device_hour: Number, tokens_per_s: Number) -> Number:
    """Embodied grams of CO2e of a million tokens."""
    return devices * grams_per_device_hour / 3600 / tokens_per_s * 1_000_000


@formula("L_M", "L", "energy of the data center times the water of its grid's electricity")
def liters_per_million(joules_per_token: Number, liters_per_kwh: Number) -> Number:
    """Liters of water of the electricity of a million tokens."""
    return joules_per_token / 3.6e6 * liters_per_kwh * 1_000_000


@formula("$_e", "USD", "energy of the data center at the price of electricity")
def electricity_usd(joules: Number, usd_per_kwh: Number) -> Number:
    """Dollars of the electricity."""
    return joules / 3.6e6 * usd_per_kwh


@formula("$_e/Mtok", "USD", "energy of the data center at the price of electricity")
def electricity_usd_per_million(joules_per_token: Number, usd_per_kwh: Number) -> Number:
    """Dollars of the electricity of a million tokens."""
    return electricity_usd(joules_per_token, usd_per_kwh) * 1_000_000


@formula("tok/s/MW", "tokens/s", "a watt is a joule per second")
def tokens_per_s_per_megawatt(joules_per_token: Number) -> Number:
    """Tokens per second of a data center per megawatt."""
    return 1e6 / joules_per_token
