"""Every rule of a layout at its edge: the last size that holds, and the first that does not; given as scalars and as an array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rooflinecli.core.expressions import Scope, conditions
from rooflinecli.core.num import one
from rooflinecli.engine import legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.parallel.pipeline import schedule_named
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request
from rooflinecli.specs.snapshots import packaged

HAND = str(Path(__file__).parents[1] / "end_to_end_arithmetic" / "hand.yaml")
LLAMA, MIXTRAL = "llama-3-8b", "mixtral-8x7b"  # 32 layers, 32 query and 8 key/value heads; eight experts


def ctx(model: str, **asked) -> EstimateContext:
    return EstimateContext(Request(load_model(model), load_hardware(HAND), **{"batch": 64.0, **asked}))


HOLDS = [
    (LLAMA, "train", {"tp": 32.0}),
    (LLAMA, "train", {"pp": 32.0}),
    (LLAMA, "train", {"dp": 32.0, "micro_batch": 2.0}),
    (LLAMA, "train", {"dp": 4.0, "shard": 2.0}),
    (LLAMA, "train", {"cp": 4.0}),
    (LLAMA, "train", {"pp": 2.0, "virtual_stages": 17.0}),  # 34 chunks: 32 layers and both ends
    (MIXTRAL, "train", {"dp": 4.0, "cp": 2.0, "ep": 8.0, "expert_tp": 1.0}),
    (MIXTRAL, "train", {"dp": 2.0, "cp": 4.0, "ep": 8.0}),
    (MIXTRAL, "train", {"tp": 4.0, "dp": 2.0, "ep": 8.0, "expert_tp": 1.0}),  # experts whole on every tensor rank
    (MIXTRAL, "train", {"tp": 4.0, "expert_tp": 2.0}),
    (MIXTRAL, "decode", {"tp": 4.0, "dp": 2.0, "ep": 2.0}),
    (MIXTRAL, "decode", {"tp": 4.0, "dp": 2.0, "ep": 8.0}),
    (MIXTRAL, "decode", {"dp": 4.0, "ep": 2.0}),
    (MIXTRAL, "decode", {"dp": 10.0, "ep": 10.0, "redundant_experts": 2.0}),
]
BROKEN = [
    (LLAMA, "train", {"tp": 3.0}, "tp divides the 32 heads", "tp"),
    (LLAMA, "train", {"tp": 64.0}, "tp divides the 32 heads", "tp"),
    (LLAMA, "train", {"pp": 33.0}, "pp is at most the 32 layers", "pp"),
    (LLAMA, "train", {"dp": 33.0, "micro_batch": 2.0}, "every replica has a microbatch", "dp"),
    (LLAMA, "train", {"dp": 65.0}, "every replica has a microbatch", "dp"),
    (LLAMA, "train", {"dp": 2.5}, "the axes multiply to the devices", "dp"),
    (LLAMA, "train", {"dp": 0.0}, "the axes multiply to the devices", "dp"),
    (LLAMA, "train", {"dp": 4.0, "shard": 3.0}, "shard divides dp", "shard"),
    (LLAMA, "train", {"cp": 3.0}, "cp divides the sequence", "cp"),
    (LLAMA, "train", {"ep": 2.0}, "a dense model has no experts to split", "ep"),
    (LLAMA, "train", {"virtual_stages": 2.0}, "virtual stages need at least two stages", "pp"),
    (LLAMA, "train", {"pp": 2.0, "virtual_stages": 18.0}, "pp times virtual stages is at most the 32 layers", "pp"),
    (MIXTRAL, "train", {"dp": 3.0, "ep": 3.0}, "ep divides the 8 experts", "ep"),
    (MIXTRAL, "train", {"dp": 2.0, "cp": 2.0, "ep": 8.0}, "ep divides dp x cp, or tp x dp x cp", "ep"),
    (MIXTRAL, "train", {"tp": 4.0, "expert_tp": 3.0}, "expert tensor parallelism divides tp", "expert-tp"),
    (MIXTRAL, "decode", {"tp": 4.0, "dp": 2.0, "ep": 4.0}, "ep divides dp, or is tp x dp", "ep"),
    (MIXTRAL, "decode", {"tp": 2.0, "dp": 2.0, "ep": 8.0}, "ep divides dp, or is tp x dp", "ep"),
    (MIXTRAL, "decode", {"dp": 8.0, "ep": 8.0, "redundant_experts": 2.0}, "ep divides the 8 experts and 2", "ep"),
    (LLAMA, "decode", {"cp": 2.0}, "context parallelism is for training", "cp"),
]


def given(row) -> str:
    return " ".join([row[0], row[1], *(f"{name}={size:g}" for name, size in row[2].items())])


@pytest.mark.parametrize("row", HOLDS, ids=given)
def test_the_last_that_holds(row):
    model, phase, plan = row
    rule = legality.first_violation(ctx(model, seq=4096.0), Layout(**plan), phase)
    assert rule is None, rule.say()


@pytest.mark.parametrize("row", BROKEN, ids=given)
def test_the_first_that_does_not(row):
    model, phase, sizes, name, option = row
    rule = legality.first_violation(ctx(model, seq=4096.0), Layout(**sizes), phase)
    assert rule.name.startswith(name) and rule.refusal.option == option
    assert rule.say() == str(rule.refusal)


@pytest.mark.parametrize("row", HOLDS + [each[:3] for each in BROKEN if 0.0 not in each[2].values()], ids=given)
def test_an_array_is_judged_as_its_scalars(row):
    """Sizes as arrays of one layout and the undivided one."""
    model, phase, sizes = row
    one_, plan = ctx(model, seq=4096.0), Layout(**sizes)
    fixed = {name: size for name, size in sizes.items() if name in ("shard", "expert_tp", "redundant_experts")}
    both = Layout(**{name: fixed.get(name, np.array([size, 1.0])) for name, size in sizes.items()})
    verdicts = np.broadcast_to(legality.all_hold(list(legality.rules(one_, both, phase))), 2)
    assert verdicts[0] == (legality.first_violation(one_, plan, phase) is None)
    assert verdicts[1] == (legality.first_violation(one_, Layout(**fixed), phase) is None)


@pytest.mark.parametrize("row", HOLDS + [each[:3] for each in BROKEN], ids=given)
def test_the_function_of_the_rules_judges_as_their_expressions_do(row):
    model, phase, sizes = row
    where, plan, kind = ctx(model, seq=4096.0), Layout(**sizes), "train" if row[1] == "train" else "serving"
    names = Scope(
        {**legality._NAMES, "ctx": where, "layout": plan, "phase": phase}, packaged(legality.__file__)["let"], plan
    )
    expected = [
        Scope({**names, "each": each}, names.let, plan).value(rule["holds"])
        for rule in packaged(legality.__file__)["rules"]
        if rule.get("in", kind) == kind and names.value(rule.get("if", "True"))
        for each in (names.value(rule["each"]) if "each" in rule else (None,))
    ]
    found = legality._conditions(kind, "gpipe")(where, phase, False, plan)
    needs = [need["name"] for need in schedule_named("gpipe")["needs"]]
    assert [holds for rule, _, holds in found if rule["name"] not in needs] == expected


@pytest.mark.parametrize(
    ("when", "named"),
    [("tp > 1 and half > 1", {"half"}), ("tp > 1 or dp > 1 and half > 1", {"half"}), ("dp > 1 and half > 1", set())],
)
def test_a_name_is_worked_out_where_a_condition_reaches_it(when, named):
    seen = []
    known = {"halved": lambda size: seen.append("half") or size / 2}
    rows = [{"if": when, "holds": "half == 2"}]
    found = list(conditions(rows, {"half": "halved(tp)"}, known, "broken, plan", Layout)(False, Layout(tp=4.0)))
    assert found == ([(rows[0], None, True)] if named else []) and set(seen) == named


LEARNED = "gpt2"  # 1024 learned positions


@pytest.mark.parametrize(
    ("phase", "lengths", "option"),
    [
        ("train", {"seq": 1024.0}, None),
        ("train", {"seq": 1025.0}, "seq"),
        ("decode", {"prompt": 1000.0, "output": 24.0}, None),
        ("decode", {"prompt": 1000.0, "output": 25.0}, "prompt"),
        ("decode", {"output": 1024.0}, "prompt"),  # with the usual prompt
    ],
)
def test_learned_positions_end_where_they_end(phase, lengths, option):
    rule = legality.first_violation(ctx(LEARNED, phases=(phase,), **lengths), Layout(), phase)
    assert (rule and rule.refusal.option) == option


@pytest.fixture(scope="module")
def four(tmp_path_factory) -> str:
    lines = Path(HAND).read_text(encoding="utf-8").splitlines()
    outside = next(i for i, line in enumerate(lines) if "outside" in line)
    path = tmp_path_factory.mktemp("rules") / "four.yaml"
    path.write_text("\n".join([*lines[:outside], *lines[outside + 5 :]]), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("model", "phase", "plan", "holds"),
    [
        (LLAMA, "train", {"dp": 4.0}, True),
        (LLAMA, "train", {"dp": 8.0}, False),
        (LLAMA, "train", {"tp": 2.0, "dp": 4.0}, False),  # a replica's peers lie two devices apart
        (LLAMA, "train", {"cp": 2.0, "pp": 4.0}, False),
        (LLAMA, "decode", {"tp": 4.0, "dp": 8.0}, True),  # replicas that serve exchange nothing
        (LLAMA, "decode", {"tp": 8.0}, False),
        (MIXTRAL, "decode", {"tp": 2.0, "dp": 2.0, "ep": 2.0}, True),
        (MIXTRAL, "decode", {"tp": 4.0, "dp": 2.0, "ep": 2.0}, False),  # experts over two replicas of four
        (MIXTRAL, "decode", {"dp": 8.0, "ep": 4.0}, True),
        (MIXTRAL, "decode", {"dp": 8.0, "ep": 8.0}, False),
    ],
)
def test_groups_that_exchange_stay_inside_the_network(four, model, phase, plan, holds):
    where = EstimateContext(Request(load_model(model), load_hardware(four), batch=64.0, seq=4096.0))
    rule = legality.first_violation(where, Layout(**plan), phase)
    assert rule is None if holds else rule.name == "the network joins 4 devices"


def test_only_the_scalar_one_splits_nothing():
    assert one(1.0) and not one(2.0) and not one(np.array([1.0]))


def test_the_rule_that_most_break_is_told():
    tried = [
        legality.first_violation(ctx(LLAMA, seq=4096.0), Layout(**p), "train")
        for p in ({"pp": 33.0}, {"tp": 3.0}, {"tp": 5.0})
    ]
    assert legality.most_violated_rule(tried).sizes == ("tp",)
    assert legality.most_violated_rule(tried[:2]).sizes == ("pp",)  # the first of equals


@pytest.mark.parametrize("refused", [{"pp": 33.0}, {"tp": 3.0}, {"tp": 3.0, "dp": 2.0}])
def test_what_was_given_is_refused_whatever_stays_open(refused):
    with pytest.raises(Exception, match=f"--{next(iter(refused))} "):
        legality.check(ctx(LLAMA, phases=("train",), **refused))
    legality.check(ctx(LLAMA, phases=("train",), tp=4.0, pp=32.0))
