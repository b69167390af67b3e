"""Help says what a value is (COUNT, TIME, CHOICE), never the Python type that reads it."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.main import VERBS, app
from rooflinecli.specs.options import Group, OptNumber, field
from rooflinecli.specs.parse_values import number, quantity

TYPES = re.compile(r"<[A-Za-z\[\]| ]+>|\b(TEXT|INTEGER|FLOAT|BOOLEAN)\b")


def commands(verb):
    """Help of a verb and of each of its own verbs."""
    root = get_command(app)
    context = root.make_context("roofline", [], resilient_parsing=True)
    found = [(verb, root.get_command(context, verb))]
    while found:
        name, command = found.pop()
        below = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield name, command, command.get_help(below)
        found += [(f"{name} {sub}", each) for sub, each in getattr(command, "commands", {}).items()]


@pytest.mark.parametrize("verb", VERBS)
def test_no_help_speaks_of_types(verb):
    for name, command, text in commands(verb):
        said = [line for line in text.splitlines() if TYPES.search(line)]
        assert not said, f"{name}: {said}"
        for parameter in command.params:
            flag = getattr(parameter, "is_flag", False) or parameter.name == "help"
            assert flag or parameter.metavar, f"{name}: {parameter.opts} has no word for its value"


def test_lists_are_recognised_as_types():
    """The pattern finds what Typer prints where no value is named."""
    assert TYPES.search("names... <list[str]>  A name") and TYPES.search("--hw TEXT") and not TYPES.search("--hw NAME")


def test_a_bound_that_may_not_be_taken():
    """A time is above zero: zero itself is refused, the least above it is not."""

    class Asked(Group):
        wait: OptNumber = field("time", "a time", default=None)

    wait = Asked.fields()["wait"]
    assert quantity(wait, "1 ns") == pytest.approx(1e-9)
    for zero in ("0 s", 0.0, "-1 s"):
        with pytest.raises(UsageError, match="must be above zero"):
            quantity(wait, zero)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--price", "2.5 EUR"), "unknown unit 'EUR'; expected USD/h"),
        (("--deadline", "30"), "expected a time in us, ms, s, min, h or days"),
        (("--batch", "4M", "--phase", "train", "-n", "8"), "write --batch 4M-tokens for tokens"),
    ],
)
def test_what_a_value_lacks_is_named(cli, flags, message):
    verb = "plan" if "--deadline" in flags else "estimate"
    tokens = ("--tokens", "1T") if verb == "plan" else ()
    assert message in cli(verb, "llama-3-8b", "--hw", "h100", *tokens, *flags).err


@pytest.mark.parametrize("written", ["2.5", "$2.5", "2.5 USD", "2.5 USD/h", "2.5$/h", "2.5/h"])
def test_spellings_of_a_price(written):
    assert number("--price", written, "price") == 2.5


def test_a_large_sweep_without_a_layout_names_the_options_that_give_one(cli):
    lacking = cli("sweep", "llama-3-70b", "--hw", "h100", "-n", "8", "--batch", "1..501", "--phase", "decode")
    given = cli("sweep", "llama-3-70b", "--hw", "h100", "-n", "2", "--tp", "2", "--batch", "4000", "--phase", "decode")
    assert lacking.code == given.code == 1 and "give --tp" in lacking.err and "give --tp" not in given.err
