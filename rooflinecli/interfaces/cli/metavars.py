"""What the value of an option is, as help says it: COUNT, TIME, MONEY, CHOICE, FILE. By name, where an option's own line does not say."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import UsageError

_OPTIONS = {
    "ADDRESS": "coordinator",
    "AXES": "mesh sizes",
    "CHOICE": "dtype family fit format from library phase to vendor weight-dtype",
    "COUNT": (
        "active-params batch batch-tokens beams big-batch cols context d-model device devices digits ep examples-min "
        "experts flops flops-per-element grid head-dim heads kv-heads layers looks max-output max-threads-per-sm mean-output multiple "
        "new-batch output params process-id processes prompt reads redundant-experts registers requests rows seq shared "
        "small-batch steps steps-min threads tokens tokens-served top-k tp trips vocab writes"
    ),
    "FILE": "baseline log write-baseline",
    "MONEY": "price usd-per-hour ",
    "NAME": "draft extends hw model target",
    "NUMBER": (
        "big-norm2 capability draft-cost expansion loss lr noise-scale pflop-s-days small-norm2 speedup tokens-per-param "
        "verify-cost"
    ),
    "PATH": "plot",
    "PATTERN": "only",
    "QUANTITY": "explain",
    "RATE": "bandwidth clock peak prefill-tokens-per-s tokens-per-s",
    "SHAPES": "args",
    "SHARE": "hit-rate mfu tolerance utilization",
    "SIZE": "kv-after kv-per-sequence kv-per-token min-memory smem smem-per-sm",
    "COUNTS": "lengths",
    "TIME": (
        "budget checkpoint interval itl measured mtbf prefill restart run seconds-per-example seconds-per-step step time"
    ),
}
VALUES = {option: value for value, options in _OPTIONS.items() for option in options.split()}


def named(command: Any) -> Any:
    """The command, and those under it, with a word for every value."""
    for parameter in command.params:
        without_coercion(parameter)
        if not parameter.metavar and not getattr(parameter, "is_flag", False) and parameter.name != "help":
            parameter.metavar = _word(parameter)
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _nothing  # Typer would print the Python type behind its name
    for further in getattr(command, "commands", {}).values():
        named(further)
    return command


def without_coercion(parameter: Any) -> None:
    """Have an option or argument refuse an empty value, which would else read as none given; text is passed on as it is."""
    if getattr(parameter.process_value, "__name__", "") == "filled":
        return
    process, names = parameter.process_value, parameter.opts
    shown = next((one for one in names if one.startswith("--")), names[0])
    shown = shown if parameter.param_type_name == "option" else shown.upper()
    # Typer would build pydantic adapters to turn text into text, and flags into flags
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)

    def filled(ctx: Any, value: Any) -> Any:
        given = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(one, str) and not one.strip() for one in given):
            raise UsageError(f"{shown} '': empty; give it a value, or leave it out", str(parameter.name))
        if annotation not in (str, bool, list[str]) or parameter.required:
            return process(ctx, value)
        if annotation == list[str]:
            value = list(value or ())
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    parameter.process_value = filled


def _nothing(ctx: Any) -> str:
    return ""


def _word(parameter: Any) -> str | None:
    """An argument is called by its own name, an option by what its value is."""
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    names = (option.lstrip("-") for option in parameter.opts if option.startswith("--"))
    return next((VALUES[name] for name in names if name in VALUES), None)
