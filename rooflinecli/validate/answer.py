"""`roofline validate`: predictions against published and measured rows, and the refit that shows what the constants learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rooflinecli.core.errors import unknown
from rooflinecli.validate import (
    aiconfigurator_tables,
    fit_kernels,
    fit_local_machines,
    fit_scheduler_delays,
    fit_serving,
    fit_sparse_engines,
    fit_training,
    kernels,
    tables,
)
from rooflinecli.validate.stats import Table, summary

SCHEMA = "roofline/validate/1"
Done = Callable[[int], None]
EVERYTHING, CALIBRATE = "all", "calibrate"


def validate(subject: str = EVERYTHING, refit: bool = False) -> dict[str, Any]:
    """Tables of errors for a subject, as plain data. Raises UsageError for an unknown subject or a missing extra."""
    return data(subject, tables_of(subject, refit))


def data(subject: str, found: list[Table]) -> dict[str, Any]:
    """Tables as the object that is printed."""
    return {
        "schema": SCHEMA,
        "subject": subject,
        "tables": [{"title": t.title, "rows": t.rows, "notes": t.notes} for t in found],
    }


def work(subject: str) -> int:
    """Steps of a refit that are counted, for a progress bar; none where a subject counts none."""
    return fit_training.work() if subject in ("training", EVERYTHING) else 0


def tables_of(
    subject: str,
    refit: bool = False,
    simulated: bool = False,
    done: Done = lambda count: None,
    full: bool = False,
) -> list[Table]:
    """Tables of a subject with the points behind them; `done` hears of a refit's steps; `full` searches for every
    tuned run. Raises UsageError for an unknown subject or a
    missing extra."""
    if subject == CALIBRATE:  # minutes of fits, so only when asked for by name
        from rooflinecli.validate import calibration_study

        return calibration_study.tables()
    if subject != EVERYTHING and subject not in tables.SUBJECTS:
        raise unknown("subject", subject, (*tables.SUBJECTS, CALIBRATE, EVERYTHING))
    if subject == "kernels" or (refit and subject not in ("training", "desk")):
        aiconfigurator_tables.systems()
    found: list[Table] = []
    for name, build in tables.SUBJECTS.items():
        if name == "kernels" and subject == EVERYTHING and not aiconfigurator_tables.installed():
            found.append(Table("kernels", [], [aiconfigurator_tables.MISSING]))
        elif subject in (name, EVERYTHING):
            found += build(full) if name == "search" else build()
    if refit:
        for name, again in REFITS.items():
            found += again(done) if subject in (name, EVERYTHING) else []
    if simulated:
        from rooflinecli.validate import percentiles
        from rooflinecli.validate import simulated_runs as simulations

        found += [*simulations.tables(), *percentiles.tables()]
    return found


def refitted(done: Done = lambda count: None) -> list[Table]:
    """Per class and chip: constants fitted on half of the shapes, their error and the shipped ones' on the other half, and with the chip left out."""
    found = []
    for name in kernels.CLASSES:
        groups = [k for k in kernels.every((name,)) if k.library == _reference(name, k.chip)]
        constants = {k.chip: fit_kernels.fit([k]) for k in groups}
        rows = [_row(k, constants) for k in groups]
        found.append(
            Table(
                f"refit: {name}",
                rows,
                [
                    "refitted and shipped: mean error on the half not fitted; left out: with the medians of the other chips' constants, all rows of the chip."
                ],
            )
        )
    return found


def _row(k: kernels.Kernels, constants: dict[str, dict[str, float]]) -> dict[str, Any]:
    """One chip's line of a refit."""
    test, whole = ~k.fitted & k.scored, k.scored
    others = [values for chip, values in constants.items() if chip != k.chip]
    median = {key: float(np.median([values[key] for values in others])) for key in constants[k.chip]}
    return {
        "group": f"{aiconfigurator_tables.CHIPS[k.chip]} {k.library}",
        "rows": int(test.sum()),
        "fitted": summary(k.points("", test, fit_kernels.with_constants(k, constants[k.chip])))["mean"],
        "shipped": summary(k.points("", test))["mean"],
        "left_out": summary(k.points("", whole, fit_kernels.with_constants(k, median)))["mean"],
        **{key: float(f"{value:.3g}") for key, value in constants[k.chip].items()},
    }


def _reference(name: str, chip: str) -> str:
    """The library whose kernels give a class its constants."""
    small = chip in ("l40s", "rtx_pro_6000_server")
    if name in ("decode attention", "latent attention"):
        return "sglang" if small else "vllm" if name.startswith("decode") else "trtllm"
    return "vllm" if name == "matmul bf16" and small else "trtllm"


REFITS: dict[str, Callable[[Done], list[Table]]] = {
    "kernels": refitted,
    "training": fit_training.refitted,
    "desk": lambda done: fit_local_machines.tables(),
    "inference": lambda done: [
        *fit_serving.refitted(),
        *fit_sparse_engines.refitted(),
        *fit_scheduler_delays.refitted(),
    ],
}
