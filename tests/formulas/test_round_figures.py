"""Formulas at figures small enough to work out in the head: every term, factor and bound changes what comes out."""

from __future__ import annotations

import math
from itertools import product

import pytest

from rooflinecli.formulas import (
    attention,
    collectives,
    cost,
    energy,
    fine_tuning,
    memory,
    occupancy,
    offload,
    schedule,
    serving,
    training,
)

WORKED = [
    # caches of sessions that wait
    (offload.idle_on_device, (10.0, 3.0), 7.0),
    (offload.idle_on_device, (3.0, 10.0), 0.0),  # more under way than fit at once: none waits
    (offload.sessions_cached, (60.0, 4.0), 15.0),
    (offload.sessions_cached, (60.0, 0.0), 60.0),  # a cache of nothing counts as a byte
    (offload.tier_hit_fraction, (10.0, 4.0, 3.0), 0.3),  # all that the place keeps
    (offload.tier_hit_fraction, (10.0, 4.0, 9.0), 0.6),  # all that nearer ones left over
    (offload.tier_hit_fraction, (10.0, 12.0, 9.0), 0.0),  # nearer ones took all
    (serving.room_within_share, (100.0, 0.9, 50.0, 10.0), 30.0),
    (serving.pool_tokens, (30.0, 3.0, 7.0), 30.0 / 3 * 7),
    (serving.pool_tokens, (-1.0, 3.0, 7.0), 0.0),
    (serving.pool_tokens, (30.0, 0.0, 7.0), 30.0 * 7),
    # weights on the host
    (offload.host_layers, (80.0, 60.0), 0.25),
    (offload.host_layers, (80.0, 99.0), 0.0),
    (offload.host_experts, (0.25, 0.0), 0.25),
    (offload.host_experts, (0.25, 0.5), 0.625),  # a quarter, and half of three quarters
    (offload.on_device, (8.0, 0.25), 6.0),
    (offload.layers_that_fit, (50.0, 8.0, 99.0), 4.0),  # 12.375 each: four are 49.5
    (offload.layers_that_fit, (500.0, 8.0, 99.0), 8.0),
    (offload.layers_that_fit, (-50.0, 8.0, 99.0), 0.0),
    (offload.experts_that_leave, (25.0, 8.0, 96.0), 3.0),  # 12 each: three are 36, two are 24
    (offload.experts_that_leave, (24.0, 8.0, 96.0), 2.0),
    (offload.experts_that_leave, (-1.0, 8.0, 96.0), 0.0),
    (offload.copy_time, (60.0, 3.0, 9.0, 0.5), 40.0),
    # money
    (cost.usd_per_million_tokens, (9.0, 5.0, 0.5), 1000.0),  # 2.5 tokens a second are 9000 an hour
    (cost.fleet_price, (4.0, 3.0), 12.0),
    (cost.run_cost, (7200.0, 3.0), 6.0),
    (energy.energy, (4.0, 500.0, 3.0), 6000.0),
    (serving.total_batch, (4.0, 3.0, 2.0), 24.0),
    (energy.joules_per_token, (4.0, 500.0, 100.0), 20.0),
    (cost.ownership_usd_per_hour, (36000.0, 0.5, 36000.0 * 3600, 1000.0, 1.5, 0.2), 0.8),
    (cost.break_even_time, (1000.0, 0.5, 1.3, 1000.0, 1.5, 0.2), 1_800_000.0),
    (energy.grams_co2e, (3.6e6, 400.0), 400.0),
    (energy.grams_co2e_per_million, (3.6, 400.0), 400.0),
    (energy.embodied_grams_per_million, (2.0, 36.0, 100.0), 200.0),
    (energy.liters_per_million, (3.6, 3.0), 3.0),
    (energy.electricity_usd, (7.2e6, 0.1), 0.2),
    (energy.electricity_usd_per_million, (3.6, 0.1), 0.1),
    (energy.tokens_per_s_per_megawatt, (0.5,), 2e6),
    (energy.power_fraction, (0.2, 0.4, 0.5, 0.5, 0.25), 0.65),
    (energy.power_fraction, (0.5, 0.4, 0.5, 3.0, 1.0), 1.0),
    (energy.power_fraction, (0.2, 0.4, 0.5, 1.5, 0.0625), 0.725),  # memory is used whole at the most
    # a block of a kernel: 47 and 8 pieces of 128 bytes
    (occupancy.shared_memory_per_block, (6000.0, 1024.0, 128.0), 55 * 128.0),
    (energy.power_draw, (0.5, 700.0, 500.0), 350.0),
    (energy.power_draw, (0.9, 700.0, 500.0), 500.0),
    (energy.tokens_per_joule, (0.25,), 4.0),
    (energy.joules_per_request, (10.0, 0.5, 100.0), 60.0),
    (energy.server_energy, (10.0, 1.6), 16.0),
    (energy.facility_energy, (10.0, 1.1), 11.0),
    (energy.joined_error, (0.3, 0.4), 0.5),
    (energy.quotient_error, (0.3, 0.4, 0.0), 0.5),
    (energy.quotient_error, (0.3, 0.3, 0.5), 0.3),  # 0.09 + 0.09 - 0.09
    (energy.quotient_error, (0.4, 0.1, 1.0), 0.3),  # what is common to both cancels
    (serving.launch_bound_wait, (100.0, 0.002, 50.0, 0.001, 0.2), 0.05),
    (serving.launch_bound_wait, (100.0, 0.002, 50.0, 0.001, 0.4), 0.0),
    (serving.autoencoder_time, (4.0, 1e6, 250e6, 1e15), 1.0),
    (energy.served_compute_utilization, (100.0, 20.0, 10.0, 2.0, 6000.0), 0.1),
    # adapters
    (fine_tuning.adapters_held, (4.0, 60.0, 3.0, 2.0), 160.0),
    (fine_tuning.adapters_met, (2.0, 2.0), 1.5),  # HH, HT, TH, TT: one, two, two, one
    (fine_tuning.adapters_met, (7.0, 1.0), 1.0),
    (fine_tuning.served_adapter_bytes, (5.0, 3.0, 4.0, 2.0, 11.0, 2.0), 5 * 3 * 2 + 2 * 5 * 4 * 2 + 22),
    (fine_tuning.further_bytes, (3.5, 11.0, 2.0), 55.0),
    (fine_tuning.further_bytes, (0.5, 11.0, 2.0), 0.0),
    (fine_tuning.adapter_starts, (3.0,), 6.0),
    # pipelines, of t = F + B + W and F = B: half of a forward pass, and F + B - 2 W where that is left over
    (schedule.zero_bubble_v, (4.0, 6.0, 2.0), 3 * 1.0),  # half of a forward pass of 2 each
    (schedule.zero_bubble_v, (4.0, 5.0, 1.0), 3 * (1.0 + 2 + 2 - 2 * 1)),
    (schedule.zero_bubble_v, (4.0, 7.0, 3.0), 3 * 1.0),  # W longer than F: still never below the start
    (serving.pieces_at_once, (6.0, 3.0), 18.0 / 8),  # 18 pieces of work in eight slots
    (serving.pieces_at_once, (6.0, 1.0), 1.0),
    (serving.uncaptured_launch_time, (32.0, 2.0, 30.0, 5.0), 214.0),
    # images
    (serving.guided_passes, (6.0,), 12.0),
    (serving.images_per_second, (640.0, 64.0), 10.0),
    # training
    (memory.autodiff_residuals, (10.0, 8.0, 7.0, 6.0), 122.0),
    (memory.tiled_feedforward, (100.0, 60.0, 4.0), 55.0),  # 40 and a quarter of 60
    (memory.tiled_feedforward, (100.0, 60.0, 1.0), 100.0),
    (training.step_error, (2.0, 3.0, 6.0, 0.0), 7.0),
    (training.step_error, (0.0, 0.0, 0.0, 3.0, 4.0), 5.0),
    (training.extrapolation_error, (2.0, 3.0, 6.0), 7.0),
    (training.extrapolation_error, (), 0.0),
    (training.beyond, (4.0, 4.0, 5.0), 0.0),
    (training.beyond, (1.0, 4.0, 5.0), 0.0),
    (training.beyond, (4.5, 4.0, 5.0), 0.5),
    (training.beyond, (4.5, 4.0, 6.0), 0.25),
    (training.beyond, (5.0, 4.0, 5.0), 1.0),
    (training.beyond, (9.0, 4.0, 5.0), 1.0),
    # collectives
    (collectives.message_gain, (0.4, 1.0, 40.0), 0.4 * 0.95),  # a tenth of it is latency times four
    (collectives.message_gain, (0.4, 20.0, 40.0), 0.2),  # all latency: half of the error
    # packed documents of 2 and 6 tokens: (2 2 + 6 6) / 8
    (attention.packed_length, (40.0, 8.0), 5.0),
    (attention.packed_pairs, (100.0, 5.0, 12.5), 250.0),
]


@pytest.mark.parametrize(("formula", "given", "worked"), WORKED, ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_formula_is_what_one_works_out(formula, given, worked):
    assert formula(*given) == pytest.approx(worked, rel=1e-12, abs=1e-12)


def test_newton_schulz_is_three_matmuls_a_step():
    """A = X X^T, A^2, and (bA + cA^2) X, each 2 FLOPs a product, counted one by one."""
    m, n = 3, 5
    products = sum(1 for _ in product(range(m), range(m), range(n)))  # X X^T
    products += sum(1 for _ in product(range(m), repeat=3))  # A A
    products += sum(1 for _ in product(range(m), range(n), range(m)))  # (...) X
    assert training.newton_schulz_flops(float(m), float(n), 4.0) == 4 * 2 * products


@pytest.mark.parametrize(("adapters", "sequences"), [(3, 4), (4, 3), (1, 5)])
def test_adapters_met_are_those_of_all_drawings(adapters, sequences):
    drawn = [len(set(each)) for each in product(range(adapters), repeat=sequences)]
    assert fine_tuning.adapters_met(float(adapters), float(sequences)) == pytest.approx(sum(drawn) / len(drawn))


def test_a_token_is_in_a_packed_document_of_the_mean_length():
    lengths = [3, 9, 4, 20]
    by_token = [length for length in lengths for _ in range(length)]
    squares, total = float(sum(length * length for length in lengths)), float(sum(lengths))
    assert attention.packed_length(squares, total) == math.fsum(by_token) / len(by_token)
