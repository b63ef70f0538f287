"""Where on somebody's cluster a run goes: --context, --image, --prometheus-url, and what we must be allowed there."""

from pathlib import Path
from typing import Any

import pytest

from scaletest.errors import UsageError
from scaletest.run.request.destination import Destination, read_destination, refuse_without_images
from scaletest.run.target.rights import RIGHTS
from scaletest.run.target.target import address_of
from tests.golden.rendering import render
from tests.unit.plans import shipped_plan, smoke_plan

KUBECONFIG = """
apiVersion: v1
kind: Config
contexts: [{name: homelab, context: {cluster: c, user: u}}, {name: kind-dev, context: {cluster: c, user: u}}]
current-context: homelab
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
PLAN = shipped_plan("dev-50", "example-kind-laptop")
DIGEST = f"sha256:{'a' * 64}"


@pytest.fixture(autouse=True)
def contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))


def test_a_run_goes_to_the_current_context_or_to_another() -> None:
    assert read_destination(PLAN, "", []).context == "homelab"
    assert read_destination(PLAN, "kind-dev", []).context == "kind-dev"


@pytest.mark.parametrize("flags", [("homelab", [], ""), ("", ["any:1"], ""), ("", [], "https://any:9090")])
def test_a_host_of_ones_own_goes_to_no_context(flags: tuple[str, list[str], str]) -> None:
    assert read_destination(smoke_plan(), "", []) == Destination()
    with pytest.raises(UsageError, match="brings a cluster of its own"):
        read_destination(smoke_plan(), *flags)


@pytest.mark.parametrize(
    ("flags", "image"),
    [
        (["me/both:1"], {part: {"repository": "me/both", "tag": "1"} for part in ("bigfleet", "scaletest")}),
        (["bigfleet=here:5000/b:1.2"], {"bigfleet": {"repository": "here:5000/b", "tag": "1.2"}}),
        ([f"scaletest=s@{DIGEST}"], {"scaletest": {"repository": "s", "digest": DIGEST}}),
        (
            ["both:1", "scaletest=mine:2"],
            {"bigfleet": {"repository": "both", "tag": "1"}, "scaletest": {"repository": "mine", "tag": "2"}},
        ),
    ],
)
def test_an_image_is_both_parts_or_one_of_them(flags: list[str], image: dict[str, Any]) -> None:
    assert read_destination(PLAN, "", flags).images == {"image": image}


@pytest.mark.parametrize("text", ["plain", "here:5000/plain", "b@sha1:x", ":1", "grafana=g:1", "=b:1"])
def test_an_image_that_nobody_could_name_again_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--image"):
        read_destination(PLAN, "", [text])


def test_a_cluster_needs_to_be_told_where_our_images_are() -> None:
    nothing = read_destination(PLAN, "", [])
    with pytest.raises(UsageError, match="no image of bigfleet and scaletest for context homelab"):
        refuse_without_images(nothing, {})
    with pytest.raises(UsageError, match="no image of scaletest"):
        refuse_without_images(read_destination(PLAN, "", ["bigfleet=b:1"]), {})
    refuse_without_images(read_destination(PLAN, "", ["both:1"]), {})
    refuse_without_images(nothing, {"image": {"registry": "mirror.example/team"}})
    refuse_without_images(Destination(), {})


@pytest.mark.parametrize("url", ["http://any:9090", "any:9090", "https://", "https://any:x", "https://any/prefix"])
def test_only_an_https_address_leads_to_the_runs_prometheus(url: str) -> None:
    with pytest.raises(UsageError, match="is not https://HOST:PORT"):
        read_destination(PLAN, "", [], url)


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://10.1.2.3:9090", ("10.1.2.3:9090", "10.1.2.3:9091")),
        ("https://[fd00::1]:9090/", ("[fd00::1]:9090", "[fd00::1]:9091")),
        ("https://prometheus.example", ("prometheus.example:443", "prometheus.example:444")),
    ],
)
def test_snapshots_are_one_port_further(url: str, addresses: tuple[str, str]) -> None:
    assert (address_of(read_destination(PLAN, "", [], url).prometheus_url, 0), address_of(url, 1)) == addresses


def test_we_ask_for_the_right_to_everything_that_the_chart_creates() -> None:
    created = {plural(found["kind"]) for found in render(PLAN.values("run"))}
    asked = {right.resource for right in RIGHTS if {"create", "delete"} <= set(right.verbs)}
    assert created <= asked


def plural(kind: str) -> str:
    lowered = kind.lower()
    return f"{lowered[:-1]}ies" if lowered.endswith("y") else f"{lowered}s"
