"""Every error a user can meet, and the exit code each one carries.

RooflineError            one sentence on stderr, never a traceback
├── UsageError       2   the command line asks for something that does not exist or cannot be
│   └── Impossible   2   the input contradicts physics (an MFU above 100 %, a time below its floor)
├── DataError        3   a YAML or JSON file is wrong: file:line, field, what was expected
└── Infeasible       1   a well-posed question whose answer is "it does not fit"

Anything else that reaches the top is a mistake of ours: one sentence too, and exit code 70 (EX_SOFTWARE of sysexits.h).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

BUG = 70


class RooflineError(Exception):
    """An error of the user's input, in one sentence with its remedy. `exit_code` is the command line's."""

    exit_code = 2


class UsageError(RooflineError):
    """The question asks for something that does not exist or cannot be. `option` is the long name of the option at fault."""

    exit_code = 2

    def __init__(self, message: str, option: str = ""):
        super().__init__(message)
        self.option = option


class ImpossibleValue(UsageError):
    """The input implies a speed beyond the hardware's peak."""


class DataError(RooflineError):
    """A file is wrong: where, what it says, what was expected."""

    exit_code = 3


class Infeasible(RooflineError):
    """A well-posed question whose answer is that it does not fit."""

    exit_code = 1


class RooflineWarning(UserWarning):
    """A warning about an answer that stands: a line on stderr, a warning in Python."""


MOST = 40  # names that an error lists; where there are more, one of each beginning, those that most names share first


def unknown(what: str, name: str, known: Iterable[str], remedy: str = "", option: str = "") -> UsageError:
    """The error for a name that is not in a registry: names the near misses, or says how to list what exists."""
    import difflib  # here: most runs meet no unknown name
    from unicodedata import normalize

    known = sorted(known)
    plain = normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
    hint = f"known: {', '.join(known)}."
    if close := difflib.get_close_matches(plain, known, n=3, cutoff=0.6):
        hint = f"did you mean {' or '.join(close)}?"
    elif len(known) > MOST:
        begin: dict[str, list[str]] = {}
        for each in sorted(known, key=len):
            begin.setdefault(re.split("[^a-zA-Z]", each)[0] or each, []).append(each)
        ranked = sorted((place, -len(group), one) for group in begin.values() for place, one in enumerate(group))
        hint = f"known: {len(known)}, among them {', '.join(sorted(one for *_, one in ranked[:MOST]))} …"
    name = " ".join(name.split())
    return UsageError(f"unknown {what} '{name}'; {hint}{' ' + remedy if remedy else ''}", option)
