"""A Python file -> the commands and configs that it starts: engines that it makes, processes that it runs, arguments of trainers, keys of a recipe
(NeMo 2, Megatron Bridge), and files that are assignments alone (nanoGPT). It is parsed, never run: what is no literal is marked unknown."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.launch.containers import as_flags
from rooflinecli.importers.launch.launch import overridden, table
from rooflinecli.importers.launch.shell_expansion import unknown, unknowns
from rooflinecli.importers.source import Options

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv,
}  # fmt: skip
_SIZES = re.compile(r"(tensor|pipeline|expert)_model_parallel_size|context_parallel_size|(global|micro)_batch_size")
_RECIPE = re.compile(r"(\w+)\.(pretrain|finetune)_recipe")
_TABLE = table("python_files.yaml")
_NAMES = _TABLE["names"]
_MODEL = re.compile(r"Model|LM\b")
DEPTH = 60  # statements inside each other


class Started(NamedTuple):
    """What a line starts: the words of a command, the text of a script, or the keys of a config."""

    line: int
    words: list[str] = []
    script: str = ""
    config: Options = {}
    chip: str = ""  # that its function asks for, as KIND:COUNT


def started(text: str, name: str) -> list[Started]:
    """What a file starts, in order. Raises DataError with file:line for one that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, why = getattr(error, "lineno", None) or 1, getattr(error, "msg", None) or "nested too deeply"
        raise DataError(f"{name}:{line}: not valid Python ({why}); mend the syntax") from None
    reader = _Reader()
    try:
        for node in ast.walk(tree):  # its own arguments, wherever they are read
            if isinstance(node, ast.Call) and _dotted(node.func).endswith(".add_argument"):
                reader.declared(node)
            elif isinstance(node, ast.ClassDef):
                reader.fields(node)
        reader.follow(tree.body, reader.values)
        reader.close(reader.values, 1)
    except RecursionError:
        raise DataError(f"{name}:1: nests too deeply to be read; give the launch alone") from None
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.values: Json = {}
        self.imported: dict[str, str] = {}  # name -> the package that it is of
        self.arguments: Json = {}  # of its command line -> default
        self.found: list[Started] = []
        self.trained: Json = {}  # keys of a trainer
        self.sized: Json = {}  # sizes of a plan that constructors are given
        self.chip = ""
        self.depth = 0

    def declared(self, node: ast.Call) -> None:
        """An argument of the file's own command line, which has its default here."""
        named = {one.arg: self.value(one.value, {}) for one in node.keywords if one.arg}
        flags = [str(flag) for one in node.args if str(flag := self.value(one, {}))[:2] == "--"]
        for flag in flags[:1]:
            default = named.get("default", False if named.get("action") == "store_true" else unknown(flag))
            self.arguments[str(named.get("dest", flag.lstrip("-").replace("-", "_")))] = default

    def fields(self, node: ast.ClassDef) -> None:
        """Fields of a dataclass, which are arguments too where a parser is made of it."""
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None:
                made: ast.expr | None = one.value
                if isinstance(made, ast.Call) and _dotted(made.func).endswith("field"):
                    made = next((keyword.value for keyword in made.keywords if keyword.arg == "default"), None)
                if made is not None and not unknowns(str(value := self.value(made, {}))):
                    self.arguments.setdefault(one.target.id, value)

    def follow(self, body: list[ast.stmt], scope: Json) -> None:
        """The statements in order; a function is read with the defaults of its parameters, branches side by side."""
        self.depth += 1
        for node in body if self.depth < DEPTH else ():
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                self.imported |= {
                    one.asname or one.name.partition(".")[0]: (module or one.name).partition(".")[0]
                    for one in node.names
                }
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._defined(node, scope)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
                self._assigned(node, self.value(node.value, scope), scope)
            elif isinstance(node, (ast.Expr, ast.Return)) and node.value is not None:
                self.value(node.value, scope)
            elif isinstance(node, ast.If):
                holds = self.decided(node.test, scope)
                if holds is not None:
                    self.follow(node.body if holds else node.orelse, scope)
                    continue
                ways = [deepcopy(scope), deepcopy(scope)]
                for way, branch in zip(ways, (node.body, node.orelse), strict=True):
                    self.follow(branch, way)
                scope |= _either(*ways)
            else:
                for inner in ("body", "handlers", "orelse", "finalbody"):
                    for one in getattr(node, inner, ()):
                        self.follow(one.body if isinstance(one, ast.ExceptHandler) else [one], scope)
        self.depth -= 1

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Json) -> None:
        for decorator in node.decorator_list:
            self.value(decorator, scope)
        if isinstance(node, ast.ClassDef):
            self.follow(node.body, scope)
            return
        names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        inner = {**scope, **{one: unknown(one) for one in (*names, *(one.arg for one in node.args.kwonlyargs))}}
        given = [
            *zip(names[::-1], node.args.defaults[::-1], strict=False),
            *zip((one.arg for one in node.args.kwonlyargs), node.args.kw_defaults, strict=True),
        ]
        inner |= {one: self.value(default, scope) for one, default in given if default is not None}
        self.follow(node.body, inner)
        self.close({key: value for key, value in inner.items() if key not in scope}, node.lineno)

    def _assigned(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, value: Any, scope: Json) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            name = _dotted(target)
            if isinstance(node, ast.AugAssign):
                value = _worked(node.op, scope.get(name), value, name)
            if isinstance(target, ast.Subscript) and isinstance(scope.get(_dotted(target.value)), dict):
                scope[_dotted(target.value)][self.value(target.slice, scope)] = value
            elif name:
                scope[name] = value

    def decided(self, node: ast.expr, scope: Json) -> bool | None:
        """Whether a condition holds; None where that is not known."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            holds = self.decided(node.operand, scope)
            return None if holds is None else not holds
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
        values = [self.value(one, scope) for one in sides]
        if any(isinstance(one, str) and unknowns(one) for one in values) or len(sides) > 2:
            return None
        if isinstance(node, ast.Compare):
            same = values[0] == values[1]
            return same if isinstance(node.ops[0], ast.Eq) else not same if isinstance(node.ops[0], ast.NotEq) else None
        return bool(values[0])

    def value(self, node: ast.expr, scope: Json) -> Any:
        """What an expression comes to; a text that marks it as unknown where that is not known from the file."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            parts = [
                (isinstance(one, ast.Starred), self.value(one.value if isinstance(one, ast.Starred) else one, scope))
                for one in node.elts
            ]
            return [one for spread, part in parts for one in (part if spread and isinstance(part, list) else [part])]
        if isinstance(node, ast.Dict):
            found: Json = {}
            for key, one in zip(node.keys, node.values, strict=True):
                made = self.value(one, scope)
                found |= (
                    {str(self.value(key, scope)): made}
                    if key is not None
                    else made
                    if isinstance(made, dict)
                    else {"**": made}
                )
            return found
        if isinstance(node, ast.JoinedStr):
            return "".join(
                str(self.value(one.value if isinstance(one, ast.FormattedValue) else one, scope)) for one in node.values
            )
        if isinstance(node, ast.BinOp):
            return _worked(node.op, self.value(node.left, scope), self.value(node.right, scope), ast.unparse(node))
        if isinstance(node, ast.IfExp) and (holds := self.decided(node.test, scope)) is not None:
            return self.value(node.body if holds else node.orelse, scope)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _worked(ast.Sub(), 0, self.value(node.operand, scope), ast.unparse(node))
        if isinstance(node, ast.Subscript):
            held, key = self.value(node.value, scope), self.value(node.slice, scope)
            if (isinstance(held, dict) and key in held) or (isinstance(held, list) and key in range(len(held))):
                return held[key]
        if isinstance(node, ast.Await):
            return self.value(node.value, scope)
        if isinstance(node, ast.Call):
            return self._called(node, scope)
        name = _dotted(node)
        last = name.rpartition(".")[2]
        if name in scope or (name.startswith("self.") and last in scope):
            return scope[name if name in scope else last]
        if name.startswith(("torch.", "jnp.")):
            return name
        return self.arguments[last] if "." in name and last in self.arguments else unknown(ast.unparse(node)[:60])

    def _called(self, node: ast.Call, scope: Json) -> Any:
        """What a call comes to, and what it starts."""
        name = _dotted(node.func)
        last, package = name.rpartition(".")[2], self.imported.get(name.partition(".")[0], "")
        given = [self.value(one, scope) for one in node.args]
        named: Json = {}
        for one in node.keywords:
            made = self.value(one.value, scope)
            named |= {one.arg: made} if one.arg else made if isinstance(made, dict) else {"**": made}
        self.chip = str(named["gpu"]) if isinstance(named.get("gpu"), str) else self.chip
        if isinstance(node.func, ast.Attribute):
            on = self.value(node.func.value, scope)
            if node.func.attr in ("append", "extend") and isinstance(on, list) and given:
                on += given[0] if node.func.attr == "extend" and isinstance(given[0], list) else given[:1]
            elif node.func.attr == "join" and given and isinstance(given[0], list):
                return (" " if unknowns(str(on)) else str(on)).join(map(str, given[0]))  # or shlex.join
            elif node.func.attr in ("lower", "upper", "strip") and isinstance(on, str) and not unknowns(on):
                return getattr(on, node.func.attr)()
            elif node.func.attr == "split" and isinstance(on, str) and not unknowns(on):
                return on.split(str(given[0]) if given else None)
        if last in ("get", "getenv") and ("environ" in name or package == "os"):
            return given[1] if given[1:] else named.get("default", unknown(f"${given[0] if given else ''}"))
        if last in ("str", "int", "float", "list", "Path", "quote") and len(given) == 1:
            return str(given[0]) if last in ("str", "Path") else given[0]
        if last in ("dict", "LoRA") and not given:
            return named
        if last == "set_primary_perf_configs" and given and isinstance(given[0], dict):
            return given[0] | {_TABLE["performance"].get(key, key): value for key, value in named.items()}
        if last in _NAMES["processes"].split():
            parts = [given] if last.startswith("create_subprocess_exec") else given
            words = next((one for one in parts if isinstance(one, list)), [])
            text = "" if words else next((one for one in parts if isinstance(one, str)), "")
            self.found += [Started(node.lineno, [*map(str, words)], text, {}, self.chip)] if words or text else []
        else:
            self._made(name, package, given, named, node.lineno)
        return {"recipe": name, **named} if _RECIPE.search(name) else unknown(ast.unparse(node)[:60])

    def _made(self, name: str, package: str, given: list[Any], named: Json, line: int) -> None:
        """An engine, or a part of what a trainer is passed."""
        last, engine = name.rpartition(".")[2], _TABLE["engines"].get(package)
        self.sized |= (
            {k: v for k, v in named.items() if _SIZES.fullmatch(k) or k == "seq_length"} if last[:1].isupper() else {}
        )
        keys = next((keys for pattern, keys in _TABLE["trainers"].items() if re.fullmatch(pattern, last)), None)
        checkpoint = [*given, *(named[key] for key in _NAMES["models"].split() if key in named)][:1]
        if engine and last in engine["names"].split():
            flags = {engine.get("flags", {}).get(k, k).replace("_", "-"): v for k, v in named.items() if k != "**"}
            first = {"model-path" if package == "sglang" else "model": one for one in given[:1]}
            spread = [named["**"]] if "**" in named else []
            words = [*engine["command"].split(), *as_flags(first | flags), *spread]
            self.found.append(Started(line, words, chip=self.chip))
        elif keys is not None:
            self.trained |= named | keys
        elif last == "LoraConfig" or (last == "get_peft_model" and "r" in named):
            adapters = {key: named[own] for own, key in _TABLE["adapters"].items() if own in named}
            self.trained |= {"use_peft": True, **adapters}
        elif last == "BitsAndBytesConfig":
            self.trained |= {key: value for key, value in named.items() if key.startswith("load_in_")}
        elif last == "from_hf_pretrained":
            self.trained |= {"hf_path": checkpoint[0]} if checkpoint else {}
        elif (last == "from_pretrained" and _MODEL.search(name)) or (last.endswith("Trainer") and "model" in named):
            kept = {key: named[key] for key in _NAMES["loaded"].split() if named.get(key) is not None}
            self.trained = kept | self.trained
            before = str(self.trained.get("model_name_or_path", unknown("")))
            if unknowns(before) and checkpoint and isinstance(checkpoint[0], str):  # the first that is known
                self.trained["model_name_or_path"] = checkpoint[0]

    def close(self, scope: Json, line: int) -> None:
        """What the assignments and constructors of a scope make together."""
        keys = {key.partition(".")[2]: value for key, value in scope.items() if "." in key}
        for one in scope.values():
            keys |= one if isinstance(one, dict) and _RECIPE.search(str(one.get("recipe"))) else {}
        plain = {k: v for k, v in scope.items() if "." not in k and isinstance(v, (str, int, float))}
        if "recipe" in keys or any(_SIZES.fullmatch(key.rpartition(".")[2]) for key in keys):
            hub = {key: value for key, value in self.trained.items() if key == "hf_path"}
            self.found.append(Started(line, config=overridden({}, self.sized | keys | hub)))
            self.sized, self.trained = {}, {}
        elif "per_device_train_batch_size" in self.trained:
            unnamed = {"model_name_or_path": unknown("from_pretrained(...)")}
            self.found.append(Started(line, config=unnamed | self.trained))
            self.trained = {}
        elif scope is self.values and len({*_NAMES["configs"].split()} & {*plain}) > 1:
            self.found.append(Started(line, config=plain))


def _either(one: Json, other: Json) -> Json:
    """Names after branches of which one ran: a list that grew keeps what was added, as flags are added that way."""
    found = {**one, **other}
    for key in found:
        ways = [way[key] for way in (one, other) if key in way]
        if all(isinstance(way, dict) for way in ways) and len(ways) == 2:
            alone = {k: unknown(k) for k in ways[0].keys() ^ ways[1].keys()}
            found[key] = _either(*ways) | alone
        elif ways[0] != ways[-1]:
            longest = max((way for way in ways if isinstance(way, list)), key=len, default=unknown(key))
            found[key] = (
                longest if all(way == longest[: len(way)] for way in ways if isinstance(way, list)) else unknown(key)
            )
    return found


def _dotted(node: ast.AST) -> str:
    """A name with its attributes; empty for another expression."""
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if isinstance(node, ast.Attribute) and inner else ""


def _worked(sign: ast.operator, left: Any, right: Any, written: str) -> Any:
    """An operation over values that are known; unknown where one of them is not."""
    if isinstance(left, str) and isinstance(right, str) and isinstance(sign, ast.Add):
        return left + right
    if any(isinstance(one, str) and unknowns(one) for one in (left, right)):
        return [*left, right] if isinstance(left, list) and isinstance(sign, ast.Add) else unknown(written[:60])
    try:
        big = isinstance(sign, ast.Mult) and any(isinstance(one, (str, list)) for one in (left, right))
        return unknown(written[:60]) if big else _OPERATORS[type(sign)](left, right)
    except (KeyError, TypeError, ArithmeticError, ValueError):
        return unknown(written[:60])
