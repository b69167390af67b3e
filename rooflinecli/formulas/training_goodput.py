"""How much of a long run's time makes progress, when devices fail and state is saved now and then."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_YOUNG = "Young 1974, A first order approximation to the optimum checkpoint interval"
_DALY = "Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps"


@formula("M", "s", "independent failures and preemptions: their rates add")
def joined_mtbf(failures: Number, preemptions: Number) -> Number:
    """Mean time between interruptions of one device, from those between its failures and its preemptions."""
    return 1 / (1 / failures + 1 / preemptions)


@formula("C", "B", "working weights, master weights and optimizer moments; gradients are not saved")
def checkpoint_bytes(params: Number, bytes_per_param: Number) -> Number:
    """Size of a checkpoint."""
    return params * bytes_per_param


@formula("tau", "s", _YOUNG)
def young_interval(checkpoint: Number, mtbf: Number) -> Number:
    """sqrt(2 delta M): progress between checkpoints that loses least time."""
    return num.sqrt(2 * checkpoint * mtbf)


@formula("tau", "s", _DALY + ", eq. 37")
def daly_interval(checkpoint: Number, mtbf: Number) -> Number:
    """Young's interval with Daly's higher-order terms, less the checkpoint itself; M when a checkpoint takes longer than 2 M."""
    ratio = checkpoint / (2 * mtbf)
    interval = num.sqrt(2 * checkpoint * mtbf) * (1 + num.sqrt(ratio) / 3 + ratio / 9) - checkpoint
    return num.where(checkpoint < 2 * mtbf, num.maximum(interval, 0), mtbf)


@formula("x", "1", _DALY + ", eq. 20: expected time with exponential failures, also during checkpoint and restart, over the work done")  # fmt: skip
def slowdown(interval: Number, checkpoint: Number, restart: Number, mtbf: Number) -> Number:
    """(M/tau) e^(R/M) (e^((tau + delta)/M) - 1)."""
    return mtbf / interval * num.E ** (restart / mtbf) * (num.E ** ((interval + checkpoint) / mtbf) - 1)


@formula(
    "M",
    "s",
    "log-normal over fleets; device-hours per failure: Llama 3 50,700, RSC-1 29,500, RSC-2 82,000 (arXiv 2410.21680), OPT-175B 13,600, BLOOM 43,000",
)
def mtbf_quantile(mtbf: Number, spread: Number, z: Number) -> Number:
    """M e^(z s): a fleet's device MTBF, z standard deviations of its logarithm from the mean."""
    return mtbf * num.E ** (z * spread)


@formula("M", "s", "gamma posterior: what fleets have in common counts as 1/s^2 failures")
def observed_mtbf(mtbf: Number, spread: Number, exposure: Number, failures: Number) -> Number:
    """(T + M/s^2)/(k + 1/s^2): device MTBF after k failures in T device-seconds."""
    return (exposure + mtbf / spread**2) / (failures + 1 / spread**2)


@formula("s", "1", "of the same posterior")
def observed_spread(spread: Number, failures: Number) -> Number:
    """1/sqrt(k + 1/s^2)."""
    return 1 / num.sqrt(failures + 1 / spread**2)


def spare_shortage(failed: Number, spares: float) -> float:
    """1 - sum over k < spares of e^-f f^k/k!: chance that every spare is under repair, with `failed` hosts there in the mean.

    Source: Palm's theorem, hosts under repair are Poisson.
    """
    mean = float(num.value(failed))
    term, found = num.E**-mean, 0.0
    for k in range(int(spares)):
        found, term = found + term, term * mean / (k + 1)
    return max(1 - found, 0.0)


@formula("R", "s", "definition")
def recovery_time(detect: Number, restart: Number, shortage: Number, replacement: Number) -> Number:
    """D + R + P r: time from a failure to work again, where a replacement has to be waited for with chance P."""
    return detect + restart + shortage * replacement


@formula("x", "1", "saved before and resumed after: nothing is redone")
def with_planned(slow: Number, planned: Number, save: Number, restart: Number, mtbf: Number) -> Number:
    """x + q (delta + R)/M, with q planned interruptions for each failure."""
    return slow + planned * (save + restart) / mtbf


@formula("loss", "1", "time spent writing checkpoints over the time between them")
def checkpoint_overhead(interval: Number, checkpoint: Number) -> Number:
    """delta / (tau + delta)."""
    return checkpoint / (interval + checkpoint)
