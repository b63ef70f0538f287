"""A control plane's expositions are reduced to a short allow-list with native names."""

from collections.abc import Iterable

from prometheus_client import Metric

from scaletest.cluster.control_plane.exposition import read_samples, reduce_apiserver, reduce_etcd, reduce_scheduler


def values(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for value in sample.labels.values() if value)): sample.value
        for family in families
        for sample in family.samples
    }


def line(name: str, value: float, **labels: str) -> str:
    rendered = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{rendered}}} {value}"


def request(
    verb: str, value: float, *, code: str = "200", group: str = "", resource: str = "pods", subresource: str = ""
) -> str:
    labels = {"code": code, "component": "apiserver", "dry_run": "", "group": group, "resource": resource}
    return line("apiserver_request_total", value, **labels, scope="resource", subresource=subresource, verb=verb)


def latency(verb: str, buckets: dict[str, int], seconds: float) -> list[str]:
    name = "apiserver_request_duration_seconds"
    lines = [line(f"{name}_bucket", count, group="", verb=verb, le=bound) for bound, count in buckets.items()]
    return [*lines, line(f"{name}_sum", seconds, group="", verb=verb)]


def test_only_the_named_samples_are_read() -> None:
    text = "\n".join(
        ["# HELP a What a is {not labels}.", 'a{x="1",y="two \\"words\\" {}"} 3', "a 4", "ab 5", "b 6", ""]
    )
    assert [(dict(sample.labels), sample.value) for sample in read_samples(text, "a")] == [
        ({"x": "1", "y": 'two \\"words\\" {}'}, 3.0),
        ({}, 4.0),
    ]


def test_what_a_run_reads_exists_at_zero_before_the_processes_do() -> None:
    nothing = values([*reduce_scheduler(""), *reduce_apiserver(""), *reduce_etcd("")])
    assert set(nothing.values()) == {0.0}
    for result in ("scheduled", "unschedulable", "error"):
        assert ("scheduler_schedule_attempts_total", result, "default-scheduler") in nothing
    assert ("apiserver_request_total", "pods", "binding", "POST", "2xx") in nothing
    assert ("apiserver_request_duration_seconds_count", "MUTATING") in nothing


def test_scheduling_time_is_summed_over_the_attempts() -> None:
    text = "\n".join(
        [
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 7',
            'scheduler_pending_pods{queue="unschedulable"} 4',
            'scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1",le="+Inf"} 2',
            'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="1"} 0.5',
            'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="2"} 1.25',
            'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 2',
            'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="2"} 1',
        ]
    )
    reduced = values(reduce_scheduler(text))
    assert reduced["scheduler_schedule_attempts_total", "scheduled", "default-scheduler"] == 7
    assert reduced["scheduler_pending_pods", "unschedulable"] == 4
    assert reduced[("scheduler_pod_scheduling_sli_duration_seconds_sum",)] == 1.75
    assert reduced[("scheduler_pod_scheduling_sli_duration_seconds_count",)] == 3
    assert not any(name.endswith("_bucket") for name, *_ in reduced)


def test_bindings_stand_alone_and_bigfleets_kinds_are_one_resource() -> None:
    text = "\n".join(
        [
            request("POST", 5, code="201", subresource="binding"),
            request("POST", 9, code="201"),
            request("PATCH", 5, subresource="status"),
            request("PATCH", 2, code="409", subresource="status"),
            request("GET", 100),
            request("POST", 50, resource="events"),
            request("POST", 3, code="201", group="bigfleet.lucy.sh", resource="capacityrequests"),
            request("POST", 4, code="201", group="bigfleet.lucy.sh", resource="upcomingnodes"),
        ]
    )
    reduced = values(reduce_apiserver(text))
    assert {key[1:]: value for key, value in reduced.items() if key[0] == "apiserver_request_total"} == {
        ("pods", "binding", "POST", "2xx"): 5,
        ("pods", "POST", "2xx"): 9,
        ("pods", "PATCH", "2xx"): 5,
        ("pods", "PATCH", "4xx"): 2,
        ("bigfleet.lucy.sh", "POST", "2xx"): 7,
    }


def test_latency_is_one_histogram_over_the_mutating_verbs() -> None:
    buckets = {"0.05": 1, "0.6": 2, "2": 3, "+Inf": 4}
    text = "\n".join([*latency("POST", buckets, 6.0), *latency("DELETE", buckets, 1.0), *latency("LIST", buckets, 9.0)])
    reduced = values(reduce_apiserver(text))
    name = "apiserver_request_duration_seconds"
    # Label order in a sample: its own first, `le` last.
    assert reduced[f"{name}_bucket", "MUTATING", "0.05"] == 2
    assert reduced[f"{name}_bucket", "MUTATING", "2"] == 6
    assert reduced[f"{name}_count", "MUTATING"] == 8
    assert reduced[f"{name}_sum", "MUTATING"] == 7.0
    assert (f"{name}_bucket", "MUTATING", "0.6") not in reduced


def test_the_allow_list_stays_near_forty_series() -> None:
    verbs = [
        request(verb, 1, group=group)
        for verb in ("POST", "PATCH", "PUT", "DELETE", "LIST")
        for group in ("", "bigfleet.lucy.sh")
    ]
    families = [*reduce_scheduler(""), *reduce_apiserver("\n".join(verbs)), *reduce_etcd("")]
    assert sum(len(family.samples) for family in families) <= 35
