"""`make prevalidate`: rungs 0.5, 1 and 2 of the validation ladder, everything that can be said before a cluster starts.

Rung 0.5 is the preflight of what ships, rung 1 the closed loop in virtual time, rung 2 the decision cycle against its
baseline (docs/reference/harness.md#validation-ladder). One line for each check; ends with 1 if any fails.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scaletest.errors import ScaletestError
from scaletest.host.machine import this_machine
from scaletest.model.files.reading import read_profile, read_substrate, shipped
from scaletest.model.plan import Plan, make_plan
from scaletest.run.offline.simulate import simulate
from scaletest.run.steps.preflight import refusals_of

# The ladder is planned on the hosts that it was published for, the small profiles also where people start with them.
_LADDER = "example-fat-host"
_SMALL = (("smoke", "embedded"), ("dev-50", "embedded"), ("dev-50", "example-kind-laptop"))
_SIMULATED = ("smoke", "dev-50")
_SOAK_CYCLES = "300"
_FINE = ("pass", "skipped")
# Of what a command that broke down said last.
_TAIL_LINES = 20


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    # Why it failed, or the figure that it passed with; what comes after its first line is told once only.
    detail: str = ""


Rung = Callable[[], Iterator[Check]]


def main() -> int:
    rungs: dict[str, Rung] = {
        "rung 0.5  preflight of what ships": preflight,
        "rung 1    closed loop in virtual time": closed_loop,
        "rung 2    decision cycle against its baseline": hot_benches,
    }
    return run(rungs, lambda text: print(text, flush=True))


def run(rungs: dict[str, Rung], say: Callable[[str], None]) -> int:
    """Look at everything, say a line for each check and a summary; the exit code."""
    began = time.monotonic()
    failed: list[Check] = []
    count = 0
    for title, rung in rungs.items():
        say(title)
        for check in rung():
            count += 1
            say(f"  {'✓' if check.passed else '✗'} {check.name:<52} {check.detail}".rstrip())
            if not check.passed:
                failed.append(check)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    say(f"{'FAIL' if failed else 'PASS'}: {count - len(failed)} of {count} checks hold, {minutes} min {seconds} s")
    for check in failed:
        say(f"  ✗ {check.name}: {check.detail.partition(chr(10))[0]}")
    return 1 if failed else 0


def preflight() -> Iterator[Check]:
    pairs = [(path.stem, _LADDER) for path in shipped("profile")]
    for profile, substrate in [*pairs, *_SMALL]:
        try:
            refusals = refusals_of(_plan(profile, substrate))
            why = "; ".join(refusal.message for refusal in refusals)
        except ScaletestError as error:
            why = error.message
        yield Check(f"{profile} on {substrate}", not why, why)


def closed_loop() -> Iterator[Check]:
    yield from checks_of(scenario_check, "bigfleet.sim.cli", "verify")
    yield _command(
        "the closed loop stands still, old bugs show", "pytest", "-q", "tests/unit/bigfleet/sim/test_closed_loop.py"
    )
    yield _command(f"soak of {_SOAK_CYCLES} cycles leaks nothing", "bigfleet.sim.cli", "soak", "--cycles", _SOAK_CYCLES)
    for profile in _SIMULATED:
        try:
            prediction = simulate(_plan(profile, "embedded"))
            short = [f"{gate.title}: {gate.verdict}" for gate in prediction.gates if gate.verdict not in _FINE]
            settled = f"steady after {prediction.steady_after_seconds:g} s, {prediction.soak.reclaims} reclaims"
            yield Check(f"{profile} settles and keeps its bars", prediction.passes, "; ".join(short) or settled)
        except ScaletestError as error:
            yield Check(f"{profile} settles and keeps its bars", False, error.message)


def hot_benches() -> Iterator[Check]:
    yield from checks_of(hot_check, "tests.bench.engine.hot")


def scenario_check(line: str) -> Check:
    """What one line of `fauxctl verify` says."""
    word, name, *why = line.split("  ", 2)
    return Check(f"scenario {name}, as its golden trace", word == "PASS", " ".join(why))


def hot_check(text: str) -> Check:
    """What one line of `make bench-hot` says: a missed bar is told, a regression fails, nothing to compare with too."""
    line = json.loads(text)
    unit = "ms" if "ms" in line else "bytes_per_machine"
    figure, compared = line[unit], line["of_baseline"]
    said = [f"{figure['value']:g} {'ms' if unit == 'ms' else 'B'}"]
    if "bar" in figure:
        said.append(f"{'bar' if figure['met'] else 'MISSES its bar of'} {figure['bar']:g}")
    regressed = compared is not None and compared["regressed"]
    if compared is None:
        said.append("it has no baseline; `python -m tests.bench.engine.hot --store` keeps one")
    else:
        said.append(f"{compared['ratio']:.2f} × its baseline{', a regression' if regressed else ''}")
    return Check(f"{line['shape']}, {line['case']}", compared is not None and not regressed, ", ".join(said))


def _plan(profile: str, substrate: str) -> Plan:
    profile_model, catalog, profile_name = read_profile(profile)
    substrate_model, substrate_name = read_substrate(substrate)
    return make_plan(profile_model, profile_name, catalog, substrate_model, substrate_name, this_host=this_machine())


def _command(name: str, *module: str) -> Check:
    """Passes if the module's command ends with 0; else its last line is the reason."""
    result = subprocess.run([sys.executable, "-m", *module], capture_output=True, text=True, check=False)
    said = (result.stdout + result.stderr).strip().splitlines() or ["it said nothing"]
    return Check(name, result.returncode == 0, "" if result.returncode == 0 else said[-1])


def checks_of(read: Callable[[str], Check], *module: str) -> Iterator[Check]:
    """A check for each line that a module's command prints, as they come, and one more if the command broke down.

    It ends with 1 to say that a line fails; Python ends with 1 too, after an error that nobody caught.
    """
    command = [sys.executable, "-m", *module]
    count = failures = 0
    with (
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True) as process,
    ):
        for line in process.stdout or ():
            check = read(line.rstrip("\n"))
            count += 1
            failures += not check.passed
            yield check
        code = process.wait()
        if count and (code == 0 or (code == 1 and failures)):
            return
        told.seek(0)
        said = told.read().splitlines()[-_TAIL_LINES:] or ["it said nothing"]
    how = f"it ended with {code} after {count} lines, {failures} of them failures: {said[-1]}"
    yield Check(f"{module[0]} looks at all it should", False, "\n".join([how, *(f"      {line}" for line in said)]))


if __name__ == "__main__":
    sys.exit(main())
