"""The operator process: puts the pieces together and runs them until cancelled."""

import asyncio

import structlog
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1.shard_pb2 import BootstrapRequest, OperatorMessage, ReclaimInstruction
from bigfleet.kube import KubeClient, KubeConfig, KubeError, TypedInformer
from bigfleet.kube.resources import CAPACITY_REQUESTS
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.availability import Availability
from bigfleet.operator.bootstrap import Bootstrap
from bigfleet.operator.drain import Drains
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.operator.nodestates import NodeStates
from bigfleet.operator.options import OperatorOptions
from bigfleet.operator.outbox import ShardOutbox
from bigfleet.operator.requests import CapacityRequest, Requests
from bigfleet.operator.session import Handlers, Session
from bigfleet.process.daemon import serve_metrics, watch_loop_lag
from bigfleet.security.renewal import keep_renewed

_LOAD_RETRY_SECONDS = 1.0

log = structlog.get_logger(__name__)


async def serve(options: OperatorOptions) -> None:
    """Serve one cluster until cancelled."""
    bootstrap = Bootstrap.load(options.cluster_id, options.bootstrap_template_file)
    config = KubeConfig.from_file(options.kubeconfig)
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    async with KubeClient(config, qps=options.qps, burst=options.burst, user_agent="bigfleet-operator") as kube:
        outbox = ShardOutbox(metrics.outbox_dropped, metrics.sent_rollups.sent)
        requests = Requests(metrics.requests_skipped)
        informer = TypedInformer(kube, CAPACITY_REQUESTS, CapacityRequest, on_change=requests.on_change)
        acknowledger = Acknowledger(kube, requests, metrics, options.ack_concurrency)
        availability = Availability(kube, metrics)
        drains = Drains(kube, outbox, metrics)
        states = NodeStates(kube, metrics, options.cluster_id, on_recovered=drains.release)

        def answer_bootstrap(request: BootstrapRequest) -> None:
            metrics.blob_requests.inc()
            states.expect(request.machine_id)
            outbox.put(OperatorMessage(bootstrap_response=bootstrap.respond(request)))

        def drain(instruction: ReclaimInstruction) -> None:
            drains.start(instruction, states)

        handlers = Handlers(
            session_began=states.begin_session,
            resync_ended=states.end_resync,
            bootstrap=answer_bootstrap,
            reclaim=drain,
            node_state=states.hear,
            available_capacity=availability.receive,
        )
        session = Session(options, requests, acknowledger, outbox, metrics, handlers)

        async def converse() -> None:
            # A roll-up from a half-filled copy would withdraw demand that exists.
            await informer.synced.wait()
            await _load(states)
            await session.run()

        server = await serve_metrics(options.metrics_addr, registry, informer.synced.is_set)
        try:
            async with asyncio.TaskGroup() as group:
                for loop in (informer, acknowledger, availability, states):
                    group.create_task(loop.run())
                group.create_task(watch_loop_lag(registry))
                if options.tls_dir and options.renewal.issuer_addr:
                    group.create_task(keep_renewed(options.tls_dir, options.renewal, registry))
                group.create_task(converse())
        finally:
            await drains.close()
            await server.cleanup()


async def _load(states: NodeStates) -> None:
    while True:
        try:
            await states.load()
            return
        except KubeError as error:
            log.warning("could not list the UpcomingNodes, trying again", error=str(error))
            await asyncio.sleep(_LOAD_RETRY_SECONDS)
