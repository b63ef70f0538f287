"""What the embedded host's control plane is told that a KWOK cluster's is not."""

from scaletest.components import apiserver, controller_manager, etcd, scheduler
from scaletest.components.apiserver import ApiserverSettings
from scaletest.components.component import Component, Plane
from scaletest.components.controller_manager import ControllerManagerSettings
from scaletest.components.etcd import EtcdSettings
from scaletest.components.scheduler import SchedulerSettings
from scaletest.host.addresses import Network

# What a chart's objects need. No node lifecycle (our one Node never goes away on its own), and nothing that
# fills EndpointSlices, which may not hold loopback addresses.
_CONTROLLERS = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
_QPS = 300
_BURST = 600


def storage(plane: Plane) -> Component:
    return etcd.build(plane, EtcdSettings(member_name="embedded"))


def api(plane: Plane, network: Network) -> Component:
    return apiserver.build(
        plane,
        ApiserverSettings(
            authorization_mode="RBAC",
            # It taints every new Node as not ready, and only the node lifecycle controller would take the taint off.
            admission_off=("TaintNodesByCondition",),
            service_range=network.service_range,
            dials_kubelets=True,
        ),
    )


def controllers(plane: Plane) -> Component:
    return controller_manager.build(plane, ControllerManagerSettings(_CONTROLLERS, _QPS, _BURST, has_accounts=True))


def scheduling(plane: Plane) -> Component:
    return scheduler.build(plane, SchedulerSettings(_QPS, _BURST))
