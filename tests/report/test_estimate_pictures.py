"""`estimate --plot`: memory of a device, and a pipeline step whose idle share is the published bubble."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from conftest import run_cli
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.core.errors import UsageError
from rooflinecli.parallel import pipeline
from rooflinecli.questions.estimate.pipeline_timeline import timeline
from rooflinecli.render.blocks import Picture
from rooflinecli.render.report import charts
from rooflinecli.specs.layout import SCHEDULES, Layout

STEP = ("estimate", "llama-3-8b", "--hw", "h100", "-n", "8", "--pp", "4", "--phase", "train", "--batch", "16")


CHUNKED = ("1f1b", "interleaved-zero-bubble")


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(SCHEDULES),
    pp=st.integers(1, 4).map(lambda half: 2 * half),
    groups=st.integers(2, 4),
    chunks=st.integers(1, 3),
    backward=st.sampled_from((2.0, 3.0)),
)
def test_a_pipeline_idles_the_bubble_that_the_estimate_counts(name, pp, groups, chunks, backward):
    """For every schedule; a stage does one pass at a time, all of them, backward after forward, weight gradients after those of its input."""
    chunks = max(chunks, 1 + (name == "interleaved-zero-bubble")) if name in CHUNKED else 1
    backward = 2.0 if name == "zb-v" else backward
    microbatches = groups * pp
    passes = timeline(name, pp, microbatches, chunks, backward)
    idle = max(each.end for each in passes) - sum(each.end - each.start for each in passes) / pp
    layout = Layout(pp=pp, virtual_stages=chunks, schedule=name)
    assert idle == pytest.approx(pipeline.bubble(layout, 1.0 + backward, 1.0), abs=1e-9)
    assert sum(each.end - each.start for each in passes) == pytest.approx((1 + backward) * microbatches * pp)
    assert len({each[:4] for each in passes}) == len(passes)
    for stage in range(pp):
        mine = sorted((each for each in passes if each.stage == stage), key=lambda each: each.start)
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(mine))
        ends = {(each.kind, *each[1:3]): each.end for each in mine}
        for each in mine:
            first = {"forward": each.kind, "weight gradients": "input gradients"}.get(each.kind, "forward")
            assert each.kind == first or ends[first, *each[1:3]] <= each.start + 1e-9


def test_interleaved_stages_take_whole_groups():
    with pytest.raises(UsageError, match="no multiple of 4 interleaved stages"):
        timeline("1f1b", 4, 6, 2)


def test_the_pipeline_of_an_estimate_is_drawn_with_its_bubble():
    out = run_cli(
        *STEP, "--tp", "1", "--micro-batch-size", "1", "--virtual-stages", "1", "--plot", "-", "--plot-kind", "pipeline"
    ).out
    assert "1f1b: 8 micro-batches over 4 stages, idle 27%" in out and "o forward" in out and "+ backward" in out
    last = next(row for row in out.splitlines() if row.startswith("4 ┤"))
    assert last[3:].lstrip().startswith("o") and last.startswith("4 ┤   "), "the last stage waits for the first three"


def test_memory_is_drawn_part_on_part_up_to_the_capacity():
    out = run_cli(*STEP, "--plot", "-").out
    assert "memory of a device" in out and "1 train" in out and "· capacity" in out
    assert all(f" {part}" in out for part in ("weights", "gradients", "optimizer", "activations"))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--pp", "1"), "add --phase train and --pp N"),
        (("--schedule", "zb-v", "--recompute", "full", "--virtual-stages", "1"), "take equally long"),
    ],
)
def test_what_has_no_drawing_says_so(more, says):
    ran = run_cli(*(STEP[:5] + STEP[7:] if "--pp" in more else STEP), *more, "--plot", "-", "--plot-kind", "pipeline")
    assert ran.code == 2 and says in ran.err


def test_boxes_are_drawn_on_a_page_to_scale():
    """Twelve devices above four: a box three times as high, from where the other ends, each named with its size."""
    made = Picture(
        "Devices", "1 h100", "devices", False, boxes={"chat": [(0.6, 1.4, 0, 4)], "unused": [(0.6, 1.4, 4, 16)]}
    )
    wide = charts.picture(made, "fleet").partition("</svg>")[0]
    sizes = {
        name: tuple(map(float, box))
        for name, *box in re.findall(r'<title>(\w+: \d+)</title><rect [^>]*?y="([\d.]+)"[^>]*?height="([\d.]+)"', wide)
    }
    (low, small), (high, large) = sizes["chat: 4"], sizes["unused: 12"]
    assert large == pytest.approx(3 * small, abs=0.3) and high + large == pytest.approx(low, abs=0.3)
    assert made.points() == [(0.6, 0), (1.4, 4), (0.6, 4), (1.4, 16)]
