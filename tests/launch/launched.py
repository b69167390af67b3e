"""What tests of launches read: a text as a file of its own with the options it becomes, and a script as the commands it runs."""

from __future__ import annotations

from rooflinecli.importers.launch import read
from rooflinecli.importers.launch.shell_evaluator import ShellEvaluator


def options_of(text, tmp_path, name="launch.sh", **given):
    """The options of a launch, and what is said of it."""
    file, _, which = name.partition("#")
    path = tmp_path / file
    path.write_text(text)
    said: list[str] = []
    return read.options(f"{path}#{which}" if which else str(path), given, said.append), " | ".join(said)


def commands(text):
    """The words of each command that a script comes to."""
    return [c.words for c in ShellEvaluator().read(text).commands]
