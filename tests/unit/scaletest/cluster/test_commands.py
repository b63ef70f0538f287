"""The command lines inside a kwok-cluster pod: bound to the pod's address, and understood by those they start."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from scaletest.cluster import workload
from scaletest.cluster.control_plane import commands
from scaletest.cluster.control_plane.issuing import ensure_pki
from scaletest.cluster.control_plane.supervisor import ControlPlaneOptions
from scaletest.components import scheduler
from scaletest.components.component import Component, Plane
from scaletest.components.pki import Pki
from scaletest.errors import ScaletestError

POD_IP = "127.9.8.7"
TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
OPTIONS = workload.WorkloadOptions(
    cluster_id="kwok-cluster-5",
    pod_ip=POD_IP,
    shared_dir=Path("/shared"),
    shard_addrs="shard-0:7780,shard-1:7780,shard-2:7780",
    provider_addr="provider:7800",
    load_profile=Path("/etc/loadgen/profile.yaml"),
    tls_dir=Path("/tls"),
    service_account_dir=Path("/account"),
)


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plane:
    for name in TOOLS:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("SCALETEST_TOOLS", str(tmp_path))
    return Plane(POD_IP, tmp_path, Pki(tmp_path / "certs", tmp_path / "admin.kubeconfig"))


def arguments(component: Component) -> dict[str, str]:
    return dict(argument.removeprefix("--").split("=", 1) for argument in component.arguments)


def scheduler_configuration(plane: Plane, **settings: int) -> dict[str, Any]:
    return scheduler.configuration(plane, commands.scheduling_settings(Path("scheduler.yaml"), **settings))


def test_everything_binds_the_pods_address(plane: Plane) -> None:
    etcd = arguments(commands.storage(plane, "etcd"))
    assert etcd["listen-client-urls"] == f"https://{POD_IP}:2379"
    assert etcd["listen-peer-urls"] == f"https://{POD_IP}:2380"
    for command in (
        commands.api(plane, "etcd", 400, ()),
        commands.controllers(plane),
        commands.scheduling(plane, commands.scheduling_settings(Path("scheduler.yaml"))),
    ):
        assert arguments(command)["bind-address"] == POD_IP
    assert arguments(commands.kubelets(plane, 0))["server-address"] == f"{POD_IP}:10247"


def test_an_apiserver_that_allows_everything_lets_nobody_in_without_a_certificate(plane: Plane) -> None:
    apiserver = arguments(commands.api(plane, "etcd", 400, ()))
    assert apiserver["authorization-mode"] == "AlwaysAllow"
    assert apiserver["anonymous-auth"] == "false"
    assert apiserver["client-ca-file"] == str(plane.pki.ca)


def test_what_evictions_and_lost_nodes_need_stays_on(plane: Plane) -> None:
    controllers = arguments(commands.controllers(plane))["controllers"].split(",")
    assert {"disruption-controller", "pod-garbage-collector-controller"} <= set(controllers)
    assert "policy" not in arguments(commands.api(plane, "etcd", 400, ()))["runtime-config"]


def test_extra_flags_come_last_so_that_they_win(plane: Plane) -> None:
    assert commands.api(plane, "etcd", 400, ("--v=4",)).arguments[-1] == "--v=4"


def test_the_scheduler_packs_densely_and_keeps_its_own_back_off(plane: Plane) -> None:
    configuration = scheduler_configuration(plane)
    (profile,) = configuration["profiles"]
    strategy = profile["pluginConfig"][0]["args"]["scoringStrategy"]
    assert strategy["type"] == "MostAllocated"
    assert (configuration["clientConnection"]["qps"], configuration["clientConnection"]["burst"]) == (200, 400)
    assert not any("Backoff" in key for key in configuration)


def test_a_capped_back_off_is_a_knob(plane: Plane) -> None:
    configuration = scheduler_configuration(plane, pod_max_backoff_seconds=2)
    assert configuration["podInitialBackoffSeconds"] == 1
    assert configuration["podMaxBackoffSeconds"] == 2


def test_kine_listens_on_a_file_that_the_apiserver_dials(plane: Plane) -> None:
    (plane.directory / "kine").touch(mode=0o755)
    listens = arguments(commands.storage(plane, "kine"))["listen-address"]
    apiserver = arguments(commands.api(plane, "kine", 400, ()))
    assert listens == f"unix://{plane.directory}/kine.sock"
    assert apiserver["etcd-servers"] == listens
    assert "etcd-cafile" not in apiserver


def test_kine_without_its_binary_is_refused_with_the_way_out(plane: Plane) -> None:
    with pytest.raises(ScaletestError, match="kine is not on PATH") as refusal:
        commands.command(commands.storage(plane, "kine"))
    assert "set the substrate's cluster.storage to etcd" in refusal.value.hint


def test_a_storage_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--storage is 'sqlite'; it can be etcd or kine"):
        ControlPlaneOptions(POD_IP, Path("/shared"), f"{POD_IP}:8776", storage="sqlite")


def test_a_missing_binary_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALETEST_TOOLS", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ScaletestError, match="etcd is not on PATH"):
        commands.tool("etcd")


def test_kwok_has_a_stage_for_ready_nodes_running_pods_and_pods_that_leave() -> None:
    documents = list(yaml.safe_load_all(commands.KWOK_CONFIG.read_text()))
    stages = {document["metadata"]["name"]: document["spec"] for document in documents if document["kind"] == "Stage"}
    assert {name: stage["resourceRef"]["kind"] for name, stage in stages.items()} == {
        "node-ready": "Node",
        "pod-running": "Pod",
        "pod-gone": "Pod",
    }
    assert stages["pod-gone"]["next"] == {"delete": True}
    # A merge patch would throw the scheduler's PodScheduled away.
    assert stages["pod-running"]["next"]["patches"][0]["type"] == "strategic"
    (configuration,) = [document for document in documents if document["kind"] == "KwokConfiguration"]
    assert configuration["options"]["enableDebuggingHandlers"] is False


def test_every_process_listens_on_the_pods_address_and_dials_the_pods_own_cluster() -> None:
    ports = set()
    for build in (
        workload.node_creator_options,
        workload.pod_controller_options,
        workload.load_driver_options,
        workload.operator_options,
    ):
        options = build(OPTIONS)
        address, _, port = options.metrics_addr.rpartition(":")
        ports.add(port)
        assert address == POD_IP
        assert options.kubeconfig == Path("/shared/admin.kubeconfig")
    assert ports == {"8770", "8771", "8773", "8775"}


def test_those_who_leave_the_pod_get_its_identity() -> None:
    assert workload.operator_options(OPTIONS).tls_dir == Path("/tls")
    assert workload.node_creator_options(OPTIONS).tls_dir == Path("/tls")
    assert workload.load_driver_options(OPTIONS).tls_dir == Path("/tls")
    assert workload.load_driver_options(OPTIONS).service_account_dir == Path("/account")


def test_cluster_n_belongs_to_shard_n_modulo_the_number_of_shards() -> None:
    assert workload.operator_options(OPTIONS).shard_addr == "shard-2:7780"
    assert workload.load_driver_options(OPTIONS).shard_addr == "shard-2:7780"
    assert workload.shard_of("kwok-cluster-7", "only:7780") == "only:7780"


def make_pki(directory: Path, pod_ip: str = POD_IP) -> Pki:
    pki = Pki(directory / "certs", directory / "admin.kubeconfig")
    ensure_pki(Plane(pod_ip, directory, pki))
    return pki


def test_every_file_of_the_pki_is_for_our_eyes_only(tmp_path: Path) -> None:
    pki = make_pki(tmp_path)
    files = [*pki.directory.iterdir(), pki.admin_kubeconfig]
    assert len(files) > 15
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert pki.directory.stat().st_mode & 0o777 == 0o700


def test_servers_prove_the_pods_address_and_the_admin_is_a_master(tmp_path: Path) -> None:
    pki = make_pki(tmp_path)
    for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "etcd"):
        certificate = x509.load_pem_x509_certificate(pki.files(name).certificate.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == [POD_IP]
    admin = pki.admin()
    assert admin.server == f"https://{POD_IP}:6443"
    assert admin.client_cert_pem
    subject = x509.load_pem_x509_certificate(admin.client_cert_pem).subject.rfc4514_string()
    assert subject == "CN=admin,O=system:masters"


def test_a_restarted_container_keeps_its_certificates_and_a_new_address_gets_new_ones(tmp_path: Path) -> None:
    first = make_pki(tmp_path).ca.read_bytes()
    assert make_pki(tmp_path).ca.read_bytes() == first
    assert make_pki(tmp_path, "127.9.8.8").ca.read_bytes() != first
