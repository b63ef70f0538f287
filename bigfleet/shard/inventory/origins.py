"""Which provider each machine is from: a machine id belongs to one provider."""

from collections.abc import Iterable, Sequence

# The name of a provider that was given none.
DEFAULT_PROVIDER = "default"


class Origins:
    """A machine is from the provider that listed it first, as long as the shard knows it. One provider has them all."""

    def __init__(self, providers: Sequence[str]) -> None:
        self._only = providers[0] if len(providers) == 1 else None
        self._by_machine: dict[str, str] = {}
        self._names = {name: name for name in providers}
        self.providers = tuple(providers)

    def of(self, machine_id: str) -> str:
        """The provider's name; empty for a machine that the shard does not know."""
        return self._only or self._by_machine.get(machine_id, "")

    def claim(self, machine_id: str, provider: str) -> None:
        """The machine is from this provider, unless it is from another."""
        if self._only is None:
            self._by_machine.setdefault(machine_id, self._names[provider])

    def elsewhere(self, machine_id: str, provider: str) -> bool:
        """Whether a machine is another provider's."""
        return self._only is None and self._by_machine.get(machine_id, provider) != provider

    def release(self, machine_id: str) -> None:
        """The shard knows the machine no longer."""
        self._by_machine.pop(machine_id, None)

    def among(self, machine_ids: Iterable[str], provider: str) -> set[str]:
        """Those that are from a provider."""
        if self._only:
            return set(machine_ids)
        return {machine_id for machine_id in machine_ids if self._by_machine.get(machine_id) == provider}


ONE_PROVIDER = Origins([DEFAULT_PROVIDER])
