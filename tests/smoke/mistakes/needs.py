"""Mistakes in the rows of demand: what is asked for adds up, but it is asked for wrongly."""

from tests.mutants.mutant import Mistake
from tests.smoke.mistakes.entry import Entry, mistaken

NEEDS: list[Entry] = [
    # All that is bought is in one zone then.
    mistaken(
        "only the first of the values that a Pod allows is rolled up",
        "operator",
        Mistake(
            "operator/rollup.py",
            'return Requirement(item["key"], operator, tuple(item.get("values") or ()))',
            'return Requirement(item["key"], operator, tuple(item.get("values") or ())[:1])',
        ),
        gates="needsWrong",
    ),
    mistaken(
        "penalties are read a thousand times too large",
        "operator",
        Mistake(
            "operator/rollup.py",
            "penalty.bucket_of(_milli(name, value) / 1000)",
            "penalty.bucket_of(_milli(name, value))",
        ),
        gates="needsWrong",
    ),
    # Then a machine counts that no Pod fits on.
    mistaken(
        "the smallest unit of a need is half of a Pod",
        "operator",
        Mistake(
            "operator/rollup.py",
            "            min_unit=format_vector(min_unit),\n",
            "            min_unit=format_vector({name: milli // 2 for name, milli in min_unit.items()}),\n",
        ),
        gates="needsWrong",
    ),
    mistaken(
        "the shard lets spreads be skewed twice as far",
        "shard",
        Mistake(
            "shard/convert.py",
            "return Spread(message.topology_key, message.max_skew, ",
            "return Spread(message.topology_key, 2 * message.max_skew, ",
        ),
        gates="needsWrong",
    ),
    mistaken(
        "the shard takes reclamation penalties for interruption penalties",
        "shard",
        Mistake(
            "shard/convert.py",
            "        message.interruption_penalty_bucket,\n        message.reclamation_penalty_bucket,\n",
            "        message.reclamation_penalty_bucket,\n        message.interruption_penalty_bucket,\n",
        ),
        gates="needsWrong",
    ),
    # No machine is what any Pod asks for.
    mistaken(
        "instance types are looked for under another label",
        "shard",
        Mistake("core/requirements.py", '"node.kubernetes.io/instance-type"', '"node.kubernetes.io/instance_type"'),
        gates="",
        exit_codes=(3,),
    ),
]
