"""A training step on one device: kernels of a microbatch forward and back, loss, optimizer, family by family."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import (
    DENSE,
    EXPERT,
    LATENT,
    LATENT_LAYER,
    LAYER,
    MOE_OTHERS,
    PARAMETERS,
    sparse,
    step,
    unfused,
)
from end_to_end_arithmetic.hand import PEAK, Kernel, W, elementwise, total, touched
from end_to_end_arithmetic.training import (
    COUNT,
    Around,
    S,
    Work,
    adam,
    block,
    check,
    core,
    ew,
    flat,
    head,
    mm,
    stem,
)


def test_dense(ask):
    answer = step(ask)
    seconds = check(answer, flat(DENSE), Around(adam(PARAMETERS)))
    forward = sum(k.flops for k in flat(DENSE, "forward"))
    assert answer["flops"] == pytest.approx(3 * COUNT * forward)
    assert answer["mfu"] == pytest.approx(3 * COUNT * forward / seconds / PEAK)
    assert answer["hfu"] == pytest.approx(answer["mfu"])
    assert answer["tokens_per_s"] == pytest.approx(COUNT * S / seconds)
    assert answer["microbatches"] == COUNT


def test_two_sequences_a_microbatch(ask):
    """Seven sequences in microbatches of two are four microbatches, the last one padded."""
    answer = step(ask, batch=7, micro_batch=2)
    assert answer["microbatches"] == 4
    assert answer["breakdown_s"]["matmul"] == pytest.approx(4 * total(flat(twice()), "matmul"))
    assert answer["breakdown_s"]["elementwise"] == pytest.approx(4 * total(flat(twice()), "elementwise"))


def twice() -> list[Work]:
    return 6 * block(z=2 * S, s=2 * S) + stem(2 * S) + head(2 * S, s=2 * S)


def test_windowed_and_chunked(ask):
    local = core(1, S, 4, 2, 32, 32, 64 * 64 / 2 + (S - 64) * 64, span=64 + 128)
    chunk = core(1, S, 4, 2, 32, 32, 2 * 96 * 96 / 2 + 64 * 64 / 2, span=96 + 128)
    work = 2 * (block(attend=local) + block() + block(attend=chunk)) + stem() + head()
    answer = step(ask, "windowed")
    check(answer, flat(work), Around(adam(PARAMETERS)))
    assert answer["flops"] == pytest.approx(3 * COUNT * sum(k.flops for k in flat(work, "forward")))


def test_experts(ask):
    work = 2 * block() + 4 * sparse(2 * S, touched(8, 2, S)) + stem() + head()
    answer = step(ask, "moe")
    check(answer, flat(work), Around(adam(MOE_OTHERS + 4 * 8 * EXPERT), overhead=4 * 13e-6, experts=True))
    assert answer["flops"] == pytest.approx(3 * COUNT * sum(k.flops for k in flat(work, "forward")))


def test_the_busiest_device_of_uneven_experts_multiplies_more(ask):
    work = 2 * block() + 4 * sparse(2 * S, touched(8, 2, S), busiest=1.5) + stem() + head()
    answer = step(ask, "moe", imbalance=1.5)
    check(answer, flat(work), Around(adam(MOE_OTHERS + 4 * 8 * EXPERT), overhead=4 * 13e-6, experts=True))


def test_latent_attention(ask):
    parameters = PARAMETERS + 6 * (LATENT_LAYER - LAYER)
    check(step(ask, "mla"), flat(6 * LATENT + stem() + head()), Around(adam(parameters)))


def test_encoder(ask):
    s = 50
    layer = [
        ew(s * 256, s * 256),
        ew(s * 256, s * 256),
        mm(s, 256, 768),
        core(1, s, 8, 8, 32, 32, s * s),
        mm(s, 256, 256),
        mm(s, 256, 512),
        ew(s * 512, s * 512),
        mm(s, 512, 256),
        ew(4 * s * 256, 2 * s * 256, linear=True),
    ]
    outer = [mm(s, 768, 256), *stem(s), ew(s * 256, s * 256), mm(1, 256, 10)]
    inside = 4 * 256 + 256 * 768 + 768 + 256 * 256 + 256 + 2 * 256 * 512 + 512 + 256
    outside = 768 * 256 + 256 + 256 + 50 * 256 + 2 * 256 + 256 * 10 + 10
    check(step(ask, "encoder", seq=50), flat(6 * layer + outer), Around(adam(6 * inside + outside)))


def test_materialised_scores(ask):
    work = 6 * block(attend=unfused(False)) + stem() + head()
    answer = step(ask, flash=False)
    check(answer, flat(work), Around(adam(PARAMETERS)))
    fused = sum(k.flops for k in flat(DENSE, "forward"))
    assert answer["flops"] == pytest.approx(3 * COUNT * fused)  # masked pairs are executed, not needed


def test_dropout_reads_its_masks(ask):
    """A byte for every score and for both residual branches."""
    layer = block(attend=unfused(True))
    branch = 6 * S * 256
    layer[9] = Work((elementwise(branch, moved=2 * S * 256),), (elementwise(branch, moved=2 * S * 256),))
    answer = step(ask, flash=False, dropout=True)
    check(answer, flat(6 * layer + stem() + head()), Around(adam(PARAMETERS)))


def test_an_eager_framework_moves_more_and_adds_gradients_apart(ask):
    """software `eager` of the hand chip: 1.5 times elementwise traffic, 7 bytes a parameter and microbatch, 5 at the optimizer."""
    work = 6 * block(times=1.5) + stem() + head(times=1.5)
    accumulate = Kernel("optimizer", "optimizer", PARAMETERS * 7 / (0.6 * W), 0.09)
    answer = step(ask, software="eager")
    check(answer, [*flat(work), accumulate], Around(adam(PARAMETERS, 35)))


def test_biases_are_passes_of_their_own(ask):
    """software `biased`: 1.25 passes over the outputs of the four biased matmuls of an encoder's layer."""
    plain, biased = (step(ask, "encoder", seq=50, software=name) for name in ("any", "biased"))
    more = COUNT * 6 * elementwise(50 * (768 + 256 + 512 + 256) * 1.25).seconds
    assert biased["time_s"] - plain["time_s"] == pytest.approx(more)
    assert biased["breakdown_s"]["elementwise"] - plain["breakdown_s"]["elementwise"] == pytest.approx(more)


def test_the_host_keeps_the_optimizer(ask):
    """Gradients down and weights up the link, the update at 0.3 of the host's memory, a millisecond to begin."""
    owned = PARAMETERS
    offloaded = 1e-3 + owned * 30 / (0.3 * 40e9) + owned * (4 + 2) / 50e9
    answer = step(ask, offload="optimizer")
    check(answer, flat(DENSE), Around(offloaded))
    assert answer["memory"]["optimizer_bytes"] == 0


def test_activations_wait_on_the_host_beside_the_work(ask):
    """What four of six layers keep goes down a link of 50 GB/s and comes back up, hidden in the p-norm."""
    kept = 4 * S * 2 * (2 * 256 + 2 * 256 + 8 * 32 + 4 * 32 + 1024 + 512)
    swapped = 2 * kept / 50e9
    answer = step(ask, offload="activations:4")
    wires = {"host": (swapped, 0.0, 0.0)}
    check(answer, flat(DENSE), Around(adam(PARAMETERS), wires))
    assert answer["hidden_s"]["host"] + answer["communication_s"]["host"] == pytest.approx(COUNT * swapped)


def test_state_is_as_wide_as_asked(ask):
    answer = step(ask, gradient_bytes=2, optimizer_bytes=6)
    work = 6 * block(gradient=2) + stem() + head(gradient=2)
    check(answer, flat(work), Around(adam(PARAMETERS, 2 * 6 + 2 + 2)))
    assert answer["memory"]["gradients_bytes"] == 2 * PARAMETERS
    assert answer["memory"]["optimizer_bytes"] == 6 * PARAMETERS


def test_ideal_is_certain(ask):
    """Every kernel at the roofline: nothing is unsure, so the interval has no width."""
    answer = step(ask, efficiency="ideal")
    assert answer["interval_s"] == [answer["time_s"]] * 2


def test_documents_attend_to_themselves_alone(ask):
    """Documents of 32 and 96 tokens: one that a token is in has (32^2 + 96^2)/128 = 80 on average, 40 pairs for each token."""
    packed = core(1, S, 4, 2, 32, 32, S * 40, span=80)
    work = 6 * block(attend=packed) + stem() + head()
    answer = step(ask, lengths="32,96")
    check(answer, flat(work), Around(adam(PARAMETERS)))
    assert answer["flops"] == pytest.approx(3 * COUNT * sum(k.flops for k in flat(work, "forward")))


def test_a_document_as_long_as_its_sequence_changes_nothing(ask):
    assert step(ask, lengths=str(S)) == step(ask)
