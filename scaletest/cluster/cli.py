"""The `scaletest-cluster` command: what runs inside the pods of a run beside BigFleet itself."""

import os
import sys

from bigfleet.process.commandline import end
from bigfleet.process.dispatch import ProcessEntry, dispatch, keep_out

PROCESSES = {
    "control-plane": ProcessEntry(
        "a KWOK cluster's control plane",
        "scaletest.cluster.control_plane.supervisor",
        "ControlPlaneOptions",
        before="prepare_plane",
    ),
    "workload": ProcessEntry(
        "everything that works in a KWOK cluster",
        "scaletest.cluster.workload",
        "WorkloadOptions",
        before="fork_processes",
    ),
    "node-creator": ProcessEntry(
        "turns UpcomingNodes into Nodes that phone home", "scaletest.cluster.nodes.node_creator", "NodeCreatorOptions"
    ),
    "load-driver": ProcessEntry(
        "creates and churns the demand", "scaletest.cluster.load.load_driver", "LoadDriverOptions"
    ),
    "fleet": ProcessEntry("renders the provider's fleet file", "scaletest.cluster.fleet_file", "FleetOptions"),
    "snapshots": ProcessEntry("hands out Prometheus snapshots", "scaletest.cluster.snapshots", "SnapshotsOptions"),
}


def main() -> None:
    keep_out("rich")  # structlog would import it to colour a terminal: 50 ms and 5 MB of every process
    # numpy draws random numbers here and multiplies nothing: its threads would only be in the way of a fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # aiohttp reads every public CA when it is imported: 2 MB, and these processes trust only the run's own CA.
    os.environ.setdefault("SSL_CERT_FILE", os.devnull)
    end("scaletest-cluster", lambda: dispatch("scaletest-cluster", PROCESSES, sys.argv[1:]))


if __name__ == "__main__":
    main()
