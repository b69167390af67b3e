"""Lines of the published tables by how requests come."""

from __future__ import annotations

import pytest

from rooflinecli.validate import inference


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("group", "how"),
    [
        ("gptfast", "one sequence"),
        ("gaudi2_latency", "one sequence"),
        ("trtllm_online", "open loop"),
        ("tpu_vllm", "closed loop"),
        ("trtllm_v12", "memory's limit"),
        ("lmdeploy_static", "static batch"),
    ],
)
def test_a_run_comes_as_its_source_says(group, how):
    found = {inference.arrivals(run) for run in inference.published_runs() if run.group == group}
    assert found == {how}


def test_what_is_judged_apart_has_a_line_with_and_without_what_constants_saw():
    runs = inference.published_runs()
    labels = {run.group: inference.published_lines(run)[2:] for run in runs if run.options.get("batch", 1) == 1}
    assert labels["gptfast"] == ["one sequence"]
    assert labels["neuron_inf2"] == ["one sequence", "one sequence, never seen"]
    assert labels["trtllm_online"] == ["open loop"]
    assert labels["trtllm_v12"] == []
