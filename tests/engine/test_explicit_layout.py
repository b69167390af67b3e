"""What a request says about a layout: stages written out or by a framework's rule, offloading, the ranks that attend for themselves."""

from __future__ import annotations

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request, legality
from rooflinecli.questions.estimate.answer import estimate


def trained(**more):
    return estimate(request(phase="train", **more)).phases["train"]


def request(**more):
    return build_request.request({"model": "llama-3-8b", "hw": "h100", **more})


@pytest.mark.parametrize(
    ("flag", "ep", "ranks"),
    [
        (False, None, (4.0, 2.0, 1.0)),
        (False, 2.0, (4.0, 2.0, 2.0)),
        (True, None, (1.0, 8.0, 8.0)),
        (True, 2.0, (1.0, 8.0, 2.0)),
    ],
)
def test_ranks_that_attend_for_themselves(flag, ep, ranks):
    asked = request(attention_dp=True) if flag else request()
    assert legality.attention_dp_sizes(asked, 4.0, 2.0, ep) == ranks


@pytest.mark.parametrize(
    ("written", "pp", "counts"),
    [
        ("10,11,11", None, (10, 11, 11)),
        ("0,32", 2, (0, 32)),  # a stage of its own for an end
        ("embedding", 3, (10, 11, 11)),  # 33 of 11
        ("loss", 3, (11, 11, 10)),
        ("embedding+loss", 2, (16, 16)),  # 34 of 17
    ],
)
def test_layers_per_stage(written, pp, counts):
    assert legality.layout_fields(request(stages=written, **({"pp": pp} if pp else {})), "train")["stages"] == counts


@pytest.mark.parametrize(
    ("written", "pp", "says"),
    [
        ("10,11,12", None, "adds up to 33, but"),
        ("-1,33", None, "adds up to 32, but"),
        ("ten,22", None, "expected whole numbers"),
        ("embedding", 2, "counts 33 layers and ends"),
        ("embedding", 1, "a --pp of at least 2"),
        ("loss", None, "a --pp of at least 2"),
        ("embedding+loss", 3, "counts 34 layers and ends"),
    ],
)
def test_stages_that_are_none(written, pp, says):
    with pytest.raises(UsageError, match=says):
        legality.layout_fields(request(stages=written, **({"pp": pp} if pp else {})), "train")


def test_how_experts_are_served_is_no_matter_of_training():
    asked = request(model="mixtral-8x7b", redundant_experts=2, schedule="gpipe", loss_chunks=4)
    plain = {"schedule": "gpipe", "loss_chunks": 4}
    assert legality.layout_fields(asked, "train") == plain
    assert legality.layout_fields(asked, "decode") == {**plain, "redundant_experts": 2}


def test_offloading_of_some_layers():
    assert legality.layout_fields(request(offload="optimizer"), "train") == {"offload": "optimizer"}
    some = {"offload": "activations", "offload_layers": 8.0}
    assert legality.layout_fields(request(offload="activations:8"), "train") == some


def test_modules_are_a_list():
    asked = request(recompute="selective", recompute_modules="core_attn,mlp")
    assert legality.layout_fields(asked, "train")["recompute_modules"] == ("core_attn", "mlp")


def test_what_the_sizes_multiply_to():
    assert legality.product_of_explicit_sizes(request()) == (1, "")
    assert legality.product_of_explicit_sizes(request(tp=4, cp=3, dp=2, ep=2)) == (24, "--tp 4 --dp 2 --cp 3")


@pytest.mark.parametrize("stages", ["16,16", "20,12"])
def test_a_chosen_layout_has_the_stages_whose_layers_are_given(stages):
    assert trained(n=8, stages=stages).layout.pp == 2


def test_stages_that_are_given_as_they_would_be_split_have_the_same_floor():
    sizes = {"n": 8, "pp": 2, "dp": 4, "virtual_stages": 1, "micro_batch": 2, "zero": 1, "recompute": "none"}
    given, split = (trained(**sizes, **more) for more in ({"stages": "16,16"}, {}))
    assert given.floor_s == pytest.approx(split.floor_s, rel=1e-12)
    assert given.time_s == pytest.approx(split.time_s, rel=1e-12)


def test_gpipe_of_one_stage_accumulates_gradients():
    sizes = {"n": 8, "dp": 8, "tp": 1, "pp": 1, "micro_batch": 2, "zero": 2, "recompute": "none"}
    held = [trained(**sizes, **more).memory.total_bytes for more in ({"schedule": "gpipe"}, {})]
    assert held[0] == held[1]
