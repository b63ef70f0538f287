"""What the Pods of a drawn workload ask for, by the way that a real Pod takes: manifest, CapacityRequest, roll-up."""

from bigfleet.operator.rollup import contribution_of
from bigfleet.podcontroller.pods import read_pod
from bigfleet.podcontroller.request import translate
from bigfleet.scheduling.pods import PodClass
from scaletest.cluster.workloads.manifests import counted_by_spread, manifest_of
from scaletest.model.demand.draw import Workload


def pods_of(workload: Workload) -> PodClass:
    template = manifest_of(workload)["spec"]["template"]
    contribution = contribution_of(translate(read_pod(template), {}).spec)
    (counted_with,) = counted_by_spread(workload).values()
    return PodClass(
        contribution.profile,
        dict(contribution.amounts),
        contribution.group,
        kind=workload.archetype.name,
        counted_with=counted_with,
    )
