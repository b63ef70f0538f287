"""Mistakes about who may speak for whom."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry, mistaken

SECURITY: list[Entry] = [
    mistaken(
        "the shard believes the cluster that a hello names",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            'identity is None or identity == Identity("cluster", cluster)',
            'identity is None or identity.kind == "cluster"',
        ),
        gates="identityRefused",
        seconds=65,
    ),
    mistaken(
        "nobody compares the name in a certificate",
        "provider",
        Mistake(
            "security/identity.py",
            "    if name is not None and identity.name != name:\n",
            "    if name is not None and not identity.name:\n",
        ),
        gates="identityRefused",
        seconds=65,
    ),
    mistaken(
        "any role will do",
        "provider",
        Mistake("security/identity.py", "    if identity.kind not in kinds:\n", "    if not identity.kind:\n"),
        gates="identityRefused",
        seconds=65,
    ),
    mistaken(
        "every operator is refused",
        "shard",
        Mistake(
            "shard/sessions/sessions.py",
            'identity is None or identity == Identity("cluster", cluster)',
            'identity is None or identity == Identity("shard", cluster)',
        ),
        gates="",
        exit_codes=(3,),
    ),
]
