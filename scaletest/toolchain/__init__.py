"""Pinned Go modules become real Kubernetes binaries, built once and cached."""

from scaletest.toolchain.cleaning import Cleaning, clean
from scaletest.toolchain.listing import ToolListing, ToolRow, list_tools
from scaletest.toolchain.progress import Progress, ProgressDisplay, ProgressNote, silent
from scaletest.toolchain.provisioning import TOOL_NAMES, Toolchain, ensure

__all__ = [
    "TOOL_NAMES",
    "Cleaning",
    "Progress",
    "ProgressDisplay",
    "ProgressNote",
    "ToolListing",
    "ToolRow",
    "Toolchain",
    "clean",
    "ensure",
    "list_tools",
    "silent",
]
