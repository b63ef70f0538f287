"""What the ledger's books know of bindings, calls and Nodes that have left."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake.ledger.book import Book
from bigfleet.provider.fake.ledger.calls import Call, Calls
from bigfleet.provider.fake.ledger.echoes import Echoes
from bigfleet.provider.fake.ledger.purchases import KNOWN_AFTER_SECONDS, TAKEN_WITHIN_SECONDS, Purchases
from bigfleet.provider.fake.ledger.shapes import NANODOLLARS, FleetShapes
from bigfleet.provider.fake.ledger.vanishing import EXPLAINED_WITHIN_SECONDS, Vanishing
from bigfleet.provider.fake.ledger.walks import Walks
from bigfleet.provider.kit import MachineRecord, Shape

SMALL = Shape("m6i.large", "zone-a", CapacityType.ON_DEMAND, 0.1, 0.05, {"cpu": "4", "memory": "8Gi"}, {"rack": "r1"})
LARGE = Shape("c6i.metal", "zone-b", CapacityType.BARE_METAL, 3.7, 0.0, {"cpu": "96500m"})
MACHINES = ["m-0", "m-1", "m-2", "m-3"]


def shapes() -> FleetShapes:
    fleet = FleetShapes()
    for number, machine_id in enumerate(MACHINES):
        fleet.add([MachineRecord(machine_id, LARGE if number % 2 else SMALL, MachineState.IDLE)])
    return fleet


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_an_answer_is_held_against_the_fleet_file_field_by_field() -> None:
    shape = shapes().get("m-0")
    assert shape is not None
    told = MachineRecord("m-0", SMALL, MachineState.IDLE).write(type(SMALL.wire)(), "fake")
    assert shape.differences(told) == []
    told.price_per_hour = 0.2
    told.allocatable.resources["cpu"] = "3"
    told.zone, told.instance_type = "zone-b", "m6i.xlarge"
    told.labels["rack"] = "r2"
    told.interruption_probability, told.capacity_type = 0.0, pb.SPOT
    assert set(shape.differences(told)) == {
        "price_per_hour",
        "allocatable",
        "zone",
        "instance_type",
        "labels",
        "interruption_probability",
        "capacity_type",
    }


def test_what_the_kit_does_to_its_shape_does_not_show_in_ours() -> None:
    labels = {"rack": "r1"}
    fleet = FleetShapes()
    fleet.add(
        [MachineRecord("m-9", Shape("t", "z", CapacityType.ON_DEMAND, 1, 0, {"cpu": "1"}, labels), MachineState.IDLE)]
    )
    labels["rack"] = "elsewhere"
    shape = fleet.get("m-9")
    assert shape is not None
    assert shape.labels == {"rack": "r1"}


# --- echoes -----------------------------------------------------------------------------------------------------------


def bound(**stamped: str) -> pb.Machine:
    return pb.Machine(id="m-0", cluster="c", state=pb.CONFIGURED, shard_metadata=stamped)


def stamped_at(now: float) -> Echoes:
    """`m-0` was given to its cluster with a priority."""
    echoes = Echoes()
    echoes.ask("m-0")
    echoes.answered("m-0")
    echoes.stamp("m-0", "op-1", {"priority": "7"}, pb.CONFIGURING, now)
    return echoes


def test_what_a_shard_stamped_must_be_told_back_word_for_word() -> None:
    echoes = stamped_at(10)
    assert not echoes.garbled(bound(priority="7"), asked_at=11)
    assert echoes.garbled(bound(), asked_at=11), "it is not told"
    assert echoes.garbled(bound(priority="8"), asked_at=11)
    assert echoes.garbled(bound(priority="7", more="x"), asked_at=11)


def test_an_answer_to_what_was_asked_before_the_stamp_is_not_judged() -> None:
    assert not stamped_at(10).garbled(bound(), asked_at=10)


def test_while_a_configure_is_not_answered_either_stamp_may_be_told() -> None:
    echoes = stamped_at(10)
    echoes.ask("m-0")
    assert not echoes.garbled(bound(priority="8"), asked_at=11)
    echoes.answered("m-0")
    assert echoes.garbled(bound(priority="8"), asked_at=11)


def test_a_configure_that_is_repeated_stamps_nothing_anew() -> None:
    echoes = stamped_at(10)
    echoes.stamp("m-0", "op-1", {"priority": "8"}, pb.CONFIGURING, 20)
    echoes.stamp("m-0", "op-2", {"priority": "8"}, pb.CONFIGURED, 20)
    assert not echoes.garbled(bound(priority="7"), asked_at=21)
    echoes.stamp("m-0", "op-3", {"priority": "8"}, pb.CONFIGURING, 30)
    assert echoes.garbled(bound(priority="7"), asked_at=31), "this one is new"


def test_a_machine_without_a_cluster_has_no_stamp() -> None:
    echoes = stamped_at(10)
    echoes.forget("m-0")
    assert not echoes.garbled(bound(priority="8"), asked_at=11), "of this binding nothing is known"
    assert echoes.garbled(pb.Machine(id="m-0", state=pb.IDLE, shard_metadata={"priority": "7"}), asked_at=11)
    assert not echoes.garbled(pb.Machine(id="m-0", state=pb.IDLE), asked_at=11)


# --- walks ------------------------------------------------------------------------------------------------------------


class Walker:
    """A shard that asks for one page a second."""

    def __init__(self, walks: Walks, shard: str = "shard-0") -> None:
        self._walks, self._shard = walks, shard

    def page(self, asked_at: float, machines: Iterable[str], since: bytes, revision: bytes, more: bool = False) -> bool:
        for machine_id in machines:
            self._walks.tell(machine_id, asked_at)
        whole = since == b""
        return self._walks.step(self._shard, since, revision, whole=whole, more=more, asked_at=asked_at)


def test_a_machine_that_no_page_of_a_walk_tells_was_left_out() -> None:
    walks = Walks()
    shard = Walker(walks)
    assert shard.page(0, MACHINES, b"", b"9"), "one page is a walk too"
    assert list(walks.left_out()) == []
    assert not shard.page(10, ["m-0", "m-1"], b"", b"2", more=True)
    assert not shard.page(11, [], b"9", b"9"), "news are no walk"
    assert shard.page(12, ["m-3"], b"2", b"9")
    assert list(walks.left_out()) == ["m-2"]


def test_what_is_told_as_news_while_a_walk_goes_on_was_not_left_out() -> None:
    walks = Walks()
    shard = Walker(walks)
    shard.page(0, MACHINES, b"", b"9")
    shard.page(10, ["m-0", "m-1"], b"", b"2", more=True)
    shard.page(11, ["m-2"], b"9", b"10")
    walks.tell("m-3", 12)
    walks.tell("m-3", 1)  # an older answer that took longer
    assert shard.page(13, [], b"2", b"10")
    assert list(walks.left_out()) == []


def test_a_machine_that_is_gone_need_not_be_told() -> None:
    walks = Walks()
    shard = Walker(walks)
    shard.page(0, MACHINES, b"", b"9")
    walks.forget("m-3")
    shard.page(10, MACHINES[:3], b"", b"9")
    assert list(walks.left_out()) == []


def test_of_two_shards_each_may_have_machines_of_its_own() -> None:
    walks = Walks()
    one, other = Walker(walks, "shard-0"), Walker(walks, "shard-1")
    one.page(0, ["m-0", "m-1"], b"", b"9")
    other.page(1, ["m-2"], b"", b"3", more=True)
    assert list(walks.left_out()) == [], "the other has not been through yet"
    other.page(2, ["m-3"], b"3", b"9")
    other.page(3, ["m-2", "m-3"], b"", b"9")
    assert list(walks.left_out()) == []
    one.page(10, ["m-0"], b"", b"9")
    assert list(walks.left_out()) == ["m-1"], "neither of them was told of it"


# --- purchases --------------------------------------------------------------------------------------------------------

FREE = Shape("m6i.large", "zone-a", CapacityType.BARE_METAL, 0.0, 0.0, {"cpu": "4", "memory": "8192Mi"}, {"rack": "r1"})
ELSEWHERE = replace(FREE, labels={"rack": "r2"})


def bought_beside(free: Shape) -> Purchases:
    """`free-0` stands idle from 0 on; `bought` is bought a while later."""
    fleet = FleetShapes()
    fleet.add([MachineRecord("free-0", free, MachineState.IDLE), MachineRecord("bought", SMALL, MachineState.IDLE)])
    purchases = Purchases(fleet)
    purchases.stands_idle("free-0", 0)
    purchases.bought("bought", KNOWN_AFTER_SECONDS)
    return purchases


LATER = KNOWN_AFTER_SECONDS + TAKEN_WITHIN_SECONDS


def test_a_machine_is_bought_needlessly_if_one_like_it_stands_idle_and_costs_nothing() -> None:
    purchases = bought_beside(FREE)
    assert purchases.needless(LATER - 1) == []
    assert purchases.needless(LATER) == [("bought", "free-0")]
    assert purchases.needless(LATER + 1) == [], "told once"


def test_a_purchase_is_needed_where_the_idle_machine_is_elsewhere_or_dearer_or_taken_too() -> None:
    assert bought_beside(ELSEWHERE).needless(LATER) == []
    assert bought_beside(SMALL).needless(LATER) == []
    purchases = bought_beside(FREE)
    purchases.taken("free-0")
    assert purchases.needless(LATER) == []


def test_a_machine_that_has_just_become_idle_is_not_known_yet() -> None:
    purchases = bought_beside(FREE)
    purchases.taken("free-0")
    purchases.stands_idle("free-0", 1)
    assert purchases.needless(LATER) == []


def test_free_machines_are_never_bought_needlessly() -> None:
    purchases = bought_beside(FREE)
    purchases.needless(LATER)
    purchases.bought("free-0", LATER)
    assert purchases.needless(2 * LATER) == []


# --- bindings ---------------------------------------------------------------------------------------------------------


def test_a_machine_serves_from_its_nodes_first_ready_until_it_leaves() -> None:
    book = Book(shapes())
    book.begin("m-0", "c", "op-1", now=0)
    assert book.cluster("c").machines.value == 0
    book.carried_out("m-0", now=2)
    assert dict(book.waiting_seconds(now=5)) == {"c": 3}
    assert book.arrived("m-0", "c")
    assert dict(book.waiting_seconds(now=9)) == {"c": 0}
    figures = book.cluster("c")
    assert figures.machines.value == 1
    assert figures.price.value == pytest.approx(0.1 * NANODOLLARS)
    assert {name: marks.value for name, marks in figures.allocatable.items()} == {
        "cpu": 4000,
        "memory": 8 * 2**30 * 1000,
    }
    assert book.drain("m-0")
    assert figures.machines.value == 0
    assert not book.end("m-0")


def test_a_node_in_another_cluster_says_nothing() -> None:
    book = Book(shapes())
    book.begin("m-0", "c", "op-1", now=0)
    assert book.arrived("m-0", "elsewhere") is None
    assert not book.departed("m-0", "elsewhere", now=1)
    assert book.cluster("c").machines.value == 0


def test_a_configure_that_goes_on_after_a_restart_is_the_same_binding() -> None:
    book = Book(shapes())
    first = book.begin("m-0", "c", "op-1", now=0)
    assert book.begin("m-0", "c", "op-1", now=5) is first
    assert book.begin("m-0", "c", "op-2", now=6) is not first


STEPS = st.lists(
    st.tuples(st.sampled_from(("begin", "arrived", "departed", "drain", "end")), st.sampled_from(MACHINES)), max_size=80
)


@given(STEPS)
def test_what_a_cluster_has_is_what_serves_in_it(steps: Iterable[tuple[str, str]]) -> None:
    fleet = shapes()
    book = Book(fleet)
    for number, (step, machine_id) in enumerate(steps):
        match step:
            case "begin":
                book.begin(machine_id, f"c-{number % 2}", f"op-{number}", number)
            case "arrived" | "departed":
                binding = book.live(machine_id)
                where = binding.cluster if binding else "c-0"
                if step == "arrived":
                    book.arrived(machine_id, where)
                else:
                    book.departed(machine_id, where, number)
            case "drain":
                book.drain(machine_id)
            case _:
                book.end(machine_id)
        for name, figures in book.clusters.items():
            serving = {
                one for one in MACHINES if (binding := book.live(one)) and binding.serves and binding.cluster == name
            }
            assert figures.serving == serving
            assert figures.machines.value == len(serving)
            here = [shape for one in serving if (shape := fleet.get(one))]
            assert figures.price.value == sum(shape.nanodollars_per_hour for shape in here)
            cpu = figures.allocatable.get("cpu")
            assert (cpu.value if cpu else 0) == sum(shape.milli["cpu"] for shape in here)


# --- calls ------------------------------------------------------------------------------------------------------------


def call(kind: str = "Create", sequence: int = 1, *, epoch: int = 1, shard: str = "s-0", at: float = 0.0) -> Call:
    return Call(kind, "m-0", shard, epoch, sequence, "", at)


def accepted(
    calls: Calls, one: Call, state: MachineState = MachineState.CREATING, operation: str = "op-1"
) -> list[str]:
    calls.ask(one)
    return calls.accept(one, state, operation)


def test_a_call_is_open_until_its_end_is_told() -> None:
    calls = Calls()
    accepted(calls, call(at=3))
    calls.tell("m-0", MachineState.CREATING)
    calls.tell("m-0", MachineState.SPECULATIVE)  # a List that was begun before the call
    assert calls.oldest_seconds("Create", now=10) == 7
    calls.tell("m-0", MachineState.IDLE)
    assert calls.oldest_seconds("Create", now=10) == 0


@pytest.mark.parametrize("end", [MachineState.FAILED, None])
def test_failure_and_disappearance_are_ends_too(end: MachineState | None) -> None:
    calls = Calls()
    accepted(calls, call())
    calls.tell("m-0", end)
    assert calls.oldest_seconds("Create", now=10) == 0


def test_a_call_that_is_repeated_is_as_old_as_its_first() -> None:
    calls = Calls()
    accepted(calls, call(at=1))
    accepted(calls, call(sequence=2, at=8))
    assert calls.oldest_seconds("Create", now=10) == 9


def test_of_one_shard_only_newer_tokens_may_be_accepted() -> None:
    calls = Calls()
    assert accepted(calls, call(sequence=5)) == []
    assert accepted(calls, call(sequence=6)) == []
    assert accepted(calls, call(sequence=6)) == ["fence_broken"]
    assert accepted(calls, call(sequence=1, epoch=2)) == []
    assert accepted(calls, call(sequence=9, epoch=1)) == ["fence_broken"]


def test_two_calls_at_once_may_be_answered_in_any_order() -> None:
    calls = Calls()
    first, second = call(sequence=1), call(sequence=2)
    calls.ask(first)
    calls.ask(second)
    assert calls.accept(second, MachineState.CREATING, "op-1") == []
    assert calls.accept(first, MachineState.CREATING, "op-1") == []


def test_a_machine_has_one_commander() -> None:
    calls = Calls()
    accepted(calls, call(sequence=5))
    assert accepted(calls, call(sequence=1, shard="s-1")) == ["two_owners"]


def test_a_refused_call_breaks_no_rule_and_is_not_waited_for() -> None:
    calls = Calls()
    accepted(calls, call(sequence=5), MachineState.IDLE)
    refused = call(sequence=3, shard="s-1")
    calls.ask(refused)
    calls.refuse(refused)
    assert calls.oldest_seconds("Create", now=10) == 0
    assert accepted(calls, call(sequence=6), MachineState.IDLE) == []


def test_a_call_without_a_token_has_no_order_to_keep() -> None:
    calls = Calls()
    accepted(calls, call(sequence=5))
    assert accepted(calls, call(sequence=0, epoch=0, shard="")) == []


def test_tokens_of_a_former_life_count() -> None:
    calls = Calls()
    calls.restore("s-0", "m-0", (2, 7))
    assert accepted(calls, call(sequence=7, epoch=2)) == ["fence_broken"]


# --- Nodes that have left ---------------------------------------------------------------------------------------------


def test_a_node_that_left_is_judged_when_nobody_has_explained_it_in_time() -> None:
    vanishing = Vanishing()
    vanishing.suspect("m-0", "c", now=0)
    vanishing.suspect("m-1", "c", now=0)
    vanishing.explain("m-1")
    assert vanishing.convicted(now=EXPLAINED_WITHIN_SECONDS - 1) == []
    assert [one.machine_id for one in vanishing.convicted(now=EXPLAINED_WITHIN_SECONDS)] == ["m-0"]
    assert vanishing.convicted(now=1000) == []


def test_time_in_which_nobody_listened_does_not_count() -> None:
    vanishing = Vanishing()
    vanishing.suspect("m-0", "c", now=0)
    vanishing.excuse(20)
    assert vanishing.convicted(now=EXPLAINED_WITHIN_SECONDS + 19) == []
    assert vanishing.convicted(now=EXPLAINED_WITHIN_SECONDS + 20)
