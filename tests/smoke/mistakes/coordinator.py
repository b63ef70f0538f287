"""Mistakes in the coordinator."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry, mistaken

_TAKE = "            instructions = await tenure.report(request, self._now_unix_ns())\n"

COORDINATOR: list[Entry] = [
    mistaken(
        "every second report is refused",
        "coordinator",
        Mistake(
            "coordinator/service.py",
            _TAKE,
            f"""\
            self._even = not getattr(self, "_even", True)
            if self._even:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this report is an even one")
{_TAKE}""",
        ),
        gates="reportsTakenFraction",
    ),
    mistaken(
        "reports are answered after six seconds",
        "coordinator",
        Mistake("coordinator/service.py", _TAKE, f'            await __import__("asyncio").sleep(6)\n{_TAKE}'),
        gates="reportsTakenFraction reportGapSeconds",
    ),
    mistaken(
        "half of the coordinator's writes fail",
        "coordinator",
        Mistake(
            "coordinator/store.py",
            "            await self._write_all([_heartbeat(",
            """\
            self._odd = not getattr(self, "_odd", False)
            if self._odd:
                raise EtcdUnavailable("the disk is slow")
            await self._write_all([_heartbeat(""",
        ),
        gates="coordinatorApplyErrorRate",
    ),
    # Nothing is wrong with what was written; there is just too little of it to judge.
    Entry(
        "heartbeats are not written down",
        "coordinator",
        (1, 5),
        frozenset({"coordinatorApplyErrorRate"}),
        verdict="no-data",
        mistakes=(
            Mistake(
                "coordinator/tenure.py",
                "        self._unsaved_heartbeats.add(report.shard_id)\n",
                '        log.debug("heard of", shard=report.shard_id)\n',
            ),
        ),
    ),
]
