"""Power of a site and of a rack as limits on the devices of a fleet's group."""

from __future__ import annotations

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.questions.fleet.fleet_question import asked

FILE = "fleet:\n  h100: {{devices: 64{more}}}\nmodels:\n  llama-3-8b: {{qps: 2, slo: 'ttft=2s,itl=50ms'}}\n"


@pytest.fixture
def devices(tmp_path):
    def count(more: str) -> int:
        path = tmp_path / "fleet.yaml"
        path.write_text(FILE.format(more=more))
        group = asked(path).groups[0]
        assert group.devices + (group.off or 0) == 64
        return group.devices

    return count


def test_devices_beyond_the_power_stay_off(devices):
    """An H100 of 700 W is 1,120 W at the plug of its server and 1,221 W for the data center."""
    assert devices("") == 64
    assert devices(", power: 40kW") == 32
    assert devices(", rack_devices: 32, rack_power: 20kW") == 2 * 17
    assert devices(", rack_devices: 24, rack_power: 20kW") == 2 * 17 + 16
    assert devices(", power: 1MW, rack_devices: 8, rack_power: 40kW") == 64
    assert devices(", power: 12kW, rack_devices: 8, rack_power: 5kW") == 9


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (", power: 900W", "carries no device"),
        (", rack_power: 9kW", "belong together"),
        (", power: warm", "write watts"),
    ],
)
def test_caps_that_carry_nothing_or_say_nothing_are_refused_with_their_line(devices, more, message):
    with pytest.raises(DataError, match=message):
        devices(more)
