"""Published fits of the loss of language models: Chinchilla's parametric form and Kaplan's power laws."""

from __future__ import annotations

from rooflinecli.core.errors import unknown
from rooflinecli.core.fast_dataclass import dataclass

TOKENS_PER_PARAM = 20.0  # Hoffmann et al. 2022, approaches 1 and 2
# constant, exponent: Kaplan et al. 2020, equations 1.1 to 1.4
KAPLAN_PARAMS, KAPLAN_TOKENS, KAPLAN_COMPUTE = (8.8e13, 0.076), (5.4e13, 0.095), (3.1e8, 0.050)
KAPLAN_BATCH = (2e8, 0.21)


@dataclass(frozen=True)
class Fit:
    """Published constants of L = E + A/N^alpha + B/D^beta."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float
    source: str

    @property
    def slopes(self) -> tuple[float, float, float, float]:
        return self.a, self.b, self.alpha, self.beta

    @property
    def all(self) -> tuple[float, float, float, float, float]:
        return self.e, *self.slopes


# fmt: off
FITS = {
    "besiroglu": Fit(1.8172, 482.01, 2085.43, 0.3478, 0.3658, "Besiroglu et al. 2024, Chinchilla Scaling: A replication attempt, arXiv:2404.10102 (corrected)"),
    "hoffmann": Fit(1.69, 406.4, 410.7, 0.34, 0.28, "Hoffmann et al. 2022, arXiv:2203.15556, equation 10 as printed"),
    "hoffmann-tex": Fit(1.6934, 406.4, 410.7, 0.3392, 0.2849, "Hoffmann et al. 2022 with the digits of its TeX source, quoted by Besiroglu et al. 2024"),
    "sardana": Fit(1.69, 406.4, 410.7, 0.336, 0.283, "Hoffmann et al. 2022 with three-digit exponents, as Sardana et al. 2024 use it, arXiv:2401.00448"),
}
# fmt: on


def fits(name: str) -> dict[str, Fit]:
    """The fits called `name`, 'all' for every one."""
    if name == "all":
        return FITS
    if name not in FITS:
        raise unknown("fit", name, [*FITS, "all"])
    return {name: FITS[name]}
