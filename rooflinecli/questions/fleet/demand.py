"""A model of a fleet as the programme sees it: a rate to carry, and what instances carry and take on every group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class InstanceOption:
    """An instance layout of a model on a group: devices it takes, requests per second that it carries at the end held."""

    size: int
    rate: float


@dataclass(frozen=True)
class ServiceDemand:
    """A model: requests per second to carry, and its offers on every group, in the groups' order."""

    rate: float
    offers: tuple[tuple[InstanceOption, ...], ...]

    def most(self, group: int, devices: np.ndarray) -> np.ndarray:
        """The highest rate on so many devices of a group."""
        rates = [devices // o.size * o.rate for o in self.offers[group]]
        return np.max(rates, axis=0) if rates else np.zeros(np.shape(devices))

    def fewest(self, group: int, rate: np.ndarray) -> np.ndarray:
        """The fewest devices of a group that carry a rate, however many there are; infinite where none do."""
        counts = [np.ceil(np.maximum(rate, 0) / o.rate * (1 - 1e-12)) * o.size for o in self.offers[group]]
        return np.min(counts, axis=0) if counts else np.where(rate > 0, np.inf, 0.0)

    def best(self, group: int, devices: int) -> InstanceOption | None:
        """The layout with the highest rate on so many devices, the one with the fewest instances among equals."""
        able = [o for o in self.offers[group] if o.size <= devices]
        return max(able, key=lambda o: (devices // o.size * o.rate, o.size), default=None)
