"""What a shard's flags make of its engine."""

import pytest

from bigfleet.core.machines import CapacityType
from bigfleet.engine import EngineOptions
from bigfleet.process.flags import parse_options
from bigfleet.shard import ShardOptions
from bigfleet.shard.process import engine_options

NEEDED = ("--listen=:0", "--metrics-addr=:0", "--id=s", "--data-dir=d", "--provider-addr=p", "--plaintext")


def engine_of(*flags: str) -> EngineOptions:
    return engine_options(parse_options(ShardOptions, "bigfleet shard", [*NEEDED, *flags]))


def test_by_default_the_holds_are_the_products() -> None:
    ours = engine_of()
    assert {kind: ours.idle_hold(kind) for kind in CapacityType} == {
        kind: EngineOptions().idle_hold(kind) for kind in CapacityType
    }


@pytest.mark.parametrize("kind", [kind for kind in CapacityType if kind is not CapacityType.UNSPECIFIED])
@pytest.mark.parametrize(("text", "seconds"), [("7.5", 7.5), ("0", 0.0), ("inf", float("inf"))])
def test_the_hold_of_every_capacity_type_can_be_set_alone(kind: CapacityType, text: str, seconds: float) -> None:
    ours = engine_of(f"--idle-hold-{kind.name.lower().replace('_', '-')}-seconds", text)
    others = [one for one in CapacityType if one is not kind]
    assert ours.idle_hold(kind) == seconds
    assert [ours.idle_hold(one) for one in others] == [EngineOptions().idle_hold(one) for one in others]


@pytest.mark.parametrize("text", ["-1", "nan"])
def test_a_hold_that_makes_no_sense_is_refused_by_name(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        engine_of(f"--idle-hold-spot-seconds={text}")
    assert f"idle_hold_spot_seconds is {text}, it must be 0 or more, or inf" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "fraction"), [((), 0.05), (("--dry-run",), 0), (("--actuation-paused",), 0)], ids=str
)
def test_who_executes_nothing_hears_of_every_reclaim(flags: tuple[str, ...], fraction: float) -> None:
    assert engine_of(*flags).reclaim_cap_fraction == fraction
