"""Values of options and arguments as text: questions read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from typer.core import TyperArgument

from rooflinecli.core.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Context, Parameter

P = TypeVar("P", bound="Parameter")


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
    if isinstance(parameter, TyperArgument):  # Typer would print the Python type behind its name
        parameter.display_type_rich = lambda ctx: ""  # type: ignore[method-assign]
    return parameter
