"""The preflight that every command with a profile goes through, with Helm and the dashboard at hand."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaletest.run.request.examining import Examined
    from scaletest.run.request.request import Request


def examine_request(request: "Request") -> "Examined":
    """Raises UsageError for an option that cannot be read."""
    import asyncio

    from scaletest.cli.tools import find_helm
    from scaletest.report.dashboard.panels import with_dashboard
    from scaletest.run.request.examining import examine

    return asyncio.run(examine(request, find_helm, with_dashboard))
