"""Bubble formulas against a discrete-event simulation of each pipeline schedule."""

from __future__ import annotations

import pytest

from rooflinecli.formulas import memory, schedule

F, B, W = 1.0, 1.0, 1.0  # forward, input gradient, weight gradient of a microbatch on a stage


def run(orders: list[list[tuple]], needs, duration) -> tuple[float, list[list[tuple[float, float, tuple]]]]:
    """Work through each stage's list in order, every task as soon as what it needs is done; the makespan and the timeline."""
    done: dict[tuple, float] = {}
    clock, at = [0.0] * len(orders), [0] * len(orders)
    timeline: list[list[tuple[float, float, tuple]]] = [[] for _ in orders]
    while any(i < len(o) for i, o in zip(at, orders, strict=True)):
        moved = False
        for s, order in enumerate(orders):
            while at[s] < len(order):
                task = order[at[s]]
                wanted = needs(s, task)
                if any(w not in done for w in wanted):
                    break
                start = max([clock[s], *(done[w] for w in wanted)])
                clock[s] = done[(s, *task)] = start + duration(task)
                timeline[s].append((start, clock[s], task))
                at[s] += 1
                moved = True
        assert moved, "deadlock"
    return max(clock), timeline


def one_f_one_b(p: int, m: int) -> list[list[tuple]]:
    orders = []
    for s in range(p):
        warm = min(p - s - 1, m)
        order = [("F", i) for i in range(warm)]
        for i in range(m - warm):
            order += [("F", warm + i), ("B", i)]
        orders.append(order + [("B", i) for i in range(m - warm, m)])
    return orders


def gpipe(p: int, m: int) -> list[list[tuple]]:
    return [[("F", i) for i in range(m)] + [("B", i) for i in range(m)] for _ in range(p)]


def plain_needs(p: int):
    def needs(s: int, task: tuple) -> list[tuple]:
        kind, i = task
        if kind == "F":
            return [(s - 1, "F", i)] if s else []
        return [(s + 1, "B", i)] if s < p - 1 else [(s, "F", i)]

    return needs


def held(timeline: list[tuple[float, float, tuple]], last: str = "B") -> int:
    """Most microbatches whose forward began and whose backward has not ended, at one time on a stage."""
    events = [(start, 1) for start, _, task in timeline if task[0] == "F"] + [
        (end, -1) for _, end, task in timeline if task[0] == last
    ]
    now = most = 0
    for _, change in sorted(events, key=lambda e: (e[0], e[1])):
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("p", [1, 2, 4, 8])
@pytest.mark.parametrize("m", [8, 16, 24])
@pytest.mark.parametrize("order", [one_f_one_b, gpipe])
def test_bubble_of_1f1b_and_gpipe(p, m, order):
    makespan, timeline = run(order(p, m), plain_needs(p), lambda task: F if task[0] == "F" else B + W)
    stage = F + B + W
    assert makespan == pytest.approx(m * stage + schedule.pipeline_bubble(p, 1, stage))
    assert 1 - m * stage / makespan == pytest.approx(schedule.bubble_fraction(p, m, 1))
    assert held(timeline[0]) == (memory.in_flight_gpipe(m, p) if order is gpipe else memory.in_flight_1f1b(m, p))


def interleaved(p: int, m: int, v: int) -> list[list[tuple]]:
    """Megatron-LM's order: chunks of p microbatches in turn, (p - s - 1) 2 + (v - 1) p forward before the first backward."""

    def at(k: int, backward: bool) -> tuple[int, int]:
        chunk = k % (p * v) // p
        return k // (p * v) * p + k % p, v - 1 - chunk if backward else chunk

    orders = []
    for s in range(p):
        total = m * v
        warm = min((p - s - 1) * 2 + (v - 1) * p, total)
        order = [("F", *at(k, False)) for k in range(warm)]
        for k in range(total - warm):
            order += [("F", *at(warm + k, False)), ("B", *at(k, True))]
        orders.append(order + [("B", *at(k, True)) for k in range(total - warm, total)])
    return orders


@pytest.mark.parametrize(("p", "v"), [(2, 2), (4, 2), (4, 3), (8, 4)])
@pytest.mark.parametrize("rounds", [2, 4])
def test_bubble_of_interleaving_is_v_times_smaller(p, v, rounds):
    m = p * rounds

    def needs(s: int, task: tuple) -> list[tuple]:
        kind, i, c = task
        if kind == "F":
            return [(s - 1, "F", i, c)] if s else ([(p - 1, "F", i, c - 1)] if c else [])
        if s < p - 1:
            return [(s + 1, "B", i, c)]
        return [(0, "B", i, c + 1)] if c < v - 1 else [(s, "F", i, c)]

    makespan, timeline = run(interleaved(p, m, v), needs, lambda task: (F if task[0] == "F" else B + W) / v)
    stage = F + B + W
    assert makespan == pytest.approx(m * stage + schedule.pipeline_bubble(p, v, stage))
    chunks = held(timeline[0])
    assert chunks / v == pytest.approx(memory.in_flight_interleaved(m, p, v))


def zero_bubble(p: int, m: int) -> list[list[tuple]]:
    """ZB-H1: 1F1B with the memory of 1F1B; a stage puts off its first s weight gradients to send input gradients on sooner."""
    orders = []
    for s in range(p):
        order = [("F", i) for i in range(min(p - s, m))]
        f, b, w = min(p - s, m), 0, 0
        while b < m or w < m:
            if b < m:
                order.append(("B", b))
                b += 1
            if (b > s and w < m) or b == m:
                order.append(("W", w))
                w += 1
            if f < m:
                order.append(("F", f))
                f += 1
        orders.append(order)
    return orders


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("m", [16, 32])
def test_bubble_of_zero_bubble_is_a_third(p, m):
    def needs(s: int, task: tuple) -> list[tuple]:
        kind, i = task
        if kind == "W":
            return [(s, "B", i)]
        return plain_needs(p)(s, task)

    makespan, _ = run(zero_bubble(p, m), needs, lambda task: 1.0)
    stage = F + B + W
    assert makespan == pytest.approx(m * stage + schedule.zero_bubble(p, 1, stage, W))
    assert schedule.zero_bubble(p, 1, stage, W) == pytest.approx(schedule.pipeline_bubble(p, 1, stage) / 3)


@pytest.mark.parametrize("times", [[3.0, 4.0, 4.0, 3.5], [5.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 6.0]])
def test_uneven_stages_run_at_the_pace_of_the_slowest(times):
    """In the long run a step grows by the slowest stage per microbatch."""
    p = len(times)

    def makespan(m: int) -> float:
        orders = [[(kind, i, s) for kind, i in order] for s, order in enumerate(one_f_one_b(p, m))]

        def needs(s: int, task: tuple) -> list[tuple]:
            kind, i, _ = task
            if kind == "F":
                return [(s - 1, "F", i, s - 1)] if s else []
            return [(s + 1, "B", i, s + 1)] if s < p - 1 else [(s, "F", i, s)]

        return run(orders, needs, lambda task: times[task[2]] * (1 / 3 if task[0] == "F" else 2 / 3))[0]

    slowest = 0.0
    for time in times:
        slowest = max(slowest, time)
    assert (makespan(60) - makespan(40)) / 20 == pytest.approx(slowest)


def zb_v(p: int, m: int) -> float:
    """Makespan of ZB-V over 2p chunks of a unit for F, B and W each: every device does what is ready first, gradients of inputs before the
    second chunk, the first chunk and weight gradients, and holds at most 2p chunks."""
    done: dict[tuple[str, int, int], float] = {}
    free, held = [0.0] * p, [0] * p
    counts = {kind: [0] * (2 * p) for kind in "FBW"}
    for _ in range(6 * p * m):
        ready = []
        for stage in range(2 * p):
            device = min(stage, 2 * p - 1 - stage)
            f, b, w = (counts[kind][stage] for kind in "FBW")
            if f < m and held[device] < 2 * p and (stage == 0 or ("F", stage - 1, f) in done):
                ready.append(
                    (max(free[device], done.get(("F", stage - 1, f), 0.0)), 1 + (stage < p), device, "F", stage, f)
                )
            if b < f and (stage == 2 * p - 1 or ("B", stage + 1, b) in done):
                begin = max(free[device], done["F", stage, b], done.get(("B", stage + 1, b), 0.0))
                ready.append((begin, 0, device, "B", stage, b))
            if w < b:
                ready.append((max(free[device], done["B", stage, w]), 3, device, "W", stage, w))
        begin, _, device, kind, stage, i = min(ready)
        done[kind, stage, i] = free[device] = begin + 1
        counts[kind][stage] += 1
        held[device] += {"F": 1, "B": 0, "W": -1}[kind]
    return max(free)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (2, 9), (4, 8), (8, 16)])
def test_bubble_of_zb_v_is_the_staggered_start(p, m):
    assert zb_v(p, m) == pytest.approx(m * 6 + schedule.zero_bubble_v(p, 6.0, 2.0))
