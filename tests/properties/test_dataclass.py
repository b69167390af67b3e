"""Our dataclass is the standard library's for all that it takes: every case is asked of both."""

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.core.fast_dataclass import dataclass as ours

BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, ours], ids=["standard", "ours"])
FLAGS = st.fixed_dictionaries({name: st.booleans() for name in ("frozen", "eq", "repr", "slots", "kw_only")})


def point(dataclass, **flags):
    class Point:
        scale: ClassVar[float] = 2.0
        x: float
        y: float = 1.0
        tags: list = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=3, compare=False, repr=False)

    return dataclass(**flags)(Point)


@ours(frozen=True, slots=True)
class Kept:
    """Stands in a module, so that it can be pickled."""

    a: float
    b: tuple[int, ...] = (1, 2)


@given(FLAGS, st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_both_make_compare_show_and_refuse_alike(flags, x, y):
    results = []
    for dataclass in (dataclasses.dataclass, ours):
        kind = point(dataclass, **flags)
        one, other, third = kind(x=x, y=y), kind(x=x, y=y, hidden=4), kind(x=x)
        assert third.tags == [] and third.tags is not one.tags
        changed = dataclasses.replace(one, y=5.0)
        said = repr(one).replace(kind.__qualname__, "Point") if flags["repr"] else ""
        try:
            one.x = 7.0
            refused = False
        except dataclasses.FrozenInstanceError:
            refused = True
        listed = [f.name for f in dataclasses.fields(kind)]
        hashable = kind.__hash__ is not None
        results.append(
            (one.x, one.y, one.hidden, one == other, one == third, changed.y, said, refused, listed, hashable)
        )
        assert hasattr(one, "__dict__") is not flags["slots"]
        assert refused is flags["frozen"]
        with pytest.raises(TypeError):
            kind()
        if flags["kw_only"]:
            with pytest.raises(TypeError):
                kind(1.0)
    assert results[0] == results[1]


@BOTH
def test_a_subclass_has_the_fields_of_its_base_first(dataclass):
    base = point(dataclass, frozen=True)

    class Further(base):
        z: float = 9.0

        def __post_init__(self):
            object.__setattr__(self, "hidden", 8)

    made = dataclass(frozen=True)(Further)(1.0, z=2.0)
    assert (made.x, made.y, made.z, made.hidden) == (1.0, 1.0, 2.0, 8)
    assert list(dataclasses.asdict(made)) == ["x", "y", "tags", "hidden", "z"]


def test_a_standard_dataclass_may_stand_on_one_of_ours():
    base = point(ours, frozen=True)
    further = dataclasses.dataclass(frozen=True)(
        type("Further", (base,), {"__annotations__": {"z": "float"}, "z": 9.0})
    )
    assert (further(1.0).y, further(1.0, z=2.0).z) == (1.0, 2.0)
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Loose", (base,), {}))


@BOTH
def test_a_default_that_can_change_is_refused(dataclass):
    class Wrong:
        items: list = []

    with pytest.raises(ValueError, match="default_factory"):
        dataclass(Wrong)


def test_what_is_frozen_and_slotted_can_be_copied_and_pickled():
    one = Kept(0.5)
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    assert hash(one) == hash(Kept(0.5))
    with pytest.raises(dataclasses.FrozenInstanceError, match="replace"):
        del one.a


@pytest.mark.slow
def test_a_start_defines_none_of_our_classes_by_the_standard_decorator(python):
    """It compiles up to six methods for each, which took a tenth of a start."""
    code = (
        "import dataclasses, sys; sys.argv=['roofline','estimate','llama70b','--hw','h100']; seen = []\n"
        "was = dataclasses._process_class\n"
        "dataclasses._process_class = lambda kind, *a: (seen.append(kind.__module__), was(kind, *a))[1]\n"
        "from rooflinecli.interfaces.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(len(seen) > 0, [m for m in seen if m.startswith('rooflinecli')], file=sys.stderr)"
    )
    assert python(code).stderr.strip() == "True []"
