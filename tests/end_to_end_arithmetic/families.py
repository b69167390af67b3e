"""Training work of the small models: dense, sparse, latent, without fused attention, and on one of two tensor shards."""

from __future__ import annotations

from end_to_end_arithmetic.hand import elementwise, scores
from end_to_end_arithmetic.training import COUNT, S, Work, block, core, ew, grouped, head, mm, stem

LAYER = 2 * 256 + 256 * 256 + 128 * 256 + 3 * 256 * 512
PARAMETERS = 6 * LAYER + 1000 * 256 + 256 + 256 * 1000
GIVEN = {"batch": COUNT, "seq": S, "micro_batch": 1, "zero": 0, "recompute": "none", "tp": 1, "pp": 1, "dp": 1}
DENSE = 6 * block() + stem() + head()


def step(ask, model: str = "dense", **options) -> dict:
    return ask(model, "train", **{**GIVEN, **options})


def sparse(tokens: float, seen: float, busiest: float = 1) -> list[Work]:
    """A layer with experts of 160 for `tokens` visits, a shared one of 192, and a router."""
    return [
        *block()[:6],
        mm(S, 256, 8),
        grouped(tokens, 256, 320, seen, busiest),
        ew(tokens * 320, tokens * 160),
        grouped(tokens, 160, 256, seen, busiest),
        ew(2 * tokens * 256, tokens * 256 + S * 256, linear=True),
        mm(S, 256, 384),
        ew(S * 384, S * 192),
        mm(S, 192, 256),
        block()[9],
    ]


EXPERT = 3 * 256 * 160
MOE_OTHERS = 6 * (LAYER - 3 * 256 * 512) + 2 * 3 * 256 * 512 + 4 * (256 * 8 + 3 * 256 * 192) + PARAMETERS - 6 * LAYER


LATENT = [
    *block()[:2],
    mm(S, 256, 96),
    ew(S * 96, S * 96),
    mm(S, 96, 4 * 48),
    mm(S, 256, 80),
    ew(S * 64, S * 64),
    mm(S, 64, 4 * 56),
    ew(S * 4 * 16 + S * 16, S * 4 * 16 + S * 16, linear=True),
    core(1, S, 4, 4, 48, 24, S * S / 2),
    mm(S, 4 * 24, 256),
    *block()[6:],
]
LATENT_LAYER = 2 * 256 + 256 * 96 + 96 + 96 * 192 + 256 * 80 + 64 + 64 * 224 + 96 * 256 + 3 * 256 * 512


# Materialized attention: 16 % of the peak unless rows are aligned, all pairs computed, softmax by kernels of its own.
def unfused(dropout: bool) -> Work:
    pairs = 4 * S * S
    forward = pairs * (2 * 2 + (2 * 2 + 1 if dropout else 0))  # softmax reads and writes; dropout too, with its mask
    back = pairs * (3 * 2 + (2 * 2 + 1 if dropout else 0))  # probabilities and their gradient read, one written
    return Work(
        (scores(1, S, 4, 2, 32), elementwise(0, moved=forward)),
        (scores(1, S, 4, 2, 32, factor=2, passes=2), elementwise(0, moved=back)),
    )


STREAM = S * 256 * 2  # bytes of the residual stream of a microbatch


def halves(z: float = S) -> list[Work]:
    return 6 * block(z=z, tp=2) + stem(z) + head(z, tp=2)


HALF = 2 * 256 + 256 * 4 * 32 + 64 * 256 + 3 * 256 * 256  # parameters of a layer on one of two devices
HALVED = 6 * HALF + 500 * 256 + 256 + 256 * 500


# Adapters of rank 16 next to q, k, v, output, gate, up and down of a block, which are separate matrices.
ADAPTERS = {
    "all": 16 * (3 * 256 + 256 + 128 + 256 + 2 * 256 + 1024 + 512 + 256),
    "attention": 16 * (4 * 256 + 384),
    "qkv": 16 * 4 * 256,
}
