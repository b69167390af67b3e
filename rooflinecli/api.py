"""The public Python API: the command line's answers as plain dictionaries, SI, the unit in the key.

    from rooflinecli import api
    api.estimate("llama70b", "h100", n=8, batch=64)["phases"]["decode"]["time_s"]
    print(api.explain("llama70b", "h100", "decode.time_s"))

Options are those of the command line with underscores, `devices` and `hardware` among them. Errors are those of
`rooflinecli.errors`; what a person may not have meant is a warning, `rooflinecli.errors.Remark`.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.answers.estimate import estimate as _estimate
from rooflinecli.answers.explain import derivation
from rooflinecli.answers.parameters import Parameters
from rooflinecli.answers.parameters import parameters as _parameters
from rooflinecli.record import plain
from rooflinecli.specs import ask
from rooflinecli.specs.model import load_model

__all__ = ["estimate", "explain", "parameters", "simulate"]


def estimate(model: str, hw: str | None = None, **options: Any) -> dict[str, Any]:
    """What `roofline estimate MODEL --hw HW` prints as JSON."""
    return dict(plain(_estimate(ask.request({"model": model, "hw": hw, **options}))))


def explain(model: str, hw: str | None = None, quantity: str = "", depth: int = 3, **options: Any) -> str:
    """The derivation of one quantity, as text."""
    from rooflinecli.render.explain import explain as text

    return text(derivation(ask.request({"model": model, "hw": hw, **options}), quantity), depth)


def simulate(model: str, hw: str, **options: Any) -> dict[str, Any]:
    """What `roofline simulate MODEL --hw HW` says of one load, without repeats: the numbers under `simulate` in its JSON.

    Options are those of an estimate and of the load (qps, concurrency, trace, prompt, output, requests, slo, replicas, ...).
    """
    from rooflinecli.answers.simulate.run import run
    from rooflinecli.answers.simulate.study import asked

    return run(asked({"model": model, "hw": hw, **options})).values


def parameters(model: str) -> Parameters:
    """Exact parameter counts of a model by name, YAML path or Hugging Face config."""
    return _parameters(load_model(model))
