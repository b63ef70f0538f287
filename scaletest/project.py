"""Where the project's own files are: chart, profiles, substrates, dashboards. In a checkout, or where pip put them."""

from importlib import metadata
from pathlib import Path

_DISTRIBUTION = "bigfleet-scaletest"
_CHECKOUT = Path(__file__).resolve().parents[1]
_IS_CHECKOUT = (_CHECKOUT / "chart" / "Chart.yaml").is_file()


def _installed() -> Path:
    """The folder of `data-files` in pyproject.toml; which one it is depends on pip's --user, --target and --prefix."""
    for file in metadata.files(_DISTRIBUTION) or ():
        if file.parts[-3:] == (_DISTRIBUTION, "chart", "Chart.yaml"):
            return Path(str(file.locate())).resolve().parents[1]
    raise RuntimeError(f"{_DISTRIBUTION} was installed without its files; install it again, from a wheel or a checkout")


PROJECT = _CHECKOUT if _IS_CHECKOUT else _installed()
CHART = PROJECT / "chart"
PROFILES = PROJECT / "profiles"
SUBSTRATES = PROJECT / "substrates"


def results_home() -> Path:
    """Where results go that are given no folder: into the checkout, or below the current folder if there is none."""
    return (PROJECT if _IS_CHECKOUT else Path.cwd()) / "results"
