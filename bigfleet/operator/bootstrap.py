"""Renders the text that turns a bare machine into a node of this cluster. What it renders is never logged."""

from pathlib import Path

from bigfleet.api.v1alpha1.shard_pb2 import BootstrapBlobResponse, BootstrapRequest
from bigfleet.operator.availability import OPERATOR_WORDS
from bigfleet.operator.template import Template, TemplateError

_STUB = "#cloud-config\n# bootstrap of machine {{ .MachineID }} for cluster {{ .ClusterID }}\n"
_SHAPE = {
    "ClusterID": None,
    "MachineID": None,
    "Requirements": ({"Key": None, "Operator": None, "Values": (None,)},),
}
_TTL_SECONDS = 3600


class Bootstrap:
    """A template whose every field is known to exist: it cannot fail when a machine waits for it."""

    def __init__(self, cluster_id: str, template: str = _STUB) -> None:
        self._cluster_id = cluster_id
        self._template = Template(template, _SHAPE)

    @classmethod
    def load(cls, cluster_id: str, file: Path | None) -> "Bootstrap":
        if file is None:
            return cls(cluster_id)
        try:
            return cls(cluster_id, file.read_text())
        except TemplateError as error:
            raise TemplateError(f"{file}: {error}") from error

    def respond(self, request: BootstrapRequest) -> BootstrapBlobResponse:
        if request.cluster_id not in ("", self._cluster_id):
            return BootstrapBlobResponse(
                request_id=request.request_id,
                error=f"this is cluster {self._cluster_id!r}, not {request.cluster_id!r}",
            )
        return BootstrapBlobResponse(
            request_id=request.request_id, user_data=self._render(request).encode(), ttl_seconds=_TTL_SECONDS
        )

    def _render(self, request: BootstrapRequest) -> str:
        return self._template.render(
            {
                "ClusterID": self._cluster_id,
                "MachineID": request.machine_id,
                "Requirements": [
                    {"Key": one.key, "Operator": OPERATOR_WORDS.get(one.operator, ""), "Values": list(one.values)}
                    for one in request.requirements
                ],
            }
        )
