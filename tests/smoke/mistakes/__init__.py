"""The catalogue: mistakes that a tired engineer could make, and what a run must survive (docs of the score: score.py).

Each is seeded where such a thing really goes wrong: in the source of BigFleet, in the provider's own faults, in a
process that hangs. Nothing here touches the judge. A new one goes into the list of its component (shard.py,
operator.py, …), or of where it shows (leaving.py: drains; needs.py: rows; fleets.py: several shards; security.py).
"""

from tests.smoke.mistakes.coordinator import COORDINATOR
from tests.smoke.mistakes.engine import ENGINE
from tests.smoke.mistakes.entry import Entry
from tests.smoke.mistakes.figures import FIGURES
from tests.smoke.mistakes.fleets import FLEETS
from tests.smoke.mistakes.found import FOUND
from tests.smoke.mistakes.leaving import LEAVING
from tests.smoke.mistakes.needs import NEEDS
from tests.smoke.mistakes.operator import OPERATOR
from tests.smoke.mistakes.pod_controller import POD_CONTROLLER
from tests.smoke.mistakes.provider import PROVIDER
from tests.smoke.mistakes.security import SECURITY
from tests.smoke.mistakes.shard import SHARD
from tests.smoke.mistakes.surroundings import SURROUNDINGS
from tests.smoke.mistakes.unreached import UNREACHED
from tests.smoke.mistakes.unseen import UNSEEN

CATALOGUE: list[Entry] = [
    *SHARD,
    *ENGINE,
    *OPERATOR,
    *POD_CONTROLLER,
    *COORDINATOR,
    *PROVIDER,
    *SECURITY,
    *FIGURES,
    *SURROUNDINGS,
    *FOUND,
    *LEAVING,
    *NEEDS,
    *FLEETS,
    *UNREACHED,
    *UNSEEN,
]

__all__ = ["CATALOGUE", "Entry"]
