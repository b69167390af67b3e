"""`script.py:function` and the shapes of its arguments: `f32[128,256]`, `(f32[8], i32[])`, `{w: f32[8,8], b: f32[8]}`, `0.5`."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """Shapes as jax.ShapeDtypeStruct, in tuples and dicts as Python writes them; numbers stay numbers. Raises UsageError."""
    return [_value(node, text) for text in written for node in _nodes(text)]


def _nodes(text: str) -> list[ast.expr]:
    """The arguments of one --args text, as a call has them: commas between may be spaces, and 8x2 is 8,2."""
    spaced = re.sub(r"(?<=[\])}\w])\s+(?=[\w({+-])", ", ", text.strip().removesuffix(","))
    python = re.sub(r"(?<=\d)x(?=\d)", ",", spaced).replace("[]", "[()]")
    try:
        call = ast.parse(f"f({python})", mode="eval").body
    except SyntaxError:
        raise _wrong(text, text) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords or not call.args:
        raise _wrong(text, text)
    return call.args


def _value(node: ast.expr, text: str) -> Argument:
    match node:
        case ast.Tuple():
            return tuple(_value(each, text) for each in node.elts)
        case ast.Dict():
            names = [key.id if isinstance(key, ast.Name) else ast.unparse(key or node) for key in node.keys]
            return dict(zip(names, (_value(each, text) for each in node.values), strict=True))
        case ast.Subscript(value=ast.Name(id=name)):
            import jax
            import jax.numpy as jnp

            try:
                dtype = jnp.dtype(DTYPES.get(name, name))
            except TypeError:
                raise unknown("dtype", name, DTYPES) from None
            axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return jax.ShapeDtypeStruct(tuple(_number(size, text) for size in axes), dtype)
        case ast.Name(id="true" | "false" as word):
            return word == "true"
    return _number(node, text)


def _number(node: ast.expr, text: str) -> Any:
    try:
        found = ast.literal_eval(node)
    except ValueError:
        found = None
    if not isinstance(found, (int, float)):
        raise _wrong(ast.unparse(node), text)
    return found


def _wrong(part: str, text: str) -> UsageError:
    return UsageError(
        f"--args {text}: cannot read '{part.strip()}'; write shapes such as f32[128,256], (f32[8], i32[]) or {{w: bf16[8,8]}}"
    )
