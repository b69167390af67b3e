"""What is broken: Cosmic Ray's operators, and those of assembled arithmetic that it lacks (a term, an argument, a branch)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import parso
from cosmic_ray.operators import provider
from cosmic_ray.operators.operator import Example, Operator
from parso.tree import search_ancestor

EXTREMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "floor": "ceil", "ceil": "floor"}
SUMS = ("arith_expr", "term", "and_test", "or_test")


class OnNode(Operator):
    """An operator whose positions lie in one node: `choices` lists replacements of its text, each one mutation."""

    def choices(self, node: Any) -> list[str]:
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        for _ in self.choices(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        return parso.parse(node.get_first_leaf().prefix + self.choices(node)[index])

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return ()


class DropTerm(OnNode):
    """a + b -> a, b; a * b -> a, b: one operand of a sum, product or condition goes, with its operator."""

    def choices(self, node: Any) -> list[str]:
        if node.type not in SUMS:
            return []
        parts = [child.get_code() for child in node.children]
        first, others = parts[2:], [parts[: i - 1] + parts[i + 1 :] for i in range(2, len(parts), 2)]
        return ["".join(kept).strip() for kept in (first, *others)]


class SwapExtreme(OnNode):
    """maximum <-> minimum, floor <-> ceil."""

    def choices(self, node: Any) -> list[str]:
        called = node.type == "name" and node.value in EXTREMES and node.get_next_leaf() == "("
        return [EXTREMES[node.value]] if called else []


class DropKeyword(OnNode):
    """f(a, key=b) -> f(a): the callee's default steps in."""

    def choices(self, node: Any) -> list[str]:
        if node.type == "argument":  # the only one of its call
            alone = (
                node.children[1].type == "operator" and node.children[1].value == "=" and node.parent.type == "trailer"
            )
            return ["*()"] if alone else []
        if node.type != "arglist":
            return []
        arguments = [child for child in node.children if child != ","]
        named = [a for a in arguments if a.type == "argument" and a.children[1] == "="]
        return [", ".join(a.get_code().strip() for a in arguments if a is not gone) for gone in named]


class TakeBranch(OnNode):
    """if c -> if True, if False; the same in conditional expressions."""

    def choices(self, node: Any) -> list[str]:
        parent = node.parent
        if parent is None or parent.type not in ("if_stmt", "ternary"):
            return []
        place = parent.children.index(node)
        condition = place > 0 and parent.children[place - 1] in ("if", "elif")
        return ["True", "False"] if condition else []


class ReturnInput(OnNode):
    """return f(x) -> return x, of what the function was given."""

    def choices(self, node: Any) -> list[str]:
        function = search_ancestor(node, "funcdef")
        if node.type != "return_stmt" or len(node.children) < 2 or function is None:
            return []
        given = [p.name.value for p in function.get_params() if p.name.value not in ("self", "cls")]
        return [f"return {name}" for name in given if f"return {name}" != node.get_code().strip()]


class ScaleNumber(OnNode):
    """2 -> 4, 1.0: a factor of two either way."""

    def choices(self, node: Any) -> list[str]:
        if node.type != "number" or not float(eval(node.value)):
            return []
        value = eval(node.value)
        return [repr(value * 2), repr(value / 2 if value % 2 else value // 2)]


_SWAPS = ("Add_Sub", "Add_Mul", "Sub_Add", "Mul_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "Mod_Mul", "BitAnd_BitOr")
_CORE = {
    "number": ("NumberReplacer",),
    "operator": tuple(f"ReplaceBinaryOperator_{swap}" for swap in _SWAPS),
    "comparison": tuple(
        f"ReplaceComparisonOperator_{swap}"
        for swap in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Lt_Gt", "Gt_Lt", "Is_IsNot")
    ),
    "sign": ("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not"),
    "flag": ("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    "loop": ("ZeroIterationForLoop", "ReplaceContinueWithBreak", "ReplaceBreakWithContinue"),
}
_OURS = {
    "number": (ScaleNumber,),
    "term": (DropTerm,),
    "extreme": (SwapExtreme,),
    "keyword": (DropKeyword,),
    "branch": (TakeBranch,),
    "input": (ReturnInput,),
}


@cache
def families() -> dict[str, list[Operator]]:
    """Operators by what they break; a sample takes from each family alike."""
    core = provider.OperatorProvider()
    names = sorted({*_CORE, *_OURS})
    return {name: [core[op]() for op in _CORE.get(name, ())] + [op() for op in _OURS.get(name, ())] for name in names}
