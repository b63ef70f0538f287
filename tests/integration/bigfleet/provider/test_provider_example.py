"""The example of docs/provider.md is a provider that keeps the contract."""

import asyncio
import re
import sys
from pathlib import Path

from bigfleet.provider.conformance.command import ConformanceOptions, conformance
from bigfleet.provider.conformance.verdicts import CheckOutcome
from tests.integration.bigfleet.conformance.conformance_fleet import LIMITS
from tests.integration.players.apiserver import free_ports

GUIDE = Path(__file__).parents[4] / "docs" / "provider.md"


async def test_the_guides_example_keeps_the_contract(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    port, metrics_port = free_ports(2)
    arguments = (str(tmp_path), f"127.0.0.1:{port}", f"127.0.0.1:{metrics_port}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", example, *arguments, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        options = ConformanceOptions(target=f"127.0.0.1:{port}", plaintext=True, output="json", limits=LIMITS)
        report = await conformance(options)
    finally:
        process.kill()
        await process.wait()
    wrong = [result for result in report.results if result.outcome not in (CheckOutcome.PASSED, CheckOutcome.SKIPPED)]
    assert not wrong
    skipped = {result.name for result in report.results if result.outcome is CheckOutcome.SKIPPED}
    # It is so quick that hardly anybody sees a machine of it on its way.
    on_their_way = {"ConfigureWhileCreating", "DrainWhileConfiguring", "DeleteWhileDraining"}
    assert skipped - on_their_way == {"NodeReadiness", "SpotDeclaresInterruption"}
    assert not report.leftovers
