"""Names -> files. Search order: ROOFLINE_PATH folders, the working directory's hardware/ or models/, what the package ships.

The name of a file is its name; a nearer folder hides a farther one. An alias belongs to one file only. Beyond that, names are
read as people write them: 'NVIDIA H100 80GB HBM3', 'meta-llama/Llama-3.1-8B-Instruct'.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from rooflinecli.core.errors import DataError, UsageError, unknown
from rooflinecli.core.files import missing_reason
from rooflinecli.core.snapshots import SETTLED
from rooflinecli.core.text import one_line

_PACKAGE = Path(__file__).resolve().parent.parent
_YAML = ".yaml"
WHAT = {"hardware": "chip", "models": "model"}
T = TypeVar("T")
registered_only: ContextVar[bool] = ContextVar("registered_only", default=False)


@contextlib.contextmanager
def only_registered() -> Iterator[None]:
    """Only names of the registries are known: a file that somebody sends to a page must open no other."""
    token = registered_only.set(True)
    try:
        yield
    finally:
        registered_only.reset(token)


def display_path(path: Path) -> str:
    """Return the name of a file in messages: folder/name for registry files, the path as given otherwise."""
    if path.parent.name in ("hardware", "models", "defaults", "measured", "engines", "optimizers"):
        return f"{path.parent.name}/{path.name}"
    if path.parent.name in ("prices", "grid"):
        return f"hardware/{path.parent.name}/{path.name}"
    return str(path)


def search_path(kind: str) -> list[Path]:
    """Registry folders for `kind` ('hardware' or 'models'), nearest first."""
    return [Path(f) for f in _folders(kind)]


def first_file(kind: str, *parts: str) -> Path | None:
    """The first file at this relative path in the folders of a kind; None where none has it."""
    return next((path for folder in search_path(kind) if (path := folder.joinpath(*parts)).is_file()), None)


def _folders(kind: str) -> list[str]:
    """The same as text."""
    extra = [Path(p) for p in os.environ.get("ROOFLINE_PATH", "").split(os.pathsep) if p]
    found = [str(f) for root in extra for f in (root / kind, root)]
    with contextlib.suppress(FileNotFoundError):  # the working directory may have been deleted
        found.append(os.path.join(os.getcwd(), kind))
    found.append(shipped(kind))
    return [f for f in dict.fromkeys(found) if os.path.isdir(f)]


@cache
def shipped(kind: str) -> str:
    """The folder that the package brings; that of its repository where it was not installed."""
    packaged = _PACKAGE / "data" / kind
    return str(packaged if packaged.is_dir() else _PACKAGE.parent / kind)


def files(kind: str) -> dict[str, Path]:
    """stem -> file for every registry file of `kind`. Links that lead nowhere or in a circle are not files."""
    return {stem: Path(path) for stem, path in _listed(kind).by_stem.items()}


class _Names(NamedTuple):
    """Paths by stem, and by stem in lower case: as text, since every start needs one of hundreds."""

    by_stem: dict[str, str]
    by_word: dict[str, str]
    by_alias: dict[str, Path]  # as asked for so far


def _listed(kind: str) -> _Names:
    """The names of a registry; not to be changed, for the next who asks gets the same."""
    places = (place for found in _folders(kind) for place in (found, os.path.join(found, "measured")))
    return _merged(tuple((place, _inside(place)) for place in places))


@lru_cache(maxsize=16)
def _merged(found: tuple[tuple[str, tuple[str, ...]], ...]) -> _Names:
    """Folders and the names in each, nearest first, as one registry."""
    result: dict[str, str] = {}
    for folder, names in found:
        for name in names:
            stem = name[: -len(_YAML)] or name
            if name[0] != "_" and stem.isprintable():
                result.setdefault(stem, os.path.join(folder, name))
    return _Names(result, {stem.lower(): file for stem, file in result.items()}, {})


def _inside(folder: str) -> tuple[str, ...]:
    """The YAML files of a folder in order, listed again only once it has changed; only links are followed one by one."""
    try:
        changed = os.stat(folder).st_mtime_ns
        settled = time.time_ns() - changed > SETTLED  # else it may change again under the same time
        names, links = (_entries if settled else _entries.__wrapped__)(folder, changed)
    except OSError:  # none, or none that may be read
        return ()
    there = [link for link in links if os.path.isfile(os.path.join(folder, link))]
    return tuple(sorted([*names, *there])) if there else names


@lru_cache(maxsize=64)
def _entries(folder: str, changed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The YAML files of a folder in order, as its own listing tells them from the rest, and the links among them."""
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if entry.name.endswith(_YAML)]
        names = sorted(e.name for e in found if not e.is_symlink() and e.is_file())
        return tuple(names), tuple(e.name for e in found if e.is_symlink())


def load_registry(kind: str, load: Callable[[str], T]) -> tuple[list[T], list[DataError]]:
    """All specs of a registry that can be read, and what is wrong with the files that cannot."""
    specs, broken = [], []
    for path in files(kind).values():
        try:
            specs.append(load(str(path)))
        except DataError as error:
            broken.append(error)
    return specs, broken


def raise_unreadable(broken: list[DataError]) -> None:
    """Raise the first of the files that could not be read, with how many more there are."""
    if broken:
        more = f" (and {len(broken) - 1} more that cannot be read)" if len(broken) > 1 else ""
        raise DataError(f"{broken[0]}{more}; the others are listed")


# patterns are compiled where they are first asked for: most starts ask for two of them
_ALIASES = r"(?ms)^aliases:[ \t]*(?:\[(.*?)\]|((?:\n[ \t]*-[ \t]+[^\n]*)+))"
_ORGS = r"(?m)^orgs:[ \t]*\[([^\]]*)\]"
_TITLE = r"(?m)^name:[ \t]*([^#\n]+)"


def aliases(path: Path | str) -> tuple[str, ...]:
    """The aliases a file declares, read without parsing the whole of it; none where it cannot be read."""
    return _identity(_opening(path))[0]


def _opening(path: Path | str) -> str:
    """The first lines of a file, where its identity stands before its figures; none where it cannot be read."""
    return _start(str(path)).decode(errors="replace").replace("\r\n", "\n")


def _start(path: str) -> bytes:
    """The first 4 KiB of a file, read once per version of it; none where it cannot be read."""
    try:
        state = os.stat(path)
        return _read(path, state.st_mtime_ns, state.st_size)
    except OSError:
        return b""


@lru_cache(maxsize=1024)
def _read(path: str, changed: int, size: int) -> bytes:
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


@lru_cache(maxsize=1024)
def _identity(text: str) -> tuple[tuple[str, ...], str, int]:
    """Aliases, title, and the line of the aliases."""
    title, found = re.search(_TITLE, text), re.search(_ALIASES, text)
    written = re.split(r",|\n[ \t]*-[ \t]+", found[1] or found[2] or "") if found else []
    names = tuple(bare for bare in (_bare(a).lower() for a in written) if bare)
    return names, _bare(title[1]) if title else "", text.count("\n", 0, found.start()) + 1 if found else 1


def _bare(text: str) -> str:
    return one_line(text.strip().strip("'\""))


def find(kind: str, name: str) -> Path:
    """The file for a name, alias or path. Raises UsageError naming near misses, DataError for an alias of two files."""
    path = Path(name)
    written_as_path = path.suffix in (".yaml", ".yml", ".json", ".gguf", ".safetensors")
    any_file = not registered_only.get() or name in _listed(kind).by_stem.values()
    if written_as_path or os.sep in name:
        if any_file and (os.path.isfile(path) or os.path.isfile(path / "config.json")):
            return path
        if written_as_path or kind != "models" or not re.fullmatch(_HUB, name):
            raise DataError(
                f"{name}: {missing_reason(path)}; give a name from `roofline {kind}` or the path of an existing YAML file"
            )
    org, _, last = name.rpartition("/") if kind == "models" else ("", "", name)
    wanted, words = last.lower(), _listed(kind).by_word
    found = Path(words[wanted]) if wanted in words else _by_alias(kind, wanted)
    if found is None and any_file and kind == "models" and os.path.isfile(path / "config.json"):
        return path
    found = found or _as_written(kind, name)
    listed = re.search(_ORGS, _opening(found)) if org else None
    publishers = [_bare(each).lower() for each in listed[1].split(",")] if listed else []
    if org and org.lower() not in publishers:
        theirs = f" ({', '.join(publishers)} does)" if publishers else ""
        raise OtherPublisher(f"{one_line(org)} does not publish {found.stem}{theirs}; write {found.stem} for that one")
    return found


class OtherPublisher(UsageError):
    """The name of a model after an organization that does not publish it."""


def _by_alias(kind: str, wanted: str) -> Path | None:
    """The one file with this alias. Raises DataError for an alias that a second file claims."""
    names = _listed(kind)
    known = names.by_alias.get(wanted)
    if known is not None and wanted in aliases(known):  # unless another has come to claim it as well
        return known
    words = wanted.split()
    word = words[0].encode() if words and words[0].isascii() else b""  # most files do not contain it at all
    claims = [Path(file) for file in names.by_stem.values() if word in _start(file).lower() and wanted in aliases(file)]
    if len(claims) > 1:
        mine, other = claims[:2]
        raise DataError(
            f"{mine}:{_identity(_opening(mine))[2]}: the alias '{wanted}' belongs to {display_path(other)} too; remove it, "
            f"or name the file {wanted}.yaml to take its place"
        )
    for claim in claims:
        names.by_alias[wanted] = claim
    return claims[0] if claims else None


# what people add to a name that changes no figure: makers, memory kinds; tunings of a checkpoint
_NOISE = {
    "hardware": r"(nvidia|amd|radeon|intel|google|aws|tesla|geforce|instinct|gpu|hbm\d?e?)",
    "models": r"(instruct|chat|hf|it|meta)",
}
_HUB = r"[\w.-]+/[\w.-]+"
_ODD = r"[^\w\s.+,:;/()\[\]@™®×*-]|[^\W\x00-\x7f]"  # in no name that anybody writes
_COUNTS = (  # 8xH100, 8 x H100, 2x4090, and no 7900xtx; H100x8, h100:8
    r"(?i)(?P<n>\d+)\s*[x×*]\s*(?P<chip>(?!tx?\b)[^\W\d].*|\d{4}.*)",
    r"(?i)(?P<chip>.*\w)\s*(?<![rg]t)[x×*:]\s*(?P<n>\d+)",
)


@lru_cache(maxsize=4096)
def _spellings(kind: str, name: str) -> frozenset[str]:
    """Return a name without case, separators and noise words, as written and sorted: names that share a spelling are the same."""
    words = _words(kind, name)
    return frozenset(("".join(words), " ".join(sorted(words)))) - {""}


def _words(kind: str, name: str) -> list[str]:
    name = re.sub(r"(?<=\d)\s+(?=gb?\b)", "", name.lower())
    words = [w for w in re.split(r"[^a-z0-9.+]+", name) if w and not re.fullmatch(_NOISE[kind], w)]
    return [re.sub(r"^(\d+)gb?$", r"\1", re.sub(r"^sxm\d$", "sxm", w)) for w in words] if kind == "hardware" else words


def _without_brand(name: str) -> frozenset[str]:
    """A chip's name without its product line, and that without the memory it ends with: 4060ti16 and 4060ti of rtx-4060-ti-16."""
    words = [word.replace("+", "").replace("laptop", "mobile") for word in _words("hardware", name)]
    memory = len(words) > 1 and words[-1].isdigit() and len(words[-1]) < 4
    return frozenset(
        re.sub(r"^(rtx|gtx|rx|arc|jetson)", "", "".join(w)) for w in (words, words[:-1] if memory else words)
    )


def _as_written(kind: str, name: str) -> Path:
    """The file meant by a name as people write it. Raises UsageError for one that could mean two files, or none."""
    known = files(kind)
    last = name.rpartition("/")[2] if kind == "models" else name
    wanted = frozenset() if re.search(_ODD, last) else _spellings(kind, last)
    names = {spelt: file for stem, file in known.items() for spelt in (stem.lower(), *aliases(file))}
    meant = {file for spelt, file in names.items() if wanted & _spellings(kind, spelt)}
    meant = meant or {file for file in known.values() if wanted & _spellings(kind, _identity(_opening(file))[1])}
    if not meant and wanted and kind == "hardware":
        own = max(_without_brand(name), key=len)  # whoever names a memory means that one
        meant = {file for spelt, file in names.items() if own in _without_brand(spelt)}
    if len(meant) == 1:
        return meant.pop()
    if meant:
        either = " or ".join(sorted(file.stem for file in meant))
        raise UsageError(f"'{one_line(name)}' could mean {either}; give one of these names")
    count, chip = split_count(kind, name)
    if count:
        raise UsageError(f"'{one_line(name)}' is a count and a chip; write {chip} here, and the count as -n {count}")
    remedy = f"`roofline {kind}` lists them; a YAML path works too"
    if last != name:
        remedy = "It is no file here either: download its config.json from the Hub and give the path"
    raise unknown(WHAT[kind], last, names, remedy)


def split_count(kind: str, name: str) -> tuple[int | None, str]:
    """'8xH100' -> 8 and 'H100', 'v5p-2x2x4' -> 16 and 'v5p', 'v5p-4096' -> 2048 and 'v5p', since the name of a slice counts TensorCores or
    chips as the chip's file says; None and the name itself where it says no count, or is the name of a file."""
    text, names = name.strip(), _listed(kind)
    if kind != "hardware" or name.lower() in names.by_stem:
        return None, name
    if shape := re.fullmatch(_TOPOLOGY, text):
        return math.prod(map(int, shape["shape"].lower().split("x"))), shape["chip"]
    if match := next(filter(None, (re.fullmatch(pattern, text) for pattern in _COUNTS)), None):
        several = {os.sep, ","} & set(name) or len(match["n"]) > 9
        return (None, name) if several else (int(match["n"]), match["chip"].strip())
    if re.fullmatch(r"tpu\dx-\d+", text, re.IGNORECASE):
        chip = text.partition("-")[0]
        raise UsageError(
            f"--hw {name}: such a name may count chips or cores; write the topology, {chip}-4x4x4, or {chip} with -n",
            "hw",
        )
    match = re.fullmatch(_SLICE, text)
    if not match or _by_alias(kind, text.lower()):
        return None, name
    path = names.by_word.get(match["chip"].lower()) or _by_alias(kind, match["chip"].lower())
    opening = _opening(path) if path else ""
    if "\nslices:" not in opening:
        return None, name
    cores = re.search(_IN_NAME, opening)
    return int(match["n"]) // (int(cores[1]) if cores else 1), match["chip"]


_TOPOLOGY = r"(?i)(?P<chip>(tpu-?)?v\d\w*|tpu\dx)-(?P<shape>\d{1,3}x\d{1,3}(x\d{1,3})?)"  # tpu7x-4x4x4
_SLICE = r"(?i)(?P<chip>(tpu-?)?v\d\w*)-(?P<n>\d{1,6})"
_IN_NAME = r"(?m)^slices:.*\bcores_in_name: (\d+)"
