"""The witness knows by the draw what a Pod's CapacityRequest has to say, and finds every field that says otherwise."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core.quantity import QuantityError, parse_milli
from bigfleet.podcontroller.pods import read_pod
from bigfleet.podcontroller.request import translate
from scaletest.cluster.witness.amounts import milli_of
from scaletest.cluster.witness.expected import SPEC_FIELDS, Expected, differences, expected_of
from scaletest.cluster.witness.needs import need_of
from scaletest.cluster.workloads.manifests import manifest_of
from scaletest.model.demand.draw import Workload, draw_demand
from scaletest.model.documents.catalog import Catalog
from tests.unit.witness_world import ALL, GANG, SPREAD, TEAMED, WEB

CATALOGS = sorted(Path("profiles/archetypes").glob("*.yaml"))


def spec_of(drawn: Workload) -> dict[str, Any]:
    """What the pod-controller of today writes for a Pod of this workload."""
    return translate(read_pod(manifest_of(drawn)["spec"]["template"]), {}).spec


def drawn_from(catalog: Path) -> dict[str, Workload]:
    """Workloads of every archetype that a catalog has."""
    archetypes = Catalog.model_validate(yaml.safe_load(catalog.read_text())).demand
    drawn: dict[str, Workload] = {}
    for one in archetypes:
        alone = one.model_copy(update={"burst_only": False})
        drawn |= {found.name: found for found in draw_demand([alone], 2000, 1, 0).workloads()}
    return drawn


@pytest.mark.parametrize("catalog", CATALOGS, ids=lambda path: path.stem)
def test_what_the_pod_controller_writes_for_any_archetype_is_what_the_draw_says(catalog: Path) -> None:
    drawn = drawn_from(catalog)
    assert {one.archetype.name for one in drawn.values()}
    for one in drawn.values():
        assert differences(expected_of(one), spec_of(one)) == (), one.name


def change(spec: dict[str, Any], field: str) -> None:
    """Something small is wrong with one field."""
    match field:
        case "priority":
            spec["priority"] += 1
        case "resources":
            spec["resources"]["memory"] = f"{parse_milli(spec['resources']['memory']) * 4 // 5}m"
        case "requirements":
            (types,) = [one for one in spec["requirements"] if one["key"] == "node.kubernetes.io/instance-type"]
            types["values"].pop()
        case "coLocation":
            spec["coLocation"]["labelSelector"]["matchLabels"] = {"scaletest.bigfleet/co-location-group": "another"}
        case "topologySpread":
            spec["topologySpread"][0]["whenUnsatisfiable"] = "ScheduleAnyway"
        case _:
            spec[field] = "12345"


def all_of_them() -> tuple[Workload, dict[str, Any]]:
    """A workload that has everything, and its request."""
    everything = GANG.archetype.model_copy(
        update={"spread": SPREAD.archetype.spread, "label_axes": TEAMED.archetype.label_axes}
    )
    drawn = Workload("trainer-1", everything, 3, GANG.size, 1000, True, "a-group", (2,))
    return drawn, spec_of(drawn)


@pytest.mark.parametrize("field", SPEC_FIELDS)
def test_each_field_that_is_changed_or_left_out_is_found_and_no_other(field: str) -> None:
    drawn, spec = all_of_them()
    assert differences(expected_of(drawn), spec) == ()
    changed, without = deepcopy(spec), {name: value for name, value in spec.items() if name != field}
    change(changed, field)
    assert differences(expected_of(drawn), changed) == (field,)
    assert differences(expected_of(drawn), without) == (field,)


@pytest.mark.parametrize("field", SPEC_FIELDS)
@pytest.mark.parametrize("nonsense", ["?", 7.5, ["x"], {"x": "y"}, [{"key": "x"}]])
def test_nonsense_is_a_difference_and_no_mishap(field: str, nonsense: Any) -> None:
    drawn, spec = all_of_them()
    assert differences(expected_of(drawn), spec | {field: nonsense}) == (field,)


def test_what_nobody_asked_for_is_found_too() -> None:
    web, gang = spec_of(WEB), spec_of(GANG)
    assert differences(expected_of(WEB), web | {"coLocation": gang["coLocation"]}) == ("coLocation",)
    spread = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    assert differences(expected_of(WEB), web | {"topologySpread": [spread]}) == ("topologySpread",)


def test_the_same_in_other_words_is_no_difference() -> None:
    drawn, spec = all_of_them()
    spec["resources"] = {"cpu": "64000m", "memory": 4 * 2**30}
    spec["requirements"] = [
        item | {"values": list(reversed(item["values"]))} for item in reversed(spec["requirements"])
    ]
    spec |= {"interruptionPenalty": 0, "reclamationPenalty": "0m"}
    assert differences(expected_of(drawn), spec) == ()


def test_a_workload_that_nobody_drew_has_nothing_to_be_compared_with() -> None:
    expected = Expected(ALL)
    spec = msgspec.json.encode(spec_of(GANG)).decode()
    assert expected.differences("trainer-0", spec) == ()
    assert "priority" in expected.differences("web-0", spec)
    assert expected.differences("by-hand", spec) == ()


def test_demand_is_told_apart_as_the_shard_does() -> None:
    needs = [need_of(one) for one in (WEB, SPREAD, GANG, TEAMED)]
    assert [one.kind for one in needs] == ["plain", "spread", "gang", "plain"]
    assert [one.priority_class for one in needs] == ["batch", "service", "critical", "other"]
    assert needs[0].resources == {"cpu": 2000, "memory": 4 * 2**30 * 1000}


QUANTITIES = st.from_regex(r"\A[+-]?([0-9]{1,3}\.?[0-9]{0,3}|\.[0-9]{1,5})([eE][+-]?[0-9]|[numkMGT]|[KMGT]i)?\Z")


@given(QUANTITIES)
def test_quantities_are_read_as_bigfleet_reads_them(text: str) -> None:
    assert milli_of(text) == parse_milli(text)


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1kk", "1e999999999", "0x10", "١"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        milli_of(text)
    if text != "1e999999999":
        with pytest.raises(QuantityError):
            parse_milli(text)
