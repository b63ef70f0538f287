"""The `scaletest-cluster` command: what runs inside the pods of a run beside BigFleet itself."""

import sys

from bigfleet.dispatch import Process, dispatch

PROCESSES = {
    "control-plane": Process(
        "a KWOK cluster's control plane", "scaletest.cluster.control_plane", "ControlPlaneOptions"
    ),
    "workload": Process("everything that works in a KWOK cluster", "scaletest.cluster.workload", "WorkloadOptions"),
    "node-creator": Process(
        "turns UpcomingNodes into Nodes that phone home", "scaletest.cluster.node_creator", "NodeCreatorOptions"
    ),
    "load-driver": Process("creates and churns the demand", "scaletest.cluster.load_driver", "LoadDriverOptions"),
    "fleet": Process("renders the provider's seed file", "scaletest.cluster.fleet", "FleetOptions"),
    "snapshots": Process("hands out Prometheus snapshots", "scaletest.cluster.snapshots", "SnapshotsOptions"),
}


def main() -> None:
    dispatch("scaletest-cluster", PROCESSES, sys.argv[1:])


if __name__ == "__main__":
    main()
