"""`roofline`: a table of verbs. A verb's module is imported only when that verb runs, so `--help` stays instant."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from rooflinecli.core.errors import BUG, RooflineError, RooflineWarning, UsageError, unknown
from rooflinecli.interfaces.cli.output import INTERRUPTED, UNWRITABLE, any_encoding, print_error, unwritable
from rooflinecli.specs.snapshots import packaged

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter, Parameter
    from typer._click.shell_completion import CompletionItem

# pydantic looks for plugins through importlib.metadata, which costs more than an estimate; we use none.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
sys.modules.setdefault("pydantic.plugin._loader", SimpleNamespace(get_plugins=tuple))  # type: ignore[arg-type]

VERBS: dict[str, tuple[str, str]] = packaged(os.path.dirname(__file__), "verbs")["verbs"]  # a module and a line of help
FORMER = {"layouts": "partitioning", "serve": "web"}  # verbs of earlier releases, which no help shows


COMPLETING = "_ROOFLINE_COMPLETE"  # set by a shell that asks what may follow


def application(**more: Any) -> typer.Typer:
    """A Typer application with the settings that all of this program share."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


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


class PlainGroup(TyperGroup):
    """A click group whose own options are passed on as they are, and whose commands are named where one is not among them."""

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands:
            known = [name for name, command in self.commands.items() if not command.hidden]
            raise unknown("command", cmd_name, known, f"`{ctx.command_path} --help` lists them")
        return super().get_command(ctx, cmd_name)

    def get_params(self, ctx: Context) -> list[Parameter]:
        return [without_coercion(parameter) for parameter in super().get_params(ctx)]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Commands with the whole of their first sentences, which click would cut."""
        shown = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(n, " ".join((c.help or "").partition("\n\n")[0].split())) for n, c in shown if not c.hidden]
            )


class LazyGroup(PlainGroup):
    """A click group whose commands are imported on first use."""

    def list_commands(self, ctx: Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command:
        cmd_name = FORMER.get(cmd_name, cmd_name)
        if cmd_name not in VERBS:
            raise unknown("command", cmd_name, VERBS, "`roofline --help` lists them")
        module = import_module(f"rooflinecli.interfaces.cli.{VERBS[cmd_name][0]}")
        command = typer.main.get_command(module.app if isinstance(module.app, typer.Typer) else module.app(cmd_name))
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        if ctx.params.get("install_completion") or ctx.params.get("show_completion"):
            return args[0], TyperCommand(args[0]), args[1:]  # a shell, which the callback reads
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """The verbs from the table, with what they answer, without importing them."""
        commands: dict[str, Command] = {name: TyperCommand(name, help=text) for name, (_, text) in VERBS.items()}
        return TyperGroup(name=self.name, commands=commands, params=self.params).shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


app = application(
    cls=LazyGroup,
    help="A roofline calculator for transformers: FLOPs, memory, "
    "latency, throughput and dollars, each number explained.",
)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    install_completion: bool = typer.Option(
        False, "--install-completion", help="Complete on tab in this shell, or in one that is named: bash, zsh, fish."
    ),
    show_completion: bool = typer.Option(False, "--show-completion", help="Print the script that does."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(installed("rooflinecli"))
    elif install_completion or show_completion:
        from rooflinecli.interfaces.cli.completion import install

        print(install(show_completion, ctx.invoked_subcommand or ""))
    elif ctx.invoked_subcommand is None:
        print(ctx.get_help())
    else:
        return
    raise typer.Exit(0)


def run() -> None:
    """`roofline` as a process of its own: main, with less housekeeping by Python for a command that lasts a fifth of a second.

    Collecting garbage while modules load and taking the interpreter down again cost a seventh of a short command. Where
    threads or jax may have work to do on the way out, Python ends as usual.
    """
    gc.set_threshold(100_000, 50, 50)
    try:
        main()
    except SystemExit as end:
        with contextlib.suppress(OSError, ValueError):  # closed, or full: main has said so
            sys.stdout.flush()
            sys.stderr.flush()
        if "jax" in sys.modules or threading.active_count() > 1:
            raise
        os._exit(int(end.code or 0))


def main() -> None:
    """Entry point: one clear sentence on stderr for every error, its exit code, and no traceback."""
    any_encoding()
    if COMPLETING in os.environ:
        from typer.completion import completion_init

        completion_init()
    try:
        with notes_after_the_answer():
            code = _answer()
            sys.stdout.flush()
        sys.exit(code)
    except RooflineError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            sys.exit(_unexpected(error))
        print_error(unwritable(error))
        sys.exit(UsageError.exit_code)
    except Exception as error:
        sys.exit(_click_exit(error))


def _answer() -> int:
    """Return the exit code of the verb; a group without a verb shows its help, as git does."""
    try:
        return app(prog_name="roofline", standalone_mode=False) or 0
    except Exception as error:
        if type(error).__name__ != "NoArgsIsHelpError":
            raise
        print(error.ctx.get_help())  # type: ignore[attr-defined]
        return 0


@contextlib.contextmanager
def notes_after_the_answer() -> Iterator[None]:
    """Warnings of the engine become lines on stderr, each once, after the answer; an error is printed without them."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("default", RooflineWarning)
        other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **named: Any) -> None:
            if issubclass(category, RooflineWarning):
                notes.append(f"note: {message}")
            else:
                other(message, category, *where, **named)

        warnings.showwarning = show
        yield
    for text in dict.fromkeys(notes):
        print_error(text)


def _click_exit(error: Exception) -> int:
    """Exit code for what click raises itself."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if "Exit" in names:
        return int(getattr(error, "exit_code", 0))
    if "Abort" in names:
        return INTERRUPTED
    if "ClickException" in names or "UsageError" in names:
        context = getattr(error, "ctx", None)
        hint = f" See `{context.command_path} --help`." if context is not None else ""
        said = _elsewhere(error) or error.format_message()  # type: ignore[attr-defined]
        print_error(f"{said}{'' if said.endswith(('.', '?', '!')) else '.'}{hint}")
        return 2
    return _unexpected(error)


def other_tools() -> dict[str, str]:
    """Flags of other tools -> the option of the same meaning here: the nearest spelling is rarely the nearest meaning."""
    return {flag: here for here, flags in packaged(__file__, "other_tools").items() for flag in flags}


def any_option(flag: str) -> str:
    """The verb whose option goes by that name, with its flag; empty where there is none."""
    from rooflinecli.interfaces.verbs import question

    for verb in ("estimate", "search", "simulate", "plan", "fit"):
        with contextlib.suppress(UsageError):
            return f"`roofline {verb}` has {question(verb).named(flag.lstrip('-')).flag}"
    return ""


def _elsewhere(error: Exception) -> str:
    """The sentence for an option that other tools have under that name; empty where this verb has it not, and for any other error."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    here = other_tools().get(name, "") if isinstance(name, str) else ""
    known = {opt for param in context.command.params for opt in param.opts} if context is not None else set()
    places = [p.name for p in context.command.params if p.param_type_name == "argument"] if context is not None else []
    if isinstance(name, str) and name.lstrip("-") in places:
        shown = " ".join(map(str.upper, places))
        return (
            f"no option {name}: {name.lstrip('-').upper()} is a positional argument, `{context.command_path} {shown}`."  # type: ignore[union-attr]
        )
    if "unexpected extra argument" in str(error):
        extra = re.sub(r".*\((.*)\).*", r"\1", str(error))
        return f"{extra}: an argument too many; a switch takes no value, and any other value follows its option, as in --hw h100, in quotes where it has a space ('30 GB')."
    if isinstance(name, str) and not here and (option := any_option(name)):
        return f"no option {name}: `{context.command_path}` does not read it; {option}."  # type: ignore[union-attr]
    if not here or (here.startswith("-") and re.split(r"[ ,]", here)[0] not in known):
        return ""
    return f"no option {name}: here it is {here}."


def _unexpected(error: Exception) -> int:
    """Exit code for an error that nothing above foresaw: numbers out of range are the user's; anything else is a bug to report."""
    if isinstance(error, ArithmeticError):
        print_error(f"the numbers given cannot be calculated with ({error}); give sizes above zero, and such as exist")
        return UsageError.exit_code
    if os.environ.get("ROOFLINE_TRACEBACK"):
        raise error
    print_error(
        f"internal error ({type(error).__name__}: {error}); please report the command line. "
        "With ROOFLINE_TRACEBACK=1 in the environment it shows where"
    )
    return BUG


if __name__ == "__main__":
    run()
