"""First tokens under load: a few rows of a server whose queue stood are not taken for its constants, many are, and so are moderate ones."""

from __future__ import annotations

import numpy as np
import pytest

from rooflinecli.calibrate.phase_fit import fit
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor, seconds
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.layout import Layout

LOADS = (1, 8, 32, 64, 128)


def first_tokens(slower, loads):
    """Rows of vLLM that take `slower` times what the shipped constants say."""
    rows = []
    for concurrency, factor in zip(loads, slower, strict=True):
        sizes = {"prompt": 2048, "output": 256, "concurrency": concurrency}
        options = {"model": "llama-3.1-8b", "hw": "h100-sxm", "engine": "vllm", "phase": ["prefill"], **sizes}
        ctx, plan = EstimateContext(build_request.request(options)), Layout(zero=0)
        rows.append(PredictedRow(ctx, plan, "ttft", float(seconds(ctx, plan, "ttft")) * factor, options=options))
    return rows


def answered(found):
    """What the fit makes of each load, over what the shipped constants say."""
    moved = RowPredictor(first_tokens([1.0] * len(LOADS), LOADS)).log_seconds(np.stack([0 * found.x, found.x], axis=1))
    return np.exp(moved[:, 1] - moved[:, 0])


@pytest.mark.parametrize("slower", [8.0, 20.0])
def test_two_rows_of_a_standing_queue_do_not_make_a_server_at_rest_slow(slower):
    assert answered(fit(first_tokens([slower] * 2, (64, 128)))).max() < 1.5


@pytest.mark.slow
def test_many_such_rows_do():
    assert answered(fit(first_tokens([4.0] * 30, LOADS * 6))).min() > 2.5


def test_rows_that_are_moderately_slow_are_followed_from_two_on():
    two, four = (fit(first_tokens([1.4] * k, (8, 64, 16, 32)[:k])) for k in (2, 4))
    assert two.supported
    assert four.supported
    assert 1.2 < answered(two).min() < answered(four).min() <= answered(four).max() < 1.42


@pytest.mark.parametrize("slower", [(1.08, 1.08), (1.15, 1.02, 1.08, 1.0), (1.15, 0.9, 1.1, 0.87)])
def test_rows_that_lie_off_by_no_more_than_first_tokens_scatter_move_nothing(slower):
    assert not fit(first_tokens(slower, (8, 64, 16, 32)[: len(slower)])).supported
