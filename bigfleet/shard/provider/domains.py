"""The topology domains this shard owns, kept on its own disk so that it starts without a coordinator."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bigfleet.core.machines import Machine
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.shard.provider.epoch import write_durably

_FILE = "domains.json"

Domain = tuple[str, str]


class CorruptDomains(BigFleetError):
    """The domain file can't be read. Starting anyway could adopt another shard's machines."""

    exit_code = ExitStatus.WRONG_USE


class Domains:
    """(topology key, value) pairs.

    A shard that was never told of any owns every machine of its provider. Once it was, it owns what is assigned to it
    and no more: losing its last domain must not make it adopt its neighbours' machines.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _FILE
        self._owned = _read(self._path)
        self._values = _by_key(self._owned)
        self._in_one_write = False
        # Given up, while calls for their machines may still be on their way. After a start none is.
        self.leaving: frozenset[Domain] = frozenset()

    @property
    def owned(self) -> frozenset[Domain] | None:
        """None = everything."""
        return self._owned

    def confine(self) -> bool:
        """Own what is assigned and nothing else, because some shard was assigned a domain; False when it is so."""
        if self._owned is not None:
            return False
        self._replace(frozenset())
        return True

    def assign(self, domain: Domain) -> bool:
        """Take a domain over; False when it was ours already."""
        owned = self._owned or frozenset()
        if domain in owned:
            return False
        self._replace(owned | {domain})
        return True

    def unassign(self, domain: Domain) -> bool:
        """Give a domain up; False when it was not ours."""
        if self._owned is None or domain not in self._owned:
            return False
        self._replace(self._owned - {domain})
        self.leaving |= {domain}
        return True

    def left(self) -> None:
        """No machine outside of our domains is in our hands any more."""
        self.leaving = frozenset()

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """All changes inside the block reach the disk together, at its end."""
        before, self._in_one_write = self._owned, True
        try:
            yield
        finally:
            self._in_one_write = False
        if self._owned != before:
            after, self._owned = self._owned, before
            self._replace(after)

    def contains(self, machine: Machine) -> bool:
        return self._owned is None or any(machine.attribute(key) in values for key, values in self._values.items())

    def _replace(self, owned: frozenset[Domain] | None) -> None:
        if not self._in_one_write:
            write_durably(self._path, json.dumps(sorted(owned or ())))
            self._values = _by_key(owned)
        self._owned = owned


def _by_key(owned: frozenset[Domain] | None) -> dict[str, frozenset[str]]:
    keys = {key for key, _ in owned or ()}
    return {key: frozenset(value for each, value in owned or () if each == key) for key in keys}


def _read(path: Path) -> frozenset[Domain] | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        return frozenset((str(key), str(value)) for key, value in json.loads(text))
    except (TypeError, ValueError) as error:
        raise CorruptDomains(f"{path} does not hold a list of [key, value] pairs: {error}") from error
