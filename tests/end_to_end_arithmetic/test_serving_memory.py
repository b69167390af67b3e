"""What serving keeps on a device: weights by format and shard, cache by layer kind, the working set of a pass."""

from __future__ import annotations

import pytest

# parameters of the dense model, written out
LAYER = 2 * 256 + 256 * (4 + 2 * 2) * 32 + 4 * 32 * 256 + 3 * 256 * 512
TABLE, HEAD = 1000 * 256, 256 + 256 * 1000  # the head with the final norm before it
S = 256


def memory(answer: dict) -> dict:
    held = answer["memory"]
    parts = (
        "weights_bytes",
        "gradients_bytes",
        "optimizer_bytes",
        "activations_bytes",
        "kv_cache_bytes",
        "reserved_bytes",
    )
    assert held["total_bytes"] == pytest.approx(sum(held[part] for part in parts))
    assert held["gradients_bytes"] == held["optimizer_bytes"] == 0
    assert held["capacity_bytes"] == 50e9
    assert held["headroom_fraction"] == pytest.approx(1 - held["total_bytes"] / 50e9)
    return held


def test_a_prompt_on_one_device(ask):
    held = memory(ask("dense", "prefill", prompt=S))
    assert held["weights_bytes"] == 2 * (6 * LAYER + TABLE + HEAD)
    assert held["kv_cache_bytes"] == 6 * S * 2 * 2 * 32 * 2
    # the stream twice, gate and up of the widest matmul, the last token's logits
    assert held["activations_bytes"] == 2 * (2 * S * 256 + S * 2 * 512 + 1000)


@pytest.mark.parametrize(("given", "tokens"), [({}, 8192), ({"token_budget": 512}, 512)])  # vLLM's budget of a step
def test_a_prompt_in_chunks_keeps_the_activations_of_one(ask, given, tokens):
    held = memory(ask("dense", "prefill", prompt=40 * 1024, **given))
    assert held["activations_bytes"] == 2 * (2 * tokens * 256 + tokens * 2 * 512 + 1000)
    assert held["kv_cache_bytes"] == 6 * 40 * 1024 * 2 * 2 * 32 * 2


def test_decode_holds_the_whole_answer_of_every_sequence(ask):
    held = memory(ask("dense", "decode", batch=8, prompt=200, output=100))
    assert held["kv_cache_bytes"] == 8 * 6 * 300 * 2 * 2 * 32 * 2
    assert held["activations_bytes"] == 2 * 8 * (2 * 256 + 2 * 512 + 1000)


def test_a_windowed_layer_keeps_its_window_and_a_chunked_one_its_chunk(ask):
    held = memory(ask("windowed", "decode", batch=8, prompt=200, output=100))
    assert held["kv_cache_bytes"] == 8 * 2 * (64 + 300 + 96) * 2 * 2 * 32 * 2


def test_layers_that_see_everything_keep_no_cache_and_those_after_them_do(ask):
    held = memory(ask("prefix", "decode", batch=8, prompt=200, output=100))
    assert held["kv_cache_bytes"] == 8 * 4 * 300 * 2 * 2 * 32 * 2


def test_gemma_2_9b_keeps_4096_tokens_in_every_second_layer(ask):
    """huggingface.co/google/gemma-2-9b config.json: 42 layers, 8 key/value heads of 256, sliding_window 4096 in half of them."""
    held = ask("gemma-2-9b", "decode", chip="h100", batch=16, prompt=8000, output=192)["memory"]
    assert held["kv_cache_bytes"] == 16 * 21 * (4096 + 8192) * 2 * 8 * 256 * 2


def test_a_latent_cache_is_its_rank_and_one_rotary_key(ask):
    """DeepSeek-V3, arXiv 2412.19437 section 4.2: d_c = 512, d_h^R = 64, 61 layers: 70,272 bytes a token in bf16."""
    held = ask("deepseek-v3", "decode", chip="h200", n=16, tp=16, dp=1, pp=1, batch=4, prompt=1000, output=24)["memory"]
    assert held["kv_cache_bytes"] == 4 * 1024 * 70272


def test_eight_bit_weights_leave_table_and_head_in_sixteen(ask):
    held = memory(ask("dense", "prefill", prompt=S, dtype="fp8"))
    assert held["weights_bytes"] == 6 * LAYER + 2 * (TABLE + HEAD)
    assert held["activations_bytes"] == 2 * (2 * S * 256 + S * 2 * 512 + 1000)


def test_tensor_shards(ask):
    """Norms whole, the rest halved, the key/value heads too while there are two."""
    held = memory(ask("dense", "prefill", prompt=S, n=2, tp=2))
    layer = 2 * 256 + 256 * (2 + 2) * 32 + 2 * 32 * 256 + 3 * 256 * 256
    assert held["weights_bytes"] == 2 * (6 * layer + 500 * 256 + 256 + 256 * 500)
    assert held["kv_cache_bytes"] == 6 * S * 2 * 1 * 32 * 2
    assert held["activations_bytes"] == 2 * (2 * S * 256 + S * 2 * 256 + 500)


@pytest.mark.parametrize(("pp", "fullest"), [(2, 3), (4, 2)])
def test_the_fullest_stage_holds_its_layers_and_the_larger_end(ask, pp, fullest):
    held = memory(ask("dense", "prefill", prompt=S, n=pp, pp=pp, tp=1))
    assert held["weights_bytes"] == pytest.approx(2 * (fullest * LAYER + HEAD))
    assert held["kv_cache_bytes"] == pytest.approx(fullest * S * 2 * 2 * 32 * 2)


def test_a_tied_table_stands_once_on_one_device_and_on_both_ends_of_a_pipeline(ask):
    alone, staged = (ask("tied", "prefill", prompt=S, n=pp, pp=pp, tp=1)["memory"]["weights_bytes"] for pp in (1, 2))
    assert alone == 2 * (6 * LAYER + TABLE + 256)
    assert staged == pytest.approx(2 * (3 * LAYER + TABLE + 256))


def test_experts_are_shared_out_and_the_rest_is_not(ask):
    attention = LAYER - 3 * 256 * 512
    expert, others = 3 * 256 * 160, attention + 256 * 8 + 3 * 256 * 192
    for ep in (1, 2):
        held = memory(ask("moe", "prefill", prompt=S, n=ep, dp=ep, ep=ep, tp=1, pp=1))
        assert held["weights_bytes"] == 2 * (2 * LAYER + 4 * (others + 8 / ep * expert) + TABLE + HEAD)
    # two experts a token, gate and up of 160 each, are less than the dense layers' 2 x 512 a token
    assert held["activations_bytes"] == 2 * (2 * S * 256 + S * 2 * 512 + 1000)


def test_an_encoder_keeps_no_cache_and_no_logits(ask):
    held = memory(ask("encoder", "prefill"))
    layer = 4 * 256 + 256 * 768 + 768 + 256 * 256 + 256 + 2 * 256 * 512 + 512 + 256
    outside = 768 * 256 + 256 + 256 + 50 * 256 + 2 * 256 + 256 * 10 + 10
    assert held["weights_bytes"] == 2 * (6 * layer + outside)
    assert held["kv_cache_bytes"] == 0
    assert held["activations_bytes"] == 2 * (2 * 50 * 256 + 50 * 768)


def test_a_four_bit_checkpoint_keeps_its_experts_alone_in_four(ask):
    """gpt-oss-20b (arXiv 2508.10925): MXFP4 of 4.25 bits in the experts' matrices, bf16 in their biases and everywhere else."""
    held = ask("gpt-oss-20b", "prefill", chip="h100", prompt=1024)["memory"]
    experts = 24 * 32 * (2880 * 2 * 2880 + 2880 * 2880)
    whole = 20_914_757_184  # parameters of the checkpoint, experts included
    assert held["weights_bytes"] == pytest.approx(experts * 4.25 / 8 + (whole - experts) * 2)


def test_a_checkpoint_in_eight_bits_runs_in_eight_bits(ask):
    stored, asked = (
        ask(model, "prefill", prompt=S, whole=True, **dtype)
        for model, dtype in (("eight", {}), ("dense", {"dtype": "fp8"}))
    )
    assert stored["workload"]["dtype"] == "fp8"
    norms = 6 * 2 * 256  # which a checkpoint keeps in 16 bits
    one, other = (memory(answer["phases"]["prefill"])["weights_bytes"] for answer in (stored, asked))
    assert one - other == norms
    assert stored["phases"]["prefill"]["time_s"] == pytest.approx(asked["phases"]["prefill"]["time_s"], rel=1e-5)
    wide = ask("eight", "prefill", prompt=S, dtype="bf16")
    assert wide == ask("dense", "prefill", prompt=S, dtype="bf16") | {"layout": wide["layout"]}


def test_experts_alone_in_eight_bits_run_in_sixteen(ask):
    """Their weights are half as wide; every rate is that of 16 bits."""
    stored, whole = (ask(model, "prefill", prompt=S, whole=True) for model in ("eight_experts", "moe"))
    assert stored["workload"]["dtype"] == "bf16"
    a, b = (answer["phases"]["prefill"] for answer in (stored, whole))
    assert b["memory"]["weights_bytes"] - a["memory"]["weights_bytes"] == 4 * 8 * 3 * 256 * 160
    assert b["bytes_per_device"] - a["bytes_per_device"] == pytest.approx(
        4 * 8 * (1 - (1 + S * 2 / 8 / 0.45) ** -0.45) * 3 * 256 * 160
    )
    assert b["resources_s"]["compute"] == a["resources_s"]["compute"]


def test_four_bits_and_the_scales_beside_them(ask):
    """4 bits, and 16 + 8 for every 64 weights of a matrix, norms in 16; multiplied in 16 bits."""
    answer = ask("four", "prefill", prompt=S, whole=True)
    assert answer["workload"]["dtype"] == "bf16"
    width, norms = (4 + 24 / 64) / 8, 2 * 256
    expected = 6 * ((LAYER - norms) * width + 2 * norms) + 2 * (TABLE + HEAD)
    assert memory(answer["phases"]["prefill"])["weights_bytes"] == pytest.approx(expected)
