"""An estimate of a given layout prices no forward pass twice, and shared kernels once."""

from collections import Counter

import pytest

from rooflinecli.engine import build_request, forward_step, serving_load, speculation
from rooflinecli.price import accumulator
from rooflinecli.questions.estimate.answer import estimate

LAYOUT = {"hw": "h200", "n": 8, "tp": 8, "pp": 1, "dp": 1, "ep": 1, "prompt": 1024, "output": 512}


@pytest.mark.parametrize("load", [{"batch": 64}, {"concurrency": 64}])
@pytest.mark.parametrize("model", ["llama-3-70b", "deepseek-v3"])
def test_no_pass_is_priced_twice(monkeypatch, model, load):
    passes: Counter = Counter()
    price = forward_step.forward_step

    def counted(ctx, plan, *sizes, **how):
        passes[sizes, tuple(how.items())] += 1
        return price(ctx, plan, *sizes, **how)

    for module in (forward_step, speculation, serving_load):
        monkeypatch.setattr(module, "forward_step", counted)
    estimate(build_request.request({"model": model, "phase": "prefill,decode", **LAYOUT, **load}))
    assert passes and set(passes.values()) == {1}, passes
    assert len(passes) == (2 if "batch" in load else 5)  # and a further prompt, several together, a token alone


def test_attention_of_dense_layers_and_of_mixtures_is_priced_once(monkeypatch):
    priced: Counter = Counter()
    price = accumulator.price

    def counted(op, chip, regime):
        priced[op.name] += 1
        return price(op, chip, regime)

    monkeypatch.setattr(accumulator, "price", counted)
    estimate(build_request.request({"model": "deepseek-v3", "phase": "decode", "batch": 64, **LAYOUT}))
    assert priced["attention.core"] == 1 and priced["residual"] == 2  # both groups of layers add their branches
