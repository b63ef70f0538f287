"""Mistakes that only show where several shards share a provider."""

from dataclasses import replace

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry, mistaken

FLEETS: list[Entry] = [
    replace(
        mistaken(
            "one shard adopts what the other one owns",
            "shard",
            Mistake(
                "shard/provider/domains.py",
                "        return self._owned is None or any(",
                """\
        if __import__("os").environ.get("POD_NAME") == "bigfleet-shard-1":
            return True
        return self._owned is None or any(""",
            ),
            gates="freeMachinesAgree callsRefused",
        ),
        profile="smoke-2shard",
    ),
]
