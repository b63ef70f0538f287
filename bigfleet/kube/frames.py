"""Decodes what lists and watches answer: whole objects, or the subset of fields that our code reads."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from bigfleet.kube.errors import KubeError, error_from_status
from bigfleet.kube.subset import Subset

T = TypeVar("T")
# (type, object); a bookmark's object has a resource version and nothing else.
Event = tuple[str, Any]

BOOKMARK = "BOOKMARK"
_ERROR = "ERROR"


class _PageMetadata(msgspec.Struct, rename="camel"):
    resource_version: str
    more: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list."""

    metadata: _PageMetadata
    items: list[T] | None = None  # an empty list has `items: null`


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


_WHOLE_PAGE = msgspec.json.Decoder(Page[Any])
_WHOLE_EVENT = msgspec.json.Decoder(_Event[Any])


def page_decoder(subset: type[Subset] | None) -> Callable[[bytes], Page[Any]]:
    return _WHOLE_PAGE.decode if subset is None else msgspec.json.Decoder(Page[subset]).decode  # type: ignore[valid-type]


def event_decoder(subset: type[Subset] | None) -> Callable[[bytes], Event]:
    """Reads one line of a watch; raises the error that the server tells in it."""
    if subset is None:
        return _whole_event
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Event[subset])  # type: ignore[valid-type]

    def decode(line: bytes) -> Event:
        try:
            event = decoder.decode(line)
        except msgspec.DecodeError:
            event = None  # a bookmark or an error, as a rule, which are no objects of this type
        if event is not None and event.type not in (BOOKMARK, _ERROR):
            return event.type, event.object
        kind, item = _whole_event(line)
        if kind != BOOKMARK:
            raise KubeError(200, "NotUnderstood", f"a watch told of an object that is no {subset.__name__}")
        return kind, msgspec.convert(item, Subset)

    return decode


def _whole_event(line: bytes) -> Event:
    try:
        event = _WHOLE_EVENT.decode(line)
    except msgspec.DecodeError as error:
        raise KubeError(200, "NotJson", f"a watch was not answered in JSON: {error}") from error
    if event.type == _ERROR:
        raise error_from_status(500, msgspec.json.encode(event.object))
    return event.type, event.object
