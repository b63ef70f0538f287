"""Which coordinator a shard obeys, and that it carries an instruction out once."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.core.machines import Machine, MachineState
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.provider import domains
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.listed import Listed
from bigfleet.shard.provider.quotas import Quotas
from bigfleet.shard.reports import Instructions

ASSIGN_A = pb.AssignDomain(topology_key="zone", topology_value="a")
ASSIGN_B = pb.AssignDomain(topology_key="zone", topology_value="b")


class World:
    def __init__(self, directory: Path) -> None:
        self.changes = 0
        self.elsewhere: list[Mapping[str, str]] = []
        self.domains = Domains(directory)
        self.inventory = Inventory()
        listed = Listed(self.inventory, lambda: None)
        quotas = Quotas(directory, self.inventory, ShardMetrics(CollectorRegistry()))
        self.instructions = Instructions(self.domains, listed, quotas, self.changed, self.elsewhere.append)

    def changed(self) -> None:
        self.changes += 1

    def answer(
        self, term: int, founded: int, *assigned: pb.AssignDomain, domains_assigned: bool = False
    ) -> list[pb.InstructAck]:
        """What the shard acknowledges after an answer with these instructions, numbered from 1."""
        sent = [
            pb.CoordinatorInstruction(coordinator_term=term, instruction_id=f"{term}-{number}", assign_domain=one)
            for number, one in enumerate(assigned, start=1)
        ]
        return self.instructions.take(
            pb.ReportAck(
                coordinator_term=term,
                founded_unix_ns=founded,
                instructions=sent,
                acknowledged=True,
                domains_assigned=domains_assigned,
            )
        )


def test_an_instruction_is_carried_out_once_and_acknowledged_until_it_is_no_longer_sent(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        assert [ack.outcome for ack in world.answer(2, 10, ASSIGN_A)] == [pb.InstructAck.ACCEPTED]
    assert world.changes == 1
    assert world.answer(2, 10) == []


def test_what_one_answer_asks_for_reaches_the_disk_in_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    writes: list[str] = []
    monkeypatch.setattr(domains, "write_durably", lambda _path, text: writes.append(text))
    world.answer(2, 10, ASSIGN_A, ASSIGN_B, domains_assigned=True)
    assert writes == ['[["zone", "a"], ["zone", "b"]]']
    assert world.changes == 1


@pytest.mark.parametrize("assign_by", ["", "topology.kubernetes.io/zone"])
def test_a_domain_whose_machines_serve_a_cluster_is_kept_if_it_is_asked_for_only_otherwise(
    tmp_path: Path, assign_by: str
) -> None:
    world = World(tmp_path)
    zone = ("topology.kubernetes.io/zone", "a")
    world.domains.assign(zone)
    world.inventory.observe(Machine("m", MachineState.CONFIGURED, zone="a", host="h", cluster="k"))
    give_up = pb.UnassignDomain(topology_key=zone[0], topology_value=zone[1], unless_bound=True)

    def answer(number: int) -> list[tuple[int, str]]:
        instruction = pb.CoordinatorInstruction(instruction_id=f"{number}", unassign_domain=give_up)
        taken = world.instructions.take(pb.ReportAck(instructions=[instruction], assign_by=assign_by))
        return [(ack.outcome, ack.reason) for ack in taken]

    assert answer(1) == [(pb.InstructAck.FAILED, "a machine of a serves k")]
    assert world.domains.owned == frozenset({zone})
    world.inventory.vanish("m")
    assert answer(2) == [(pb.InstructAck.ACCEPTED, "")]
    assert world.domains.owned == frozenset()


def test_what_the_disk_does_not_take_is_not_owned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(domains, "write_durably", refuse)
    with pytest.raises(OSError, match="no space"):
        world.answer(2, 10, ASSIGN_A)
    assert world.domains.owned is None


def test_a_lower_term_of_the_same_group_is_not_obeyed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer(5, 10)
    assert world.answer(4, 10, ASSIGN_A) == []
    assert (world.changes, world.instructions.term) == (0, 5)


def test_a_later_founding_is_obeyed_whatever_its_term_and_the_former_one_never_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer(5, 10)
    assert len(world.answer(2, 20, ASSIGN_A)) == 1
    assert world.instructions.term == 2
    assert world.answer(9, 10, ASSIGN_B) == []
    assert world.changes == 1


def test_numbers_that_a_new_group_uses_again_are_new_instructions(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer(2, 10, ASSIGN_A)
    world.answer(2, 20, ASSIGN_B)
    assert world.changes == 2


def test_a_shard_alone_owns_everything_until_it_hears_that_somebody_has_a_domain(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer(2, 10)
    assert (world.domains.owned, world.changes) == (None, 0)
    for _ in range(2):
        world.answer(2, 10, domains_assigned=True)
    assert (world.domains.owned, world.changes) == (frozenset(), 1)
    assert Domains(tmp_path).owned == frozenset(), "nor does it own everything after a restart"
    world.answer(2, 10, ASSIGN_A, domains_assigned=True)
    assert world.domains.owned == frozenset({("zone", "a")})


def test_a_deposed_coordinator_cannot_take_everything_away(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer(5, 10)
    world.answer(4, 10, domains_assigned=True)
    assert world.domains.owned is None
