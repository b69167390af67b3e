"""What training keeps on the fullest device: states by ZeRO stage, saved tensors by recomputation, schedule and shard."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import EXPERT, LATENT_LAYER, LAYER, MOE_OTHERS, PARAMETERS, step
from end_to_end_arithmetic.training import COUNT, S

from rooflinecli.core.errors import UsageError

# Values one layer of the dense model keeps for its backward pass, per token: the inputs of both norms, of the query and of
# the gate projection, the heads, what attention gave, gate and up, the hidden layer.
NORMS, INPUTS, HEADS, GIVEN, GATES, HIDDEN = 2 * 256, 2 * 256, 8 * 32, 4 * 32, 1024, 512
KEPT = NORMS + INPUTS + HEADS + GIVEN + GATES + HIDDEN
LOGITS = 256 + 256 + 2 * 1000  # the final norm's input, the head's, the logits and their probabilities
HEAD = 256 + 256 * 1000


def memory(answer: dict) -> dict:
    held = answer["memory"]
    parts = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes")
    assert held["total_bytes"] == pytest.approx(sum(held[part] for part in parts))
    assert held["kv_cache_bytes"] == 0
    assert held["headroom_fraction"] == pytest.approx(1 - held["total_bytes"] / 50e9)
    return held


def activations(ask, model: str = "dense", **options) -> float:
    return memory(step(ask, model, **options))["activations_bytes"]


@pytest.mark.parametrize(
    ("zero", "weights", "gradients", "optimizer"), [(0, 1, 1, 1), (1, 1, 1, 2), (2, 1, 2, 2), (3, 2, 2, 2)]
)
def test_zero_splits_optimizer_then_gradients_then_weights(ask, zero, weights, gradients, optimizer):
    """Two replicas; 2, 4 and 12 bytes a parameter (ZeRO, Rajbhandari et al. 2020, section 3)."""
    held = memory(step(ask, n=2, dp=2, zero=zero, batch=2 * COUNT))
    assert held["weights_bytes"] == pytest.approx(2 * PARAMETERS / weights)
    assert held["gradients_bytes"] == pytest.approx(4 * PARAMETERS / gradients)
    assert held["optimizer_bytes"] == pytest.approx(12 * PARAMETERS / optimizer)


def test_a_shard_group_splits_over_itself_alone(ask):
    held = memory(step(ask, n=4, dp=4, zero=3, shard=2, batch=4 * COUNT))
    assert held["weights_bytes"] == pytest.approx(2 * PARAMETERS / 2)


def test_experts_are_split_over_their_own_copies(ask):
    """Four replicas, experts over two of them: two copies of each expert, four of all else."""
    held = memory(step(ask, "moe", n=4, dp=4, ep=2, zero=3, batch=4 * COUNT))
    own = MOE_OTHERS / 4 + 4 * 4 * EXPERT / 2
    assert held["weights_bytes"] == pytest.approx(2 * own)
    assert held["gradients_bytes"] == pytest.approx(4 * own)
    assert held["optimizer_bytes"] == pytest.approx(12 * own)


def test_everything_a_backward_pass_reads(ask):
    assert activations(ask) == 2 * S * (6 * KEPT + LOGITS)


def test_without_rematerialisation_xla_keeps_norms_in_fp32_and_every_step_of_a_gate(ask):
    """jax.vjp of a gated layer saves 12 bytes per value of a norm and of the hidden layer, where 4 and 6 are counted."""
    more = S * 6 * (8 * NORMS + 6 * HIDDEN)
    assert activations(ask, software="differentiated") == 2 * S * (6 * KEPT + LOGITS) + more
    norms = activations(ask, software="differentiated", recompute="selective", recompute_modules="layernorm")
    assert activations(ask, recompute="selective", recompute_modules="layernorm") == norms - S * 6 * 6 * HIDDEN
    assert activations(ask, software="differentiated", recompute="full") == activations(ask, recompute="full")


def test_a_tiled_feedforward_holds_a_part_of_itself_at_work(ask):
    """Of a layer at work the input of the gate projection, gate and up, and the hidden layer belong to the feed-forward."""
    tiled = KEPT - (256 + GATES + HIDDEN) * (1 - 1 / 4)
    assert activations(ask, recompute="full", mlp_chunks=4, loss_chunks=100) == pytest.approx(2 * S * (6 * 256 + tiled))
    with pytest.raises(UsageError, match="add --recompute full"):
        step(ask, mlp_chunks=4)


def test_microbatches_of_two_keep_twice(ask):
    assert activations(ask, micro_batch=2) == 2 * 2 * S * (6 * KEPT + LOGITS)


def test_a_framework_holds_copies_of_its_logits(ask):
    """software `eager`: 8 bytes a logit in addition to the logits."""
    assert activations(ask, software="eager") == 2 * S * (6 * KEPT + LOGITS) + 8 * S * 1000


def test_full_recomputation_keeps_inputs_and_one_layer_at_work(ask):
    """The loss is done with its logits before the last layer computes again: the larger of the two is held."""
    assert activations(ask, recompute="full") == 2 * S * (6 * 256 + max(KEPT, LOGITS))
    eager = activations(ask, recompute="full", software="eager")
    assert eager == 2 * S * 6 * 256 + max(2 * S * KEPT, 2 * S * LOGITS + 8 * S * 1000)


def test_part_recomputation_keeps_the_rest(ask):
    kept = 4 * 256 + 2 * KEPT
    assert activations(ask, recompute="full", recompute_layers=4) == pytest.approx(2 * S * (kept + max(KEPT, LOGITS)))


def test_layers_on_the_host_keep_nothing_and_one_is_at_work(ask):
    """Four of six layers wait on the host, then all; in addition to what the others keep, a layer on its way, or the logits."""
    assert activations(ask, offload="activations:4") == pytest.approx(2 * S * (2 * KEPT + max(KEPT, LOGITS)))
    assert activations(ask, offload="activations") == pytest.approx(2 * S * max(KEPT, LOGITS))
    assert activations(ask, offload="optimizer+activations:6") == pytest.approx(2 * S * max(KEPT, LOGITS))
    full = activations(ask, offload="activations:3", recompute="full")
    assert full == pytest.approx(2 * S * (3 * 256 + max(KEPT, LOGITS)))


def test_a_loss_in_parts_holds_the_logits_of_one(ask):
    """Four parts: a quarter of logits and probabilities; both norms' tensors stay whole."""
    assert activations(ask, loss_chunks=4) == pytest.approx(2 * S * (6 * KEPT + 512 + 2000 / 4))
    eager = activations(ask, loss_chunks=4, software="eager")
    assert eager == pytest.approx(2 * S * (6 * KEPT + 512 + 2000 / 4) + 8 * S * 1000 / 4)


def test_the_largest_layer_is_the_one_at_work(ask):
    """An expert layer: every token's two copies, gate and up, hidden, next to router, shared expert and attention."""
    visit = 256 + 2 * 160 + 160
    shared = 2 * 192 + 192
    moe = NORMS + 256 + HEADS + GIVEN + 256 + 2 * visit + shared
    assert activations(ask, "moe") == 2 * S * (2 * KEPT + 4 * moe + LOGITS)
    assert activations(ask, "moe", recompute="full") == 2 * S * (6 * 256 + max(moe, KEPT, LOGITS))


def test_op_keeps_what_attention_gave_and_half_of_the_matmuls(ask):
    """Outputs of the query, output and gate projections, counted as half of each; one layer at work in addition."""
    half = (HEADS + 256 + GATES) / 2
    assert activations(ask, recompute="op") == 2 * S * (6 * (256 + GIVEN + half) + max(KEPT, LOGITS))


@pytest.mark.parametrize(
    ("modules", "gone"),
    [
        ("layernorm", INPUTS),
        ("mlp", GATES + HIDDEN),
        ("core_attn", 0),
        ("layernorm,mlp_act", INPUTS + HIDDEN),
        ("layernorm,mlp", INPUTS + GATES + HIDDEN),
    ],
)
def test_selective_drops_what_it_makes_again(ask, modules, gone):
    kept = activations(ask, recompute="selective", recompute_modules=modules)
    assert kept == 2 * S * (6 * (KEPT - gone) + LOGITS)


@pytest.mark.parametrize(
    ("modules", "gone"),
    [("moe_act", 2 * 160), ("moe", 2 * (256 + 320 + 160)), ("shared_experts", 384 + 192), ("layernorm", 256 + 256)],
)
def test_selective_drops_tensors_of_experts(ask, modules, gone):
    """layernorm: the dense layers drop the input of gate and up, the others the router's."""
    whole, kept = (activations(ask, "moe", recompute="selective", recompute_modules=m) for m in ("core_attn", modules))
    layers = 6 if modules == "layernorm" else 4
    assert whole - kept == 2 * S * layers * gone


def test_latent_attention_keeps_latents_and_heads(ask):
    """Inputs of both down-projections are one; latents of 96 and 80, norms of 96 and 64, heads of 48 and 56, values of 24."""
    up = 96 + 192 + 64 + 224
    kept = NORMS + 256 + 96 + up + 80 + 64 + 4 * 24 + 256 + GATES + HIDDEN
    assert activations(ask, "mla") == 2 * S * (6 * kept + LOGITS)
    again = activations(ask, "mla", recompute="selective", recompute_modules="mla_up_proj")
    assert again == 2 * S * (6 * (kept - 192 - 224) + LOGITS)
    assert memory(step(ask, "mla"))["weights_bytes"] == 2 * (PARAMETERS + 6 * (LATENT_LAYER - LAYER))


def test_materialised_scores_are_kept_unless_made_again(ask):
    """Two bytes a score of 4 heads; with dropout an output and a mask byte too, and a mask byte of both branches."""
    pairs = 4 * S * S
    assert activations(ask, flash=False) == 2 * S * (6 * KEPT + LOGITS) + 6 * 2 * pairs
    assert activations(ask, flash=False, recompute="selective") == 2 * S * (6 * KEPT + LOGITS)
    dropped = activations(ask, flash=False, dropout=True)
    assert dropped == 2 * S * (6 * KEPT + LOGITS) + 6 * (5 * pairs + 2 * S * 256)
    layernorm = activations(ask, flash=False, recompute="selective", recompute_modules="layernorm")
    assert layernorm == 2 * S * (6 * (KEPT - INPUTS) + LOGITS) + 6 * 2 * pairs
    full = activations(ask, flash=False, recompute="full")
    assert full == 2 * S * 6 * 256 + max(2 * S * KEPT + 2 * pairs, 2 * S * LOGITS)


def test_tensor_shards_halve_what_is_inside_and_sequence_shards_the_rest(ask):
    inside = (HEADS + GIVEN + GATES + HIDDEN) / 2
    head = 256 + 256 + 2 * 500
    whole = 2 * S * (6 * (NORMS + INPUTS + inside) + head)
    assert activations(ask, n=2, tp=2, sequence_parallel=False) == whole
    split = 2 * S * (6 * ((NORMS + INPUTS) / 2 + inside) + (256 + 256) / 2 + 2 * 500)
    assert activations(ask, n=2, tp=2, sequence_parallel=True) == split


def test_context_shards_keep_their_tokens(ask):
    assert activations(ask, n=2, cp=2) == 2 * S / 2 * (6 * KEPT + LOGITS)


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({}, 2, 1),  # 1F1B: as many microbatches as stages on the first, one on the last
        ({"schedule": "gpipe"}, 4, 4),
        ({"virtual_stages": 3}, 2 * (1 + 1 / 6), 1),  # (pp - 1) / (pp v) more
        ({"batch": 1}, 1, 1),
    ],
)
def test_the_fullest_of_two_stages(ask, options, first, last):
    """The first holds the most microbatches, the last the head."""
    layers = 2 * S * 3 * KEPT
    expected = max(first * layers, last * layers + 2 * S * LOGITS)
    assert activations(ask, n=2, pp=2, **options) == pytest.approx(expected)


@pytest.mark.parametrize("virtual", [1, 3])
def test_the_last_stage_can_be_the_fullest(ask, virtual):
    """With inputs alone kept, the logits of the last stage and their fp32 copies outweigh what more the first holds."""
    expected = 2 * S * (3 * 256 + LOGITS) + 8 * S * 1000
    assert expected > 2 * S * (2 * (1 + 1 / 6) * 3 * 256 + KEPT)
    held = activations(ask, n=2, pp=2, recompute="full", virtual_stages=virtual, software="eager")
    assert held == expected
    plain = activations(ask, n=2, pp=2, recompute="full", virtual_stages=virtual)
    first = 2 if virtual == 1 else 2 * (1 + 1 / 6)
    assert plain == pytest.approx(2 * S * (first * 3 * 256 + KEPT))


def test_uneven_stages_keep_what_the_longest_needs(ask):
    held = memory(step(ask, n=2, pp=2, stages="5,1"))
    assert held["weights_bytes"] == pytest.approx(2 * (5 * LAYER + HEAD))
    assert held["activations_bytes"] == pytest.approx(2 * 2 * S * 5 * KEPT)


def test_a_tied_table_is_copied_to_the_last_stage(ask):
    table = 1000 * 256
    assert memory(step(ask, "tied"))["weights_bytes"] == 2 * (6 * LAYER + table + 256)
    assert memory(step(ask, "tied", n=2, pp=2))["weights_bytes"] == 2 * (3 * LAYER + table + 256)
