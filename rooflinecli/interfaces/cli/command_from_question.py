"""A command that asks for an estimate: its options come from the table, its help is grouped and ends in examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from rooflinecli.interfaces.cli.completion import on_tab, words
from rooflinecli.specs.options import KINDS, OPTIONS, OUTPUT, PANELS, Option


class PanelCommand(TyperCommand):
    """A command whose --help groups options by panel; those without one are about output. The epilog is examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                name, text = record
                shown = name.partition(" ")[0] if parameter.param_type_name == "argument" else name
                panels[getattr(parameter, "rich_help_panel", None) or OUTPUT].append((shown, text))
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Examples"):
            for line in (self.epilog or "").splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


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
    names = (flag,) if flag else (option.short, *(f"--{n}" for n in (option.name, *option.also) if len(n) > 1))
    kind: Any = str
    if option.name == "model":
        default = typer.Argument(None if loose else ..., metavar="MODEL", autocompletion=on_tab(words(option)), **about)
    elif option.kind == "switch" and not ranged:
        kind, default = bool, typer.Option(None, f"--{option.name}/--no-{option.name}", **about)
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
