"""What all parts of a scenario's document have in common."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
ActionName = Literal["Bootstrap", "Provision", "Preempt", "Reclaim", "Delete"]


class ScenarioDocument(BaseModel):
    """Refuses what it does not know, and never changes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
    )
