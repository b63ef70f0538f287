"""The `bigfleet` command: every process of the system under test."""

import sys

from bigfleet.process.commandline import end
from bigfleet.process.dispatch import Process, Tool, dispatch, keep_out

PROCESSES = {
    "shard": Process("decides for its clusters and drives the provider", "bigfleet.shard", "ShardOptions"),
    "coordinator": Process("keeps slow fleet facts on etcd", "bigfleet.coordinator", "CoordinatorOptions"),
    "operator": Process("speaks for one cluster: demand up, nodes down", "bigfleet.operator", "OperatorOptions"),
    "pod-controller": Process("turns Pods into CapacityRequests", "bigfleet.podcontroller", "PodControllerOptions"),
    "provider": Process("a fake provider with phone home", "bigfleet.provider.fake.server", "ProviderOptions"),
    "conformance": Process(
        "checks whether a provider keeps the contract",
        "bigfleet.provider.conformance.command",
        "ConformanceOptions",
        "run",
        for_people=True,
    ),
    "faults": Process(
        "sets the faults of a running fake provider",
        "bigfleet.provider.fake.faults_command",
        "FaultsOptions",
        "run",
        for_people=True,
    ),
    "issuer": Process("signs the certificates of a run's pods", "bigfleet.security.issuer", "IssuerOptions"),
    "enroll": Process(
        "gets this pod's certificate from the issuer", "bigfleet.security.enrol_pod", "EnrollOptions", "enroll"
    ),
    "all-in-one": Process(
        "coordinator, shard and a fake provider together, for a laptop", "bigfleet.allinone", "AllInOneOptions"
    ),
}
TOOLS = {"certs": Tool("creates a CA, issues identities, inspects certificates", "bigfleet.security.certs")}


def main() -> None:
    keep_out("rich")  # structlog would import it to colour a terminal: 50 ms and 5 MB of every process
    end("bigfleet", lambda: dispatch("bigfleet", PROCESSES, sys.argv[1:], TOOLS))


if __name__ == "__main__":
    main()
