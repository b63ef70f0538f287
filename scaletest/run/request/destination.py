"""Where on an existing cluster a fleet goes, and which images it uses there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scaletest.errors import UsageError
from scaletest.model.plan import Plan
from scaletest.run.steps.guard import chosen_context

# The images that no public registry has; the others are pulled from their makers' registries.
_PARTS = ("bigfleet", "scaletest")
_IMAGE_HINT = (
    "--image bigfleet=REGISTRY/bigfleet:TAG --image scaletest=REGISTRY/bigfleet-scaletest:TAG; "
    "docs/clusters.md says what they hold"
)


@dataclass(frozen=True)
class Destination:
    """Where a plan goes."""

    # The kube context; None: a host of its own on this machine.
    context: str | None = None
    prometheus_url: str = ""
    # Helm values.
    images: dict[str, Any] = field(default_factory=dict)

    @property
    def tools(self) -> tuple[str, ...] | None:
        """The binaries that a run needs on this machine; None: all. On an existing cluster the others are in images."""
        return None if self.context is None else ("helm", "kubectl")


def read_destination(
    plan: Plan, context: str = "", images: Sequence[str] = (), prometheus_url: str = ""
) -> Destination:
    """What the flags say about the cluster that a plan goes to."""
    if plan.substrate.host_kind == "embedded":
        given = {"--context": context, "--image": images, "--prometheus-url": prometheus_url}
        for flag in (flag for flag, value in given.items() if value):
            raise UsageError(
                f"{flag}: {plan.substrate_name} brings a cluster of its own, and runs without images",
                hint="choose a substrate of hostKind context, such as example-kind-laptop",
            )
        return Destination()
    return Destination(chosen_context(context), _read_url(prometheus_url), _read_images(images))


def refuse_without_images(destination: Destination, sets: dict[str, Any]) -> None:
    """The chart's own names for our images are on no registry: a run would wait for them in vain."""
    chosen = destination.images.get("image", {}) | _below(sets, "image")
    missing = [part for part in _PARTS if part not in chosen and "registry" not in chosen]
    if destination.context is not None and missing:
        raise UsageError(f"no image of {' and '.join(missing)} for context {destination.context}", hint=_IMAGE_HINT)


def refuse_without_prometheus(sets: dict[str, Any]) -> None:
    """`up` can do without it, a verdict can not."""
    if not _below(sets, "prometheus").get("enabled", True):
        raise UsageError(
            "--set prometheus.enabled=false: a run is judged from the chart's own Prometheus",
            hint="leave it enabled; --prometheus-url names another way to the same one",
        )


def _below(sets: dict[str, Any], key: str) -> dict[str, Any]:
    found = sets.get(key)
    return found if isinstance(found, dict) else {}


def _read_url(url: str) -> str:
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.path in ("", "/") and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"--prometheus-url {url!r} is not https://HOST:PORT",
            hint="name the run's own Prometheus, which speaks TLS only; its snapshots are one port further",
        )
    return url


def _read_images(images: Sequence[str]) -> dict[str, Any]:
    """Helm values for `[part=]repository:tag` or `[part=]repository@digest`."""
    chosen: dict[str, Any] = {}
    for text in images:
        part, equals, image = text.rpartition("=")
        if equals and part not in _PARTS:
            raise UsageError(f"--image {text!r}: {part!r} is neither of {' and '.join(_PARTS)}", hint=_IMAGE_HINT)
        for one in [part] if equals else _PARTS:
            chosen[one] = _read_image(image)
    return {"image": chosen} if chosen else {}


def _read_image(image: str) -> dict[str, str]:
    name, at, digest = image.partition("@")
    if at and name and digest.startswith("sha256:"):
        return {"repository": name, "digest": digest}
    name, _, tag = image.rpartition(":")
    if at or not name or not tag or "/" in tag:
        raise UsageError(f"--image {image!r} has neither a tag nor a digest", hint=_IMAGE_HINT)
    return {"repository": name, "tag": tag}
