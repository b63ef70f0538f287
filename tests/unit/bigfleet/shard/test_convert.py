"""The wire and the core's types: what is refused, what is skipped, what survives the round trip."""

import math
from typing import Any

import pytest

from bigfleet.api.v1alpha1 import capacity_pb2, provider_pb2
from bigfleet.core import penalty
from bigfleet.core.machines import UNASSIGNED, Assignment, CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import NeedProfile, Requirement, RequirementOperator
from bigfleet.shard.convert import (
    BadMachine,
    BadRollup,
    assignment_for,
    assignment_from_metadata,
    machine_from_wire,
    merged,
    metadata_from_assignment,
    need_to_wire,
    needs_from_wire,
    node_state,
)
from bigfleet.shard.notices import Notice

PREFIX = "bigfleet.lucy.sh/assigned-"


def read(*needs: capacity_pb2.CapacityNeed) -> list[Need]:
    return merged(needs_from_wire("ours", [need.SerializeToString() for need in needs]))


def wire_need(cpu: str = "4", **fields: Any) -> capacity_pb2.CapacityNeed:
    return capacity_pb2.CapacityNeed(aggregate_resources={"cpu": cpu}, min_unit={"cpu": "1"}, **fields)


class TestDemand:
    def test_belongs_to_the_cluster_of_the_session(self) -> None:
        # spec trap: the roll-up's own cluster id would let one cluster speak for another.
        (need,) = read(wire_need())
        assert need.cluster == "ours"
        assert need.aggregate == {"cpu": 4000}

    def test_rows_of_one_profile_and_gang_are_one_need(self) -> None:
        other = wire_need("2")
        other.min_unit["memory"] = "1Gi"
        (need,) = read(wire_need(), other)
        assert need.aggregate == {"cpu": 6000}
        assert need.min_unit == {"cpu": 1000, "memory": 1024**3 * 1000}

    def test_gangs_stay_apart(self) -> None:
        assert len(read(wire_need(group="rack\0a"), wire_need(group="rack\0b"))) == 2

    def test_survives_the_round_trip(self) -> None:
        requirement = capacity_pb2.NodeSelectorRequirement(
            key="rack", operator=capacity_pb2.NodeSelectorRequirement.SAME
        )
        spread = capacity_pb2.TopologySpread(
            topology_key="zone", max_skew=2, when_unsatisfiable=capacity_pb2.TopologySpread.DO_NOT_SCHEDULE
        )
        message = wire_need(
            requirements=[requirement],
            spread=[spread],
            priority=-5,
            group="rack\0app=db,;",
            interruption_penalty_bucket=capacity_pb2.PINNED,
            reclamation_penalty_bucket=capacity_pb2.HALF_DOLLAR,
        )
        (need,) = read(message)
        assert need_to_wire(need) == message

    @pytest.mark.parametrize("quantity", ["", "four", "1Q", "-1"])
    @pytest.mark.parametrize("field", ["aggregate_resources", "min_unit"])
    def test_a_bad_quantity_refuses_the_whole_roll_up(self, field: str, quantity: str) -> None:
        bad = wire_need()
        getattr(bad, field)["cpu"] = quantity
        with pytest.raises(BadRollup, match=r"needs\[1\]"):
            read(wire_need(), bad)

    @pytest.mark.parametrize("operator", [0, 6, 99])
    def test_a_bad_operator_refuses_the_whole_roll_up(self, operator: int) -> None:
        required = capacity_pb2.NodeSelectorRequirement(
            key="a",
            operator=operator,  # type: ignore[arg-type]  # a number that the enum does not have
        )
        bad = wire_need(requirements=[required])
        with pytest.raises(BadRollup, match="operator"):
            read(bad)

    @pytest.mark.parametrize(
        ("key", "values", "field"),
        [
            ("", [], r"key: '' is"),
            ("a b", [], r"key: 'a b' is"),
            ("-rack", [], r"key: '-rack' is"),
            ("Upper.io/rack", [], r"key: 'Upper\.io' is"),
            ("rack", ["r1", "$(reboot)"], r"values\[1\]: '\$\(reboot\)' is"),
            ("rack", ["r1\n"], r"values\[0\]: 'r1\\n' is"),
            ("rack", ["é"], r"values\[0\]: 'é' is"),
            ("rack", ["x" * 64], r"values\[0\]: 'x+' is"),
        ],
    )
    def test_what_is_no_labels_key_or_value_refuses_the_whole_roll_up_and_is_named(
        self, key: str, values: list[str], field: str
    ) -> None:
        required = [
            capacity_pb2.NodeSelectorRequirement(key="zone", operator=capacity_pb2.NodeSelectorRequirement.EXISTS),
            capacity_pb2.NodeSelectorRequirement(
                key=key, operator=capacity_pb2.NodeSelectorRequirement.IN, values=values
            ),
        ]
        with pytest.raises(BadRollup, match=rf"needs\[1\]: requirements\[1\]\.{field} no "):
            read(wire_need(), wire_need(requirements=required))

    def test_a_spread_over_what_is_no_labels_key_is_named(self) -> None:
        spread = capacity_pb2.TopologySpread(
            topology_key="a b", max_skew=1, when_unsatisfiable=capacity_pb2.TopologySpread.DO_NOT_SCHEDULE
        )
        with pytest.raises(BadRollup, match=r"needs\[0\]: spread\[0\]\.topology_key: 'a b' is no name"):
            read(wire_need(spread=[spread]))

    def test_a_label_may_be_asked_to_be_empty(self) -> None:
        required = capacity_pb2.NodeSelectorRequirement(
            key="example.com/tier_1", operator=capacity_pb2.NodeSelectorRequirement.IN, values=["", "gold.2-x"]
        )
        (need,) = read(wire_need(requirements=[required]))
        assert need.profile.requirements[0].values == ("", "gold.2-x")

    @pytest.mark.parametrize("field", ["interruption_penalty_bucket", "reclamation_penalty_bucket"])
    @pytest.mark.parametrize("bucket", [-1, 28])
    def test_a_bad_bucket_refuses_the_whole_roll_up(self, field: str, bucket: int) -> None:
        with pytest.raises(BadRollup, match=field):
            read(wire_need("4", **{field: bucket}))


class TestMetadata:
    def test_survives_the_round_trip_with_infinity_and_a_nul(self) -> None:
        # spec trap: PINNED is written `+Inf` and read back, and a group holds a NUL.
        requirement = Requirement("rack", RequirementOperator.SAME)
        profile = NeedProfile.canonical([requirement], [], 7, penalty.PINNED, penalty.HALF_DOLLAR)
        assignment = assignment_for(profile, "rack\0app=db,;")
        metadata = metadata_from_assignment(assignment)
        assert metadata[PREFIX + "interruption-penalty-dollars"] == "+Inf"
        assert metadata[PREFIX + "reclamation-penalty-dollars"] == "0.5"
        echoed = provider_pb2.Machine.FromString(provider_pb2.Machine(shard_metadata=metadata).SerializeToString())
        assert assignment_from_metadata("m", echoed.shard_metadata) == assignment
        assert assignment.interruption_dollars == math.inf

    @pytest.mark.parametrize("dollars", [0.0, 0.5, 1.0, 8388608.0, math.inf])
    def test_dollars_are_written_so_that_they_read_the_same(self, dollars: float) -> None:
        metadata = metadata_from_assignment(Assignment(interruption_dollars=dollars))
        assert assignment_from_metadata("m", metadata).interruption_dollars == dollars

    def test_what_is_unknown_is_ignored_and_what_is_malformed_is_skipped(self) -> None:
        metadata = {
            PREFIX + "priority": "high",
            PREFIX + "interruption-penalty-dollars": "nan",
            PREFIX + "reclamation-penalty-dollars": "1e3",
            "bigfleet.lucy.sh/from-the-future": "1",
        }
        assert assignment_from_metadata("m", metadata) == Assignment(reclamation_dollars=1000.0)

    def test_absent_keys_mean_nothing_assigned(self) -> None:
        assert assignment_from_metadata("m", {}) == UNASSIGNED


class TestMachine:
    def test_allocatable_wins_over_the_base_shape(self) -> None:
        message = provider_pb2.Machine(id="m", state=provider_pb2.SPECULATIVE, resources={"resources": {"cpu": "8"}})
        assert machine_from_wire(message).allocatable == {"cpu": 8000}
        message.allocatable.resources["cpu"] = "7500m"
        assert machine_from_wire(message).allocatable == {"cpu": 7500}

    @pytest.mark.parametrize("state", list(MachineState))
    def test_metadata_counts_only_while_the_machine_is_bound(self, state: MachineState) -> None:
        bound = state in (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING)
        on_the_wire = provider_pb2.MachineState.Name(state)
        message = provider_pb2.Machine(id="m", state=on_the_wire, shard_metadata={PREFIX + "priority": "9"})
        assert machine_from_wire(message).assignment.priority == (9 if bound else 0)

    def test_a_state_or_quantity_that_nobody_knows_is_a_bad_machine(self) -> None:
        with pytest.raises(BadMachine, match="'m'"):
            machine_from_wire(provider_pb2.Machine(id="m", state=42))  # type: ignore[arg-type]  # a number that the enum does not have
        with pytest.raises(BadMachine, match="lots"):
            machine_from_wire(
                provider_pb2.Machine(id="m", state=provider_pb2.SPECULATIVE, resources={"resources": {"cpu": "lots"}})
            )

    def test_a_node_state_says_what_a_cluster_needs_to_know(self) -> None:
        machine = Machine(
            id="m",
            state=MachineState.CONFIGURED,
            instance_type="big",
            zone="zone-a",
            capacity_type=CapacityType.SPOT,
            allocatable={"cpu": 1500},
            labels={"topology.bigfleet/rack": "r1"},
            host="host-m",
            cluster="c",
        )
        update = node_state(Notice("c", machine, "fake-m", removed=False))
        assert update.supersedes_key == "node:m"
        # spec trap: upstream leaves node name and cluster empty.
        assert update.node_name == "fake-m"
        assert update.cluster_id == "c"
        assert update.provider_id == "host-m"
        assert update.state == provider_pb2.CONFIGURED
        assert dict(update.labels) == {
            "node.kubernetes.io/instance-type": "big",
            "topology.kubernetes.io/zone": "zone-a",
            "topology.bigfleet/rack": "r1",
        }
        assert dict(update.resources.resources) == {"cpu": "1500m"}
