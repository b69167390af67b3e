"""An inference engine as YAML describes it: what its scheduler costs per step, and how requests wait. engines/*.yaml ship in the package."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field, PrivateAttr

from rooflinecli import units
from rooflinecli.errors import unknown
from rooflinecli.specs.figure import Scalar, Spec, Time, validate
from rooflinecli.specs.load import Document, read

DEFAULT = "python-server"
EXPERT_KERNELS = (
    "vllm",
    "sglang",
    "trtllm",
    "trtllm-wide",
    "deepep",
    "deepep-low-latency",
)  # variants of the class `experts`
_FOLDER = Path(__file__).resolve().parent.parent / "engines"


class Engine(Spec):
    """Every time is added to what the roofline expects; none is part of a floor."""

    name: str
    aliases: list[str] = Field(default_factory=list)
    per_step: Time = Field(ge=0, description="seconds of scheduling and sampling per engine step")
    per_sequence: Time = Field(ge=0, description="seconds per sequence and engine step")
    wait: Scalar = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the other requests whose prompts are in front of one that arrives (closed loop)",
    )
    steps_waited: Scalar = Field(
        0.0,
        ge=0,
        description="inter-token latencies that pass before a prompt is scheduled and after its pass, under load",
    )
    front: Time = Field(
        0.0, ge=0, description="seconds of front end and polling before a prompt is scheduled, under load"
    )
    ttft_error: Scalar = Field(
        1.0,
        ge=0,
        description="relative error (80 %) of a time to first token under load: schedulers and harnesses differ",
    )
    kv_fraction: Scalar = Field(
        1.0, gt=0, le=1, description="share of the memory left after weights and reserve that becomes cache"
    )
    reserve: str = Field("0 B", description="memory kept back per device for the runtime")
    max_sequences: int = Field(2048, gt=0, description="most sequences the scheduler takes at once")
    kernels: str = Field("vllm", description="library whose kernels of experts, exchanges and all-reduces it runs")
    note: str = ""
    source: str
    _document: Document = PrivateAttr()

    @property
    def document(self) -> Document:
        return self._document

    @property
    def reserve_bytes(self) -> float:
        return units.parse(self.reserve, "B")


@lru_cache(maxsize=1)
def engines() -> dict[str, Engine]:
    """All engines by file name."""
    found = {}
    for path in sorted(_FOLDER.glob("*.yaml")):
        document = read(path, base="engines")
        spec = validate(Engine, document)
        spec._document = document
        found[path.stem] = spec
    return found


@lru_cache(maxsize=64)
def load_engine(name: str) -> Engine:
    """The engine called `name` or an alias of it. Raises UsageError."""
    wanted = name.lower()
    for stem, spec in engines().items():
        if wanted in (stem, *spec.aliases):
            return spec
    raise unknown("engine", name, engines(), option="engine")
