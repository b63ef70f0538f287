"""Which process's death ended container `workload`: its exit code tells BigFleet's own from the harness's."""

from scaletest.supervise.children import ChildDied


class BigFleetDied(ChildDied):
    """A process of the system under test."""

    exit_code = 70


class HarnessDied(ChildDied):
    """A process of the harness that has no spare left."""

    exit_code = 71
