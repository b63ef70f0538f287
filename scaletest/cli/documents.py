"""`validate`, `schema`, `profiles` and `substrates`: the documents that a user writes, and those that ship."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from scaletest.cli.arguments import OutputOption
from scaletest.errors import UsageError

_KINDS = ("profile", "substrate", "catalog", "summary")


def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE|NAME", help="YAML files, or names that ship.")],
) -> None:
    """Check documents, and say all that is wrong with them.

    Profiles (with their catalogs), substrates and catalogs; each problem has its file, line and column.
    """
    from scaletest.model.files.reading import check_document

    wrong: list[UsageError] = []
    for file in files:
        try:
            typer.echo(check_document(file))
        except UsageError as error:
            wrong.append(error)
    if len(wrong) > 1:
        headline = f"{len(wrong)} of {len(files)} files cannot be used"
        raise UsageError("\n\n".join([headline, *(error.message for error in wrong)]), hint=wrong[0].hint)
    if wrong:
        raise wrong[0]


def show_schema(kind: Annotated[str, typer.Argument(metavar="|".join(_KINDS), help="Which document.")]) -> None:
    """Print the JSON Schema of a document.

    Every field, what it means and what is allowed, for people and for editors.
    """
    from scaletest.model.files.problems import did_you_mean, shown
    from scaletest.model.files.reading import MODELS
    from scaletest.model.files.schema import json_schema

    if kind not in _KINDS:
        near = did_you_mean(kind, _KINDS)
        raise UsageError(f"there is no schema '{shown(kind)}'{near}", hint=f"the schemas are {', '.join(_KINDS)}")
    if kind == "summary":
        from scaletest.judge.summary import Summary

        schema = json_schema(Summary)
    else:
        schema = json_schema(MODELS[kind])
    typer.echo(json.dumps(schema, indent=2, ensure_ascii=False))


def list_profiles(output: OutputOption = "text") -> None:
    """List the profiles that ship.

    How large each is, how long it soaks, what it is for.
    """
    from scaletest.model.documents.durations import format_duration
    from scaletest.model.files.reading import read_profile

    def entry(file: str) -> dict[str, Any]:
        profile, _, _ = read_profile(file)
        return {
            "machines": profile.scale.machines,
            "pods": profile.scale.total_pods,
            "soakSeconds": profile.load_profile.soak_seconds,
            "description": profile.metadata.description,
        }

    def figures(profile: dict[str, Any]) -> list[str]:
        return [f"{profile['machines']:,}", f"{profile['pods']:,}", format_duration(profile["soakSeconds"])]

    entries = sorted(_entries("profile", entry), key=lambda profile: profile.get("machines", 0))
    _show(entries, ["scale.machines", "Pods", "soak"], figures, output)


def list_substrates(output: OutputOption = "text") -> None:
    """List the substrates that ship.

    What a host is, what fits on it, what it costs.
    """
    from scaletest.model.files.reading import read_substrate

    def entry(file: str) -> dict[str, Any]:
        substrate, _ = read_substrate(file)
        host = substrate.host
        return {
            "hostKind": substrate.host_kind,
            "vCPU": host.v_cpu if host else None,
            "memoryGiB": host.memory_gi_b if host else None,
            "podsPerCluster": substrate.cluster.pods_per_cluster,
            "clustersPerHost": substrate.cluster.clusters_per_host,
            "perHostUsdPerHour": substrate.cost_estimate.per_host_usd_per_hour,
            "description": substrate.metadata.description,
        }

    def figures(substrate: dict[str, Any]) -> list[str]:
        known = substrate["vCPU"] is not None
        return [
            f"{substrate['vCPU']} vCPU / {substrate['memoryGiB']:g} GiB" if known else "this machine",
            f"{substrate['podsPerCluster']:,}",
            str(substrate["clustersPerHost"]),
            f"{substrate['perHostUsdPerHour']:.2f}",
        ]

    entries = _entries("substrate", entry)
    _show(entries, ["host", "Pods/cluster", "clusters/host", "$/h"], figures, output)


def _entries(what: str, entry: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """What is to be said about each file that ships; of one that cannot be used, its problems."""
    from scaletest.model.files.reading import InvalidDocument, shipped

    entries: list[dict[str, Any]] = []
    for path in shipped(what):
        try:
            entries.append({"name": path.stem, **entry(str(path))})
        except UsageError as error:
            problems = error.problems if isinstance(error, InvalidDocument) else [error.message]
            entries.append({"name": path.stem, "problems": list(problems)})
    return entries


def _show(
    entries: list[dict[str, Any]], titles: list[str], figures: Callable[[dict[str, Any]], list[str]], output: str
) -> None:
    """JSON, or a table: names to the left, figures to the right, then a line of words."""
    if output == "json":
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    table = [["name", *titles, "description"]]
    for entry in entries:
        if "problems" in entry:
            table.append([entry["name"], *("–" for _ in titles), f"broken: {entry['problems'][0]}"])
        else:
            table.append([entry["name"], *figures(entry), entry["description"]])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    # In a pipe a row stays one line, with all of its words.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None
    for name, *cells, words in table:
        aligned = [cell.rjust(wide) for cell, wide in zip(cells, widths[1:], strict=False)]
        figures_line = "  ".join([name.ljust(widths[0]), *aligned, ""])
        # Figures are never cut; of the words as much is shown as there is room for.
        room = None if width is None else max(0, width - len(figures_line))
        typer.echo((figures_line + _shortened(words, room)).rstrip())


def _shortened(words: str, room: int | None) -> str:
    return words if room is None or len(words) <= room else f"{words[: max(0, room - 1)]}…" if room > 1 else ""
