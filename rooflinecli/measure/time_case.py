"""Timing of one case: inputs made, kernel compiled and checked, runs enqueued on rotating inputs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rooflinecli.measure import torch_baseline
from rooflinecli.measure.cases import WARM, KernelCase
from rooflinecli.measure.device import Environment
from rooflinecli.measure.timing import Protocol, Timing, measure

if TYPE_CHECKING:
    import jax

    from rooflinecli.measure.kernels.base import Arrays, Kernel


def timed(case: KernelCase, protocol: Protocol, environment: Environment, dispatch: float) -> Timing:
    """Compile one case, check it where the kernel is not XLA's, then time it on rotating inputs (one set when timed warm) with its output buffer reused."""
    from rooflinecli.measure.kernels.base import build, sets_needed

    kernel = build(case)
    first = kernel.rotating(0)
    chain = chain_length(case, environment)
    wanted = max(chain, sets_needed(sum(a.nbytes for a in first), environment.llc, environment.memory))
    if case.engine == torch_baseline.ENGINE:
        return torch_baseline.timed(case, protocol, chain, wanted, dispatch)
    count = 1 if case.engine == WARM else 2 if case.suite == "collectives" else wanted
    sets = [first, *(kernel.rotating(i) for i in range(1, count))]
    if case.engine == "pallas":
        kernel = _checked(case, kernel, sets, protocol)
    return _time(kernel, sets, chain, protocol, dispatch)


def _checked(case: KernelCase, kernel: Kernel, sets: list[Arrays], protocol: Protocol) -> Kernel:
    """Select the quickest of a kernel's options whose output agrees with float64. Raises when none does."""
    import jax

    from rooflinecli.measure.kernels.reference import check

    best, quickest, why = None, float("inf"), Exception("no option")
    for option in kernel.options or (kernel.fn,):
        try:
            check(case, jax.jit(option)(*sets[0], *kernel.hot), sets[0], kernel.hot)
            trial = replace(kernel, fn=option)
            low = (
                _time(trial, sets, 1, replace(protocol, budget=0.1, maximum=12), 0.0).summary.low
                if len(kernel.options) > 1
                else 0.0
            )
        except Exception as error:  # a tile too large for this chip's shared memory, or a wrong result
            why = error
            continue
        if low < quickest:
            best, quickest = trial, low
    if best is None:
        raise why
    return best


def _time(kernel: Kernel, sets: list[Arrays], chain: int, protocol: Protocol, dispatch: float) -> Timing:
    """Time a kernel over its rotating input sets, `chain` of them per call."""
    import jax

    from rooflinecli.measure.kernels.base import compiled

    count = len(sets)
    groups = [tuple(sets[(g + i) % count] for i in range(chain)) for g in range(count)]
    begin = time.perf_counter()
    function, buffer = compiled(kernel, sets[0], chain)
    executable = function.lower(groups[0], kernel.hot, buffer).compile()
    compile_s = time.perf_counter() - begin
    state = [buffer]

    def run(turn: int) -> jax.Array | Arrays:
        out = executable(groups[turn % count], kernel.hot, state[0])
        if kernel.reuse:
            state[0] = out
        return out

    timing = measure(run, jax.block_until_ready, protocol, dispatch=dispatch, chain=chain)
    return replace(timing, compile_s=compile_s)


def chain_length(case: KernelCase, environment: Environment) -> int:
    """Copies in one call: enough that the host's dispatch (tens of microseconds on an accelerator) does not count."""
    if environment.platform == "cpu" or case.suite == "collectives":
        return 1
    guess = max(case.flops / 5e14, case.bytes / 2e12)  # seconds on a large accelerator; only the order matters
    return 1 if guess > 300e-6 else 4 if guess > 60e-6 else 16


def dispatch_overhead(repeats: int = 300) -> float:
    """Seconds of calling a trivial compiled kernel and waiting for it."""
    import jax
    import jax.numpy as jnp

    empty = jax.jit(lambda x: x + 1).lower(jnp.float32(0)).compile()
    x, samples = jnp.float32(1), []
    for _ in range(repeats):
        start = time.perf_counter()
        empty(x).block_until_ready()
        samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 4]
