"""How much of a long run's time makes progress, when devices fail and state is saved now and then."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_YOUNG = "Young 1974, A first order approximation to the optimum checkpoint interval"
_DALY = "Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps"


@formula("M", "s", "independent exponential failures: the first of n comes n times sooner")
def fleet_mtbf(device_mtbf: Number, devices: Number) -> Number:
    """Mean time between failures of a whole fleet."""
    return device_mtbf / devices


@formula("C", "B", "working weights, master weights and optimizer moments; gradients are not saved")
def checkpoint_bytes(params: Number, bytes_per_param: Number) -> Number:
    """Size of a checkpoint."""
    return params * bytes_per_param


@formula("delta", "s", "definition")
def checkpoint_time(size: Number, bandwidth: Number) -> Number:
    """Time to write a checkpoint at the bandwidth of all writers together."""
    return size / bandwidth


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


@formula(
    "x",
    "1",
    _DALY + ", eq. 20: expected time with exponential failures, also during checkpoint and restart, over the work done",
)
def slowdown(interval: Number, checkpoint: Number, restart: Number, mtbf: Number) -> Number:
    """(M/tau) e^(R/M) (e^((tau + delta)/M) - 1)."""
    return (
        mtbf
        / interval
        * 2.718281828459045 ** (restart / mtbf)
        * (2.718281828459045 ** ((interval + checkpoint) / mtbf) - 1)
    )


@formula("g", "1", "share of the time that is progress")
def goodput_fraction(slow: Number) -> Number:
    """1 / slowdown."""
    return 1 / slow


@formula("loss", "1", "time spent writing checkpoints over the time between them")
def checkpoint_overhead(interval: Number, checkpoint: Number) -> Number:
    """delta / (tau + delta)."""
    return checkpoint / (interval + checkpoint)


@formula("n_fail", "1", "definition")
def expected_failures(run: Number, mtbf: Number) -> Number:
    """Failures in a run of this length."""
    return run / mtbf
