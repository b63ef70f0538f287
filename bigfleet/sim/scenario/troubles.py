"""What a scenario lets go wrong: which machines, when, for how long."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bigfleet.sim.scenario.document import ActionName, NonNegative, Positive, ScenarioDocument, Share


class Where(ScenarioDocument):
    """Which machines; empty: all."""

    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    # `<zone>-rack-<number>`, numbered from 0 in each zone.
    racks: tuple[str, ...] = ()


class LoseFault(ScenarioDocument):
    """A fault storm: machines break (or vanish) at once."""

    kind: Literal["lose"]
    at_seconds: NonNegative
    share: Share = 0.0
    number: Annotated[int, Field(ge=0)] = 0
    vanish: bool = False
    where: Where = Where()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.share) == bool(self.number):
            raise ValueError("give share or number")
        return self


class Window(ScenarioDocument):
    from_seconds: NonNegative
    to_seconds: Positive

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.from_seconds >= self.to_seconds:
            raise ValueError("fromSeconds must be below toSeconds")
        return self


class LossRateFault(Window):
    """Machines break one by one, so many a second for each that serves."""

    kind: Literal["lossRate"]
    per_machine_second: Positive


class SpotFault(Window):
    """Spot machines are taken back, at `times` what they declare."""

    kind: Literal["spotInterruptions"]
    times: Positive = 1.0


class StockoutFault(Window):
    """Nothing can be bought there."""

    kind: Literal["stockout"]
    where: Where = Where()


class RefuseFault(Window):
    """The provider refuses calls: a rate limit or an outage."""

    kind: Literal["refuse"]
    actions: Annotated[tuple[ActionName, ...], Field(min_length=1)] = ("Bootstrap", "Provision")


class RestartFault(ScenarioDocument):
    """The shard dies and comes back."""

    kind: Literal["restartShard"]
    at_seconds: NonNegative


class PartitionFault(Window):
    """No roll-up of a cluster arrives."""

    kind: Literal["partition"]
    cluster: str


class EmptyRollupFault(ScenarioDocument):
    """A cluster says, wrongly and once, that it needs nothing."""

    kind: Literal["emptyRollup"]
    at_seconds: NonNegative
    cluster: str


Fault = Annotated[
    LoseFault
    | LossRateFault
    | SpotFault
    | StockoutFault
    | RefuseFault
    | RestartFault
    | PartitionFault
    | EmptyRollupFault,
    Field(discriminator="kind"),
]
