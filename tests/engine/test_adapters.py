"""LoRA adapters served side by side: bytes against the published count, time against Punica's 2 ms, and what they may not do."""

from __future__ import annotations

import numpy as np
import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.formulas import fine_tuning
from rooflinecli.interfaces.python import api

ASKED = {"devices": 1, "prompt": 512, "output": 128, "batch": 32, "engine": "vllm", "phase": "decode"}


def decode(**options: object):
    return api.estimate("llama-2-7b", "a100", **{**ASKED, **options})["phases"]["decode"]


def test_adapters_of_rank_16_weigh_what_peft_counts() -> None:
    """39,976,960 trainable parameters for Llama 2 7B, all linear layers, rank 16 (huggingface/peft print_trainable_parameters)."""
    with_them, without = decode(adapters=8)["memory"], decode()["memory"]
    assert with_them["weights_bytes"] - without["weights_bytes"] == pytest.approx(8 * 39_976_960 * 2)
    narrow = decode(adapters=8, lora_rank=8, lora_targets="qkv")["memory"]
    assert narrow["weights_bytes"] - without["weights_bytes"] == pytest.approx(8 * 32 * 8 * 3 * (4096 + 4096) * 2)


@pytest.mark.parametrize(
    ("model", "trained"),
    [
        # q and output 16 (4096 + 4096), k and v 16 (4096 + 1024), gate, up and down 16 (4096 + 14336), 32 layers; PEFT prints 41,943,040
        ("llama-3.1-8b", 32 * 16 * (2 * 8192 + 2 * 5120 + 3 * 18432)),
        # qkv_proj 3072 -> 9216, o_proj 3072 -> 3072, gate_up_proj 3072 -> 16384, down_proj 8192 -> 3072 (config.json, modeling_phi3.py)
        ("phi-3-mini", 32 * 16 * (12288 + 6144 + 19456 + 11264)),
    ],
)
def test_training_has_the_adapters_of_the_checkpoints_matrices(model, trained) -> None:
    """Separate q, k, v, gate and up each have a pair; a matrix that the checkpoint stores fused has one. Gradients take 4 bytes."""
    held = api.estimate(model, "h100", devices=1, phase="train", recipe="lora", lora_rank=16, batch=1, seq=512)
    assert held["phases"]["train"]["memory"]["gradients_bytes"] == 4 * trained


def test_a_token_takes_about_two_milliseconds_longer() -> None:
    """Punica (arXiv 2310.18547, abstract) adds 2 ms per token; its 7 matmuls a layer are 4 here, where q, k and v run as one."""
    added = decode(adapters=32)["time_s"] - decode()["time_s"]
    assert 1.0e-3 < added < 3.0e-3
    assert decode(adapters=1000)["time_s"] > decode(adapters=32)["time_s"] > decode(adapters=1)["time_s"]


def test_the_floor_reads_one_adapter() -> None:
    """32 sequences may all use the same one, so the number of adapters moves no floor; the rank does."""
    assert decode(adapters=1000)["floor_s"] == pytest.approx(decode(adapters=1)["floor_s"])
    assert decode(adapters=1)["floor_s"] > decode()["floor_s"]


def test_adapters_met_by_a_batch() -> None:
    """By counting: 2 adapters, 3 sequences: all alike in 2 of 8 draws, so 2 - 2/8 on average; one adapter is always met."""
    assert fine_tuning.adapters_met(2.0, 3.0) == pytest.approx(2 - 2 / 8)
    assert fine_tuning.adapters_met(1.0, 5.0) == 1
    draws = np.random.default_rng(0).integers(0, 20, (20000, 10))
    assert fine_tuning.adapters_met(20.0, 10.0) == pytest.approx(np.mean([len(set(d)) for d in draws]), rel=0.01)


def test_they_leave_less_room_for_caches() -> None:
    """On one device: what 64 adapters of 80 MB hold is gone for sequences."""
    room = [decode(batch=None, concurrency="max", **kept)["max_batch"] for kept in ({}, {"adapters": 64})]
    assert room[1] < room[0]
    lost = 64 * 39_976_960 * 2 / (576 * 2 * 4096 * 2 * 32)  # half of 128 tokens of output
    assert room[0] - room[1] == pytest.approx(lost, abs=1.01)


def test_adapters_are_split_over_devices_and_stages() -> None:
    """Two stages hold half each; two tensor ranks keep the side that is not split whole, so more than half."""
    alone = fine_tuning.adapter_parameters(16.0, 4096.0, 4096.0)
    assert fine_tuning.adapters_held(3.0, alone, 2.0, 2.0) == 3 * alone
    whole, halves = (decode(adapters=4, devices=n, tp=n, pp=1)["memory"]["weights_bytes"] for n in (1, 2))
    bare, bare_halves = (decode(devices=n, tp=n, pp=1)["memory"]["weights_bytes"] for n in (1, 2))
    assert (whole - bare) / 2 < halves - bare_halves < whole - bare


def test_what_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="--recipe lora"):
        api.estimate("llama-2-7b", "a100", devices=1, phase="train", adapters=4)
    with pytest.raises(UsageError, match="encoder"):
        api.estimate("bert-large", "a100", devices=1, adapters=4)
