"""`roofline goodput`: what failures, checkpoints and restarts leave of a long run."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.core.units import duration
from rooflinecli.formulas import training_goodput as f

# Meta reports 419 unexpected interruptions of 16,384 H100 in 54 days (Llama 3 report, section 3.3.4): one per 50,700 device-hours.
DEVICE_MTBF = 16384 * 54 * 86400 / 419
RESTART = 600.0
STATE = 14.0  # bytes per parameter: 2 working, 4 master, 8 moments


def goodput(
    devices: Number,
    checkpoint: Number | None = None,
    params: Number | None = None,
    bandwidth: Number | None = None,
    device_mtbf: Number | None = None,
    restart: Number | None = None,
    interval: Number | None = None,
    run: Number | None = None,
    lift: PlainLift = PLAIN,
) -> dict[str, Any]:
    """Goodput of `devices` at the best checkpoint interval, or at the one given.

    A checkpoint takes `checkpoint` seconds, or what `params` take at `bandwidth`. Raises UsageError when neither is given,
    Infeasible when failures come so fast that nothing is ever finished.
    """
    mtbf = lift(
        "M_1",
        DEVICE_MTBF if device_mtbf is None else device_mtbf,
        "s",
        "--mtbf"
        if device_mtbf is not None
        else "Llama 3 report, section 3.3.4: 419 interruptions of 16,384 H100 in 54 days",
    )
    back = lift(
        "R", RESTART if restart is None else restart, "s", f"--restart{'' if restart is not None else ' (default)'}"
    )
    size = None
    if checkpoint is None:
        if params is None or bandwidth is None:
            raise UsageError("how long does a checkpoint take? give --checkpoint '60 s', or --params and --bandwidth")
        size = f.checkpoint_bytes(
            lift("N", params, "params", "--params"), lift("b", STATE, "B", "working, master weights and moments")
        )
        save = f.checkpoint_time(size, lift("W", bandwidth, "B/s", "--bandwidth"))
    else:
        save = lift("delta", checkpoint, "s", "--checkpoint")
    fleet = f.fleet_mtbf(mtbf, lift("n", devices, "devices", "-n"))
    best = f.daly_interval(save, fleet)
    used = best if interval is None else lift("tau", interval, "s", "--interval")
    try:
        slow = f.slowdown(used, save, back, fleet)
    except OverflowError:
        raise Infeasible(
            f"no progress: a failure every {duration(num.value(fleet))}, while a checkpoint takes {duration(num.value(save))} "
            f"and a restart {duration(num.value(back))}; use fewer devices, or raise --mtbf"
        ) from None
    answer = {
        "devices": devices,
        "mtbf_s": fleet,
        "checkpoint_s": save,
        "restart_s": back,
        "young_interval_s": f.young_interval(save, fleet),
        "daly_interval_s": best,
        "interval_s": used,
        "slowdown": slow,
        "goodput": f.goodput_fraction(slow),
        "checkpoint_overhead": f.checkpoint_overhead(used, save),
    }
    if size is not None:
        answer["checkpoint_bytes"] = size
    if run is not None:
        busy = lift("T", run, "s", "--run")
        answer |= {"run_s": busy * slow, "failures": f.expected_failures(busy * slow, fleet)}
    return answer
