"""Placeholders of option values in --help (COUNT, TIME, MONEY, CHOICE, FILE), by option name where its own line has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from typer.core import TyperArgument, TyperGroup

from rooflinecli.core.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Command, Context, Parameter

P = TypeVar("P", bound="Parameter")

_OPTIONS = {
    "CHOICE": "dtype family format vendor",
    "COUNT": "trips",
    "NAME": "hw",
    "PATH": "plot",
    "SHAPES": "args",
    "SIZE": "min-memory",
}
VALUES = {option: value for value, options in _OPTIONS.items() for option in options.split()}


def named(command: Command) -> Command:
    """The command, and those under it, with a placeholder for every value."""
    for parameter in map(without_coercion, command.params):
        if not parameter.metavar and not getattr(parameter, "is_flag", False) and parameter.name != "help":
            parameter.metavar = _word(parameter)
        if isinstance(parameter, TyperArgument):  # Typer would print the Python type behind its name
            parameter.display_type_rich = lambda ctx: ""  # type: ignore[method-assign]
    for further in command.commands.values() if isinstance(command, TyperGroup) else ():
        named(further)
    return command


def without_coercion(parameter: P) -> P:
    """Have an option or argument refuse an empty value, which would else read as none given; text is passed on as it is."""
    if getattr(parameter.process_value, "__name__", "") == "filled":
        return parameter
    process, names = parameter.process_value, parameter.opts
    shown = next((one for one in names if one.startswith("--")), names[0])
    shown = shown if parameter.param_type_name == "option" else shown.upper()
    # Typer would build pydantic adapters to turn text into text, and flags into flags
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)

    def filled(ctx: Context, value: str | bool | list[str] | None) -> object:
        given = list(value) if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(one, str) and not one.strip() for one in given):
            raise UsageError(f"{shown} '': empty; give it a value, or leave it out", str(parameter.name))
        if annotation not in (str, bool, list[str]) or parameter.required:
            return process(ctx, value)
        taken = value if annotation != list[str] else [] if value is None else given
        return taken if parameter.callback is None else parameter.callback(ctx, parameter, taken)

    parameter.process_value = filled  # type: ignore[method-assign]
    return parameter


def _word(parameter: Parameter) -> str | None:
    """An argument is called by its own name, an option by what its value is."""
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    names = (option.lstrip("-") for option in parameter.opts if option.startswith("--"))
    return next((VALUES[name] for name in names if name in VALUES), None)
