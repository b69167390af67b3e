"""A training step over several devices, axis by axis: shards, collectives and what of them shows, bubbles, stragglers."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import DENSE, HALVED, LAYER, PARAMETERS, STREAM, halves, step
from end_to_end_arithmetic.hand import INSIDE, OUTSIDE, all_reduce, gathering, total, wire
from end_to_end_arithmetic.training import (
    COUNT,
    Around,
    S,
    adam,
    block,
    check,
    exchange_shown,
    flat,
    head,
    shown,
    stage_seconds,
    stem,
)

STAGE = flat(DENSE)


def test_tensor_shards_sum_four_times_a_layer(ask):
    wires = {"tp": shown(6 * 4, all_reduce(STREAM, 2), STREAM / INSIDE, 0.25)}
    answer = step(ask, n=2, tp=2, sequence_parallel=False)
    check(answer, flat(halves()), Around(adam(HALVED), wires))
    late = stage_seconds(flat(halves()), Around(0.0, wires)) - total(flat(halves())) - wires["tp"][2]
    assert answer["communication_s"]["tp"] == pytest.approx(COUNT * (wires["tp"][2] + late))


def test_sequence_shards_gather_six_times_and_scatter_four(ask):
    """Norms, residuals and embeddings see half of the tokens; backward gathers its input once more."""
    wires = {"tp": shown(6 * (6 + 4), gathering(STREAM, 2), STREAM / 2 / INSIDE, 0.25)}
    answer = step(ask, n=2, tp=2, sequence_parallel=True)
    check(answer, flat(halves(S / 2)), Around(adam(HALVED), wires))


def test_a_pipeline_of_two(ask):
    """Half of the layers and the head, the longer end, on the slowest stage; handovers there and back, 0.4 shown; one mean stage idle."""
    ends = stem() + head()
    work = 3 * block() + head()
    wires = {"pp": shown(2, wire(STREAM, 1), STREAM / INSIDE, 0.4)}
    mean = total(flat(6 * block() + ends)) / 2
    held = 3 * LAYER + 256 + 256 * 1000
    answer = step(ask, n=2, pp=2)
    seconds = check(answer, flat(work), Around(adam(held), wires, bubble=mean))
    assert answer["bubble_fraction"] == pytest.approx(mean / seconds)


def test_virtual_stages_idle_less_and_hand_over_more(ask):
    ends = stem() + head()
    mean = total(flat(6 * block() + ends)) / 2
    wires = {"pp": shown(2 * 3, wire(STREAM, 1), STREAM / INSIDE, 0.4)}
    answer = step(ask, n=2, pp=2, virtual_stages=3)
    check(answer, flat(3 * block() + head()), Around(adam(3 * LAYER + 256 + 256 * 1000), wires, bubble=mean / 3))


def test_zero_bubble_puts_weight_gradients_into_the_gaps(ask):
    """F + B - W of the layers: twice the weight gradients of a stage come off its mean time."""
    ends = stem() + head()
    mean = total(flat(6 * block() + ends)) / 2
    gaps = mean - 2 * total(flat(3 * block(), "weights"))
    wires = {"pp": shown(2, wire(STREAM, 1), STREAM / INSIDE, 0.4)}
    answer = step(ask, n=2, pp=2, schedule="zero-bubble")
    check(answer, flat(3 * block() + head()), Around(adam(3 * LAYER + 256 + 256 * 1000), wires, bubble=gaps))


def test_dualpipe_enters_from_both_ends(ask):
    """DeepSeek-V3, table 2: on six stages (6/2 - 1)(F&B + B - 3 W), with F the half of what is not weight gradients."""
    one, ends = total(flat(block())), total(flat(stem() + head()))
    mean = (6 * one + ends) / 6
    w = total(flat(block(), "weights"))
    f = (mean - w) / 2
    b = mean - f
    answer = step(ask, n=6, pp=6, schedule="dualpipe")
    assert answer["breakdown_s"]["bubble"] == pytest.approx(2 * ((f + b) + b - 3 * w))
    plain = step(ask, n=6, pp=6)
    held, usual = answer["memory"], plain["memory"]
    assert (
        held["weights_bytes"] == 2 * usual["weights_bytes"] and held["gradients_bytes"] == 2 * usual["gradients_bytes"]
    )
    assert step(ask, n=2, pp=2, schedule="dualpipe")["breakdown_s"]["bubble"] == 0


def test_two_copies_share_their_optimizer_and_exchange_both(ask):
    given = {"n": 12, "pp": 6, "dp": 2, "zero": 1, "batch": 2 * COUNT}
    dual, plain = step(ask, **given, schedule="dualpipe"), step(ask, **given)
    assert dual["memory"]["optimizer_bytes"] == plain["memory"]["optimizer_bytes"]
    assert dual["communication_bytes"]["dp"] == pytest.approx(2 * plain["communication_bytes"]["dp"])


@pytest.mark.parametrize(("stages", "slowest"), [("5,1", 0), ("1,5", 1), ("2,4", 1)])
def test_uneven_stages_run_at_the_pace_of_the_slowest(ask, stages, slowest):
    """The first stage has the embedding, the last the head."""
    counts = [int(part) for part in stages.split(",")]
    end = [total(flat(stem())), total(flat(head()))]
    one = total(flat(block()))
    pace = max(counts[0] * one + end[0], counts[1] * one + end[1])
    assert pace == pytest.approx(counts[slowest] * one + end[slowest])
    answer = step(ask, n=2, pp=2, stages=stages)
    parts = answer["breakdown_s"]
    spent = parts["matmul"] + parts["attention"] + parts["elementwise"]
    assert spent == pytest.approx(COUNT * pace)
    mean = (6 * one + sum(end)) / 2
    assert parts["bubble"] == pytest.approx(mean)


def test_gradients_of_two_replicas_are_summed_layer_by_layer(ask):
    """Six buckets of fp32 gradients: 0.85 of the exchange shows, 0.15 overlaps a microbatch."""
    bucket = PARAMETERS * 4 / 6
    spent, least = 6 * all_reduce(bucket, 2), 6 * bucket / INSIDE
    around = Around(adam(PARAMETERS), exchange=spent, tail=least)
    answer = step(ask, n=2, dp=2, zero=0, batch=2 * COUNT)
    check(answer, STAGE, around)
    late = exchange_shown(STAGE, around)
    assert answer["communication_s"] == pytest.approx({"tp": 0.0, "pp": 0.0, "cp": 0.0, "dp": late})
    assert answer["hidden_s"]["dp"] == pytest.approx(spent - late)
    assert answer["communication_bytes"]["dp"] == pytest.approx(6 * bucket)


def test_zero_1_scatters_gradients_and_gathers_weights(ask):
    """4 bytes a parameter one way, 2 the other; each replica updates half."""
    sizes = PARAMETERS * 4 / 6, PARAMETERS * 2 / 6
    spent = sum(6 * gathering(size, 2) for size in sizes)
    least = sum(6 * size / 2 / INSIDE for size in sizes)
    answer = step(ask, n=2, dp=2, zero=1, batch=2 * COUNT)
    check(answer, STAGE, Around(adam(PARAMETERS / 2), exchange=spent, tail=least))


def test_zero_2_scatters_the_gradients_of_every_microbatch(ask):
    """A shard has no room for a whole sum, so the first three of four microbatches scatter theirs too, each overlapping its own computation."""
    once, each = (step(ask, n=2, dp=2, zero=zero, batch=2 * COUNT) for zero in (1, 2))
    late = exchange_shown(STAGE, Around(0.0, exchange=6 * gathering(PARAMETERS * 4 / 6, 2)))
    assert each["time_s"] - once["time_s"] == pytest.approx((COUNT - 1) * late)
    assert each["communication_s"]["dp"] - once["communication_s"]["dp"] == pytest.approx((COUNT - 1) * late)
    sent = each["communication_bytes"]["dp"] - once["communication_bytes"]["dp"]
    assert sent == pytest.approx((COUNT - 1) * PARAMETERS * 4 / 2)
    alone = [step(ask, n=2, dp=2, zero=zero, batch=2)["time_s"] for zero in (1, 2)]
    assert alone[1] == pytest.approx(alone[0])


@pytest.mark.parametrize(("zero", "members"), [(1, 4), (2, 4), (0, 1)])
def test_ranks_that_send_their_weights_in_turn_wait_for_one_another(ask, zero, members):
    """software `turns`: 2 ms for each further rank, once a step and in plain sight; ZeRO-0 has no weights to send."""
    plain, turns = (step(ask, n=4, dp=4, zero=zero, batch=4 * COUNT, software=name) for name in ("any", "turns"))
    assert turns["time_s"] - plain["time_s"] == pytest.approx(2e-3 * (members - 1), abs=1e-12)
    assert turns["communication_s"]["dp"] - plain["communication_s"]["dp"] == pytest.approx(2e-3 * (members - 1))
    assert turns["hidden_s"]["dp"] == pytest.approx(plain["hidden_s"]["dp"])


def test_zero_3_moves_weights_twice_and_gradients_once_every_microbatch(ask):
    """In 16 bits, a tenth of it overlaps the computation."""
    bucket = PARAMETERS * 2 / 6
    spent, least = 6 * 3 * gathering(bucket, 2), 6 * 3 * bucket / 2 / INSIDE
    wires = {"dp": (spent, least, 0.9 * spent)}
    answer = step(ask, n=2, dp=2, zero=3, batch=2 * COUNT)
    check(answer, STAGE, Around(adam(PARAMETERS / 2), wires))


def test_shard_groups_of_two_sum_their_shards_between_them(ask):
    """Four replicas, ZeRO-3 over two: once a step half of the gradients meet the other group's, two devices away."""
    bucket, shard = PARAMETERS * 2 / 6, PARAMETERS * 4 / 6 / 2
    spent, least = 6 * 3 * gathering(bucket, 2), 6 * 3 * bucket / 2 / INSIDE
    wires = {"dp": (spent, least, 0.9 * spent)}
    around = Around(adam(PARAMETERS / 2), wires)
    around.exchange, around.tail = 6 * all_reduce(shard, 2), 6 * shard / INSIDE
    check(step(ask, n=4, dp=4, zero=3, shard=2, batch=4 * COUNT), STAGE, around)


def test_shard_groups_under_zero_1_do_all_three(ask):
    shard = PARAMETERS * 4 / 6 / 2
    spent = 6 * (gathering(PARAMETERS * 4 / 6, 2) + gathering(PARAMETERS * 2 / 6, 2) + all_reduce(shard, 2))
    least = 6 * (PARAMETERS * (4 + 2) / 6 / 2 + shard) / INSIDE
    answer = step(ask, n=4, dp=4, zero=1, shard=2, batch=4 * COUNT)
    check(answer, STAGE, Around(adam(PARAMETERS / 2), exchange=spent, tail=least))


def test_replicas_on_two_hosts(ask):
    """Eight replicas, four a host: a ring inside, then quarters over the network, by ring or tree; two hosts straggle once."""
    bucket = PARAMETERS * 4 / 6
    quarter = bucket / 4
    ring = wire(2 * quarter * 1 / 2, 2, outside=True)
    tree = wire(2 * quarter, 2, outside=True)
    spent = 6 * (all_reduce(bucket, 4) + min(ring, tree))
    least = 6 * max(1.5 * bucket / INSIDE, quarter / OUTSIDE)
    answer = step(ask, n=8, dp=8, zero=0, batch=8 * COUNT)
    check(answer, STAGE, Around(adam(PARAMETERS), exchange=spent, tail=least, straggle=1 + 0.02 * 1))
    assert answer["communication_bytes"]["dp"] == pytest.approx(6 * (1.5 * bucket + quarter))


def test_stragglers_grow_with_the_doublings_of_hosts(ask):
    """Sixteen devices are four hosts: 2 x 2 % of all else."""
    parts = step(ask, n=16, dp=16, batch=64)["breakdown_s"]
    others = sum(v for k, v in parts.items() if k != "stragglers")
    assert parts["stragglers"] == pytest.approx(0.04 * others)


def test_gradients_beside_a_long_step_cost_what_never_hides(ask):
    """Two sequences of 8192 tokens: the p-norm leaves next to nothing of the hidden 0.15."""
    answer = step(ask, batch=4, seq=8192, micro_batch=2, n=2, dp=2)
    spent = 6 * all_reduce(PARAMETERS * 4 / 6, 2)
    assert answer["communication_s"]["dp"] == pytest.approx(0.85 * spent, rel=1e-3)
    assert answer["communication_s"]["dp"] > 0.85 * spent


def test_axes_that_hide_add_up_before_they_meet_the_work(ask):
    """Tensor shards hide 0.75 of their sums; the exchange overlaps what already runs there, so more of it shows."""
    wires = {"tp": shown(6 * 4, all_reduce(STREAM, 2), STREAM / INSIDE, 0.25)}
    bucket = HALVED * 4 / 6
    around = Around(adam(HALVED), wires, exchange=6 * all_reduce(bucket, 2), tail=6 * bucket / INSIDE)
    answer = step(ask, n=4, tp=2, dp=2, sequence_parallel=False, batch=2 * COUNT)
    check(answer, flat(halves()), around)
    alone = Around(adam(HALVED), exchange=around.exchange)
    assert answer["communication_s"]["dp"] > exchange_shown(flat(halves()), alone)
