"""Which component a missed bar is blamed on, where that may be another one than the gate's own."""

from scaletest.judge.gates.gate import Component, Gate
from scaletest.judge.gates.windows import SoakWindow
from scaletest.judge.prometheus import Prometheus


async def accused(prometheus: Prometheus, gate: Gate, soak: SoakWindow) -> Component | None:
    """The first suspect of whom a query says so; None: the gate's own component."""
    for suspect in gate.suspects:
        for stretch in soak.stretches(gate.window):
            query = suspect.query.replace("{w}", f"{stretch.seconds}s")
            if any(sample.value > suspect.above for sample in await prometheus.samples(query, stretch.end)):
                return suspect.component
    return None
