"""The binding and what the shard wrote on it: kept to the byte, and gone with it.

See docs/reference/wire.md#shard-metadata.
"""

from typing import Any

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken

S = MachineState
_KNOWN = {
    "bigfleet.lucy.sh/assigned-priority": "1000000",
    "bigfleet.lucy.sh/assigned-interruption-penalty-dollars": "0.5",
    "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars": "+Inf",
    "bigfleet.lucy.sh/assigned-group": "topology.kubernetes.io/zone\x00app=web,;",
}
_UNKNOWN = {
    "example.com/unknown": "kept",
    "NUL": "a\x00b",
    "unicode/ключ": "値 🚀 é e\u0301",
    "empty": "",
    "": "no key",
    " spaces ": " \t\r\n",
}
_ODD = (
    "",
    " ",
    "\x00",
    "\x7f",
    "\n",
    "\\n",
    "'",
    '"',
    "<&>",
    "{}",
    "[1]",
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "%s",
    "$HOME",
)
_HOSTILE_KEYS = 55


def hostile_metadata() -> dict[str, str]:
    """55 keys and values that a careless provider trims, quotes, parses or folds."""
    return {
        f"k{number}{_ODD[number % len(_ODD)]}": _ODD[-1 - number % len(_ODD)] * 3 for number in range(_HOSTILE_KEYS)
    }


def _echoed(machine: Any, metadata: dict[str, str], cluster: str, where: str) -> None:
    held = dict(machine.shard_metadata)
    if held != metadata:
        wrong = sorted(key for key in held.keys() | metadata.keys() if held.get(key) != metadata.get(key))
        first = wrong[0]
        raise Broken(
            f"{where} has {len(wrong)} wrong metadata keys, for one {first!r}: "
            f"{held.get(first)!r} instead of {metadata.get(first)!r}"
        )
    if machine.cluster != cluster:
        raise Broken(f"{where} has the cluster {machine.cluster!r}, not {cluster!r}")


async def _bound(bench: Bench, metadata: dict[str, str]) -> Any:
    """A machine that was configured with this metadata."""
    machine_id = await bench.machine(S.IDLE)
    (await bench.configure(machine_id, metadata)).accepted()
    return await bench.until(machine_id, S.CONFIGURED)


@check
async def metadata_echoed_on_get_and_list(bench: Bench) -> None:
    """Get and List show cluster and shard_metadata as Configure gave them."""
    machine = await _bound(bench, _KNOWN)
    _echoed(machine, _KNOWN, bench.cluster, "Get")
    listed = [entry for entry in (await bench.listed(states=[int(S.CONFIGURED)])).machines if entry.id == machine.id]
    if not listed:
        raise Broken(f"{machine.id} is CONFIGURED and a List for that state lacks it")
    _echoed(listed[0], _KNOWN, bench.cluster, "List")


@check
async def metadata_unknown_keys_preserved_verbatim(bench: Bench) -> None:
    """Keys and values that mean nothing to the provider are kept to the byte: NUL, unicode, empty."""
    _echoed(await _bound(bench, _UNKNOWN), _UNKNOWN, bench.cluster, "Get")


@check
async def metadata_hostile_map(bench: Bench) -> None:
    """55 keys full of quotes, escapes and control characters are kept to the byte (B501–505)."""
    metadata = hostile_metadata()
    _echoed(await _bound(bench, metadata), metadata, bench.cluster, "Get")


@check
async def metadata_visible_during_configuring(bench: Bench) -> None:
    """Cluster and shard_metadata are there as soon as the call is accepted (B501–505)."""
    machine_id = await bench.machine(S.IDLE)
    ack = (await bench.configure(machine_id, _KNOWN)).accepted()
    machine = await bench.get(machine_id)
    if ack.HasField("machine"):
        _echoed(ack.machine, _KNOWN, bench.cluster, "the ack")
    _echoed(machine, _KNOWN, bench.cluster, f"a machine that is {MachineState(machine.state).name}")
    await bench.until(machine_id, S.CONFIGURED)


@check
async def metadata_and_binding_clear_on_drain(bench: Bench) -> None:
    """A machine that was drained has neither cluster nor shard_metadata."""
    machine = await _bound(bench, _KNOWN)
    (await bench.drain(machine.id)).accepted()
    idle = await bench.until(machine.id, S.IDLE, seconds=bench.limits.drain_seconds)
    _echoed(idle, {}, "", "a machine that was drained")


@check
async def metadata_is_not_shared(bench: Bench) -> None:
    """What one machine is configured with is not seen on another, nor on the same one later (B501–505)."""
    one = await _bound(bench, _UNKNOWN)
    other_id = await bench.machine(S.IDLE, but={one.id})
    (await bench.configure(other_id, {"only": "other"})).accepted()
    _echoed(await bench.until(other_id, S.CONFIGURED), {"only": "other"}, bench.cluster, "a second machine")
    _echoed(await bench.get(one.id), _UNKNOWN, bench.cluster, "the first machine")
    (await bench.drain(one.id)).accepted()
    await bench.until(one.id, S.IDLE, seconds=bench.limits.drain_seconds)
    (await bench.configure(one.id, {"only": "later"})).accepted()
    _echoed(await bench.until(one.id, S.CONFIGURED), {"only": "later"}, bench.cluster, "a machine bound once more")
