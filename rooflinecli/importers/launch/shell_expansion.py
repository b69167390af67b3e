"""Shell word expansion: variables with their defaults, arrays, arithmetic. Values known only at run time are marked unknown."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fnmatch import translate

Value = str | list[str]
_OPEN, _CLOSE, _GAP = "\x01", "\x02", "\x03"  # around what is unknown, and for its spaces, so that it stays one word
ALTERNATIVES = 6
_SPACES = re.compile(r"\s+")
UNKNOWN = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?!$-]")
_BRACED = re.compile(r"(#?)([A-Za-z_]\w*|\d+|[@*])(\[(?:[^\]]*)\])?(.*)", re.DOTALL)
_DOCUMENT = re.compile(r"cat\s*<<-?\s*(['\"\\]?)(\w+)['\"]?[ \t]*\n(.*?)\n\s*\2\s*", re.DOTALL)  # $(cat <<EOF ...)
_BINARY: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: lambda a, b: int(a / b), ast.Mod: lambda a, b: a - int(a / b) * b,
}  # fmt: skip


def unknown(what: str) -> str:
    """A value known only at run time."""
    bare = what.replace(_OPEN, "").replace(_CLOSE, "")
    return f"{_OPEN}{_SPACES.sub(_GAP, bare)}{_CLOSE}"


def unknowns(text: str) -> list[str]:
    """The unknown parts of a text, as written."""
    return [match[1].replace(_GAP, " ") for match in UNKNOWN.finditer(text)]


def readable(text: str) -> str:
    """A text with its unknown parts as written."""
    return UNKNOWN.sub(lambda m: m[1], text).replace(_GAP, " ")


def in_yaml(text: str) -> str:
    """A text whose unknown parts are words of YAML: without the signs of its syntax."""
    return UNKNOWN.sub(
        lambda m: _OPEN + re.sub(r"[^\w$./ -]", "", m[1].replace(_GAP, " ")).replace(" ", _GAP) + _CLOSE, text
    )


def merged(ways: list[dict[str, Value]]) -> dict[str, Value]:
    """Variables after branches of which one ran: what only some set is kept as a default would be, what they set apart is unknown.

    A list or a text that grew keeps what was added, as flags are added that way; texts of several words stay side by side.
    """
    found: dict[str, Value] = {}
    for name in dict.fromkeys(key for way in ways for key in way):
        values: list[Value] = []
        for way in ways:
            if name in way and way[name] not in values:
                values.append(way[name])
        found[name] = values[0] if len(values) == 1 else _joined(name, values)
    return found


class AlternativeValues(list[str]):
    """Value of a variable that undecided branches set to several lists or texts: one of `ways`."""

    def __init__(self, ways: list[Value]):
        longest = max(ways, key=len)
        super().__init__([longest] if isinstance(longest, str) else longest)
        self.ways = ways


def _joined(name: str, values: list[Value]) -> Value:
    ways: list[Value] = []
    for value in values:
        ways += [one for one in (value.ways if isinstance(value, AlternativeValues) else [value]) if one not in ways]
    longest = max(ways, key=len)
    if isinstance(longest, list):
        grew = all(way in ("", longest[: len(way)]) for way in ways)
    else:
        grew = " " in longest and all(isinstance(way, str) and way in longest for way in ways)
    if grew:
        return longest
    wordy: list[Value] = [way for way in ways if isinstance(way, list) or " " in way.strip()]
    # a way that another one adds to is no way of its own
    wordy = [way for way in wordy if not any(other[: len(way)] == way and len(other) > len(way) for other in wordy)]
    wordy = wordy[:ALTERNATIVES]
    if not wordy:
        return unknown(f"${name}")
    return AlternativeValues(wordy) if len(wordy) > 1 else wordy[0]


def alternatives(value: Value | None) -> list[Value]:
    """Alternative values of a variable after undecided branches; empty where there is one."""
    return value.ways if isinstance(value, AlternativeValues) else []


_CLOSING = {"$(": ")", "${": "}", "`": "`", '"': '"'}


def past(text: str, i: int) -> int:
    """The index after the quotation, substitution or expansion that starts at `i`; the end of the text where it never closes."""
    if text[i] == "'":
        return text.find("'", i + 1) + 1 or len(text)
    opening = text[i : i + 2] if text[i] == "$" else text[i]
    closing = _CLOSING.get(opening)
    if closing is None:
        return i + 1
    inner = {"`": "", '"': "`"}.get(opening, "`'\"")  # quotations that count inside this one
    depth, i = 1, i + len(opening)
    while i < len(text) and depth:
        if text[i] == "\\":
            i += 2
        elif text[i] == closing:
            depth, i = depth - 1, i + 1
        elif text[i] in inner or (inner and text[i : i + 2] in ("$(", "${")):
            i = past(text, i)
        else:
            depth, i = depth + (text[i] == opening[1:]), i + 1
    return min(i, len(text))


class ShellExpander:
    """Variables of a script, and words under them."""

    def __init__(self, values: dict[str, Value] | None = None, run: Callable[[str], None] | None = None):
        self.values: dict[str, Value] = dict(values or {})
        self._run = run or (lambda text: None)  # what a substitution runs

    def fields(self, raw: str) -> list[str]:
        """A word as written -> the words it becomes."""
        found: list[str] = []
        current: str | None = None
        for text, quoted in self._pieces(raw):
            if isinstance(text, list):
                parts = text if quoted else [w for item in text for w in item.split()]
            elif quoted:
                current = (current or "") + text
                continue
            else:
                parts = text.split()
                if text[:1].isspace() and current is not None:
                    found.append(current)
                    current = None
            for i, part in enumerate(parts):
                if i and current is not None:
                    found.append(current)
                    current = None
                current = (current or "") + part
            if isinstance(text, str) and text[-1:].isspace() and current is not None:
                found.append(current)
                current = None
        return found if current is None else [*found, current]

    def text(self, raw: str) -> str:
        """A word as one text, as in an assignment."""
        return _text(self._pieces(raw))

    def document(self, raw: str) -> str:
        """The text of a here-document, in which quotes are characters like any other."""
        return _text(self._pieces(raw, True, "\\$`"))

    def _pieces(self, raw: str, quoted: bool = False, escaped: str = '"\\$`') -> list[tuple[Value, bool]]:
        found: list[tuple[Value, bool]] = []
        plain, i = "", 0
        while i < len(raw):
            c = raw[i]
            if c == "\\":
                if raw[i + 1 : i + 2] != "\n":
                    plain += raw[i + 1 : i + 2] if not quoted or raw[i + 1 : i + 2] in escaped else raw[i : i + 2]
                i += 2
                continue
            if c == _OPEN:
                end = raw.find(_CLOSE, i) + 1 or len(raw)
                plain, i = plain + raw[i:end], end
                continue
            if c not in "'\"`$" or (c in "'\"" and quoted):
                plain, i = plain + c, i + 1
                continue
            named = _NAME.match(raw, i + 1) if c == "$" else None
            end = named.end() if named else past(raw, i)
            if plain:
                found.append((plain, True))
                plain = ""
            if c == "'":
                found.append((raw[i + 1 : end - 1], True))
            elif c == '"':
                inner = self._pieces(raw[i + 1 : end - 1], True)
                found.extend(inner or [("", True)])
            elif end == i + 1:
                plain = c
            else:
                found.append((self._expanded(raw[i:end]), quoted))
            i = max(end, i + 1)
        return [*found, (plain, True)] if plain else found

    def _expanded(self, raw: str) -> Value:
        if raw.startswith("$(("):
            return self.arithmetic(raw[3:-2])
        if raw.startswith("${"):
            return self._braced(raw[2:-1], raw)
        if raw.startswith(("$(", "`")):
            inner = raw[2 if raw[0] == "$" else 1 : -1].strip()
            if inner.startswith("echo ") and not re.search(r"[|;&<>]", inner):
                return self.text(inner[5:].strip())
            if document := _DOCUMENT.fullmatch(inner):
                text = re.sub(r"^\t+", "", document[3], flags=re.MULTILINE)
                return text if document[1] else self.text(text.replace('"', '\\"'))
            self._run(inner)
            return "." if inner == "pwd" else unknown(" ".join(raw.split())[:60])
        return self._named(raw[1:])

    def _named(self, name: str) -> Value:
        value = self.values.get(name)
        if isinstance(value, list):
            return value if name in "@*" else (value[0] if value else "")
        return unknown(f"${name}") if value is None else value

    def _braced(self, inside: str, raw: str) -> Value:
        match = _BRACED.fullmatch(inside)
        if match is None:
            return unknown(raw)
        count, name, index, rest = match.groups()
        value: Value | None = self.values.get(name)
        if len(name) > 1 and name.isdigit():  # ${10}
            value = next(iter(self.values.get("@", [])[int(name) - 1 :]), None)
        if index is not None:
            value = self._indexed(value, index[1:-1])
        elif isinstance(value, list) and name not in "@*":
            value = value[0] if value else ""
        if count:
            return unknown(raw) if value is None else str(len(value))
        return self._or_default(name, value, rest, raw) if rest else (unknown(raw) if value is None else value)

    def _indexed(self, value: Value | None, index: str) -> Value | None:
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        if index in ("@", "*"):
            return list(items) if index == "@" else " ".join(items)
        return items[int(index)] if index.isdigit() and int(index) < len(items) else None

    def _or_default(self, name: str, value: Value | None, rest: str, raw: str) -> Value:
        colon, kind, word = rest[0] == ":", rest.lstrip(":")[:1], rest.lstrip(":")[1:]
        missing = value is None or (colon and value in ("", []))
        if kind in "-=" and kind:
            if not missing:
                return value if value is not None else ""
            default = self.text(word)
            if kind == "=":
                self.values[name] = default
            return default
        if kind == "+":
            return "" if missing else self.text(word)
        if kind == "?" and value is not None:
            return value
        if isinstance(value, str) and not unknowns(value) and rest[0] in "#%":
            return _trimmed(value, rest, self)
        return unknown(raw)

    def arithmetic(self, text: str) -> str:
        """$(( ... )) over whole numbers; unknown where a part of it is."""

        def number(match: re.Match[str]) -> str:
            value = self.values.get(match[0])
            return value if isinstance(value, str) and value else unknown(f"${match[0]}")

        bare = re.sub(r"(?<![\w$])[A-Za-z_]\w*", number, self.text(text))
        try:
            if not unknowns(bare) and len(bare) <= 200:
                return str(_evaluated(ast.parse(bare.strip().replace("\n", " "), mode="eval").body))
        except (SyntaxError, ValueError, ArithmeticError, RecursionError):
            pass
        return unknown(f"$(({' '.join(text.split())}))")


def _evaluated(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError("not arithmetic")


def _text(pieces: list[tuple[Value, bool]]) -> str:
    return "".join(" ".join(text) if isinstance(text, list) else text for text, _ in pieces)


def echoed(words: list[str]) -> str:
    """What echo writes."""
    text = " ".join(word for word in words[1:] if word not in ("-e", "-n", "-en"))
    return re.sub(r"\\([\\nt])", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text) + "\n"


def _trimmed(value: str, rest: str, expander: ShellExpander) -> str:
    """${X#pattern}, ${X##pattern}, ${X%pattern}, ${X%%pattern}."""
    longest = rest[:2] in ("##", "%%")
    pattern = re.compile(translate(expander.text(rest[2 if longest else 1 :])))
    ends = range(len(value) + 1) if rest[0] == "#" else range(len(value), -1, -1)
    cuts = [n for n in ends if pattern.fullmatch(value[:n] if rest[0] == "#" else value[n:])]
    if not cuts:
        return value
    cut = cuts[-1] if longest else cuts[0]
    return value[cut:] if rest[0] == "#" else value[:cut]
