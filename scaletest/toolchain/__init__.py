"""Pinned Go modules become real Kubernetes binaries, built once and cached."""

from scaletest.toolchain.cleaning import Cleaning, clean
from scaletest.toolchain.listing import Listing, ToolRow, list_tools
from scaletest.toolchain.progress import Display, Notice, Progress, silent
from scaletest.toolchain.provisioning import TOOL_NAMES, Toolchain, ensure

__all__ = [
    "TOOL_NAMES",
    "Cleaning",
    "Display",
    "Listing",
    "Notice",
    "Progress",
    "ToolRow",
    "Toolchain",
    "clean",
    "ensure",
    "list_tools",
    "silent",
]
