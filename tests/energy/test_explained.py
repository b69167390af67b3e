"""Every printed gram, liter and dollar is explained down to its factors, each with a source, and with a date where it was published."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from conftest import run_cli

from rooflinecli.core.derivation import Traced
from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.explain import derivation

SERVED = {"model": "llama-3-8b", "hw": "h100", "prompt": 512, "output": 256, "region": "us-east-1", "electricity": "0.09 USD/kWh"}  # fmt: skip
PUBLISHED = (
    "PUE",
    "f_h",
    "grams_per_kwh",
    "liters_per_kwh",
    "g_h",
    "price",
)  # factors that somebody published on a day


def leaves(number: object) -> Iterator[Traced]:
    """The figures that a number was computed from."""
    if isinstance(number, Traced):
        if number.op == "leaf":
            yield number
        for part in number.args:
            yield from leaves(part)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{"phase": "decode", "batch": 32, "price": "verda"}, {"phase": "train", "tokens": "1T", "n": 64, "price": "spot"}, {"phase": "decode", "concurrency": 16}],
    ids=lambda more: more["phase"],
)  # fmt: skip
def test_every_gram_liter_and_dollar_has_sources_and_dates(more: dict[str, object]) -> None:
    options = {k: v for k, v in {**SERVED, **more}.items() if more["phase"] != "train" or k not in ("prompt", "output")}
    flags = [word for k, v in options.items() if k != "model" for word in ("-n" if k == "n" else f"--{k}", str(v))]
    answer = run_cli("estimate", str(options["model"]), *flags, "-f", "json").json
    names = [f"{p}.{k}" for p, phase in answer["phases"].items() for k, v in phase.items() if v is not None]
    names += [f"cost.{k}" for k, v in answer["cost"].items() if v is not None]
    money = [n for n in names if re.search("grams|liters|usd", n) and not n.endswith("_interval")]
    assert len(money) >= 5
    request = build_request.request(options)
    for name in money:
        found = list(leaves(derivation(request, name)))
        assert all(leaf.source for leaf in found), [leaf.symbol for leaf in found if not leaf.source]
        published = {leaf.symbol: leaf.source for leaf in found if leaf.symbol in PUBLISHED}
        assert published, f"{name}: {[leaf.symbol for leaf in found]}"
        for symbol, source in published.items():
            assert re.search(r"\b20\d\d", source), f"{name}: {symbol} [{source}]"
