"""A fleet as a file: groups of chips with their counts, and the models to serve on them, each with its own traffic.

What a model carries beyond its own fields are options of `roofline estimate` by their long names, as in a plan file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rooflinecli.core.errors import DataError
from rooflinecli.questions.check.plan_file import Bound, Name, Option, Prose, Scalar
from rooflinecli.specs.figure import Spec, validate
from rooflinecli.specs.yaml_loader import Document, read

MOST = 100_000  # devices of a group


def _counted(value: Any) -> Any:
    """`h100: 64` is `h100: {devices: 64}`."""
    return value if isinstance(value, dict) else {"devices": value}


def _several(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class GroupSpec(Spec):
    """Devices of one chip that stand together."""

    devices: int = Field(description="how many there are", ge=1, le=MOST, strict=True)
    hw: Name | None = Field(None, description="the chip, where the group has a name of its own")
    price: Scalar | None = Field(None, description="USD per device-hour, instead of the file's")


Group = Annotated[GroupSpec, BeforeValidator(_counted)]


class ServiceSpec(BaseModel):
    """One model and its traffic. Everything beside these fields is an option of `roofline estimate` by its long name."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())
    __pydantic_extra__: dict[str, Option]

    description: Prose = Field("", description="who is served; shown in reports")
    qps: Scalar = Field(description="requests per second to carry")
    slo: Name | None = Field(
        None, description="limits of the mean first token and inter-token latency, such as ttft=1s,itl=40ms"
    )
    hw: Annotated[tuple[Name, ...], BeforeValidator(_several)] | None = Field(
        None, description="groups of the fleet that it may run on; all by default", min_length=1
    )
    where: Annotated[tuple[Name, ...], BeforeValidator(_several)] = Field(
        (), description="what must also hold of an instance, such as 'decode.memory.headroom >= 10 %'"
    )

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class FleetFile(Spec):
    """A file of a fleet."""

    hold: Bound = Field("pessimistic", description="which end of the estimate is held to rates and limits")
    fleet: dict[Name, Group] = Field(
        description="group -> devices, named by its chip or by a name of its own", min_length=1
    )
    defaults: dict[str, Option] = Field(
        default_factory=dict,
        description="options of `roofline estimate` that every model shares unless it gives its own",
    )
    models: dict[Name, ServiceSpec] = Field(description="name -> model and traffic", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        example = {"fleet": "`h100: 64`", "models": "a model of its own name with its `qps`"}
        for field, what in example.items():
            if isinstance(data, dict) and not data.get(field):
                raise ValueError(f"no {field}; add `{field}:` with for example {what}")
        return data


def load_fleet(path: Path) -> tuple[FleetFile, Document]:
    """The fleet in a file, and where each of its lines was written. Raises DataError with file:line."""
    document = read(path, first="fleet")
    if ("extends",) in document.lines:
        raise DataError(f"{document.location('extends')}: a fleet cannot extend another; share options with `defaults`")
    return validate(FleetFile, document), document
