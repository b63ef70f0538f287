"""Each broken provider fails the checks that it should, and no other."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.provider.conformance.command import ConformanceOptions, conformance
from bigfleet.provider.conformance.suite import all_checks
from bigfleet.provider.conformance.verdicts import CheckOutcome, SuiteReport
from bigfleet.provider.fake.fleet_file import read_fleet
from bigfleet.provider.fake.latency import Latencies, Latency
from bigfleet.provider.fake.server import FakeProvider, ProviderOptions, serving
from tests.integration.bigfleet.conformance.conformance_fleet import FLEET, LIMITS
from tests.integration.bigfleet.conformance.mutants import MUTANTS, Mutant

# Long enough that two calls in a row find the machine on its way, also when many suites run at once; shorter than the
# checks look on (LIMITS.quiet_seconds).
LATENCY = Latency(0.1, 0.1)
# A suite mostly waits for its provider.
AT_ONCE = 24


async def report_of(mutant: Mutant, directory: Path) -> SuiteReport:
    """The suite's verdict on a provider that is broken in this way."""
    fleet = directory / f"{mutant.name}.json"
    fleet.write_bytes(msgspec.json.encode(FLEET))
    options = ProviderOptions(
        listen="127.0.0.1:0",
        metrics_addr="127.0.0.1:0",
        fleet=fleet,
        plaintext=True,
        latencies=Latencies(*[LATENCY] * 4),
    )
    provider = FakeProvider(options, CollectorRegistry())
    provider.seed(read_fleet(fleet))
    mutant.break_it(provider)
    async with serving(provider, options) as running:
        target = f"127.0.0.1:{running.port}"
        return await conformance(ConformanceOptions(target=target, plaintext=True, output="json", limits=LIMITS))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, SuiteReport]:
    """The verdicts on all mutants that this session asks about."""
    cases = [getattr(item, "callspec", None) for item in request.session.items]
    asked_for = {case.params["mutant"].name for case in cases if case is not None and "mutant" in case.params}
    directory = tmp_path_factory.mktemp("mutants")

    async def judge_all() -> dict[str, SuiteReport]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def judge(mutant: Mutant) -> tuple[str, SuiteReport]:
            async with gate:
                return mutant.name, await report_of(mutant, directory)

        return dict(await asyncio.gather(*(judge(mutant) for mutant in MUTANTS if mutant.name in asked_for)))

    return asyncio.run(judge_all())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_seen_by_its_check(mutant: Mutant, reports: dict[str, SuiteReport]) -> None:
    failed = {
        entry.name: entry.reason for entry in reports[mutant.name].results if entry.outcome is CheckOutcome.FAILED
    }
    assert set(failed) == mutant.fails, failed


def test_every_check_is_seen_to_fail() -> None:
    seen = frozenset[str]().union(*(mutant.fails for mutant in MUTANTS))
    assert {check.name for check in all_checks()} == seen
