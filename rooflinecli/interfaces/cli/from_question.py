"""A Typer command from a question: its fields, help by panel, examples, hidden former names, completion; and how its answer is printed."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import plural
from rooflinecli.interfaces.cli.completion import words
from rooflinecli.interfaces.cli.main import COMPLETING, application, without_coercion
from rooflinecli.interfaces.cli.output import INTERRUPTED, columns, print_error, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import KINDS, MISSING, OUTPUT, PANELS, Group, Option, OptText, Switch, Text, Whole, field

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter

    from rooflinecli.core.parallel_map import Workers
    from rooflinecli.render.blocks import Picture

Q = TypeVar("Q", bound=Question[Any])
D = TypeVar("D", bound="Output")
FORMATS = ("table", "json", "csv", "markdown", "html")


class Output(Question[None]):
    """What becomes of an answer: options that only the command line has."""

    def deliver(self, run: Callable[..., int | None], asked: object) -> int | None:
        """Answer the question; the exit code."""
        return run(asked, self)


class Delivery(Output):
    """Where an answer goes and in which format; no part of the question, and no interface but the command line has it."""

    # fmt: off
    wide: Switch = field("switch", "All columns of a table, however wide.", default=False)
    details: Switch = field("switch", "More than the first screen: where the time goes, memory, cost, sources.", default=False)
    format: Text = field("choice", "Format of the answer", default="table", choices=FORMATS, short="-f")
    schema: OptText = field("choice", "Keys of the JSON of an earlier version", default=None, choices=("1", "2"), metavar="VERSION")
    out: OptText = field("file", "Write to a file instead of standard output.", default=None, short="-o")
    # fmt: on


class Plotted(Group):
    """A picture of an answer."""

    # fmt: off
    plot: OptText = field("file", "A picture of the answer: FILE.png, FILE.svg (extra `plot`), or - for the terminal.", default=None)
    # fmt: on

    def check(self) -> None:
        if self.plot is not None:
            from rooflinecli.render.formats.plot import check

            check(self.plot)


class Explained(Delivery):
    """A delivery that may be the derivation of one quantity instead of the answer."""

    # fmt: off
    explain: OptText = field("free", "Show how a quantity follows, by its name in the JSON, e.g. time_s.", default=None, metavar="QUANTITY")
    depth: Option = field("count", "Levels of an explanation.", default=3, least=0)
    # fmt: on


class Parallel(Delivery):
    """A delivery of work that may be spread over processes or machines."""

    # fmt: off
    jobs: Whole = field("whole", "Processes to spread the work over.", default=1)
    cluster: OptText = field("free", "A Dask scheduler to spread the work over (extra rooflinecli[cluster]).", default=None, metavar="ADDRESS")
    resume: OptText = field("file", "Keep answers in this folder as they come, and go on from those of an earlier run that was cut off.", default=None, metavar="FOLDER")
    # fmt: on

    def workers(self, question: object) -> Workers | None:
        """A map over processes or a cluster, with answers kept in --resume; None where this process does all of the work."""
        if self.jobs <= 1 and not self.cluster and not self.resume:
            return None
        from rooflinecli.core.parallel_map import Kept, worker_map

        kept = None if self.resume is None else Kept(Path(self.resume), _identity(question))
        return worker_map(self.jobs, self.cluster, kept)


class Study(Parallel):
    """A delivery of work that is spread in one go, so that a few parts of it tell its cost."""

    # fmt: off
    dry_run: Switch = field("switch", "Print how much work this is and how long it would take, and stop.", default=False)
    # fmt: on

    def deliver(self, run: Callable[..., int | None], asked: object) -> int | None:
        """Answer the question, or with --dry-run say what it would take; the exit code."""
        if not self.dry_run:
            return run(asked, self)
        from rooflinecli.core.parallel_map import StudyCost
        from rooflinecli.core.units import duration, si

        try:
            return run(asked, self)
        except StudyCost as cost:
            seconds, size = duration(cost.seconds / self.jobs), si(cost.answer_bytes, "B")
            spread = f"{self.jobs} processes" if self.jobs > 1 else "one process"
            write(
                f"{plural(cost.items, 'part')}: about {seconds} on {spread} of this machine, {size} of answers; nothing was run"
            )
            return 0

    def workers(self, question: object) -> Workers | None:
        """A map as above, or one that only weighs the work."""
        if not self.dry_run:
            return super().workers(question)
        from rooflinecli.core.parallel_map import only_cost

        return only_cost


def _identity(question: object) -> str:
    """What answers depend on: the release, the question as written, and the files of the registries as they stand."""
    from hashlib import sha256
    from importlib.metadata import version

    from rooflinecli.specs.name_lookup import files

    found = [path for kind in ("hardware", "models") for path in files(kind).values()]
    written = [Path(word) for word in re.findall(r"[^\s'\",=]+", repr(question)) if os.path.isfile(word)]
    states = [(str(path), state.st_mtime_ns, state.st_size) for path in (*found, *written) for state in [path.stat()]]
    digest = sha256(repr(sorted(states)).encode()).hexdigest()
    return f"rooflinecli {version('rooflinecli')}\n{question!r}\nhardware and model files: {digest}\n"


class QuestionCommand(TyperCommand):
    """A command whose --help groups options by panel, the last of them about output, and ends in examples."""

    former: dict[str, str]  # flags of earlier releases -> those of today

    def get_params(self, ctx: Context) -> list[Parameter]:
        return [without_coercion(parameter) for parameter in super().get_params(ctx)]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read flags of earlier releases as those of today, up to `--`. Raises UsageError for an option with two values."""
        end = args.index("--") if "--" in args else len(args)
        written, place = dict[str | None, tuple[str, str]](), 0
        options = {flag: p for p in self.get_params(ctx) if not p.multiple for flag in (*p.opts, *p.secondary_opts)}
        while place < end:
            typed, equals, value = args[place].partition("=")
            flag = self.former.get(typed, typed)
            args[place], place = flag + equals + value, place + 1
            if flag[:2] in options and not equals and len(flag) > 2:  # -n8
                typed, flag, equals, value = typed[:2], flag[:2], "=", flag[2:]
            if (option := options.get(flag)) is None:
                continue
            if not option.is_flag and not equals and place < end:  # type: ignore[attr-defined]
                value, place = args[place], place + 1
            text = f"{typed} {value}".strip()
            meant = flag if option.is_flag else value  # type: ignore[attr-defined]
            first, other = written.setdefault(option.name, (meant, text))
            if first != meant:
                raise UsageError(f"{other} and {text} are the same option; keep one", str(option.name))
        return list(super().parse_args(ctx, args))

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        return [piece.strip("{}").replace("...]...", "]...") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                name, text = record
                shown = name.partition(" ")[0] if parameter.param_type_name == "argument" else name
                panels[getattr(parameter, "rich_help_panel", None) or OUTPUT].append((shown, text))
        for panel, records in panels.items():
            if records:
                with formatter.section(panel if len([p for p in panels.values() if p]) > 1 else "Options"):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        lines = (self.epilog or "").splitlines()
        if not lines:
            return
        with formatter.section("Examples"):
            start = " " * formatter.current_indent
            room = formatter.width - len(start)
            if max(map(len, lines)) > room:
                from rooflinecli.render.formats.terminal import command as broken

                lines = [part for line in lines for part in broken(line, room)]
            formatter.write("".join(f"{start}{line}\n" for line in lines))


def former_flags(option: Option) -> list[tuple[str, str]]:
    """Flags of earlier releases and of other tools that mean this one, each with the flag of today."""
    prefixes = ("", "no-") if option.kind == "switch" else ("",)
    others = [name for name in option.names if name not in (option.long, *option.also) and len(name) > 1]
    today = option.long if len(option.long) > 1 or not option.also else option.also[0]
    return [(f"--{prefix}{old}", f"--{prefix}{today}") for old in others for prefix in prefixes]


def add(
    app: typer.Typer,
    question: type[Q],
    run: Callable[..., int | None],
    delivery: type[D],
    name: str | None = None,
    read: Callable[[dict[str, object]], object] | None = None,
    hidden: bool = False,
) -> None:
    """Register the command of a question: `run` of the question and a delivery prints, and returns the exit code where that is not 0.

    read: makes what `run` is given instead of the question, of the fields as written.
    """
    fields = [
        *question.fields().values(),
        *(f for f in delivery.fields().values() if f.parameter not in question.fields()),
    ]
    own, listed = {f"--{f.long}" for f in fields}, {f.parameter for f in fields if f.listed}
    former = {old: new for f in fields for old, new in former_flags(f) if old not in own}

    def command(**given: object) -> None:
        written = {name: value for name, value in given.items() if value is not None and value != []}
        written |= {n: ",".join(v) for n, v in written.items() if n in listed and isinstance(v, list)}
        own = {n: v for n, v in written.items() if n in question.fields()}
        asked = question(**own) if read is None else read(own)
        how = delivery.read({n: v for n, v in written.items() if n not in question.fields()})
        try:
            code = how.deliver(run, asked)
        except KeyboardInterrupt:
            folder = getattr(how, "resume", None)
            kept = "nothing was kept"
            if folder and any(Path(folder).glob("*.pickle")):
                kept = f"the parts that had ended are in {folder}; the same command goes on from them"
            elif hasattr(how, "resume"):
                kept += "; --resume FOLDER keeps parts that have ended"
            print_error(f"interrupted; {kept}")
            code = INTERRUPTED
        if code:
            raise typer.Exit(code)

    parameters = [_parameter(f, question) for f in fields]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = question.__doc__
    command.__name__ = (name or question.verb.rpartition(" ")[2]).replace("-", "_")
    kind = type("Command", (QuestionCommand,), {"former": former})
    app.command(name, hidden=hidden, cls=kind, epilog="\n".join(question.examples))(command)


def command(
    question: type[Q],
    run: Callable[..., int | None],
    delivery: type[D] = Delivery,  # type: ignore[assignment]
    read: Callable[[dict[str, object]], object] | None = None,
) -> typer.Typer:
    """The application of a verb that is one question."""
    app = application()
    add(app, question, run, delivery, read=read)
    return app


def _parameter(option: Option, question: type[Question[object]]) -> inspect.Parameter:
    """A field as a parameter of a command. Every value is text, or a switch: the question reads it."""
    ranged = option.parameter in question.ranged
    annotation: type | GenericAlias = list[str] if (option.several or option.listed) and not ranged else str
    names = (option.short, *(f"--{n}" for n in (option.long, *option.also) if len(n) > 1))
    metavar: str | None = option.metavar or KINDS[option.kind].metavar or "CHOICE"
    make: Callable[..., object] = typer.Option
    if option.positional:
        make, names, metavar = typer.Argument, (), option.metavar or option.long.upper()
    elif option.kind == "switch" and not ranged:
        off = "" if option.default is False else f"/--{option.off or f'no-{option.long}'}"
        annotation, names, metavar = bool, (option.short, f"--{option.long}{off}"), None
    default = make(
        None,
        *filter(None, names),
        metavar=metavar,
        help=_help(option, question),
        rich_help_panel=option.panel or OUTPUT,
        # only while a shell is completing: Typer inspects its signature at every start
        autocompletion=words(option) if annotation is not bool and COMPLETING in os.environ else None,
    )
    return inspect.Parameter(option.parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _help(option: Option, question: type[Question[object]]) -> str:
    """The field's sentence, with the choices where it stops short of them and the default where there is one."""
    text = question.helps.get(option.parameter, option.help)
    if not text.endswith(".") and option.choices:
        *others, last = option.choices
        text += f": {', '.join(others)} or {last}." if others else f": {last}."
    if option.kind == "switch" and option.parameter in question.ranged:
        text = f"{text.removesuffix('.')}: yes, no or yes,no."
    if option.default in (None, MISSING, False, ()):
        return text
    shown = f"{option.default:g}" if isinstance(option.default, (int, float)) else option.default
    shown = (
        "on" if option.default is True else units.duration(float(option.default)) if option.kind == "time" else shown
    )
    return f"{text} [default: {shown}]"


def show(answer: Any, view: str, how: Delivery, *, table: str = "", **shown: object) -> None:
    """Print an answer by `view`, MODULE or MODULE.FUNCTION of render/views, or write it to --out, and draw its picture. `table` is what
    CSV has as rows, `shown` the view's own arguments. Raises UsageError for a picture without points."""
    from rooflinecli.render.answer import render

    out = None if how.out is None else Path(how.out)
    module, _, name = view.partition(".")
    page = partial(getattr(import_module(f"rooflinecli.render.views.{module}"), name or "view"), **shown)
    write(
        render(answer, page, how.format, columns(how.wide, out), table=table, schema=how.schema, details=how.details),
        out,
    )
    if isinstance(how, Plotted) and how.plot:
        from rooflinecli.render.views.pictures import pictures

        drawn = pictures(answer)
        if not drawn:
            raise UsageError("--plot: no point to show; nothing is feasible, or it has no price", "plot")
        draw(drawn[0], how.plot, "\n")


def draw(picture: Picture, target: str, above: str = "") -> None:
    """Draw a picture into a file, or print it below the answer."""
    from rooflinecli.render.formats.plot import draw as drawn

    text = drawn(picture, target)
    if text:
        write(above + text)
