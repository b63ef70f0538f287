"""Bought machines that stand idle are timed from both sides: how long they may, and how long they must."""

import pytest

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake.ledger.idling import Idling
from bigfleet.provider.fake.ledger.shapes import NANODOLLARS, FleetShapes
from bigfleet.provider.kit import MachineRecord, Shape

ON_DEMAND, SPOT, METAL = CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.BARE_METAL


def fleet() -> FleetShapes:
    """Two machines of each kind, called after it."""
    shapes = FleetShapes()
    for kind, price in ((ON_DEMAND, 0.5), (SPOT, 0.2), (METAL, 3.0)):
        shape = Shape("t", "zone-a", kind, price, 0.1, {"cpu": "4"})
        shapes.add(MachineRecord(f"{kind.label}-{number}", shape, MachineState.IDLE) for number in range(2))
    return shapes


@pytest.fixture
def idling() -> Idling:
    return Idling(fleet())


def test_the_oldest_idle_machine_of_each_kind_has_an_age_and_all_have_a_price(idling: Idling) -> None:
    idling.stands_idle("OnDemand-0", 10)
    idling.stands_idle("OnDemand-1", 14)
    idling.stands_idle("Spot-0", 15)
    idling.stands_idle("OnDemand-0", 16)  # told twice
    assert (idling.oldest_seconds(ON_DEMAND, 20), idling.oldest_seconds(SPOT, 20)) == (10, 5)
    assert idling.nanodollars_per_hour == {ON_DEMAND: NANODOLLARS, SPOT: NANODOLLARS // 5}
    idling.taken("OnDemand-0")
    assert idling.oldest_seconds(ON_DEMAND, 20) == 6
    assert idling.nanodollars_per_hour[ON_DEMAND] == NANODOLLARS // 2


def test_what_is_paid_for_either_way_may_stand_idle(idling: Idling) -> None:
    idling.stands_idle("BareMetal-0", 0)
    idling.stands_idle("a machine of another fleet", 0)
    assert idling.given_back("BareMetal-0", 1) is None
    assert (idling.oldest_seconds(ON_DEMAND, 99), idling.oldest_seconds(SPOT, 99)) == (0, 0)


def test_a_machine_that_is_given_back_says_how_long_it_stood_idle(idling: Idling) -> None:
    idling.stands_idle("OnDemand-0", 5)
    assert idling.given_back("OnDemand-0", 21) == (ON_DEMAND, 16)
    assert idling.given_back("OnDemand-0", 22) is None, "the same call again"


def test_a_machine_that_was_used_or_lost_was_not_given_back(idling: Idling) -> None:
    idling.stands_idle("Spot-0", 0)
    idling.taken("Spot-0")
    assert idling.given_back("Spot-0", 1) is None


def test_since_when_a_machine_of_a_former_life_is_idle_is_not_known(idling: Idling) -> None:
    idling.recall("Spot-0", 0)
    assert idling.oldest_seconds(SPOT, 3) == 3
    assert idling.given_back("Spot-0", 4) is None
    idling.stands_idle("Spot-0", 10)
    assert idling.given_back("Spot-0", 17) == (SPOT, 7)
