"""The services of a question on its groups as a programme, and what an answer of it means in instances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rooflinecli.questions.fleet.assignment import AllocationProgram, Assignment
from rooflinecli.questions.fleet.demand import InstanceOption, ServiceDemand
from rooflinecli.questions.fleet.fleet_question import DeviceGroup, Fleet, FleetService
from rooflinecli.questions.fleet.instance_options import InstanceOptions
from rooflinecli.questions.fleet.packing import pack, taken
from rooflinecli.questions.plan.instance import ServingInstance


@dataclass(frozen=True)
class Placement:
    """The programme of a question; `chain` where only such parts of a domain are given as any mix of goes in."""

    question: Fleet
    found: dict[tuple[str, str], InstanceOptions]
    chain: bool = False

    @cached_property
    def able(self) -> list[FleetService]:
        """Services that have an instance somewhere."""
        return [s for s in self.question.services if any(self.instances(s, g) for g in self.question.groups)]

    def domain(self, group: DeviceGroup) -> int:
        """Devices of a group's fast domain."""
        return max((o.domain for (_, name), o in self.found.items() if name == group.name), default=1)

    def instances(self, service: FleetService, group: DeviceGroup) -> list[tuple[InstanceOption, ServingInstance]]:
        """What a group offers, with what each takes of it."""
        there = self.found.get((service.name, group.name))
        if there is None:
            return []
        pairs = [
            (InstanceOption(taken(one.devices, there.domain, self.chain), self.rate(one)), one) for one in there.found
        ]
        return [(offer, one) for offer, one in pairs if offer.size <= group.devices]

    def rate(self, one: ServingInstance) -> float:
        """Requests per second at the end held."""
        return float(one.rate.at(self.question.hold, less=False))

    @cached_property
    def programme(self) -> AllocationProgram:
        groups = self.question.groups
        demands = tuple(
            ServiceDemand(s.qps, tuple(tuple(o for o, _ in self.instances(s, g)) for g in groups)) for s in self.able
        )
        free = self.question.objective == "devices"
        weights = tuple(1.0 if free else float(g.usd_per_device_hour or 0.0) for g in groups)
        return AllocationProgram(demands, tuple(g.devices for g in groups), weights)

    def chosen(
        self, service: FleetService, group: DeviceGroup, devices: int
    ) -> tuple[InstanceOption, ServingInstance, int]:
        """The layout on so many devices, and how many instances of it."""
        pairs = dict(self.instances(service, group))
        demand = self.programme.demands[self.able.index(service)]
        offer = demand.best(self.question.groups.index(group), devices)
        assert offer is not None  # devices are given where an instance takes them
        return offer, pairs[offer], devices // offer.size

    def fits_in_domains(self, given: Assignment) -> bool:
        """Whether the instances go whole into every group's domains."""
        for k, group in enumerate(self.question.groups):
            taken_ = [(s, row[k]) for s, row in zip(self.able, given.devices, strict=True) if row[k]]
            parts = [(o.size, count) for o, _, count in (self.chosen(s, group, n) for s, n in taken_)]
            if not pack(parts, group.devices, self.domain(group)):
                return False
        return True
