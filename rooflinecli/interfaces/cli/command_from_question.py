"""A command that asks for an estimate: its options come from the table, its help is grouped and ends in examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints

import typer

from rooflinecli.interfaces.cli.completion import on_tab, words
from rooflinecli.interfaces.cli.from_question import QuestionCommand, former_flags
from rooflinecli.specs.options import KINDS, OPTIONS, Option


class PanelCommand(QuestionCommand):
    """A command with options of an estimate, whose former flags are read too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {flag for parameter in self.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        lent = [option for option in OPTIONS.values() if {option.flag, f"--{option.long}"} & own]
        self.former = {old: new for option in lent for old, new in former_flags(option) if old not in own}
        return super().parse_args(ctx, args)


def asks(
    *,
    ranged: Collection[str] = (),
    without: Collection[str] = (),
    help: Mapping[str, str] = {},
    flags: Mapping[str, str] = {},
    loose: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command with every option of an estimate before its own; those given arrive in `options` by name, as written.

    `ranged` options take several values; `without` leaves some out; `help` and `flags` replace the table's;
    `loose` ones may come from elsewhere, though the table's readers need them.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "options"]
        left = {*without, *(p.name for p in own)}
        lent = [option for name, option in OPTIONS.items() if name not in left]
        hints = get_type_hints(function)

        def command(**given: Any) -> Any:
            options = {o.name: given[o.parameter] for o in lent if given[o.parameter] not in (None, [])}
            return function(options=options, **{p.name: given[p.name] for p in own})

        parameters = [
            *(_parameter(o, o.name in ranged, help.get(o.name), flags.get(o.name), o.name in loose) for o in lent),
            *(p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own),
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__doc__, command.__name__ = function.__doc__, function.__name__
        return command

    return decorate


def _parameter(option: Option, ranged: bool, help: str | None, flag: str | None, loose: bool) -> inspect.Parameter:
    """An option of the table as a parameter of a command."""
    about: dict[str, Any] = {"help": help or _help(option, ranged), "rich_help_panel": option.panel}
    names = (flag,) if flag else (option.short, *(f"--{n}" for n in (option.long, *option.also) if len(n) > 1))
    kind: Any = str
    if option.name == "model":
        default = typer.Argument(None if loose else ..., metavar="MODEL", autocompletion=on_tab(words(option)), **about)
    elif option.kind == "switch" and not ranged:
        kind, default = bool, typer.Option(None, f"--{option.long}/--no-{option.long}", **about)
    else:
        metavar = KINDS[option.kind].metavar or "CHOICE"
        kind = list[str] if option.kind == "phases" else str
        first = ... if option.name == "hw" and not loose else None
        default = typer.Option(
            first, *filter(None, names), metavar=metavar, autocompletion=on_tab(words(option)), **about
        )
    return inspect.Parameter(option.parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _help(option: Option, ranged: bool) -> str:
    """The table's sentence, with the choices where it stops short of them."""
    if option.kind == "switch" and ranged:
        return f"{option.help} yes, no or yes,no."
    if option.help.endswith("."):
        return option.help
    return f"{option.help}: {', '.join(option.choices[:-1])} or {option.choices[-1]}."
