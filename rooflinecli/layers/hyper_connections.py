"""Several parallel residual streams (manifold-constrained hyper-connections, Xie et al. 2025, arXiv 2512.24880; DeepSeek-V4).

A branch reads a weighted sum of n streams; its output is spread over them and the streams are mixed, all by weights that a small
matrix makes of the streams themselves: n to read, n to write and n^2 to mix. One stream is the ordinary residual.
"""

from __future__ import annotations

from rooflinecli.ledger.ledger import Axes, Row, elementwise, matmul

_WIDE: Axes = ("B", "Z", "streams", "D")
_ONE: Axes = ("B", "Z", "D")


def axes(n: int) -> dict[str, int]:
    """Sizes of the rows below."""
    return {"streams": n, "mixing": n * (n + 2), "scales": 3}


def entry(branch: int) -> list[Row]:
    """Rows before a branch: the weights, from all streams normed without a scale, and the weighted sum."""
    name = f"streams.{branch}"
    return [
        elementwise(f"{name}.norm", (_WIDE,), (_WIDE,), saves=(_WIDE,)),
        matmul(f"{name}.weights", "x[B S streams D] . Wm[streams D mixing] -> w[B S mixing]", saves=()),
        elementwise(f"{name}.read", (_WIDE,), (_ONE,), params=(("mixing",), ("scales",)), linear=True),
    ]


def residual(branches: int, streams: int) -> Row:
    """Each branch's output joins all streams, which are mixed: the streams and the branch are read, the streams written; of a single
    stream dropout keeps a mask of a byte."""
    if streams == 1:
        one = (_ONE,) * branches
        return elementwise("residual", one * 2, one, masks=one, linear=True)
    return elementwise("residual", (_WIDE, _ONE) * branches, (_WIDE,) * branches, linear=True)


def last() -> list[Row]:
    """Rows after the layers: one weighted sum of the streams."""
    return [
        elementwise("streams.norm", (_WIDE,), (_WIDE,)),
        matmul("streams.weights", "x[B S streams D] . Wm[streams D gates] -> w[B S gates]"),
        elementwise("streams.read", (_WIDE,), (_ONE,), params=(("gates",), ("one",)), linear=True),
    ]
