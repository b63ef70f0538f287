"""How good is a verdict? Runs the catalogue of mistakes and counts the runs that ended as they should.

python -m tests.smoke.score [part of a name …] [--jobs 2] [--keep DIR] [--again] [--list]

One line per entry as it ends; exit code 1 unless all are right. What has run on the same sources is not run again, but
judged anew: a change of what is expected costs nothing. DIR/<entry>/results is the run's own results folder. The score
of all that has run on these sources is in DIR/score.json and DIR/score.md.
"""

import argparse
import asyncio
import hashlib
import json
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scaletest.project import PROJECT
from tests.long_mode import code_version
from tests.smoke.mistakes import CATALOGUE, Entry
from tests.smoke.mistakes.judging import Judged, judged
from tests.smoke.mistakes.running import run_entry

_DEFAULT = PROJECT / "results" / "score"
_ENDED = "ended.json"
_INTERRUPTED = 130
_BROKE = -1
# For the order only.
_PROFILES_OWN_SECONDS = 300


@dataclass(frozen=True)
class Scored:
    """An entry that has run, and how rightly it was judged."""

    entry: Entry
    judged: Judged
    seconds: float

    def line(self) -> str:
        """For the terminal."""
        marks = "".join(
            f" {name}{'✓' if right else '✗'}"
            for name, right in (
                ("verdict", self.judged.verdict_right),
                ("gate", self.judged.gate_right),
                ("component", self.judged.component_right),
            )
        )
        problems = f"   {'; '.join(self.judged.problems)}" if self.judged.problems else ""
        codes = "/".join(map(str, self.entry.exit_codes))
        return f"{self.entry.name:<68} {codes:>3} → {self.judged.exit_code:<3}{marks} {self.seconds:4.0f} s{problems}"

    def document(self) -> dict[str, Any]:
        return {
            "name": self.entry.name,
            "component": self.entry.component,
            "exitCodes": self.entry.exit_codes,
            "expectedGates": sorted(self.entry.gates),
            "seconds": round(self.seconds, 1),
            **asdict(self.judged),
        }


def sentence(scored: Sequence[Scored]) -> str:
    """The score in a line."""
    count = len(scored)
    verdicts = sum(one.judged.verdict_right for one in scored)
    gates = sum(one.judged.verdict_right and one.judged.gate_right for one in scored)
    components = sum(one.judged.right for one in scored)
    return (
        f"{verdicts} of {count}: verdict right; {gates} of {count}: right gate; "
        f"{components} of {count}: right component"
    )


def table(scored: Sequence[Scored]) -> str:
    """The score as a page."""
    rows = [
        "| entry | component | expected | got | gates that did not pass | blamed | right |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in scored:
        entry, result = one.entry, one.judged
        cells = (
            entry.name,
            entry.component or "–",
            "/".join(map(str, entry.exit_codes)) + (f": {', '.join(sorted(entry.gates))}" if entry.gates else ""),
            str(result.exit_code),
            ", ".join(result.gates) or "–",
            ", ".join(result.components) or "–",
            "yes" if result.right else "; ".join(result.problems) or "no",
        )
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return f"{sentence(scored)}\n\n" + "\n".join(rows) + "\n"


def version_of(entry: Entry, code: str) -> str:
    """What a run of the entry depends on, and not what is expected of it. Meddling that was changed takes --again."""
    parts = (code, entry.name, entry.mistakes, entry.flags, entry.seconds)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def earlier(entry: Entry, directory: Path, version: str) -> Scored | None:
    """A run of the same that has ended, judged by what is expected now."""
    try:
        ended = json.loads((directory / _ENDED).read_text())
    except (OSError, ValueError):
        return None
    if ended["version"] != version:
        return None
    return Scored(entry, judged(entry, ended["exitCode"], _summary(directory)), ended["seconds"])


async def play(entry: Entry, directory: Path, version: str) -> Scored:
    """Run an entry and keep what came of it."""
    shutil.rmtree(directory, ignore_errors=True)
    began = time.monotonic()
    try:
        ended = await run_entry(entry, directory)
        exit_code, screen = ended.exit_code, ended.screen
        screen += "".join(f"left behind: {what}\n" for what in ended.leftovers()) if ended.host() else ""
    except Exception as error:
        # Not remembered: what broke was not the run.
        print(f"{entry.name}: {error!r}", file=sys.stderr)
        return Scored(entry, judged(entry, _BROKE, {}), time.monotonic() - began)
    seconds = time.monotonic() - began
    (directory / "screen.txt").write_text(screen)
    document = {"name": entry.name, "version": version, "exitCode": exit_code, "seconds": round(seconds, 1)}
    (directory / _ENDED).write_text(json.dumps(document))
    return Scored(entry, judged(entry, exit_code, _summary(directory)), seconds)


def _summary(directory: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((directory / "results" / "summary.json").read_text()))
    except (OSError, ValueError):
        return {}


async def play_all(entries: Iterable[Entry], jobs: int, play_one: Callable[[Entry], Awaitable[None]]) -> None:
    """`jobs` at a time, the longest first; then, one by one, those that leave no core to others."""
    waiting = sorted(entries, key=lambda entry: -(entry.seconds or _PROFILES_OWN_SECONDS))
    shared = iter([entry for entry in waiting if not entry.alone])

    async def work() -> None:
        for entry in shared:
            await play_one(entry)

    async with asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(work())
    for entry in waiting:
        if entry.alone:
            await play_one(entry)


def chosen(names: Sequence[str]) -> list[Entry]:
    """The entries that are called so, or whose names contain one of these; all of them without any."""
    if not names:
        return list(CATALOGUE)
    exact = {name for entry in CATALOGUE for name in (entry.name, entry.slug)}

    def is_meant(entry: Entry, name: str) -> bool:
        return name in (entry.name, entry.slug) if name in exact else name.lower() in entry.name.lower()

    return [entry for entry in CATALOGUE if any(is_meant(entry, name) for name in names)]


async def score(entries: Sequence[Entry], jobs: int, keep: Path, again: bool) -> bool:
    """Whether all of them are right."""
    keep.mkdir(parents=True, exist_ok=True)
    code = code_version()
    known = {entry.name: earlier(entry, keep / entry.slug, version_of(entry, code)) for entry in CATALOGUE}
    ended = {name: scored for name, scored in known.items() if scored}
    asked = {entry.name for entry in entries}
    todo = [entry for entry in entries if again or entry.name not in ended]
    for entry in todo:
        ended.pop(entry.name, None)

    def note(scored: Scored) -> None:
        ended[scored.entry.name] = scored
        print(scored.line(), flush=True)
        _keep_score(keep, code, [ended[entry.name] for entry in CATALOGUE if entry.name in ended])

    async def play_one(entry: Entry) -> None:
        note(await play(entry, keep / entry.slug, version_of(entry, code)))

    before = [scored for name, scored in ended.items() if name in asked]
    for scored in before:
        note(scored)
    if before:
        print(f"{len(before)} ran before on these sources, {len(todo)} to go", flush=True)
    try:
        await play_all(todo, jobs, play_one)
    finally:
        result = [scored for name, scored in ended.items() if name in asked]
        print(f"\n{sentence(result)}\n{keep / 'score.md'}", flush=True)
    return all(scored.judged.right for scored in result)


def _keep_score(keep: Path, code: str, scored: Sequence[Scored]) -> None:
    document = {"code": code, "score": sentence(scored), "entries": [one.document() for one in scored]}
    (keep / "score.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (keep / "score.md").write_text(table(scored))


def _listed(entries: Iterable[Entry]) -> str:
    return "\n".join(
        f"{entry.name:<68} {entry.component or '–':<15} {'/'.join(map(str, entry.exit_codes)):<4} "
        f"{' '.join(sorted(entry.gates))}{f'  (needs a {entry.needs})' if entry.needs else ''}"
        for entry in entries
    )


async def _until_told(task: "asyncio.Task[bool]") -> bool:
    """Ctrl-C and SIGTERM end the runs, which take their processes with them."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    return await task


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.smoke.score", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="an entry, or a part of the names of several")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (default: 2)")
    parser.add_argument("--keep", type=Path, default=_DEFAULT, metavar="DIR", help="where results are kept")
    parser.add_argument("--again", action="store_true", help="run also what has run on these sources")
    parser.add_argument("--list", action="store_true", help="show the entries and stop")
    options = parser.parse_args(arguments)
    entries = chosen(options.names)
    if not entries:
        parser.error(f"no entry is called {' or '.join(options.names)}")
    if options.list:
        print(_listed(entries))
        return 0

    async def until_told() -> bool:
        return await _until_told(
            asyncio.ensure_future(score(entries, max(1, options.jobs), options.keep.absolute(), options.again))
        )

    try:
        return 0 if asyncio.run(until_told()) else 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
