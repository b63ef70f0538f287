"""The file in which a deployer writes which shard is to own which domain: `[{"key": …, "value": …, "shard": …}]`."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bigfleet.coordinator.ownership import Domain
from bigfleet.core.labels import check_label_key, check_label_value
from bigfleet.errors import BigFleetError, ExitStatus


class BadDomainsFile(BigFleetError):
    """The file of domains cannot be followed."""

    exit_code = ExitStatus.WRONG_USE
    hint = 'write a JSON list of {"key": …, "value": …, "shard": …}, each domain once'


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    value: str
    shard: str


def read_domains_file(path: Path) -> Mapping[Domain, str]:
    """The shard that is to own each domain. Raises BadDomainsFile, which names the entry, counted from 1."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[msgspec.Raw])
    except OSError as error:
        raise BadDomainsFile(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BadDomainsFile(f"{path}: {error}") from error
    wanted: dict[Domain, str] = {}
    for number, raw in enumerate(entries, 1):
        try:
            entry = msgspec.json.decode(raw, type=_Entry)
            domain = _domain(entry)
        except ValueError as error:  # msgspec's own are ValueErrors too
            raise BadDomainsFile(f"{path}, entry {number}: {error}") from error
        if domain in wanted:
            raise BadDomainsFile(f"{path}, entry {number}: {entry.key}={entry.value} stands there twice")
        wanted[domain] = entry.shard
    return wanted


def _domain(entry: _Entry) -> Domain:
    empty = [name for name in ("key", "value", "shard") if not getattr(entry, name)]
    if empty:
        raise ValueError(f"{', '.join(empty)} must be set")
    return Domain(check_label_key(entry.key), check_label_value(entry.value))
