"""The `bigfleet` command: every process of the system under test."""

import sys

from bigfleet.process.commandline import end
from bigfleet.process.dispatch import ProcessEntry, Tool, dispatch, keep_out

PROCESSES = {
    "shard": ProcessEntry("decides for its clusters and drives the provider", "bigfleet.shard", "ShardOptions"),
    "coordinator": ProcessEntry("keeps slow fleet facts on etcd", "bigfleet.coordinator", "CoordinatorOptions"),
    "operator": ProcessEntry("speaks for one cluster: demand up, nodes down", "bigfleet.operator", "OperatorOptions"),
    "pod-controller": ProcessEntry(
        "turns Pods into CapacityRequests", "bigfleet.podcontroller", "PodControllerOptions"
    ),
    "provider": ProcessEntry("a fake provider with phone home", "bigfleet.provider.fake.server", "ProviderOptions"),
    "conformance": ProcessEntry(
        "checks whether a provider keeps the contract",
        "bigfleet.provider.conformance.command",
        "ConformanceOptions",
        "run",
        for_people=True,
    ),
    "faults": ProcessEntry(
        "sets the faults of a running fake provider",
        "bigfleet.provider.fake.faults_command",
        "FaultsOptions",
        "run",
        for_people=True,
    ),
    "issuer": ProcessEntry("signs the certificates of a run's pods", "bigfleet.security.issuer", "IssuerOptions"),
    "enroll": ProcessEntry(
        "gets this pod's certificate from the issuer", "bigfleet.security.enrol_pod", "EnrollOptions", "enroll"
    ),
    "all-in-one": ProcessEntry(
        "coordinator, shard and a fake provider together, for a laptop", "bigfleet.allinone", "AllInOneOptions"
    ),
}
TOOLS = {"certs": Tool("creates a CA, issues identities, inspects certificates", "bigfleet.security.certs")}


def main() -> None:
    keep_out("rich")  # structlog would import it to colour a terminal: 50 ms and 5 MB of every process
    end("bigfleet", lambda: dispatch("bigfleet", PROCESSES, sys.argv[1:], TOOLS))


if __name__ == "__main__":
    main()
