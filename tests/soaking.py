"""The ConfigMap by which the runner tells the load-drivers that the soak is on."""

import time

from bigfleet.kube import ObjectMeta
from scaletest.cluster.load.run_watch import RunConfigMap, RunState


def soak(seconds_ago: float = 0.0) -> RunConfigMap:
    return RunConfigMap(ObjectMeta(), RunState("soak", str(time.time() - seconds_ago)))
