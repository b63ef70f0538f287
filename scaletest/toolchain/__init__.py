"""Pinned Go modules become real Kubernetes binaries, built once and cached."""

from scaletest.toolchain.progress import Display, Progress, silent
from scaletest.toolchain.provisioning import TOOL_NAMES, Toolchain, ToolRow, ensure, list_tools

__all__ = ["TOOL_NAMES", "Display", "Progress", "ToolRow", "Toolchain", "ensure", "list_tools", "silent"]
