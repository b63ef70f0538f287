"""A component is told once: where it can be asked for its health and metrics, and how its flags are written."""

from pathlib import Path

import pytest

from scaletest.components import apiserver, controller_manager, etcd, kine, kwok, scheduler
from scaletest.components.apiserver import ApiserverSettings
from scaletest.components.component import Component, Plane, rendered, switched_off
from scaletest.components.controller_manager import ControllerManagerSettings
from scaletest.components.etcd import EtcdSettings
from scaletest.components.kwok import KwokSettings
from scaletest.components.pki import Pki
from scaletest.components.scheduler import SchedulerSettings


def plane_at(address: str) -> Plane:
    return Plane(address, Path("/data"), Pki(Path("/pki"), Path("/admin.kubeconfig")))


SITE = plane_at("127.9.8.7")


@pytest.mark.parametrize(
    ("component", "health", "metrics"),
    [
        (
            etcd.build(SITE, EtcdSettings("one")),
            "https://127.9.8.7:2379/readyz",
            "https://127.9.8.7:2379/metrics",
        ),
        (
            apiserver.build(SITE, ApiserverSettings("RBAC", admission_off=())),
            "https://127.9.8.7:6443/readyz",
            "https://127.9.8.7:6443/metrics",
        ),
        (
            controller_manager.build(SITE, ControllerManagerSettings(("deployment-controller",), 1, 2)),
            "https://127.9.8.7:10257/healthz",
            "https://127.9.8.7:10257/metrics",
        ),
        (
            scheduler.build(SITE, SchedulerSettings(1, 2)),
            "https://127.9.8.7:10259/readyz",
            "https://127.9.8.7:10259/metrics",
        ),
        (
            kwok.build(SITE, KwokSettings(Path("/stages.yaml"), 0)),
            "http://127.9.8.7:10247/healthz",
            "http://127.9.8.7:10247/metrics",
        ),
        (kine.build(SITE), "", ""),
    ],
    ids=lambda value: value.name if isinstance(value, Component) else "",
)
def test_a_component_says_where_its_health_and_metrics_are(component: Component, health: str, metrics: str) -> None:
    assert (component.health_url, component.metrics_url) == (health, metrics)


def test_an_ipv6_address_is_in_brackets_in_urls_and_bare_where_it_is_bound() -> None:
    component = apiserver.build(plane_at("fd00::7"), ApiserverSettings("RBAC", admission_off=()))
    assert component.health_url == "https://[fd00::7]:6443/readyz"
    assert "--bind-address=fd00::7" in component.arguments


def test_what_is_not_set_stays_at_the_programs_own_default() -> None:
    assert rendered({"ttl": None, "gates": switched_off(()), "quiet": False, "burst": 0}) == (
        "--quiet=false",
        "--burst=0",
    )


def test_lists_are_joined_and_features_are_switched_off_by_name() -> None:
    assert rendered({"gates": switched_off(("One", "Two"))}) == ("--gates=One=false,Two=false",)
