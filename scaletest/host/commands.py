"""The command lines of the control plane's processes."""

from pathlib import Path

from scaletest.host import addresses
from scaletest.host.credentials import Credentials

# What a chart's objects need. No node lifecycle (our one Node never goes away on its own), and nothing that
# fills EndpointSlices, which may not hold loopback addresses.
_CONTROLLERS = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)


def etcd(credentials: Credentials, bin_dir: Path, data_dir: Path) -> list[str]:
    address = credentials.network.control_plane
    client_url = f"https://{address}:{addresses.ETCD_CLIENT_PORT}"
    peer_url = f"https://{address}:{addresses.ETCD_PEER_PORT}"
    return [
        str(bin_dir / "etcd"),
        "--name=embedded",
        f"--data-dir={data_dir}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=embedded={peer_url}",
        f"--cert-file={credentials.etcd.certificate}",
        f"--key-file={credentials.etcd.key}",
        f"--trusted-ca-file={credentials.etcd_ca}",
        "--client-cert-auth",
        f"--peer-cert-file={credentials.etcd.certificate}",
        f"--peer-key-file={credentials.etcd.key}",
        f"--peer-trusted-ca-file={credentials.etcd_ca}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",  # the data is thrown away with the host
        "--log-level=warn",
        "--log-outputs=stderr",
    ]


def apiserver(credentials: Credentials, bin_dir: Path) -> list[str]:
    network = credentials.network
    return [
        str(bin_dir / "kube-apiserver"),
        f"--bind-address={network.control_plane}",
        f"--advertise-address={network.control_plane}",
        f"--secure-port={addresses.APISERVER_PORT}",
        f"--tls-cert-file={credentials.apiserver.certificate}",
        f"--tls-private-key-file={credentials.apiserver.key}",
        f"--client-ca-file={credentials.ca}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        f"--etcd-servers=https://{network.control_plane}:{addresses.ETCD_CLIENT_PORT}",
        f"--etcd-cafile={credentials.etcd_ca}",
        f"--etcd-certfile={credentials.etcd_client.certificate}",
        f"--etcd-keyfile={credentials.etcd_client.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={credentials.service_account_key}",
        f"--service-account-key-file={credentials.service_account_key}",
        f"--service-cluster-ip-range={network.service_range}",
        "--endpoint-reconciler-type=none",  # its endpoint would be a loopback address, which is refused
        f"--kubelet-certificate-authority={credentials.ca}",
        f"--kubelet-client-certificate={credentials.apiserver_to_kubelet.certificate}",
        f"--kubelet-client-key={credentials.apiserver_to_kubelet.key}",
        "--kubelet-preferred-address-types=InternalIP",
        # It taints every new Node as not ready, and only the node lifecycle controller would take the taint off.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--profiling=false",
    ]


def controller_manager(credentials: Credentials, bin_dir: Path) -> list[str]:
    return [
        str(bin_dir / "kube-controller-manager"),
        f"--controllers={','.join(_CONTROLLERS)}",
        f"--root-ca-file={credentials.ca}",
        "--use-service-account-credentials",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        *_serving(
            credentials,
            addresses.CONTROLLER_MANAGER_PORT,
            credentials.controller_manager.certificate,
            credentials.controller_manager.key,
            credentials.controller_manager_kubeconfig,
        ),
    ]


def scheduler(credentials: Credentials, bin_dir: Path) -> list[str]:
    return [
        str(bin_dir / "kube-scheduler"),
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        *_serving(
            credentials,
            addresses.SCHEDULER_PORT,
            credentials.scheduler.certificate,
            credentials.scheduler.key,
            credentials.scheduler_kubeconfig,
        ),
    ]


def _serving(credentials: Credentials, port: int, certificate: Path, key: Path, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--client-ca-file={credentials.ca}",
        f"--bind-address={credentials.network.control_plane}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--leader-elect=false",
        "--profiling=false",
    ]
