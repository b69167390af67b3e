"""Calibration entries of a hardware file: factors on the engine's constants, per phase and software, and the error that follows."""

from typing import Literal

from pydantic import Field

from rooflinecli.specs.figure import OneLine, Spec

Calibrated = Literal["train", "prefill", "ttft", "decode"]  # ttft: a first token under load; prefill: a prompt alone


class LocalResidual(Spec):
    """The residual of one row after the factors are applied."""

    at: dict[str, float] = Field(description="sizes of the row: devices, lengths, batch, parameters")
    move: float = Field(description="logarithm of what times there are multiplied by, fading with distance")


class Calibration(Spec):
    """One fit to a user's rows: of one phase, on this chip, with one engine or framework."""

    factors: dict[str, float] = Field(
        description="efficiency.CLASS.NAME or engine.NAME -> what the constant is multiplied by"
    )
    error: float = Field(gt=0, description="relative error (80%) of this phase within the range of the rows")
    date: OneLine
    rows: int = Field(gt=0)
    sources: list[OneLine] = Field(default_factory=list, description="the files that the rows were read from")
    before: float = Field(ge=0, description="median |error| of the shipped constants on the rows held out, or on all")
    after: float = Field(ge=0, description="median |error| of these constants on the same rows")
    range: dict[str, tuple[float, float]] = Field(
        default_factory=dict,
        description="least and most of each quantity among the rows; outside it, the error is wider",
    )
    near: list[LocalResidual] = Field(
        default_factory=list,
        description="rows whose own deviation holds for questions like them: it fades as sizes differ by factors of e",
    )
    note: str = ""
