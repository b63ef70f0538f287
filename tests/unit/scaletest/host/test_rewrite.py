"""Names and mount paths in text become what they are on this machine."""

from pathlib import Path

import pytest

from scaletest.host.kubelet.network.rewrite import (
    NameTarget,
    Rewriter,
    ServiceName,
    names_in,
    with_addresses,
    with_directories,
)
from scaletest.host.kubelet.spec.expansion import expand

TARGETS = {
    ServiceName("default", "kubernetes"): NameTarget("127.64.0.1", {443: 6443}),
    ServiceName("demo", "web"): NameTarget("127.64.1.1"),
    ServiceName("demo", "low"): NameTarget("127.64.1.3", {80: 20080}),
    ServiceName("demo", "web", "web-1"): NameTarget("127.64.1.2"),
}
DIRECTORIES = {
    "/tmp": Path("/real/tmp"),
    "/etc/app": Path("/real/app"),
    "/etc/app/one.yml": Path("/real/files/one.yml"),
}


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("web-1.web.demo.svc:7790,web.demo.svc:80", "127.64.1.2:7790,127.64.1.1:80"),
        ("http://web-1.web.demo.svc.cluster.local/x", "http://127.64.1.2/x"),
        ("http://web.demo.svc.cluster.local.:1/", "http://127.64.1.1:1/"),
        ("https://web.demo.svc/x", "https://127.64.1.1/x"),
        ("ask web.demo.svc.", "ask 127.64.1.1."),
        ("unknown.demo.svc:1", "unknown.demo.svc:1"),
        ("web.demo.svc.example", "web.demo.svc.example"),
        ("web.demo.svcs", "web.demo.svcs"),
        ("a.b.web.demo.svc", "a.b.web.demo.svc"),
        ("-web.demo.svc", "-web.demo.svc"),
    ],
)
def test_a_cluster_name_becomes_an_address(text: str, rewritten: str) -> None:
    assert with_addresses(text, TARGETS) == rewritten


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("https://kubernetes.default.svc", "https://127.64.0.1:6443"),
        ("https://kubernetes.default.svc/api", "https://127.64.0.1:6443/api"),
        ("https://kubernetes.default.svc.cluster.local:443/x", "https://127.64.0.1:6443/x"),
        ("kubernetes.default.svc:443", "127.64.0.1:6443"),
        ("kubernetes.default.svc", "127.64.0.1"),
        ("http://low.demo.svc/x", "http://127.64.1.3:20080/x"),
        ("low.demo.svc:80", "127.64.1.3:20080"),
        ("http://low.demo.svc:81", "http://127.64.1.3:81"),
        ("https://low.demo.svc", "https://127.64.1.3"),
    ],
)
def test_a_port_that_is_served_elsewhere_is_named_as_it_is(text: str, rewritten: str) -> None:
    assert with_addresses(text, TARGETS) == rewritten


def test_all_names_of_a_text_are_found() -> None:
    assert names_in("kubernetes.default.svc low.demo.svc web-1.web.demo.svc:1, web.demo.svc") == set(TARGETS)


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/tmp", "/real/tmp"),
        ("--dir=/tmp/x", "--dir=/real/tmp/x"),
        ("from:/tmp", "from:/real/tmp"),
        ("file:///tmp/x", "file:///real/tmp/x"),
        ("'/etc/app'", "'/real/app'"),
        ("/etc/app/one.yml", "/real/files/one.yml"),
        ("/etc/app/two.yml", "/real/app/two.yml"),
        ("/tmp,/etc/app;/tmp", "/real/tmp,/real/app;/real/tmp"),
        ("/tmpfs", "/tmpfs"),
        ("/var/tmp", "/var/tmp"),
        ("http://host/tmp", "http://host/tmp"),
        ("${DIR}/tmp", "${DIR}/tmp"),
        ("/etc/app.d", "/etc/app.d"),
    ],
)
def test_a_mount_path_becomes_the_directory_behind_it(text: str, rewritten: str) -> None:
    assert with_directories(text, DIRECTORIES) == rewritten


def test_a_text_without_mounts_stays_as_it_is() -> None:
    assert with_directories("/tmp", {}) == "/tmp"


def test_a_rewriter_asks_for_each_name_once_and_leaves_the_unknown_alone() -> None:
    asked: list[str] = []

    def resolve(name: ServiceName) -> NameTarget | None:
        asked.append(str(name))
        return TARGETS.get(name)

    rewriter = Rewriter(DIRECTORIES, resolve)
    text = "web.demo.svc web.demo.svc nobody.demo.svc > /tmp/out"
    assert rewriter.apply(text) == "127.64.1.1 127.64.1.1 nobody.demo.svc > /real/tmp/out"
    assert sorted(asked) == ["nobody.demo.svc", "web.demo.svc"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(NAME)-$(NAME)", "a-a"),
        ("$$(NAME)", "$(NAME)"),
        ("$$$(NAME)", "$a"),
        ("$(MISSING)", "$(MISSING)"),
        ("$NAME ${NAME}", "$NAME ${NAME}"),
        ("$(", "$("),
    ],
)
def test_variables_expand_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"NAME": "a"}) == expanded
