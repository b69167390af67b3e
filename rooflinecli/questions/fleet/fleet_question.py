"""What a fleet is asked: a file -> groups of devices and services, each with the options it is searched with on every group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from rooflinecli.core import units
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import HOST_FACTOR, PUE
from rooflinecli.questions import multi_chip
from rooflinecli.questions.check.cases import (
    CLOSED,
    Bound,
    Name,
    Option,
    Prose,
    Scalar,
    WithOptions,
    aliased,
    as_options,
)
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search import search_request
from rooflinecli.questions.search.search_request import merge_limits
from rooflinecli.specs.document import Document
from rooflinecli.specs.engine import DEFAULT, load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.validation import validate
from rooflinecli.specs.yaml_loader import read

MOST = 100_000  # devices of a group


SEVERAL = BeforeValidator(lambda value: value if isinstance(value, list) else [value])


class GroupSpec(BaseModel):
    """Devices of one chip that stand together."""

    model_config = CLOSED

    devices: int = Field(description="how many there are", ge=1, le=MOST, strict=True)
    hw: Name | None = Field(None, description="the chip, where the group has a name of its own")
    price: Scalar | None = Field(None, description="USD per device-hour, instead of the file's")
    power: Scalar | None = Field(
        None, description="power of the data center for the group, such as 200kW: devices beyond it stay off"
    )
    rack_devices: int | None = Field(None, description="devices of a rack; with rack_power", ge=1, strict=True)
    rack_power: Scalar | None = Field(
        None, description="power of a rack's servers, such as 40kW: a rack has only as many devices on as that carries"
    )

    @model_validator(mode="after")
    def _rack(self) -> GroupSpec:
        if (self.rack_devices is None) != (self.rack_power is None):
            raise ValueError("rack_devices and rack_power belong together; give both")
        return self


# `h100: 64` is `h100: {devices: 64}`
Group = Annotated[GroupSpec, BeforeValidator(lambda value: value if isinstance(value, dict) else {"devices": value})]


class ServiceSpec(WithOptions):
    """One model and its traffic. Everything except these fields is an option of `roofline estimate` by its long name."""

    description: Prose = Field("", description="who is served; shown in reports")
    qps: Scalar = Field(description="requests per second to carry")
    slo: Name | None = Field(
        None, description="limits of the mean first token and inter-token latency, such as ttft=1s,itl=40ms"
    )
    hw: Annotated[tuple[Name, ...], SEVERAL] | None = Field(
        None, description="groups of the fleet that it may run on; all by default", min_length=1
    )
    where: Annotated[tuple[Name, ...], SEVERAL] = Field(
        (), description="what must also hold of an instance, such as 'decode.memory.headroom >= 10 %'"
    )


class FleetFile(BaseModel):
    """A file of a fleet."""

    model_config = CLOSED

    bound: Bound = aliased("pessimistic", "which bound of the interval rates and limits are held to", "bound", "hold")
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


_NEITHER = {  # options that have no place in a fleet, and what does
    "hw": "", "price": "write it at the group, such as `h100: {devices: 64, price: 2.5}`",
    "n": "set the device count in the group", "phase": "a fleet serves", "concurrency": "the search finds it; `batch` restricts it",
    "qps": "", "bound": "write it at the top of the file",
}  # fmt: skip


@dataclass(frozen=True)
class DeviceGroup:
    """Devices of one chip that its caps on power leave on; off: those that they do not. price: as written, where the file's is not taken."""

    name: str
    chip: str
    devices: int
    price: str | None
    off: int | None = None

    @property
    def usd_per_device_hour(self) -> float | None:
        """The price that is counted with, and None where none is known."""
        return multi_chip.usd_per_device_hour(load_hardware(self.chip), self.price)


@dataclass(frozen=True)
class FleetService:
    """A model and its traffic: requests per second, limits in s, options by name; `groups` that it may run on."""

    name: str
    options: Options
    qps: float
    limits: dict[str, float]
    where: tuple[str, ...]
    groups: tuple[str, ...]
    line: str

    def on(self, group: DeviceGroup) -> Options:
        """The options of a search on a group."""
        price = {"price": group.price} if group.price is not None else {}
        return {**self.options, "hw": group.chip, **price}


@dataclass(frozen=True)
class Fleet:
    """The question. `objective` is cost or devices; `split`: a model may run on several groups where that is lighter, not only where it must."""

    groups: tuple[DeviceGroup, ...]
    services: tuple[FleetService, ...]
    bound: str
    objective: str
    split: bool = False

    @property
    def unpriced(self) -> list[str]:
        return [g.name for g in self.groups if g.usd_per_device_hour is None]


def asked(path: Path, bound: str | None = None, objective: str | None = None, split: bool = False) -> Fleet:
    """The question of a file. Raises DataError with file:line; UsageError for an objective that needs an unknown price."""
    document = read(path, first="fleet")
    if ("extends",) in document.lines:
        raise DataError(f"{document.location('extends')}: a fleet cannot extend another; share options with `defaults`")
    file = validate(FleetFile, document)
    groups = tuple(_group(name, file, document) for name in file.fleet)
    services = tuple(_service(name, spec, file, document) for name, spec in file.models.items())
    found = Fleet(groups, services, bound or file.bound, objective or "cost", split)
    if not found.unpriced:
        return found
    if objective == "cost":
        raise UsageError(
            f"--objective cost: no price is known for {', '.join(found.unpriced)}; add `price` to the group",
            "objective",
        )
    return replace(found, objective="devices")


def _group(name: str, file: FleetFile, document: Document) -> DeviceGroup:
    spec, key = file.fleet[name], ("fleet", name)
    chip, price = spec.hw or name, None if spec.price is None else str(spec.price)
    near = document.path.parent / chip
    chip = str(near) if chip.endswith((".yaml", ".yml")) and near.is_file() else chip
    try:
        load_hardware(chip)
        multi_chip.prices(price, [chip])
    except UsageError as error:
        raise DataError(f"{document.location(*key, error.option or 'hw')}: {error}") from None
    fed = _fed(spec, chip, document, key)
    return DeviceGroup(name, chip, fed, price, spec.devices - fed or None)


def _fed(spec: GroupSpec, chip: str, document: Document, key: tuple[str, str]) -> int:
    """Devices that the caps on power leave on, each at its limit with its part of the server, and with cooling for the data center's.

    Raises DataError where a cap carries none, or the chip's power is not known.
    """
    found = spec.devices
    for cap, written, factor in (("rack_power", spec.rack_power, 1.0), ("power", spec.power, PUE)):
        if written is None:
            continue
        power = load_hardware(chip).power
        where = document.location(*key, cap)
        if power is None:
            raise DataError(f"{where}: {cap}: the file of {chip} has no power; add `power:` to it")
        try:
            watts = units.parse(str(written), "W")
        except ValueError as error:
            raise DataError(f"{where}: {cap} {written}: {error}; write watts, such as 40kW") from None
        carried = int(watts // (power.si * HOST_FACTOR * factor))
        if cap == "rack_power" and spec.rack_devices is not None:
            racks, rest = divmod(found, spec.rack_devices)
            carried = racks * min(carried, spec.rack_devices) + min(carried, rest)
        found = min(found, carried)
        if not found:
            raise DataError(f"{where}: {cap} {written} carries no device of {chip}; raise it")
    return found


def _service(name: str, spec: ServiceSpec, file: FleetFile, document: Document) -> FleetService:
    key = ("models", name)
    options = as_options(file.defaults, document, ("defaults",)) | as_options(spec.options, document, key)
    if "model" not in options:
        options["model"] = name
    near = document.path.parent / str(options["model"])
    if str(options["model"]).endswith((".yaml", ".yml", ".json")) and near.exists():
        options["model"] = str(near)
    for wrong in (o for o in options if o in _NEITHER):
        raise DataError(f"{_at(document, name, wrong)}: {wrong}: not of one model in a fleet; {_NEITHER[wrong]}")
    groups = spec.hw or tuple(file.fleet)
    for group in groups:
        if group not in file.fleet:
            raise DataError(
                f"{document.location(*key, 'hw')}: hw: no group '{group}' in the fleet; name one of {', '.join(file.fleet)}"
            )
    try:
        qps = build_request.value(OPTIONS["qps"], spec.qps)
        if qps <= 0:
            raise UsageError("qps: must be above zero; remove models without traffic", "qps")
        limits = merge_limits({}, spec.slo)
        chip = file.fleet[groups[0]].hw or groups[0]  # what is wrong whatever the chip is no traffic that does not fit
        question = search_request.serving_question(
            {**_written(options), "hw": chip}, "throughput", list(spec.where), {}
        )
        load_engine(question.request.engine or DEFAULT)
    except UsageError as error:
        raise DataError(f"{_at(document, name, error.option)}: {name}: {error}") from None
    return FleetService(name, _written(options), float(qps), limits, spec.where, tuple(groups), document.location(*key))


def _written(options: Options) -> Options:
    """Options as a command line has them."""
    return {k: v if isinstance(v, (bool, list)) else str(v) for k, v in options.items()}


def _at(document: Document, name: str, option: str) -> str:
    """Where a model's option was written: in its own lines, or in those that all share."""
    own = ("models", name, option)
    if own in document.lines or ("defaults", option) not in document.lines:
        return document.location(*own)
    return document.location("defaults", option)
