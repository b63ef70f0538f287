"""How much an operator may ask for, and in which words: one cluster must not cost the others their shard."""

from collections.abc import Iterable

from bigfleet.core.labels import selector_problem

# Far above what clusters send; a shard is planned for 50,000 rows of all its clusters (docs/reference/engine.md#sizes).
MAX_ROWS = 100_000
MAX_REQUIREMENTS = 64
MAX_VALUES = 1_000
MAX_SPREAD = 16
# Every resource name is a column for all machines of the shard, and stays one.
MAX_RESOURCES = 64
MAX_RESOURCES_EVER = 256
# A DNS name, a slash and a label's name (Kubernetes).
MAX_NAME = 317
MAX_GROUP = 16_384
MAX_CLUSTER_ID = 253
MAX_BLOB_BYTES = 4 * 1024 * 1024

# They separate the parts of a fingerprint: two profiles must never share one.
_IN_NO_NAME = frozenset(":,;|\0")


def check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"{count} {what}, at most {most} are allowed")


def check_resource(name: str) -> None:
    if not name:
        raise ValueError("a resource is empty")
    if len(name) > MAX_NAME:
        raise ValueError(f"a resource has {len(name)} characters, at most {MAX_NAME} are allowed")
    if not _IN_NO_NAME.isdisjoint(name):
        raise ValueError(f"a resource {name[:40]!r} contains one of {' '.join(sorted(_IN_NO_NAME - {chr(0)}))} or NUL")


def check_selector(field: str, key: str, values: Iterable[str] = (), key_field: str = "key") -> None:
    """What is asked of nodes' labels reaches the bootstrap template, so it is written as labels are (ADR-36).

    `field` is what has the key and the values.
    """
    problem = selector_problem(key, values, key_field)
    if problem:
        raise ValueError(f"{field}.{problem}")


def cluster_id_problem(cluster: str) -> str:
    """What is wrong with a cluster's name; empty if nothing is."""
    if not cluster:
        return "the first message must be a hello with a cluster_id"
    if len(cluster) > MAX_CLUSTER_ID:
        return f"cluster_id has {len(cluster)} characters, at most {MAX_CLUSTER_ID} are allowed"
    return "" if cluster.isprintable() else f"cluster_id {cluster!r} contains characters that cannot be printed"


class Vocabulary:
    """The resource names that each cluster has used."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def check(self, cluster: str, names: set[str]) -> None:
        """Take new names in; raises ValueError, and takes none, when they are too many."""
        known = self._names.get(cluster, set())
        together = known | names
        check_count("resource names since this shard's start", len(together), MAX_RESOURCES_EVER)
        self._names[cluster] = together
