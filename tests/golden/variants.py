"""Values that between them render every branch of the chart."""

from tests.golden.pods import Workload, workloads
from tests.golden.rendering import Object, merged, plan_values, render

GOLDEN = {
    "dev-50": ("dev-50", "embedded"),
    "5k": ("5k", "example-fat-host"),
    "50k-2shard": ("50k-2shard", "example-fat-host"),
}

EVERYTHING: Object = {
    "image": {
        "registry": "mirror.example/team",
        "pullSecrets": ["mirror-login"],
        "bigfleet": {"digest": f"sha256:{'a' * 64}"},
    },
    "placement": {
        "system": {"nodeSelector": {"role": "hub"}},
        "clusters": {
            "nodeSelector": {"role": "clusters"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
    "networkPolicies": {
        "hostApi": {"cidrs": ["10.0.0.1/32"], "ports": [6443]},
        "scrapers": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    },
    "coordinator": {
        "replicas": 3,
        "persistence": {"enabled": True, "storageClassName": "fast"},
        "domains": [
            {"key": "topology.kubernetes.io/zone", "value": f"zone-{number}", "shard": f"bigfleet-shard-{number}"}
            for number in range(3)
        ],
        "extraArgs": ["--etcd-binary=etcd"],
    },
    # Numbers that a careless template would write as 2.0261116e+07.
    "provider": {
        "seed": 20261116,
        "refuseConfigure": True,
        "persistence": {"enabled": True},
        "extraArgs": ["--repair-seconds=600"],
    },
    "shard": {
        "replicas": 3,
        "persistence": {"enabled": True},
        "maxActionsPerCycle": 2000000,
        "extraArgs": ["--reclaim-cap-fraction=0.1"],
    },
    "operator": {
        "qps": 2000000,
        "burst": 4000000,
        "bootstrapTemplate": "#cloud-config\n{{- range .Requirements }}\n# {{ .Key }}: {{ .Values }}\n{{- end }}\n",
    },
    "podController": {
        "priorityClassDefaults": {"batch": {"interruptionPenalty": "2", "reclamationPenalty": "500m"}, "free": {}}
    },
    "nodeCreator": {"bootDelayMedianSeconds": 20, "bootDelayP99Seconds": 90.5},
    "kwok": {
        "clusterCount": 7,
        "nodeLeaseSeconds": 40,
        "apiserverMemoryMiB": 2000000,
        "apiserverExtraFlags": ["--max-requests-inflight=4000", "--goaway-chance=0.001"],
    },
    "grafana": {
        "enabled": True,
        "dashboards": {"bigfleet-scaletest": '{"uid": "bigfleet-scaletest", "title": "A \\"b\\""}'},
    },
    "prometheus": {"enabled": True},
    "portForward": True,
}

AS_LITTLE_AS_POSSIBLE: Object = {
    "coordinator": {"enabled": False},
    "prometheus": {"enabled": False},
    "grafana": {"enabled": False},
    "networkPolicies": {"enabled": False},
}

VARIANTS = (*GOLDEN, "everything", "as little as possible")


def values_of(variant: str) -> Object:
    if variant in GOLDEN:
        return plan_values(*GOLDEN[variant])
    return merged(plan_values("smoke"), EVERYTHING if variant == "everything" else AS_LITTLE_AS_POSSIBLE)


def objects_of(variant: str) -> list[Object]:
    return render(values_of(variant))


def pods_of(variant: str) -> dict[str, Workload]:
    return workloads(objects_of(variant))
