"""How to reach an apiserver: a kubeconfig file, or a pod's own ServiceAccount."""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bigfleet.kube.errors import KubeConfigError
from bigfleet.process.files import write_file

_FOREIGN_LOGINS = ("exec", "auth-provider", "username")


@dataclass(frozen=True)
class KubeConfig:
    """An apiserver's address and the credentials for it. Secrets never show in its repr."""

    server: str
    ca_pem: bytes | None = field(default=None, repr=False)
    client_cert_pem: bytes | None = field(default=None, repr=False)
    client_key_pem: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    # The name that the server's certificate must carry; None means the host of `server`.
    tls_server_name: str | None = None

    @classmethod
    def from_file(cls, path: Path) -> "KubeConfig":
        """Read the current context of a kubeconfig with certificates or a token (inline or as files)."""
        try:
            return cls._from_document(yaml.safe_load(path.read_text()), path.parent)
        except (KubeConfigError, OSError, yaml.YAMLError, binascii.Error) as error:
            raise KubeConfigError(f"{path}: {error}") from error

    @classmethod
    def _from_document(cls, document: Any, directory: Path) -> "KubeConfig":
        if not isinstance(document, dict) or "current-context" not in document:
            raise KubeConfigError("not a kubeconfig with a current-context")
        context = _entry(document, "context", document["current-context"])
        cluster = _entry(document, "cluster", context.get("cluster"))
        user = _entry(document, "user", context.get("user"))
        if "server" not in cluster:
            raise KubeConfigError(f"cluster {context['cluster']!r} has no server")
        for login in _FOREIGN_LOGINS:
            if login in user:
                raise KubeConfigError(f"user {context['user']!r} logs in by {login}: use a certificate or a token")
        token_file = user.get("tokenFile")
        return cls(
            server=cluster["server"].rstrip("/"),
            ca_pem=_material(cluster, "certificate-authority", directory),
            client_cert_pem=_material(user, "client-certificate", directory),
            client_key_pem=_material(user, "client-key", directory),
            token=user.get("token"),
            token_file=directory / token_file if token_file else None,
            tls_server_name=cluster.get("tls-server-name"),
        )

    @classmethod
    def from_service_account(cls, directory: Path) -> "KubeConfig":
        """Use the token and CA that a projected ServiceAccount volume put into `directory`."""
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            ca_pem=(directory / "ca.crt").read_bytes(),
            token_file=directory / "token",
            tls_server_name="kubernetes.default.svc",
        )

    def write(self, path: Path) -> None:
        """A kubeconfig file that only we can read."""
        write_file(path, self.to_yaml().encode(), mode=0o600)

    def to_yaml(self) -> str:
        """A kubeconfig of one context; certificates and keys are inline."""
        cluster = {
            "server": self.server,
            "certificate-authority-data": _inline(self.ca_pem),
            "tls-server-name": self.tls_server_name,
        }
        user = {
            "client-certificate-data": _inline(self.client_cert_pem),
            "client-key-data": _inline(self.client_key_pem),
            "token": self.token,
            "tokenFile": str(self.token_file.absolute()) if self.token_file else None,
        }
        name = "default"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": _without_blanks(cluster)}],
            "users": [{"name": name, "user": _without_blanks(user)}],
        }
        return yaml.safe_dump(document, sort_keys=False)

    def bearer_token(self) -> str | None:
        """The token to send now: a token file is read anew, because kubelets rotate it."""
        return self.token_file.read_text().strip() if self.token_file else self.token

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS settings for an https server, None for plain http."""
        if not self.server.startswith("https://"):
            return None
        context = ssl.create_default_context(cadata=self.ca_pem.decode() if self.ca_pem else None)
        # Python 3.13 turned this on; the CAs of many clusters lack the key identifiers that it asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.client_cert_pem and self.client_key_pem:
            # The ssl module only loads a key from a file; the file lives for this one call, readable by us alone.
            with tempfile.NamedTemporaryFile(prefix="kube-client-") as pair:
                pair.write(self.client_cert_pem + b"\n" + self.client_key_pem)
                pair.flush()
                context.load_cert_chain(pair.name)
        return context


def _entry(document: Mapping[str, Any], kind: str, name: object) -> dict[str, Any]:
    for entry in document.get(f"{kind}s") or []:
        if entry.get("name") == name:
            return entry.get(kind) or {}
    raise KubeConfigError(f"there is no {kind} {name!r}")


def _material(section: Mapping[str, Any], key: str, directory: Path) -> bytes | None:
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"])
    if section.get(key):
        return (directory / str(section[key])).read_bytes()
    return None


def _inline(pem: bytes | None) -> str | None:
    return base64.b64encode(pem).decode() if pem else None


def _without_blanks(section: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in section.items() if value is not None}
