"""Who ended during the soak: BigFleet is charged with its own endings, and with nobody else's."""

from scaletest.run.steps.restarts import endings, restarts_reading
from scaletest.run.target.kube_api import ContainerLife

SHARD = ContainerLife("shard", "uid-1", 0)
WORKLOAD = ContainerLife("kwok-cluster", "uid-2", 0)


def again(life: ContainerLife, times: int = 1, exit_code: int | None = None, uid: str = "") -> ContainerLife:
    return ContainerLife(life.component, uid or life.uid, life.restarts + times, exit_code)


def test_what_came_back_is_counted_and_named() -> None:
    [ending] = endings({"shard-0/shard": SHARD}, {"shard-0/shard": again(SHARD, 2, 1)})
    assert (ending.times, ending.component) == (2, "shard")
    assert ending.sentence == "shard-0/shard ended and came back (2×)"
    reading = restarts_reading([ending])
    assert (reading.value, reading.component) == (2, "shard")


def test_a_pod_that_was_replaced_counts_although_its_restarts_begin_at_zero() -> None:
    [ending] = endings({"shard-0/shard": SHARD}, {"shard-0/shard": ContainerLife("shard", "uid-9", 0)})
    assert (ending.times, ending.component) == (1, "shard")
    assert "was replaced" in ending.sentence


def test_what_is_gone_counts() -> None:
    [ending] = endings({"shard-0/shard": SHARD}, {})
    assert restarts_reading([ending]).value == 1


def test_a_bystander_is_not_charged_to_bigfleet() -> None:
    issuer, grafana = ContainerLife("issuer", "a", 0), ContainerLife("grafana", "b", 0)
    before = {"issuer-0/issuer": issuer, "grafana-0/grafana": grafana}
    after = {"issuer-0/issuer": again(issuer), "grafana-0/grafana": ContainerLife("grafana", "c", 0)}
    found = endings(before, after)
    assert [ending.component for ending in found] == [None, None]
    assert restarts_reading(found).value == 0


def test_a_container_that_mixes_both_is_charged_by_the_process_that_died() -> None:
    before = {"kwok-cluster-0/workload": WORKLOAD}
    [own] = endings(before, {"kwok-cluster-0/workload": again(WORKLOAD, exit_code=70)})
    assert own.component == "operator"
    assert own.sentence.endswith("because a process of BigFleet died")
    [other] = endings(before, {"kwok-cluster-0/workload": again(WORKLOAD, exit_code=71)})
    assert other.component is None
    [unknown] = endings(before, {"kwok-cluster-0/workload": again(WORKLOAD, exit_code=137)})
    assert unknown.component == "operator", "nobody else can be shown to have ended it"
    apiserver = ContainerLife("kwok-cluster", "uid-2", 0)
    [plane] = endings({"kwok-cluster-0/apiserver": apiserver}, {"kwok-cluster-0/apiserver": again(apiserver)})
    assert plane.component is None


def test_where_only_prometheus_ended_nobody_failed_but_nothing_is_known_either() -> None:
    prometheus = ContainerLife("prometheus", "p", 0)
    before = {"shard-0/shard": SHARD, "prometheus-0/prometheus": prometheus}
    only = endings(before, before | {"prometheus-0/prometheus": again(prometheus)})
    assert restarts_reading(only).value is None
    assert restarts_reading(only).problem == "prometheus-0/prometheus ended and came back (1×)"
    both = endings(before, {"shard-0/shard": again(SHARD), "prometheus-0/prometheus": again(prometheus)})
    assert restarts_reading(both).value == 1


def test_nothing_ended() -> None:
    assert endings({"shard-0/shard": SHARD}, {"shard-0/shard": SHARD}) == []
    assert restarts_reading([]).value == 0
