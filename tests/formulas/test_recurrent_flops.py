"""FLOPs of a recurrent token against the recurrence as its paper writes it, run on numbers that count their multiplications."""

from __future__ import annotations

import numpy as np
import pytest

from rooflinecli.formulas import recurrence
from rooflinecli.layers import kinds
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.specs.model import AttentionSpec


class Counted:
    """A number whose multiplications and divisions are counted; an addition fuses with one of them."""

    count = 0

    def __mul__(self, other):
        Counted.count += 1
        return self

    __truediv__ = __mul__

    def __add__(self, other):
        return self

    __sub__ = __add__


def array(*shape):
    return np.full(shape, Counted(), dtype=object)


def mamba2(k, v):
    """Dao and Gu 2024, eq. 1 with scalar a: h = a h + B x^T, y = C^T h; also eq. 1 of Lightning Attention, a a constant."""
    a, h, b, c, x = Counted(), array(k, v), array(k), array(k), array(v)
    h = h * a + np.outer(b, x)
    return c @ h


def gated_delta(k, v):
    """Yang et al. 2024, eq. 10: S = S (alpha (I - beta k k^T)) + beta v k^T, that is alpha S + beta (v - alpha S k) k^T; o = S q."""
    s, key, value, q, alpha, beta = array(v, k), array(k), array(v), array(k), Counted(), Counted()
    s = s * alpha
    s = s + np.outer((value - s @ key) * beta, key)
    return s @ q


def mamba(channels, state):
    """Gu and Dao 2023, eq. 2: h = A h + B x of every channel, y = C h."""
    a, h, bx, c = array(channels, state), array(channels, state), array(channels, state), array(state)
    return (a * h + bx * array(channels, 1)) @ c


def multiplications(recurrence, *sizes):
    Counted.count = 0
    recurrence(*sizes)
    return Counted.count


def of_the_state(recurrence, k, v):
    """Multiplications per pair of a key and a value channel: those of vectors and of scalars cancel."""
    f = lambda i, j: multiplications(recurrence, k + i, v + j)  # noqa: E731
    return f(1, 1) - f(1, 0) - f(0, 1) + f(0, 0)


def mixer_of(kind: str) -> Recurrent:
    """The mixer of a kind, whatever its sizes."""
    spec = AttentionSpec(
        kind=kind, n_heads=1, head_dim=1, sizes=dict.fromkeys(kinds.kind("attention", kind)["sizes"], 1)
    )
    (mixer,) = [row.mixer for row in kinds.block("attention", spec, {}).rows if row.mixer is not None]
    assert isinstance(mixer, Recurrent)
    return mixer


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (mamba2, "mamba2"),
        (mamba2, "lightning"),
        (gated_delta, "gated-delta"),
    ],
    ids=["mamba2", "lightning", "gated_delta"],
)
def test_a_decode_step_counts_every_product_with_the_state(rule, kind):
    mixer = mixer_of(kind)
    sizes = {"N": 5.0, "H": 7.0, "Hv": 11.0, "state": 13.0}
    pairs = sizes[mixer.key] * sizes[mixer.value]
    assert mixer.step(3.0, sizes) == 2 * 3 * 5 * pairs * of_the_state(rule, 4, 6)


def test_a_selective_scan_counts_every_product_with_the_state():
    assert recurrence.selective_scan_flops(3.0, 5.0, 7.0) == 2 * 3 * 5 * 7 * of_the_state(mamba, 4, 6)


def test_wkv_counts_its_products():
    """Peng et al. 2023, appendix D: wkv = (a + e^(u+k) v) / (b + e^(u+k)), a = e^-w a + e^k v, b = e^-w b + e^k."""

    def wkv(channels):
        a, b, v, first, later, decay = (array(channels) for _ in range(6))
        _ = (a + first * v) / (b + first)
        _ = decay * a + later * v, decay * b + later

    assert recurrence.wkv_flops(3.0, 5.0) == 2 * 3 * multiplications(wkv, 5)


def test_an_rg_lru_counts_its_products():
    """De et al. 2024, eq. 4: h = a h + sqrt(1 - a^2) (i x), where the gated input sqrt(1 - a^2) i is a gate."""

    def lru(channels):
        a, h, gate, x = (array(channels) for _ in range(4))
        _ = a * h + gate * x

    assert recurrence.lru_flops(3.0, 5.0) == 2 * 3 * multiplications(lru, 5)


def test_a_short_convolution_gates_each_channel_twice():
    """100 tokens of 2,048 channels: one product before the taps and one behind, whether read together or one by one."""
    gated = mixer_of("short-conv")
    assert gated.scan(100.0, {"N": 2048.0}) == gated.step(100.0, {"N": 2048.0}) == 409_600
    assert gated.state_elements({"N": 2048.0}) == 0
