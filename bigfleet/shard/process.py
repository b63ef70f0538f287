"""The shard process: wires its parts together and runs them until it is stopped."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc
import structlog
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import shardread_pb2_grpc
from bigfleet.core.machines import Machine
from bigfleet.engine import Engine, EngineOptions
from bigfleet.process import daemon
from bigfleet.process.files import held
from bigfleet.rpc.malformed import RefuseMalformed
from bigfleet.security import GRPC_OPTIONS, Identity, listen
from bigfleet.security.renewal import keep_renewed
from bigfleet.shard.cycle import Cycles, Wake
from bigfleet.shard.inventory.inventory import Inventory, Observer
from bigfleet.shard.inventory.origins import Origins
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notices
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.provider.backoff import Backoff
from bigfleet.shard.provider.client import ProviderClient
from bigfleet.shard.provider.domains import Domains
from bigfleet.shard.provider.epoch import Fence, next_epoch
from bigfleet.shard.provider.execute import Executor
from bigfleet.shard.provider.listed import Listed
from bigfleet.shard.provider.quotas import Quotas
from bigfleet.shard.provider.reconcile import Reconciler
from bigfleet.shard.provider.registry import known_providers
from bigfleet.shard.provider.several import Reconcilers, RoutedCalls
from bigfleet.shard.read import ShardRead
from bigfleet.shard.reports import CoordinatorClient, Instructions
from bigfleet.shard.sessions.frames import session_handler
from bigfleet.shard.sessions.needs import NeedsTable
from bigfleet.shard.sessions.sessions import Sessions

log = structlog.get_logger()


@dataclass(frozen=True)
class RunningShard:
    """A shard at work; the ports are the real ones when 0 was asked for."""

    port: int
    metrics_port: int


async def serve(options: ShardOptions) -> None:
    """Be a shard until cancelled."""
    async with running(options):
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def running(options: ShardOptions) -> AsyncIterator[RunningShard]:
    """Be a shard inside the block."""
    with held(options.data_dir):
        async with _running(options) as shard:
            yield shard


@asynccontextmanager
async def _running(options: ShardOptions) -> AsyncIterator[RunningShard]:
    epoch = next_epoch(options.data_dir, time.time())
    registry = CollectorRegistry()
    metrics = ShardMetrics(registry)
    metrics.actuation_paused.set(options.actuation_paused)
    domains = Domains(options.data_dir)
    if options.unassigned_owns == "nothing":
        domains.confine()
    wake = Wake()
    addresses = await known_providers(options)
    origins = Origins(list(addresses))
    inventory = Inventory(origins=origins)
    needs = NeedsTable(options.empty_rollup_guard)
    holds = Backoff()
    quotas = Quotas(options.data_dir, inventory, metrics)

    async with AsyncExitStack() as stack:
        audit = stack.enter_context(AuditLog(options.audit_log))
        fence = Fence(options.id, epoch)
        providers = {
            name: ProviderClient(address, options.tls_dir, fence, options.list_page_size)
            for name, address in addresses.items()
        }
        for provider in providers.values():
            stack.push_async_callback(provider.close)
        listed = Listed(inventory, lambda: reconciler.start_over())
        instructions = Instructions(
            domains, listed, quotas, lambda: reconciler.start_over(), lambda elsewhere: sessions.send_away(elsewhere)
        )
        sessions = Sessions(
            needs,
            metrics,
            epoch,
            lambda: instructions.term,
            wake,
            options.available_capacity_interval_seconds,
            options.reconnect_seconds,
        )
        notices = sessions.notices = Notices(sessions.send_notice, options.node_name_prefix, inventory.machines.get)
        executor = Executor(
            inventory,
            needs,
            RoutedCalls(providers, origins),
            sessions,
            notices,
            holds,
            metrics,
            audit,
            options.execute_concurrency,
            wake,
            domains.contains,
            quotas.refuse,
        )
        stack.push_async_callback(executor.close)
        each = {
            name: Reconciler(
                inventory,
                name,
                provider,
                executor,
                notices,
                domains,
                listed,
                metrics,
                options.incremental_reconcile,
                options.full_reconcile_interval_seconds,
            )
            for name, provider in providers.items()
        }
        reconciler = Reconcilers(each, domains, inventory, metrics)
        stack.push_async_callback(reconciler.close)
        engine = Engine(engine_options(options))
        metrics.engine_compiled.set(engine.compiled)
        if not engine.compiled:
            log.warning("the engine's kernels are not compiled: large fleets are slow", hint="run `make kernels`")
        cycles = Cycles(
            options, engine, inventory, needs, reconciler, executor, holds, quotas, sessions, metrics, audit, wake
        )

        inventory.observer = observer(executor, notices, holds)
        web = await daemon.serve_metrics(
            options.metrics_addr,
            registry,
            ready=lambda: reconciler.ready,
            refresh=lambda: metrics.clusters.refresh(inventory, sessions.unanswered_seconds()),
            many=True,
        )
        stack.push_async_callback(web.cleanup)
        server = grpc.aio.server(
            interceptors=[RefuseMalformed(lambda method, _code: metrics.malformed.labels(method).inc())],
            options=[*GRPC_OPTIONS, ("grpc.so_reuseport", 0)],
        )
        server.add_generic_rpc_handlers((session_handler(sessions.converse),))
        shardread_pb2_grpc.add_ShardReadServicer_to_server(ShardRead(lambda: cycles.latest, quotas.full), server)
        port = listen(server, options.listen, options.tls_dir, Identity("shard", options.id))
        await server.start()
        stack.push_async_callback(server.stop, None)
        loops = [daemon.watch_loop_lag(registry)]
        if options.tls_dir and options.renewal.issuer_addr:
            loops.append(keep_renewed(options.tls_dir, options.renewal, registry))
        if options.coordinator_addr:
            reports = CoordinatorClient(
                options,
                options.coordinator_addr,
                epoch,
                inventory,
                lambda: cycles.latest,
                instructions,
                domains,
                listed,
                sessions.clusters,
                metrics,
            )
            loops.append(reports.run())
            loops.append(_cycle_once_asked(cycles, reports) if domains.owned is None else cycles.run())
        else:
            loops.append(cycles.run())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        for loop in loops:
            stack.callback(group.create_task(loop).cancel)
        log.info("shard serves", id=options.id, epoch=epoch, port=port, providers=sorted(addresses))
        yield RunningShard(port, daemon.port_of(web))


async def _cycle_once_asked(cycles: Cycles, reports: CoordinatorClient) -> None:
    """Cycle once the coordinators were asked, answered or not: this shard knows no domains, others may own all."""
    await reports.asked.wait()
    await cycles.run()


def engine_options(options: ShardOptions) -> EngineOptions:
    """The engine's part of the settings; a shard that executes nothing reports every reclaim and release.

    See docs/reference/engine.md#rails.
    """
    shelves = options.actuation_paused or options.dry_run
    return EngineOptions(
        reclaim_cap_fraction=0.0 if shelves else options.reclaim_cap_fraction,
        release_cap_fraction=0.0 if shelves else options.release_cap_fraction,
        cap_window_seconds=options.cap_window_seconds,
        reclaim_after_seconds=options.reclaim_after_seconds,
        idle_hold_seconds=options.idle_hold.by_type,
    )


def observer(executor: Executor, notices: Notices, holds: Backoff) -> Observer:
    """What follows from the provider's word on a machine."""

    def observed(before: Machine | None, after: Machine | None) -> None:
        executor.observed(before, after)
        if after:
            notices.tell(after)
        elif before:
            notices.gone(before)
            holds.forget(before.id)

    return observed
