"""`script.py:function` and the shapes of its arguments: `f32[128,256]`, `(f32[8], i32[])`, `{w: f32[8,8], b: f32[8]}`, `0.5`."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.files import missing_reason

if TYPE_CHECKING:
    import jax

    Argument = jax.ShapeDtypeStruct | float | bool | tuple["Argument", ...] | dict[str, "Argument"]

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "pred": "bool",
    "bool": "bool",
    "c64": "complex64",
    **{f"{short}{bits}": f"int{bits}" for short in ("s", "i") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
T = TypeVar("T")
_TOKEN = re.compile(r"\s*([\w.+-]+\s*\[[\d\s,_x]*\]|[-+]?[\d.][\w.+-]*|[A-Za-z_]\w*|[(){}:,])")


def load(target: str) -> Callable[..., object]:
    """The function a target names. Raises UsageError when there is no such file or function, or the script fails."""
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"{target}: expected script.py:function")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{file}: {missing_reason(path)}; name a Python script, as in script.py:function")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: not a Python file; name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file}: running it failed with {type(error).__name__}: {first_line(error)}") from None
    finally:
        sys.path.pop(0)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown("function", name, known)
    return found


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or ["no message"])[0][:300]


def arguments(written: list[str]) -> list[Argument]:
    """Shapes as jax.ShapeDtypeStruct, in tuples and dicts as written; numbers stay numbers. Raises UsageError."""
    return [value for text in written for value in _Parser(text).several()]


class _Parser:
    """Reads one --args text: one or more arguments."""

    def __init__(self, text: str):
        self.text, self.tokens, at = text, [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if not match:
                raise self._wrong(text[at:])
            self.tokens.append(match[1])
            at = match.end()

    def several(self) -> list[Argument]:
        found = []
        while self.tokens:
            found.append(self._value())
            if self.tokens and self.tokens[0] == ",":
                self.tokens.pop(0)
        if not found:
            raise self._wrong(self.text)
        return found

    def _value(self) -> Argument:
        token = self._next()
        if token == "(":
            return tuple(self._until(")", self._value))
        if token == "{":
            return dict(self._until("}", self._item))
        if token.endswith("]"):
            return self._array(token)
        if token in ("True", "true", "False", "false"):
            return token.lower() == "true"
        try:
            return float(token) if re.search(r"[.eE]", token) else int(token)
        except ValueError:
            raise self._wrong(token) from None

    def _item(self) -> tuple[str, Argument]:
        key = self._next()
        if self._next() != ":":
            raise self._wrong(key)
        return key, self._value()

    def _until(self, end: str, read: Callable[[], T]) -> list[T]:
        found = []
        while self.tokens and self.tokens[0] != end:
            found.append(read())
            if self.tokens and self.tokens[0] == ",":
                self.tokens.pop(0)
        if self._next() != end:
            raise self._wrong(self.text)
        return found

    def _array(self, token: str) -> jax.ShapeDtypeStruct:
        import jax
        import jax.numpy as jnp

        name, _, inside = token[:-1].partition("[")
        name = DTYPES.get(name.strip(), name.strip())
        try:
            dtype = jnp.dtype(name)
        except TypeError:
            raise unknown("dtype", name, DTYPES) from None
        return jax.ShapeDtypeStruct(
            tuple(int(size) for size in re.split(r"[,x]", inside.replace("_", "")) if size.strip()), dtype
        )

    def _next(self) -> str:
        if not self.tokens:
            raise self._wrong(self.text)
        return self.tokens.pop(0)

    def _wrong(self, part: str) -> UsageError:
        return UsageError(
            f"--args {self.text}: cannot read '{part.strip()}'; write shapes such as f32[128,256], (f32[8], i32[]) or {{w: bf16[8,8]}}"
        )
