"""Where the project's own files are: chart, profiles, substrates, dashboards."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
CHART = PROJECT / "chart"
PROFILES = PROJECT / "profiles"
SUBSTRATES = PROJECT / "substrates"
