"""Layers that mix alike share rows, so that a pass counts and prices those kernels once: what is shared must be the same."""

import dataclasses

import pytest

from rooflinecli.core.lift import PLAIN
from rooflinecli.layers.build import ledger
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.name_lookup import files

FORMATS = formats("bf16", None, None, {"bf16": 1}, "any chip", None, None, "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("tp", [1.0, 4.0])
def test_the_shared_rows_of_a_layer_are_the_kernels_it_would_have_alone(decode: bool, tp: float):
    shared = 0
    for name in files("models"):
        book, plan = ledger(load_model(name)), Layout(tp=tp, ep=2.0, dp=2.0)
        work, forward, seen = pass_axis_sizes(3.0, 512.0, 512.0, 1.0, plan), ForwardPass(FORMATS, decode=decode), {}
        for group in book.layers:
            assert (*group.mixing, *group.rows_after_mixer) == group.rows
            own = forward.ops(group.mixing, layer_sizes(group, work, plan, book.document, PLAIN))
            first = seen.setdefault(group.mixing, own)
            assert list(map(_figures, own)) == list(map(_figures, first)), name
            shared += first is not own
    assert shared > 20


def _figures(op):
    """An operation with its gradient's figures in place of the object that holds them."""
    return op._replace(gradient=op.gradient and dataclasses.astuple(op.gradient))


def test_deepseek_v3_attends_alike_in_its_dense_layers_and_its_mixtures():
    dense, mixture = ledger(load_model("deepseek-v3")).layers
    assert dense.mixing == mixture.mixing and dense.unrouted != mixture.unrouted
    assert not any(row.routed for row in mixture.unrouted)
    assert {"attention.core", "norm.1", "norm.2"} <= {row.name for row in dense.mixing}


def test_gemma_3_does_not_share_attention_over_windows_with_attention_over_everything():
    mixings = {group.mixing for group in ledger(load_model("gemma-3-27b")).layers}
    assert len(mixings) == 2
