"""Prefill and decode on several devices: shards of every kernel, and collectives priced level by level."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.hand import (
    INSIDE,
    OUTSIDE,
    PEAK,
    Kernel,
    all_reduce,
    attention,
    cached_attention,
    elementwise,
    matmul,
    routed,
    total,
    wire,
)
from end_to_end_arithmetic.models import MODELS
from end_to_end_arithmetic.serving import CONTEXT, LOAD, B, S, Wires, check, ends, layer, prompt_layer

STREAM = S * 256 * 2  # bytes of the residual stream of a prompt


def halves(tokens: int, core: Kernel) -> list[Kernel]:
    """A layer of the dense model on one of two devices: half of the heads and of the feed-forward."""
    return [
        elementwise(2 * tokens * 256),
        elementwise(2 * tokens * 256),
        matmul(tokens, 256, 4 * 32),
        elementwise(2 * tokens * 3 * 32),
        core,
        matmul(tokens, 2 * 32, 256),
        matmul(tokens, 256, 512),
        elementwise(tokens * (512 + 256)),
        matmul(tokens, 256, 256),
        elementwise(2 * 3 * tokens * 256),
    ]


def test_two_tensor_shards_of_a_prompt(ask):
    """Two all-reduces a layer of the stream, each device sending it once in all: 2 (n-1)/n with n = 2."""
    kernels = 6 * halves(S, attention(1, S, 2, 1, 32, 32, S * S / 2)) + ends(S, 1, 500)
    wires: Wires = [(12 * all_reduce(STREAM, 2), 12 * STREAM / INSIDE, 0.3)]
    answer = ask("dense", "prefill", prompt=S, n=2, tp=2)
    seconds = check(answer, kernels, 6, wires=wires)
    assert answer["communication_s"] == pytest.approx({"tp": wires[0][0], "pp": 0.0})
    assert answer["communication_bytes"]["tp"] == pytest.approx(12 * STREAM)
    assert answer["mfu"] == pytest.approx(answer["flops"] / seconds / (2 * PEAK))


def test_four_tensor_shards_keep_a_key_head_each(ask):
    """Fewer key/value heads than devices: each keeps a copy of one."""
    core = cached_attention(B, 1, 1, 32, 32, CONTEXT)
    layer = [
        elementwise(2 * B * 256),
        elementwise(2 * B * 256),
        matmul(B, 256, 3 * 32),
        elementwise(2 * B * 2 * 32),
        core,
        matmul(B, 32, 256),
        matmul(B, 256, 256),
        elementwise(B * (256 + 128)),
        matmul(B, 128, 256),
        elementwise(2 * 3 * B * 256),
    ]
    stream = B * 256 * 2
    wires = [(12 * all_reduce(stream, 4), 12 * 1.5 * stream / INSIDE, 0.3)]
    answer = ask("dense", "decode", **LOAD, n=4, tp=4)
    seconds = check(answer, 6 * layer + ends(B, B, 250), 6, sequences=B, wires=wires)
    assert answer["mfu"] == pytest.approx(answer["flops"] / seconds / (4 * PEAK))
    assert answer["memory"]["kv_cache_bytes"] == B * 300 * 6 * 2 * 32 * 2


def test_a_prompt_passes_four_stages(ask):
    """All stages one after the other, the stream handed on three times; four prompts are under way at once."""
    wires = [(3 * wire(STREAM, 1), 3 * STREAM / INSIDE, 0.3)]
    answer = ask("dense", "prefill", prompt=S, n=4, pp=4, tp=1)
    seconds = check(answer, 6 * prompt_layer() + ends(S, 1), 6, wires=wires)
    assert answer["communication_s"] == pytest.approx({"tp": 0.0, "pp": wires[0][0]})
    assert answer["tokens_per_s"] == pytest.approx(4 * S / seconds)


@pytest.mark.parametrize("pp", [2, 4])
def test_a_stage_decodes_its_part_of_the_batch(ask, pp: int):
    """Stages take turns with their part of eight sequences; a token needs all, the handovers, and waits for the slowest: six
    layers over four are two on the fullest, or one and the head on the last. The host of every stage looks at all eight."""
    b = B // pp
    stream, sends = b * 256 * 2, pp - 1
    kernels = 6 * layer(b, cached_attention(b, 4, 2, 32, 32, CONTEXT)) + ends(b, b)
    answer = ask("dense", "decode", **LOAD, n=pp, pp=pp, tp=1)
    wires = [(sends * wire(stream, 1), sends * stream / INSIDE, 0.3)]
    seconds = check(answer, kernels, 6, sequences=B, wires=wires, stages=pp, last=ends(b, b)[1:])
    assert pp == 2 or answer["breakdown_s"]["bubble"] > 0
    assert answer["tokens_per_s"] == pytest.approx(B / seconds)
    assert answer["mfu"] == pytest.approx(answer["flops"] / seconds / (pp * PEAK))


def test_two_sequences_over_four_stages_wait_for_the_head(ask, tmp_path):
    """Each is a microbatch of its own; the last of four layers with a head of three million words is slower than all others together."""
    path = tmp_path / "wordy.yaml"
    path.write_text(
        "name: wordy\nsource: by hand\n"
        + MODELS["dense"].replace("vocab_size: 1000", "vocab_size: 3000000").replace("layers: 6", "layers: 4")
    )
    answer = ask(str(path), "decode", **{**LOAD, "batch": 2}, n=4, pp=4, tp=1)
    head, parts = total(ends(1, 1, 3_000_000)[1:]), answer["breakdown_s"]
    once = answer["time_s"] - parts["bubble"]
    inner = once - parts["communication"] - head
    assert head > inner and answer["time_s"] == pytest.approx(2 * (inner / 4 + head))


def test_an_engine_that_shares_out_layers_takes_one_board_after_the_other(ask):
    """llama.cpp's boards work in turn on one batch, so that none waits for the slowest."""
    answer = ask("dense", "decode", **LOAD, n=4, pp=4, tp=1, engine="llamacpp")
    assert "bubble" not in answer["breakdown_s"]


def test_a_single_sequence_never_waits_for_a_stage(ask):
    """One microbatch is under way, so every stage is free when it comes."""
    answer = ask("dense", "decode", **{**LOAD, "batch": 1}, n=4, pp=4, tp=1)
    assert answer["breakdown_s"].get("bubble", 0.0) == 0.0


def test_replicas_share_nothing_but_the_price(ask):
    one, three = (ask("dense", "prefill", prompt=S, n=n, dp=n, tp=1, pp=1, whole=True) for n in (1, 3))
    a, b = one["phases"]["prefill"], three["phases"]["prefill"]
    assert b["time_s"] == a["time_s"] and b["mfu"] == a["mfu"]
    assert b["tokens_per_s"] == pytest.approx(3 * a["tokens_per_s"])


def exchange(tokens: int, imbalance: float = 1) -> tuple[float, float]:
    """All-to-all of two copies of every token between two devices: half of them leave. Seconds and least seconds."""
    volume = tokens * 2 * 256 * 2 * imbalance / 2
    return wire(volume, 1), volume / INSIDE


def test_experts_over_two_replicas(ask):
    """Each device holds four experts and gets as many tokens as it sends; eight times an exchange goes out and back."""
    moe = [
        *prompt_layer()[:6],
        matmul(S, 256, 8),
        routed(2 * S, 256, 160, 4, 2 * S * 2 / 8, ranks=2),
        matmul(S, 256, 384),
        elementwise(S * 576),
        matmul(S, 192, 256),
        elementwise(2 * 3 * S * 256),
    ]
    spent, least = exchange(S)
    answer = ask("moe", "prefill", prompt=S, n=2, dp=2, ep=2, tp=1, pp=1)
    wires = [(4 * 2 * spent, 4 * 2 * least, 0.3)]
    check(answer, 2 * prompt_layer() + 4 * moe + ends(S, 1), 6, moe_layers=4, wires=wires)
    assert answer["communication_bytes"]["ep"] == pytest.approx(4 * 2 * S * 2 * 256 * 2 / 2)


def test_experts_beyond_the_host_are_sent_to_both_levels_at_once(ask):
    """Eight devices, four a host: 3/8 of a buffer stays inside, 4/8 leaves; the slower level is what counts."""
    buffer = S * 2 * 256 * 2
    inside, outside = wire(buffer * 3 / 8, 3), wire(buffer * 4 / 8, 1, outside=True)
    assert outside > inside
    answer = ask("moe", "prefill", prompt=S, n=8, dp=8, ep=8, tp=1, pp=1)
    assert answer["communication_s"]["ep"] == pytest.approx(4 * 2 * outside)
    assert answer["resources_s"]["communication"] == pytest.approx(4 * 2 * buffer * 4 / 8 / OUTSIDE)
    assert answer["communication_bytes"]["ep"] == pytest.approx(4 * 2 * buffer * 7 / 8)
