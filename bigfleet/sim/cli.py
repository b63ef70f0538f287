"""`fauxctl`: lists, runs, records and verifies scenarios of the simulator."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bigfleet.errors import ExitStatus
from bigfleet.process.commandline import Parser, end
from bigfleet.sim.play import Played, descriptions, is_file, play
from bigfleet.sim.report import check_lines, report_lines
from bigfleet.sim.scenario.coded import CODED
from bigfleet.sim.scenario.reading import SHIPPED, ScenarioError

# Traces that a run must repeat byte by byte.
GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "sim"
_OK = 0
_PROGRESS_SECONDS = 2.0


def main(arguments: Sequence[str] | None = None) -> None:
    end("fauxctl", lambda: run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0 fine, 1 a promise broken or a trace that differs, 2 a wrong use."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except ScenarioError as error:
        _say(f"fauxctl: {error}")
        return ExitStatus.WRONG_USE
    except KeyboardInterrupt:
        _say("fauxctl: interrupted")
        return ExitStatus.INTERRUPTED
    return code


def _parser() -> Parser:
    parser = Parser("fauxctl", description="Replays fleets against the real decision engine, in virtual time.")
    parser.tell_version()
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: object, text: str) -> Parser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    add("list", _list, "name the scenarios that ship")
    one = add("run", _run, "run a scenario: its trace on stdout, its promises on stderr")
    one.add_argument("name", metavar="NAME|FILE.yaml")
    one.add_argument("-o", "--output", choices=("trace", "text", "json"), default="trace", help="what stdout gets")
    one.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the run")
    one.add_argument("--seed", type=_seed, help="another history of the same scenario")
    add("run-all", _run_all, "run every scenario that ships")
    record = add("record", _record, "run a scenario and keep its trace as the golden one")
    record.add_argument("name", metavar="NAME|FILE.yaml")
    record.add_argument(
        "path", nargs="?", type=Path, help="default: tests/golden/sim/NAME.jsonl, or FILE.jsonl beside the file"
    )
    verify = add("verify", _verify, "run scenarios and compare their traces with the golden ones, byte by byte")
    verify.add_argument("names", nargs="*", metavar="NAME|FILE.yaml", help="default: all that ship")
    soak = add("soak", _soak, "a long run with churn and faults; nothing may leak or get stuck")
    soak.add_argument("--cycles", type=int, default=10_000, help="with churn and faults; then it comes to rest")
    soak.add_argument("--seed", type=_seed, default=1)
    return parser


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _list(_options: argparse.Namespace) -> int:
    known = descriptions()
    width = max(map(len, known))
    for name, description in known.items():
        _print(f"{name:<{width}}  {description}{' (scripted)' if name in CODED else ''}\n")
    return _OK


def _run(options: argparse.Namespace) -> int:
    if options.name in CODED and (options.output != "trace" or options.picture):
        raise ScenarioError(f"{options.name} is scripted: it has a trace, and neither a report nor a picture")
    if options.picture:
        _refuse_picture(options.picture)
    played = play(options.name, options.seed, _Progress(options.name))
    if options.picture:
        _draw(played, options.picture)
    if played.report is None or options.output == "trace":
        _print(played.trace)
        _say("\n".join(check_lines(played.checks)))
    elif options.output == "json":
        _print(json.dumps(played.report.document, indent=2) + "\n")
    else:
        _print("\n".join(report_lines(played.report)) + "\n")
    _say("PASS" if played.passed else "FAIL")
    return _OK if played.passed else ExitStatus.FAILED


def _refuse_picture(path: Path) -> None:
    """Refuse a bad --picture path before the run, not after it."""
    if path.suffix.lower() != ".svg":
        raise ScenarioError(f"--picture {path}: it is an SVG, and should be called so: {path.with_suffix('.svg')}")
    if not path.parent.is_dir():
        raise ScenarioError(f"--picture {path}: there is no folder {path.parent}")


def _draw(played: Played, path: Path) -> None:
    from bigfleet.sim.picture import draw

    if played.report:
        _write(path, draw(played.report))


def _run_all(_options: argparse.Namespace) -> int:
    passed = True
    known = descriptions()
    width = max(map(len, known))
    for name in known:
        began = time.perf_counter()
        played = play(name, progress=_Progress(name))
        passed &= played.passed
        word = "PASS" if played.passed else "FAIL"
        _print(f"{word}  {name:<{width}}  {time.perf_counter() - began:6.1f} s\n")
        for line in check_lines(tuple(check for check in played.checks if not check.holds)):
            _print(f"    {line}\n")
    return _OK if passed else ExitStatus.FAILED


def _record(options: argparse.Namespace) -> int:
    played = play(options.name, progress=_Progress(options.name))
    _say("\n".join(check_lines(played.checks)))
    if not played.passed:
        _say(f"fauxctl: {played.name} breaks its promises; nothing was recorded")
        return ExitStatus.FAILED
    path = options.path or _golden(options.name)
    if not path.parent.is_dir():
        raise ScenarioError(f"{path}: there is no folder {path.parent}")
    _write(path, played.trace)
    _say(f"recorded {played.trace.count(chr(10))} lines in {path}")
    return _OK


def _verify(options: argparse.Namespace) -> int:
    good = True
    for name in options.names or descriptions():
        problem = _difference(name, play(name, progress=_Progress(name)))
        good &= not problem
        _print(f"{'FAIL' if problem else 'PASS'}  {name}{'  ' + problem if problem else ''}\n")
    return _OK if good else ExitStatus.FAILED


def _difference(name: str, played: Played) -> str:
    """What is wrong with a run, in one sentence; empty if nothing is."""
    broken = [check.text for check in played.checks if not check.holds]
    if broken:
        return f"does not hold: {broken[0]}"
    path = _golden(name)
    try:
        golden = path.read_text()
    except OSError:
        return f"has no golden trace; `fauxctl record {name}` makes one"
    if golden == played.trace:
        return ""
    pairs = zip(golden.splitlines(), played.trace.splitlines(), strict=False)
    line = next((number for number, (old, new) in enumerate(pairs, 1) if old != new), None)
    return f"differs from {path} at line {line}" if line else f"is longer or shorter than {path}"


def _soak(options: argparse.Namespace) -> int:
    from bigfleet.sim.soak import soak

    if options.cycles < 1:
        raise ScenarioError("--cycles must be at least 1")
    result = soak(options.cycles, options.seed, _Progress("soak"))
    _print("\n".join(result.lines) + "\n")
    return ExitStatus.FAILED if result.problems else _OK


def _golden(name: str) -> Path:
    """Where the golden trace is: for a user's own scenario file beside it, whatever name the scenario gives itself."""
    path = Path(name)
    if is_file(name) and path.resolve().parent != SHIPPED:
        return path.with_suffix(".jsonl")
    return GOLDEN / f"{path.stem}.jsonl"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error


class _Progress:
    """A line now and then while a run takes long: rewritten on a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = time.monotonic()
        self._open = False

    def __call__(self, done: float, total: float) -> None:
        now = time.monotonic()
        if done >= total and self._open:
            sys.stderr.write("\r\x1b[K")
            self._open = False
        elif now - self._said >= _PROGRESS_SECONDS * (1 if sys.stderr.isatty() else 5):
            self._said = now
            line = f"{self._name}: {done / total:.0%} of {total:,.0f} s"
            self._open = sys.stderr.isatty()
            sys.stderr.write(f"\r\x1b[K{line}" if self._open else f"{line}\n")
            sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
