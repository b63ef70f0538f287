"""A dashboard as Grafana reads it: the fields of its JSON that we write."""

from typing import Literal, NotRequired, TypedDict

from scaletest.model.json_types import Json

Kind = Literal["stat", "timeseries"]


class DatasourceJson(TypedDict):
    """Which of Grafana's data sources answers."""

    type: str
    uid: str


class TargetJson(TypedDict):
    """A query of a panel."""

    refId: str
    datasource: DatasourceJson
    expr: str
    legendFormat: str


class StepJson(TypedDict):
    """A colour from a value on; the first one has no value."""

    color: str
    value: float | None


class ThresholdsJson(TypedDict):
    """The bar, as colours on both sides of it."""

    mode: str
    steps: list[StepJson]


class ThresholdsStyleJson(TypedDict):
    """How a bar is drawn."""

    mode: str


class CustomJson(TypedDict):
    """What only a time series knows."""

    thresholdsStyle: ThresholdsStyleJson


class MappingJson(TypedDict):
    """Numbers that mean a word: number → {"text": word}."""

    type: str
    options: dict[str, dict[str, str]]


class FieldsJson(TypedDict):
    """How values are shown."""

    unit: str
    noValue: str
    mappings: NotRequired[list[MappingJson]]
    thresholds: NotRequired[ThresholdsJson]
    custom: NotRequired[CustomJson]


class FieldConfigJson(TypedDict):
    """How values are shown, without exceptions for some of them."""

    defaults: FieldsJson
    overrides: list[Json]


class GridJson(TypedDict):
    """Where a panel is, in cells of the grid."""

    x: int
    y: int
    w: int
    h: int


class PanelJson(TypedDict):
    """A picture, or the title of a row of them."""

    id: int
    type: Kind | Literal["row"]
    title: str
    gridPos: GridJson
    # Of a row.
    collapsed: NotRequired[bool]
    panels: NotRequired[list[Json]]
    # Of a picture.
    description: NotRequired[str]
    datasource: NotRequired[DatasourceJson]
    fieldConfig: NotRequired[FieldConfigJson]
    options: NotRequired[dict[str, str]]
    targets: NotRequired[list[TargetJson]]


class ListJson(TypedDict):
    """Grafana's way to write a list."""

    list: list[Json]


# `from` is no name for a field of a class.
TimeJson = TypedDict("TimeJson", {"from": str, "to": str})


class DashboardJson(TypedDict):
    """The document as Grafana reads it."""

    uid: str
    title: str
    tags: list[str]
    schemaVersion: int
    version: int
    editable: bool
    refresh: str
    time: TimeJson
    timezone: str
    templating: ListJson
    annotations: ListJson
    panels: list[PanelJson]
