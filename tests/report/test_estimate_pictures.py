"""`estimate --plot`: memory of a device, and a pipeline step whose idle share is the published bubble."""

from __future__ import annotations

from itertools import pairwise

import pytest
from conftest import run_cli
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.core.errors import UsageError
from rooflinecli.questions.estimate.pipeline_timeline import timeline

STEP = ("estimate", "llama-3-8b", "--hw", "h100", "-n", "8", "--pp", "4", "--phase", "train", "--batch", "16")


@settings(max_examples=40, deadline=None)
@given(
    pp=st.integers(1, 8), groups=st.integers(1, 4), chunks=st.integers(1, 4), backward=st.sampled_from((1.0, 2.0, 3.0))
)
def test_a_pipeline_idles_its_bubble(pp, groups, chunks, backward):
    """Narayanan et al. 2021: (pp-1)/(v m + pp - 1) of the step; a stage does one pass at a time, all of them, backward after forward."""
    passes = timeline(pp, groups * pp, chunks, backward)
    whole = max(each.end for each in passes)
    idle = 1 - sum(each.end - each.start for each in passes) / (pp * whole)
    assert idle == pytest.approx((pp - 1) / (chunks * groups * pp + pp - 1), abs=1e-9)
    assert len({each[:4] for each in passes}) == len(passes) == 2 * pp * chunks * groups * pp
    for stage in range(pp):
        mine = sorted((each for each in passes if each.stage == stage), key=lambda each: each.start)
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(mine))
        first = {each[1:3]: each.end for each in mine if each.forward}
        assert all(first[each[1:3]] <= each.start + 1e-9 for each in mine if not each.forward)


def test_interleaved_stages_take_whole_groups():
    with pytest.raises(UsageError, match="no multiple of 4 interleaved stages"):
        timeline(4, 6, 2)


def test_the_pipeline_of_an_estimate_is_drawn_with_its_bubble():
    out = run_cli(
        *STEP, "--tp", "1", "--micro-batch-size", "1", "--virtual-stages", "1", "--plot", "-", "--plot-kind", "pipeline"
    ).out
    assert "8 micro-batches over 4 stages, idle 27%" in out and "o forward" in out and "+ backward" in out
    last = next(row for row in out.splitlines() if row.startswith("4 ┤"))
    assert last[3:].lstrip().startswith("o") and last.startswith("4 ┤   "), "the last stage waits for the first three"


def test_memory_is_drawn_part_on_part_up_to_the_capacity():
    out = run_cli(*STEP, "--plot", "-").out
    assert "memory of a device" in out and "1 train" in out and "· capacity" in out
    assert all(f" {part}" in out for part in ("weights", "gradients", "optimizer", "activations"))


@pytest.mark.parametrize(
    ("more", "says"),
    [(("--pp", "1"), "add --phase train and --pp N"), (("--schedule", "gpipe", "--virtual-stages", "1"), "not gpipe")],
)
def test_what_has_no_drawing_says_so(more, says):
    ran = run_cli(*(STEP[:5] + STEP[7:] if "--pp" in more else STEP), *more, "--plot", "-", "--plot-kind", "pipeline")
    assert ran.code == 2 and says in ran.err
