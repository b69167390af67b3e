"""What a request comes to: lengths by default, documents packed, passes over prompts and images, the end that is held."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.core.identity_cache import cached_by_identity
from rooflinecli.engine import build_request
from rooflinecli.engine.context import PROMPT, EstimateContext
from rooflinecli.engine.evaluate import time_at_bound
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import OUTPUT, SEQ, Request

HAND = str(Path(__file__).parents[1] / "end_to_end_arithmetic" / "hand.yaml")


def ctx(model="llama-3-8b", hw="h100", **more) -> EstimateContext:
    return EstimateContext(build_request.request({"model": model, "hw": hw, **more}))


def short(context: float) -> EstimateContext:
    """A model with a context so short that the usual lengths do not fit."""
    spec = load_model("llama-3-8b")
    less = spec.with_changes(max_context=context)
    less._document = spec.document
    return EstimateContext(Request(less, load_hardware("h100")))


@pytest.mark.parametrize(
    ("context", "prompt", "output", "seq"),
    [
        (1e6, PROMPT, OUTPUT, SEQ),
        (PROMPT + OUTPUT, PROMPT, OUTPUT, min(SEQ, PROMPT + OUTPUT)),
        (PROMPT + OUTPUT - 1, PROMPT - 1, OUTPUT, min(SEQ, PROMPT + OUTPUT - 1)),
        (400.0, 200.0, 200.0, 400.0),  # half for the prompt, half for the answer
        (12.0, 6.0, 6.0, 12.0),
    ],
)
def test_lengths_that_nobody_gives_fit_the_context(context, prompt, output, seq):
    found = short(context)
    assert (found.prompt, found.output, found.seq) == (prompt, output, seq)


def test_an_encoder_takes_its_context_whole_and_scores_every_position():
    bert, llama = ctx("bert-large"), ctx()
    assert bert.prompt == 512 and bert.output == 0 and not bert.is_autoregressive
    assert bert.logit_positions == 0.0  # embeddings: the masked head only trains
    assert llama.is_autoregressive and llama.logit_positions == 1.0
    assert ctx("bert-large", batch=8).requests_per_pass == 8.0 and ctx("bert-large").requests_per_pass == 1.0
    assert ctx(batch=8).requests_per_pass == 1.0 == ctx(batch=8).sequences_per_pass


def test_documents_are_packed_by_the_token():
    """Of 2000 and 6000 tokens: a quarter of the tokens in the short one."""
    asked = {"phase": "train", "lengths": "2000,6000", "seq": 8192}
    assert ctx(**asked).packed_length == 0.25 * 2000 + 0.75 * 6000
    assert ctx(**{**asked, "seq": 6000}).packed_length == 5000
    assert ctx(phase="train").packed_length is None
    with pytest.raises(UsageError, match="a document of 6000 tokens does not fit into --seq-len 5999"):
        ctx(**{**asked, "seq": 5999})


def test_what_frameworks_keep_and_pad():
    one = ctx(hw=HAND, phase="train")
    plain, eager, whole = (
        one.framework_saved_tensors(Layout(software=name)) for name in ("any", "eager", "differentiated")
    )
    assert (plain.logit, plain.norm, plain.gate) == (0, 0, 0)
    assert (eager.logit, eager.norm, eager.gate) == (8, 0, 0)
    assert (whole.logit, whole.norm, whole.gate) == (0, 8, 6)
    assert not one.pads_heads(Layout(), "train")
    for name in ("vllm", "llamacpp"):
        served = ctx(engine=name)
        assert served.pads_heads(Layout(), "decode") == served.engine.pads_heads


@pytest.mark.parametrize(("hold", "seconds"), [("pessimistic", 3.0), ("floor", 1.0), ("expected", 2.0)])
def test_the_end_that_is_held(hold, seconds):
    assert time_at_bound(SimpleNamespace(interval_s=(1.5, 3.0), floor_s=1.0, time_s=2.0), hold) == seconds


def test_flops_of_a_prompt_behind_a_cache_are_those_of_the_rest():
    """What is cached is only attended to: two FLOPs a parameter and token less, the pairs inside it gone."""
    one = ctx()
    whole = one.model_flops(1.0, 1000.0, 1000.0, 1.0, decode=False)
    rest = one.model_flops(1.0, 400.0, 1000.0, 1.0, decode=False, cached=600.0)
    first = one.model_flops(1.0, 600.0, 600.0, 1.0, decode=False)
    head = 2 * 4096 * 128256  # scored once in each
    assert rest + first - head == pytest.approx(whole, rel=1e-12)


def test_documents_attend_to_themselves():
    """Four documents of 1000 in a sequence cost the attention of four, and all else of one sequence of 4000."""
    one = ctx(phase="train")
    packed = one.model_flops(2.0, 4000.0, 4000.0, 4000.0, decode=False, documents=1000.0)
    assert packed == pytest.approx(one.model_flops(8.0, 1000.0, 1000.0, 1000.0, decode=False), rel=1e-12)


def test_an_image_is_made_in_steps_with_and_without_the_prompt():
    """DiT-XL/2: 250 steps of 256 patches, guided; FLUX.1-dev: 28 steps with 512 tokens of prompt, not guided."""
    dit, flux = ctx("dit-xl-2", batch=3), ctx("flux.1-dev", batch=3)
    assert (dit.steps, dit.uses_guidance, dit.requests_per_pass, dit.sequences_per_pass, dit.prompt, dit.output) == (
        250,
        True,
        3,
        6,
        256,
        0,
    )
    assert (flux.steps, flux.uses_guidance, flux.requests_per_pass, flux.sequences_per_pass) == (28, False, 3, 3)
    assert flux.prompt == flux.request_tokens + 512 and flux.image_input[0] == 1
    assert ctx("dit-xl-2", steps=20, guidance=False).sequences_per_pass == 1 and ctx("dit-xl-2", steps=20).steps == 20
    assert ctx().steps == 1 and not ctx().uses_guidance


@pytest.mark.parametrize(("seq", "batch"), [(1, 2**22), (2, 2**21), (4096, 1024), (2**23, 1)])
def test_a_training_batch_holds_four_million_tokens_by_default(seq, batch):
    """2^22 tokens, as Llama 2's and 3's steps hold, and at least one sequence."""
    assert ctx(phase="train", seq=seq).train_batch == batch


def test_a_cache_by_identity_computes_once_for_each_spec_and_argument():
    class Spec:
        def __eq__(self, other):
            return True

    seen, first, equal = [], Spec(), Spec()
    cached = cached_by_identity(lambda spec, *more: seen.append((spec, *more)) or len(seen))
    assert [cached(first), cached(first), cached(equal), cached(first, "q4_k_m"), cached(first)] == [1, 1, 2, 3, 1]
