"""Which other engines are timed beside XLA: our Pallas kernels, and those that JAX ships, where they compile."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.kernel_support import engines


def chosen(cases: list[KernelCase]) -> list[KernelCase]:
    """The same shapes by every other engine that can take them on this device."""
    return [
        replace(case, engine=name)
        for case in cases
        if case.engine == "xla"
        for name, takes in engines().items()
        if takes(case)
    ]
