"""What a plan was made from, kept in plan.json: old evidence is judged by its own profile, not by today's file."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scaletest.errors import UsageError
from scaletest.model.counting import counted
from scaletest.model.documents.catalog import Catalog
from scaletest.model.documents.profile import Profile
from scaletest.model.documents.substrate import Host, Substrate
from scaletest.model.plan import Plan, make_plan


def inputs_document(plan: Plan) -> dict[str, Any]:
    """Everything that `plan_of` needs."""
    return {
        "profileName": plan.profile_name,
        "substrateName": plan.substrate_name,
        "soakSeconds": plan.soak_seconds,
        "seed": plan.seed,
        "profile": _dumped(plan.profile),
        "catalog": _dumped(plan.catalog),
        "substrate": _dumped(plan.substrate),
        "host": _dumped(plan.host),
    }


def _dumped(model: Profile | Catalog | Substrate | Host) -> dict[str, Any]:
    """What was written; a field that was left out stays so, and takes today's default."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def plan_of(document: dict[str, Any]) -> Plan:
    return make_plan(
        Profile.model_validate(document["profile"]),
        document["profileName"],
        Catalog.model_validate(document["catalog"]),
        Substrate.model_validate(document["substrate"]),
        document["substrateName"],
        this_host=Host.model_validate(document["host"]),
        soak_seconds=document["soakSeconds"],
        seed=document["seed"],
    )


def read_inputs(results: Path) -> Plan:
    """The plan of a results folder."""
    path = results / "plan.json"
    try:
        return plan_of(json.loads(path.read_text())["inputs"])
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="give the folder of a run") from error
    except (ValueError, KeyError, TypeError) as error:
        what = counted(error.error_count(), "problem") if isinstance(error, ValidationError) else type(error).__name__
        raise UsageError(
            f"{path} does not tell what the run was made from ({what})",
            hint="judge it with the version that made it",
        ) from error
