"""Sizes of training layouts that a search tries, and the coarser ones of which a layout is chosen, against the rules of engine/layout_space written out."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest

from rooflinecli.engine import build_request, layout_space, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.layout_space import CoarseSpace, DeviceSplit, LayoutArrays
from rooflinecli.specs.layout import Layout


class Whole(NamedTuple):
    """A question that names some sizes."""

    request: Any
    open: dict[str, tuple[Any, ...]] = {}


def ctx(model: str = "llama-3-8b", **more: Any) -> EstimateContext:
    return EstimateContext(build_request.request({"model": model, "hw": "h100", "phase": "train", **more}))


CTX = ctx(n=16, batch=48, seq=4096)


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def sizes(
    space: Any, context: EstimateContext = CTX, devices: int = 16
) -> dict[tuple[int, ...], tuple[list[float], ...]]:
    return {split: tuple(map(list, rest)) for split, rest in layout_space._sizes(context, space, devices)}


def test_a_search_tries_every_size() -> None:
    found = sizes(Whole(CTX.request))
    every = {
        (tp, pp, cp, 16 // (tp * pp * cp))
        for tp in divisors(16)
        for pp in divisors(16 // tp)
        for cp in divisors(16 // tp // pp)
    }
    assert set(found) == every
    for (_, pp, _, dp), (ep, micro, virtual) in found.items():
        assert ep == [1]  # no experts
        assert micro == (
            divisors(48 // dp)
            if 48 % dp == 0
            else sorted({*divisors(48 // dp), *(m for m in (1, 2, 4, 8, 16, 32) if m <= 48 // dp)})
        )
        assert virtual == (divisors(32 // pp) if pp > 1 else [1])  # equal chunks of 32 layers


def test_chunks_that_are_chosen_can_be_launched() -> None:
    """80 layers on 4 stages have chunks of equal size; 42 have none, and up to eleven chunks of a layer or an end."""
    found = layout_space.virtual_stages(ctx("llama-3-70b"), 4.0)
    assert all(80 % (4 * v) == 0 for v in found) and 20 in found
    assert [*layout_space.virtual_stages(ctx("gemma-2-9b"), 4.0)] == [*range(1, 12)]


def test_sizes_that_are_named() -> None:
    found = sizes(Whole(CTX.request, {"tp": (2, 3), "micro-batch": (2, 5, 999), "virtual-stages": (7,), "ep": (4,)}))
    assert {split[0] for split in found} == {2}
    assert all(micro == [2.0, 5.0] or max(divisors(48 // split[3])) < 5 for split, (_, micro, _) in found.items())
    assert all(ep == [4.0] and virtual == [7.0] for ep, _, virtual in found.values())
    assert {split[3] for split in sizes(Whole(CTX.request, {"dp": (4,)}))} == {4}


def test_experts_are_grouped_over_divisors_of_the_replicas() -> None:
    mixtral = ctx("mixtral-8x7b", n=16, batch=48, seq=4096)
    for (_, _, _, dp), (ep, _, _) in sizes(Whole(mixtral.request), mixtral).items():
        assert ep == [e for e in divisors(dp) if 8 % e == 0]
    for (_, _, _, dp), (ep, _, _) in sizes(CoarseSpace(mixtral.request), mixtral).items():
        every = [e for e in divisors(dp) if 8 % e == 0]
        assert ep == sorted({1, *every[::-2]})  # the largest and every second below
    few = CoarseSpace(mixtral.request, few=True)
    for (tp, _, _, dp), (ep, _, _) in sizes(few, mixtral).items():
        every = [e for e in divisors(dp) if 8 % e == 0]
        assert ep == sorted(
            {1, max(e for e in every if e * tp <= 8 or e == 1), every[-1]}
        )  # eight devices share NVLink


def test_the_coarse_part() -> None:
    found = sizes(CoarseSpace(CTX.request))
    assert {split[2] for split in found} == {1, 2, 4, 8, 16} and {split[0] for split in found} == {1, 2, 4, 8, 16}
    for (_, pp, _, dp), (_, micro, virtual) in found.items():
        share = divisors(48 // dp)
        octaves = {min(m for m in share if m >= 2**i) for i in range(6) if any(m >= 2**i for m in share)}
        assert micro == sorted(octaves)
        even = divisors(round(32 / pp))
        assert virtual == (sorted({1, even[len(even) // 2], even[-1]}) if pp > 1 else [1])
    short = ctx(n=64, batch=64, seq=256)
    assert {split[2] for split in sizes(CoarseSpace(short.request), short, 64)} == {
        1,
        2,
        4,
        8,
        16,
        32,
    }  # 8 tokens each: its devices have 256
    plenty = ctx(n=64, batch=1024, seq=256)
    assert {split[2] for split in sizes(CoarseSpace(plenty.request), plenty, 64)} == {1, 2}  # 128 tokens at least
    assert {split[0] for split in sizes(CoarseSpace(plenty.request), plenty, 64)} == {1, 2, 4, 8, 16, 32}


def test_the_few_that_are_priced_one_by_one() -> None:
    found = sizes(CoarseSpace(CTX.request, few=True))
    assert {split[0] for split in found} == {1, 2, 4, 8} and {split[2] for split in found} == {1}
    for (_, _, _, dp), (_, micro, _) in found.items():  # the least from 1, 2 and 4 on
        assert micro == sorted(
            {next(m for m in divisors(48 // dp) if m >= least) for least in (1, 2, 4) if 48 // dp >= least}
        )
    assert all(virtual == [1] for _, _, virtual in found.values())
    long = ctx(n=16, batch=16, seq=32768)
    assert {split[2] for split in sizes(CoarseSpace(long.request, few=True), long)} == {1, 4}  # of 8,192 tokens
    just = ctx(n=16, batch=16, seq=16383)
    assert {split[2] for split in sizes(CoarseSpace(just.request, few=True), just)} == {1}
    open_count = ctx(batch=48, seq=4096)
    assert all(micro == [1] for _, micro, _ in sizes(CoarseSpace(open_count.request, few=True), open_count).values())


@pytest.mark.parametrize(
    "given, most, found", [([1, 2, 3, 4, 6, 8, 12, 24], 32, [1, 2, 4, 8, 24]), ([1, 3, 9], 4, [1, 3, 9]), ([1, 3, 9], 3, [1, 3]), ([5, 7], 1, [5])]
)  # fmt: skip
def test_one_size_of_each_octave(given: list[int], most: int, found: list[int]) -> None:
    """The least from 1, 2, 4, ... on."""
    assert layout_space._one_per_octave(given, most) == found


def test_a_device_with_few_tokens_is_sparse() -> None:
    assert layout_space.is_sparse(CTX, 48 * 4096 / 1023) and not layout_space.is_sparse(CTX, 48 * 4096 / 1024)


@pytest.mark.parametrize(
    "domains, ranks, dp, group",
    [(1, 1, 16, 8), (2, 1, 16, 16), (1, 2, 12, 4), (1, 3, 12, 2), (1, 16, 12, 1), (2, 2, 6, 6)],
)
def test_replicas_of_a_shard_group_inside_fast_domains(domains: int, ranks: int, dp: int, group: int) -> None:
    """Eight H100 share NVLink: the largest divisor of dp that 8 x domains / ranks hold."""
    assert layout_space.shard_group(CTX, domains, ranks, dp) == group


def test_structures_from_the_plainest_on() -> None:
    plain = list(layout_space.structures(Whole(CTX.request)))
    assert plain[0] == DeviceSplit(0, "none", False) and len(plain) == len(set(plain)) == 3 * (3 + 3) * 2
    assert {s.domains for s in plain if s.zero == 3} == {0, 1, 2} and {s.domains for s in plain if s.zero < 3} == {0}
    coarse = list(layout_space.structures(CoarseSpace(CTX.request)))
    assert {(s.zero, s.recompute) for s in coarse} == {(z, r) for z in (1, 2, 3) for r in ("none", "full")} and all(
        s.sequence_parallel for s in coarse
    )
    few = list(layout_space.structures(CoarseSpace(CTX.request, few=True)))
    assert {s.zero for s in few} == {1, 3} and {s.domains for s in few} == {0} and len(few) == 4
    assert {s.sequence_parallel for s in layout_space.structures(CoarseSpace(CTX.request), sparse=True)} == {
        False,
        True,
    }
    named = list(
        layout_space.structures(
            Whole(CTX.request, {"zero": (2,), "recompute": ("full",), "sequence-parallel": (True,)})
        )
    )
    assert named == [DeviceSplit(2, "full", True)]


def test_what_has_no_effect_is_left_out() -> None:
    request = CTX.request
    one = DeviceSplit(3, "none", True).layout(request, {"tp": 1, "dp": 1, "cp": 1})
    kept = layout_space.without_effect_removed(request, one)
    assert (kept.zero, kept.sequence_parallel) == (0, False)
    two = layout_space.without_effect_removed(request, DeviceSplit(3, "none", True).layout(request, {"tp": 2, "dp": 2}))
    assert (two.zero, two.sequence_parallel) == (3, True)


def test_layouts_for_which_a_structure_is_no_plainer_one() -> None:
    table = {
        "tp": [1, 2, 1, 4],
        "pp": [1, 1, 1, 1],
        "cp": [1, 1, 2, 1],
        "dp": [16, 8, 1, 1],
        "ep": [1, 1, 1, 1],
        "micro_batch": [1] * 4,
        "virtual_stages": [1] * 4,
    }
    found = LayoutArrays({name: np.array(values, dtype=float) for name, values in table.items()}, np.arange(4.0))
    space = Whole(CTX.request)

    def affected(*structure: Any) -> list[int]:
        return layout_space.affected_axes(CTX, found, space, DeviceSplit(*structure)).tolist()

    assert affected(0, "none", False) == [0, 1, 2, 3] and affected(1, "none", False) == [0, 1, 2]
    assert affected(0, "none", True) == [1, 3] and affected(3, "none", True) == [1]
    assert affected(3, "none", False, 1) == [0, 1] and affected(3, "none", False, 2) == []
    assert layout_space.groups(CTX, found, 1).tolist() == [8, 4, 1, 1]
    assert len(found) == 4 and found.take(np.array([0, 2])).sizes["cp"].tolist() == [1, 2]


def test_a_batch_that_some_split_takes_whole() -> None:
    assert layout_space.chooses_whole_batches(CTX, CoarseSpace(CTX.request), 16)
    assert not layout_space.chooses_whole_batches(ctx(n=16, seq=4096), CoarseSpace(ctx(n=16, seq=4096).request), 16)
    rule = layout_space.divides_batch(
        CTX, DeviceSplit(1, "none", False).layout(CTX.request, {"dp": 8.0, "micro_batch": 3.0})
    )
    assert (
        rule.holds
        and not layout_space.divides_batch(
            CTX, DeviceSplit(1, "none", False).layout(CTX.request, {"dp": 8.0, "micro_batch": 4.0})
        ).holds
    )


def launched(framework: str, model: str = "llama-3-8b", **given: Any) -> dict[str, np.ndarray]:
    """Sizes and settings of every layout of 16 devices that a search under a framework tries."""
    context = ctx(model, n=16, batch=48, seq=4096, framework=framework)
    space = Whole(context.request, {name.replace("_", "-"): value for name, value in given.items()})
    found = layout_space.layouts(context, space, 16)
    parts = [
        (structure, found.take(layout_space.affected_axes(context, found, space, structure)))
        for structure in layout_space.structures(space)
    ]
    columns = {name: np.concatenate([part.sizes[name] for _, part in parts]) for name in layout_space.ORDER}
    for name in ("zero", "recompute", "sequence_parallel"):
        columns[name] = np.concatenate([np.full(len(part), getattr(one, name)) for one, part in parts])
    return columns


def test_a_framework_that_is_named_launches_what_is_tried() -> None:
    """engine/launched.yaml against what the frameworks' own checks refuse, for each that has such a check."""
    found = launched("torchtitan")  # FSDP shards gradients with the states; tensors and sequences are split together
    assert not (found["zero"][found["dp"] * found["cp"] > 1] == 1).any() and {*found["recompute"]} == {"none", "full"}
    assert (
        found["sequence_parallel"][found["tp"] > 1].all()
        and not (found["zero"][(found["tp"] > 1) & (found["dp"] > 1)] == 0).any()
    )
    found = launched("deepspeed")  # "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"
    assert (
        found["zero"][found["pp"] > 1].max() == 1
        and found["zero"].max() == 3
        and {*found["virtual_stages"]} == {*found["cp"]} == {1}
    )
    found = launched("internevo")  # "FSDP is not supportted when pipeline size > 1"; zero1 has a size and fsdp alone
    assert {*found["zero"]} == {0, 1, 3} and (found["pp"][found["zero"] == 3] == 1).all() and found["pp"].max() > 1
    found = launched("xtuner")  # FSDPConfig has tp_size, and shards all
    assert found["tp"].max() > 1 and 1 not in found["zero"] and (found["pp"] == 1).all()
    found = launched("llm-foundry")
    assert {*found["tp"]} == {*found["pp"]} == {*found["cp"]} == {1} and {*found["zero"]} == {0, 2, 3}


def test_uneven_stages_of_a_framework() -> None:
    """42 layers: Megatron Core takes any stages of one chunk (--pipeline-model-parallel-layout), before 2025 those that divide them; NeMo of
    2025 sets the first and the last stage: 16 stages would have fourteen of three layers and none for the ends."""
    stages = {name: launched(name, "gemma-2-9b") for name in ("megatron-2025", "megatron-2022", "nemo-2025")}
    assert {name: {*found["pp"]} for name, found in stages.items()} == {
        "megatron-2025": {1, 2, 4, 8, 16}, "megatron-2022": {1, 2}, "nemo-2025": {1, 2, 4, 8}
    }  # fmt: skip
    tried = {
        (pp, v) for pp, v in zip(*(stages["megatron-2025"][size] for size in ("pp", "virtual_stages")), strict=True)
    }
    assert {v for pp, v in tried if pp == 2} == {1, 3, 7, 21}  # equal parts of 42 layers
    assert {v for pp, v in tried if pp == 4} == {1, 11}  # and of 44 with embedding and loss


def test_a_size_that_is_given_is_no_choice_of_the_framework() -> None:
    assert {*launched("llm-foundry", tp=(2,))["tp"]} == {2}
    both = launched("deepspeed", pp=(2,), zero=(3,))
    assert len(both["pp"]) and {*both["zero"]} == {3}
    assert {*launched("deepspeed", pp=(2,))["zero"]} == {0, 1}


def test_layouts_that_are_left_out_are_counted_by_the_first_rule_they_break() -> None:
    """Of a table of all sizes at once, as of each layout by itself."""
    context, names = ctx(n=24, batch=36, seq=4096), ("tp", "pp", "cp", "dp", "ep", "micro_batch", "virtual_stages")
    space, kept, broken = CoarseSpace(context.request), 0, Counter[str]()
    for split, rest in layout_space._sizes(context, space, 24):
        for others in itertools.product(*rest):
            one = Layout(**dict(zip(names, (*map(float, split), *others), strict=True)))  # type: ignore[arg-type]
            rule = legality.first_violation(context, one, "train")
            if rule is None and 36 % (one.dp * one.micro_batch):
                rule = layout_space.divides_batch(context, one)
            broken.update([rule.name] if rule else [])
            kept += rule is None
    found = layout_space.layouts(context, space, 24)
    assert (len(found), found.rejected) == (kept, dict(broken)) and kept and len(broken) > 1


def test_whole_batches_are_asked_of_splits_that_the_framework_launches() -> None:
    """202 sequences go whole into two replicas of tp 8, which llm-foundry does not have: sixteen replicas round them up."""
    asked = {"n": 16, "batch": 202, "seq": 512}
    assert layout_space.chooses_whole_batches(ctx(**asked), CoarseSpace(ctx(**asked).request), 16)
    alone = ctx(framework="llm-foundry", **asked)
    assert not layout_space.chooses_whole_batches(alone, CoarseSpace(alone.request), 16)


def test_a_default_batch_is_no_reason_for_odd_micro_batches() -> None:
    """4M tokens are 21,290 images of 197: 2 x 5 x 2129, of which no divisor between 10 and 2,129 is a micro-batch; one that is given is kept to."""
    assert {16, 64, 256} <= {*layout_space.micro_batch_sizes(ctx("vit-l", n=1), 1)}
    assert layout_space.micro_batch_sizes(ctx("vit-l", n=1, batch=21290), 1) == divisors(21290)
