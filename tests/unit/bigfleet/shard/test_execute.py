"""Execution: an outcome is counted once, when the provider has spoken, and nothing but its word moves a machine on."""

import asyncio
import math
from pathlib import Path

import grpc
import pytest

from bigfleet.core.machines import MachineState
from bigfleet.core.needs import Need
from bigfleet.engine import Action, ActionKind
from bigfleet.shard.provider.execute import Disposal
from bigfleet.shard.sessions.questions import NoSession
from bigfleet.shard.sessions.sessions import BlobRefused
from tests.unit.shard_world import PROFILE, World

S = MachineState
TRANSIENT = [
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.NOT_FOUND,
]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


class TestBootstrap:
    async def test_is_a_success_when_configured_is_seen_and_not_at_the_ack(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.state() is S.CONFIGURING
        assert world.outcomes(ActionKind.BOOTSTRAP) == {}
        world.now += 7
        world.provider.put("m", S.CONFIGURED, "c")
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"success": 1}
        assert world.observations("configure_phase_seconds") == 1
        assert world.registry.get_sample_value("bigfleet_shard_configure_phase_seconds_sum") == 7
        assert world.wakes == 1
        assert world.provider.calls == [("configure", "m")], "the List said it all"

    async def test_counts_once_however_often_the_state_is_seen(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        for _ in range(3):
            world.provider.put("m", S.CONFIGURED, "c")
            await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"success": 1}

    @pytest.mark.parametrize(
        ("seen", "outcome"), [(S.FAILED, "provider_error"), (S.IDLE, "transition_raced_to_idle")], ids=str
    )
    async def test_is_no_success_when_the_provider_gives_up(
        self, world: World, seen: MachineState, outcome: str
    ) -> None:
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        world.provider.put("m", seen)
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {outcome: 1}
        assert world.observations("configure_phase_seconds") == 0
        assert world.state() is seen

    async def test_is_no_success_when_the_machine_vanishes(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        world.provider.remove("m")
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"provider_error": 1}
        assert world.told() == [("Configuring", False), ("Configuring", True)]

    async def test_that_never_ends_is_given_up(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        world.now += 899
        world.executor.give_up_overdue()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {}
        world.now += 2
        world.executor.give_up_overdue()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"ctx_canceled": 1}
        assert world.state() is S.CONFIGURING, "the provider's word still stands"

    async def test_is_announced_to_its_cluster_only_after_the_provider_accepted_it(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.provider.call_gate.clear()
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.provider.calls == [("configure", "m")]
        assert world.told() == []
        world.provider.call_gate.set()
        await world.settle()
        assert world.told() == [("Configuring", False)]

    async def test_asks_for_the_blob_of_its_very_machine(self, world: World) -> None:
        # spec trap: upstream's BootstrapRequest has no machine id, so an operator can't tell machines apart.
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.operators.asked == ["m"]

    @pytest.mark.parametrize("code", TRANSIENT, ids=str)
    async def test_a_refusal_that_may_pass_burns_nothing(self, world: World, code: grpc.StatusCode) -> None:
        # spec trap: a transient provider error must not make the machine Failed, which upstream never leaves.
        await world.with_machine(S.IDLE)
        idle_since = world.inventory.machines.idle_since("m")
        world.provider.refusals["configure"] = code
        world.now += 5
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.state() is S.IDLE
        assert world.inventory.machines.idle_since("m") == idle_since
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"provider_error": 1}
        assert world.told() == [], "its cluster never heard of it"
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.DEDUPED, "it backs off"
        world.now += 1
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.STARTED

    async def test_a_success_ends_the_back_off(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        for refused in (True, False, True):
            world.provider.refusals = {"configure": grpc.StatusCode.UNAVAILABLE} if refused else {}
            world.submit(ActionKind.BOOTSTRAP)
            await world.settle()
            if not refused:
                world.provider.put("m", S.CONFIGURED, "c")
                await world.reconciler.reconcile()
                world.provider.put("m", S.IDLE)
                await world.reconciler.reconcile()
            else:
                assert world.holds.next_expiry() == 1
                world.now += 1

    async def test_one_that_is_accepted_ends_the_outage(self, world: World) -> None:
        for machine_id in ("a", "b", "d", "m"):
            await world.with_machine(S.IDLE, machine_id=machine_id)
        world.provider.refusals["configure"] = grpc.StatusCode.UNAVAILABLE
        for machine_id in ("a", "b", "d"):
            world.submit(ActionKind.BOOTSTRAP, machine_id)
        await world.settle()
        view = dict(world.inventory.machines)
        world.holds.shape_view(view)
        assert [machine.state for machine in view.values()] == [S.CONFIGURING] * 3 + [S.IDLE]
        assert {machine.cluster for machine in view.values()} == {"c", ""}
        world.provider.refusals.clear()
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        view = dict(world.inventory.machines)
        world.holds.shape_view(view)
        assert view.keys() == {"m"}

    async def test_a_fenced_machine_is_never_touched_again(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.provider.refusals["configure"] = grpc.StatusCode.FAILED_PRECONDITION
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"fenced": 1}
        world.now += 1e9
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.DEDUPED
        view = dict(world.inventory.machines)
        world.holds.shape_view(view)
        assert view == {}

    @pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED])
    async def test_a_terminal_refusal_leaves_the_machine_for_others(self, world: World, code: grpc.StatusCode) -> None:
        await world.with_machine(S.IDLE)
        world.provider.refusals["configure"] = code
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"provider_error": 1}
        await world.reconciler.reconcile()
        assert ("get", "m") in world.provider.calls, "the provider is asked where the machine stands"
        assert world.state() is S.IDLE
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.DEDUPED, "it is not tried again at once"
        del world.provider.refusals["configure"]
        world.now += 1
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.STARTED
        await world.settle()
        assert world.state() is S.CONFIGURING

    async def test_a_machine_is_failed_and_comes_back_when_the_provider_says_so(self, world: World) -> None:
        # A provider may bring a machine back from Failed (B705), and the shard must follow.
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        world.provider.put("m", S.FAILED)
        await world.reconciler.reconcile()
        assert world.state() is S.FAILED
        world.provider.put("m", S.IDLE)
        await world.reconciler.reconcile()
        assert world.state() is S.IDLE

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [(BlobRefused("no template"), "blob_error"), (NoSession("c"), "no_session"), (TimeoutError(), "ctx_canceled")],
        ids=str,
    )
    async def test_without_a_blob_goes_back_to_idle(self, world: World, error: Exception, outcome: str) -> None:
        await world.with_machine(S.IDLE)
        world.operators.blob_error = error
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        assert world.state() is S.IDLE
        assert world.outcomes(ActionKind.BOOTSTRAP) == {outcome: 1}
        assert world.provider.calls == []

    async def test_without_a_session_does_not_even_start(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.operators.connected_clusters.clear()
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.REFUSED
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"no_session": 1}
        assert not world.holds.held("m"), "another cluster may want it"

    async def test_needs_to_know_what_it_is_for(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.executor.submit(Action(ActionKind.BOOTSTRAP, "m", "c", "test"), cycle=1)
        assert world.outcomes(ActionKind.BOOTSTRAP) == {"missing_profile": 1}

    async def test_measures_how_long_the_demand_waited_for_its_first_machine(self, world: World) -> None:
        world.needs.replace("c", [Need("c", PROFILE, {"cpu": 1}, {"cpu": 1})], world.now)
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.BOOTSTRAP)
        await world.settle()
        world.now += 30
        world.provider.put("m", S.CONFIGURED, "c")
        await world.reconciler.reconcile()
        assert world.registry.get_sample_value("bigfleet_shard_provisioning_latency_seconds_sum") == 30


class TestOneActionPerMachine:
    async def test_a_second_one_is_a_duplicate(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.STARTED
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.DEDUPED
        assert world.submit(ActionKind.DELETE) is Disposal.DEDUPED

    async def test_a_machine_that_moved_on_or_left_is_let_be(self, world: World) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.DEDUPED
        assert world.submit(ActionKind.BOOTSTRAP, "unknown") is Disposal.DEDUPED

    async def test_a_full_queue_drops_and_leaves_the_machine_as_it_is(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bigfleet.shard.provider.execute._QUEUE_LIMIT", 1)
        for machine_id in ("a", "b"):
            await world.with_machine(S.IDLE, machine_id=machine_id)
        assert world.submit(ActionKind.BOOTSTRAP, "a") is Disposal.STARTED
        assert world.submit(ActionKind.BOOTSTRAP, "b") is Disposal.DROPPED
        assert world.state("b") is S.IDLE
        await world.settle()
        assert world.submit(ActionKind.BOOTSTRAP, "b") is Disposal.STARTED

    async def test_no_more_calls_run_at_once_than_allowed(self, world: World) -> None:
        machines = [f"m-{number}" for number in range(6)]
        for machine_id in machines:
            await world.with_machine(S.SPECULATIVE, machine_id=machine_id)
        world.provider.call_gate.clear()
        for machine_id in machines:
            world.submit(ActionKind.PROVISION, machine_id)
        await world.settle()
        assert len(world.provider.calls) == 4
        assert world.registry.get_sample_value("bigfleet_shard_execute_inflight") == 4
        assert world.registry.get_sample_value("bigfleet_shard_action_queue_depth") == 2
        world.provider.call_gate.set()
        await world.settle()
        assert len(world.provider.calls) == 6
        assert world.registry.get_sample_value("bigfleet_shard_action_queue_depth") == 0


class TestProvision:
    async def test_ends_when_idle_is_seen_and_wakes_the_cycle(self, world: World) -> None:
        await world.with_machine(S.SPECULATIVE)
        world.submit(ActionKind.PROVISION)
        await world.settle()
        assert world.state() is S.CREATING
        assert world.inventory.machines["m"].assignment.fingerprint == PROFILE.fingerprint
        world.provider.put("m", S.IDLE)
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.PROVISION) == {"success": 1}
        assert world.observations("create_phase_seconds") == 1
        assert world.wakes == 1
        assert world.told() == []

    async def test_that_fails_is_counted_and_the_machine_is_failed(self, world: World) -> None:
        await world.with_machine(S.SPECULATIVE)
        world.submit(ActionKind.PROVISION)
        await world.settle()
        world.provider.put("m", S.FAILED)
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.PROVISION) == {"provider_error": 1}
        assert world.observations("create_phase_seconds") == 0


class TestDrain:
    @pytest.mark.parametrize("kind", [ActionKind.RECLAIM, ActionKind.PREEMPT])
    async def test_waits_for_the_operator_and_ends_when_idle_is_seen(self, world: World, kind: ActionKind) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.submit(kind, grace_seconds=600)
        await world.settle()
        assert world.state() is S.DRAINING
        assert world.provider.calls == []
        world.now += 10
        world.operators.drained.set()
        await world.settle()
        assert world.provider.calls == [("drain", "m")]
        assert world.provider.graces == [590]
        world.provider.put("m", S.IDLE)
        await world.reconciler.reconcile()
        assert world.outcomes(kind) == {"success": 1}
        assert world.observations("drain_phase_seconds") == 1
        assert world.told() == [("Configured", False), ("Draining", False), ("Idle", True)]

    async def test_names_the_node_to_empty_and_not_the_machine(self, world: World) -> None:
        # spec trap: upstream sends machine ids, and drains work only where a node is named like its machine.
        await world.with_machine(S.CONFIGURED, "c")
        world.submit(ActionKind.RECLAIM, grace_seconds=600)
        await world.settle()
        assert world.operators.emptied == ["node-m"]

    async def test_for_a_more_important_need_goes_on_without_an_operator(self, world: World) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.operators.connected_clusters.clear()
        world.submit(ActionKind.PREEMPT, grace_seconds=600)
        await world.settle()
        assert world.provider.calls == [("drain", "m")]
        assert world.provider.graces == [600]

    async def test_that_nobody_needs_waits_for_the_operators_session(self, world: World) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.operators.connected_clusters.clear()
        assert world.submit(ActionKind.RECLAIM, grace_seconds=600) is Disposal.WAITING
        await world.settle()
        assert (world.state(), world.provider.calls) == (S.CONFIGURED, [])
        world.operators.connected_clusters.add("c")
        world.operators.drained.set()
        assert world.submit(ActionKind.RECLAIM, grace_seconds=600) is Disposal.STARTED
        await world.settle()
        assert world.provider.calls == [("drain", "m")]

    @pytest.mark.parametrize(
        ("kind", "calls", "state"),
        [(ActionKind.RECLAIM, [], S.CONFIGURED), (ActionKind.PREEMPT, [("drain", "m")], S.DRAINING)],
    )
    async def test_without_a_word_of_the_operator_is_taken_back_unless_somebody_needs_the_machine(
        self, world: World, kind: ActionKind, calls: list[tuple[str, str]], state: S
    ) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.submit(kind, grace_seconds=0)
        await world.settle()
        await asyncio.sleep(0.01)
        assert (world.provider.calls, world.state()) == (calls, state)

    async def test_leaves_the_machine_time_to_shut_down_when_the_grace_is_used_up(self, world: World) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.submit(ActionKind.RECLAIM, grace_seconds=600)
        await world.settle()
        world.now += 600
        world.operators.drained.set()
        await world.settle()
        assert world.provider.graces == [30]

    async def test_that_is_refused_leaves_the_machine_in_its_cluster(self, world: World) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.operators.drained.set()
        world.provider.refusals["drain"] = grpc.StatusCode.UNAVAILABLE
        world.submit(ActionKind.RECLAIM, grace_seconds=600)
        await world.settle()
        assert world.state() is S.CONFIGURED
        assert world.told()[-1] == ("Configured", False)
        view = dict(world.inventory.machines)
        world.holds.shape_view(view)
        assert "m" in view, "what a cluster has still counts"
        assert world.submit(ActionKind.RECLAIM) is Disposal.DEDUPED

    @pytest.mark.parametrize("gone", [False, True])
    async def test_is_over_when_the_machine_is_lost_meanwhile(self, world: World, gone: bool) -> None:
        await world.with_machine(S.CONFIGURED, "c")
        world.submit(ActionKind.RECLAIM, grace_seconds=600)
        await world.settle()
        if gone:
            world.provider.remove("m")
        else:
            world.provider.put("m", S.FAILED)
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.RECLAIM) == {"stale_state": 1}
        assert world.told()[-1] == (("Draining", True) if gone else ("Failed", False))
        world.operators.drained.set()
        await world.settle()
        assert world.provider.calls == []


class TestDelete:
    async def test_ends_when_the_slot_is_seen_empty(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.submit(ActionKind.DELETE)
        await world.settle()
        assert world.state() is S.DELETING
        world.provider.put("m", S.SPECULATIVE)
        await world.reconciler.reconcile()
        assert world.outcomes(ActionKind.DELETE) == {"success": 1}
        assert world.registry.get_sample_value("bigfleet_shard_idle_releases_total") == 1

    async def test_of_a_machine_that_cannot_be_deleted_is_tried_once(self, world: World) -> None:
        await world.with_machine(S.IDLE)
        world.provider.refusals["delete"] = grpc.StatusCode.UNIMPLEMENTED
        world.submit(ActionKind.DELETE)
        await world.settle()
        assert world.state() is S.IDLE
        world.now += 1e6
        assert world.submit(ActionKind.DELETE) is Disposal.DEDUPED
        assert world.inventory.machines.idle_since("m") == math.inf, "or it would take another's turn at the cap"
        assert world.submit(ActionKind.BOOTSTRAP) is Disposal.STARTED
