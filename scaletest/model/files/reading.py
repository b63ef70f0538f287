"""Reads profiles, substrates and catalogs from YAML, by name or path, and says all that is wrong with them at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from bigfleet.core import penalty
from scaletest.errors import UsageError
from scaletest.model.counting import counted
from scaletest.model.documents.base import Document
from scaletest.model.documents.catalog import Catalog
from scaletest.model.documents.profile import DEFAULT_CATALOG, Profile
from scaletest.model.documents.substrate import Substrate
from scaletest.model.files.explaining import validate
from scaletest.model.files.problems import Fault, did_you_mean, either, lines_of, nearest, printable, shown
from scaletest.model.files.yamldoc import MOST_BYTES, Located, YamlDocument, read_yaml
from scaletest.project import PROFILES, SUBSTRATES

CATALOGS = PROFILES / "archetypes"

MODELS: dict[str, type[Document]] = {"profile": Profile, "substrate": Substrate, "catalog": Catalog}
# In this order: a name that both a profile and a catalog have is the profile.
_SHIPPED = {"profile": PROFILES, "substrate": SUBSTRATES, "catalog": CATALOGS}
# The commands that list them; the catalogs are few, and named by their profiles.
_LISTED_BY = {"profile": "profiles", "substrate": "substrates"}
# What `kind` says; a catalog has none.
_KINDS = {"Profile": "profile", "Substrate": "substrate"}

D = TypeVar("D", bound=Document)
# The profiles of a list share their catalogs.
_parse = lru_cache(maxsize=16)(read_yaml)


class InvalidDocument(UsageError):
    """A file that is there but wrong. `problems` has a line for each thing to mend."""

    def __init__(self, headline: str, problems: Sequence[str], hint: str = "") -> None:
        super().__init__("\n".join([headline, *problems]), hint)
        self.problems = tuple(problems)


@dataclass(frozen=True)
class _Checked(Generic[D]):
    """A file, what it holds if it is sound, and all that is wrong with it if it is not."""

    file: str
    what: str
    document: YamlDocument
    faults: tuple[Fault, ...]
    model: D | None

    @property
    def headline(self) -> str:
        if not self.document.is_yaml:
            return f"{self.file} is not valid YAML"
        return f"{self.file} is not a valid {self.what}: {counted(len(self.faults), 'problem')}"

    def refusal(self, headline: str = "", more: Sequence[str] = ()) -> InvalidDocument:
        known = self.what in MODELS
        hint = f"`scaletest-runner schema {self.what if known else 'profile'}` shows every field"
        hint += "" if known else ", as it does of substrate and catalog"
        return InvalidDocument(headline or self.headline, [*lines_of(self.file, self.faults), *more], hint)


def read_profile(name: str) -> tuple[Profile, Catalog, str]:
    """A profile, its catalog, and the profile's name: `smoke`, or a path to a YAML file."""
    path = _resolve(name, ["profile"])
    return (*_profile_and_catalog(path), path.stem)


def read_substrate(name: str) -> tuple[Substrate, str]:
    """A substrate and its name: `embedded`, or a path to a YAML file."""
    path = _resolve(name, ["substrate"])
    return _sound(_check(path, "substrate", Substrate)), path.stem


def check_document(name: str) -> str:
    """Read whatever document a file or a shipped name is, and say what it is. Raises UsageError if it is not sound."""
    path = _resolve(name, list(MODELS))
    file = _shown_path(path)
    what = _tell_or_refuse(file, _load(path, file))
    if what == "profile":
        catalog = _profile_and_catalog(path)[0].catalog.archetypes
        return f"{file}: valid profile (catalog {shown(catalog)})"
    _sound(_check(path, what, MODELS[what]))
    return f"{file}: valid {what}"


def shipped(what: str) -> list[Path]:
    """The files of one kind that ship, by name."""
    return sorted(_SHIPPED[what].glob("*.yaml"))


def _sound(checked: _Checked[D]) -> D:
    if checked.model is None:
        raise checked.refusal()
    return checked.model


def _profile_and_catalog(path: Path) -> tuple[Profile, Catalog]:
    """Both files are checked before either is refused, so that one look mends both."""
    profile = _check(path, "profile", Profile)
    catalog, faults = _check_catalog_of(path, profile.document.root)
    if faults:
        profile = replace(profile, faults=(*profile.faults, *faults), model=None)
    if catalog is None:
        raise profile.refusal()
    if profile.model is None:
        also = f", and {counted(len(catalog.faults), 'problem')} in its catalog" if catalog.faults else ""
        raise profile.refusal(profile.headline + also, lines_of(catalog.file, catalog.faults))
    if catalog.model is None:
        raise catalog.refusal(f"{profile.file} cannot be used: {catalog.headline}")
    return profile.model, catalog.model


def _check_catalog_of(path: Path, root: Located | None) -> tuple[_Checked[Catalog] | None, list[Fault]]:
    """The catalog that a profile names, even if the rest of the profile is wrong; and what is wrong with the naming."""
    field = ("catalog", "archetypes")
    if root is None or not root.keys:
        return None, []
    written = root.at(field)
    if written is None and root.at(("catalog",)) and not isinstance(root.data["catalog"], dict):
        return None, []
    name = DEFAULT_CATALOG if written is None or written.data == "" else written.data
    if not isinstance(name, str):
        return None, []
    if "/" in name or name.endswith((".yaml", ".yml")):
        place, plain = root.place_of(field), name.rpartition("/")[2].removesuffix(".yml").removesuffix(".yaml")
        what = f"must be the name of a catalog, without folder and ending; did you mean {shown(plain)}?"
        return None, [Fault(place.line, place.column, field, what)]
    # A catalog beside its profile wins over one that ships.
    places = [path.parent / "archetypes", CATALOGS]
    file = next((place / f"{name}.yaml" for place in places if _is_file(place / f"{name}.yaml")), None)
    if file is None:
        known = sorted({entry.stem for place in places for entry in place.glob("*.yaml")})
        yours = _shown_path(places[0] / "<name>.yaml")
        near = did_you_mean(name, known) or f"; known are {', '.join(known)}; yours would be {yours}"
        place, what = root.place_of(field), f"there is no catalog {shown(name)}{near}"
        return None, [Fault(place.line, place.column, field, what)]
    catalog = _check(file, "catalog", Catalog)
    return catalog, [*_unknown_archetypes(root, catalog), *_empty_buckets(root, catalog)]


def _unknown_archetypes(profile: Located, catalog: _Checked[Catalog]) -> list[Fault]:
    """Bursts that name an archetype which the catalog does not have."""
    known: list[str] = []
    for field in ("archetypes", "demandArchetypes"):
        entries = catalog.document.root.at((field,)) if catalog.document.root else None
        names = [entry.at(("name",)) for entry in entries.parts.values()] if entries else []
        known += [name.data for name in names if name and isinstance(name.data, str)]
    bursts = profile.at(("loadProfile", "bursts"))
    faults = []
    for index, burst in bursts.parts.items() if bursts and known else ():
        name = burst.at(("archetype",))
        if name and isinstance(name.data, str) and name.data not in known:
            near = did_you_mean(name.data, known) or f"; it has {', '.join(known)}"
            what = f"{catalog.file} has no archetype {shown(name.data) or '(empty)'}{near}"
            path = ("loadProfile", "bursts", index, "archetype")
            faults.append(Fault(name.place.line, name.place.column, path, what))
    return faults


def _empty_buckets(profile: Located, catalog: _Checked[Catalog]) -> list[Fault]:
    """Buckets of cost routing that no archetype of the catalog falls into: their gate would count no machine."""
    wanted = profile.at(("slo", "expectCostRouting"))
    filled = catalog.model.penalty_buckets if catalog.model and wanted and wanted.data is True else ()
    faults = []
    for field in ("costRoutingTolerantBucket", "costRoutingSensitiveBucket"):
        bucket = profile.at(("slo", field))
        if filled and bucket and bucket.data in penalty.LABELS and bucket.data not in filled:
            what = f"no archetype of {catalog.file} has a penalty in this bucket; it has {', '.join(filled)}"
            faults.append(Fault(bucket.place.line, bucket.place.column, ("slo", field), what))
    return faults


def _check(path: Path, what: str, model: type[D]) -> _Checked[D]:
    file = _shown_path(path)
    document = _load(path, file)
    root, faults = document.root, list(document.faults)
    if root is None:
        return _Checked(file, what, document, tuple(faults), None)
    told = _tell(root)
    if told and told != what:
        place = root.place_of(("kind",))
        fault = Fault(place.line, place.column, (), f"this is a {told}, a {what} is wanted")
        return _Checked(file, what, document, (fault,), None)
    read, wrong = validate(root, model)
    faults += wrong
    return _Checked(file, what, document, tuple(faults), None if faults else read)


def _tell(root: Located) -> str:
    """What a document says it is; empty if it does not say."""
    kind = root.at(("kind",))
    if kind:
        return _KINDS.get(kind.data, "") if isinstance(kind.data, str) else ""
    of_catalogs = {field.alias for field in Catalog.model_fields.values()}
    return "catalog" if of_catalogs & root.keys.keys() else ""


def _tell_or_refuse(file: str, document: YamlDocument) -> str:
    root = document.root
    if root is None:
        raise _Checked(file, "document", document, document.faults, None).refusal()
    kind = root.at(("kind",))
    # A kind that is only misspelled is checked as what it was meant to be, to tell all that is wrong.
    meant = nearest(kind.data, _KINDS) if kind and isinstance(kind.data, str) else ""
    if told := _tell(root) or _KINDS.get(meant, ""):
        return told
    what = "must be a map of fields" if not isinstance(root.data, dict) else ""
    if kind:
        what = f"must be {either(list(_KINDS))}; a catalog has no kind"
    what = what or "it cannot be told what this is: write kind: Profile or kind: Substrate (a catalog has archetypes)"
    place = root.place_of(("kind",))
    fault = Fault(place.line, place.column, ("kind",) if kind else (), what)
    faults = (*document.faults, fault)
    raise _Checked(file, "document", document, faults, None).refusal(
        f"{file} is neither a profile, a substrate nor a catalog: {counted(len(faults), 'problem')}"
    )


def _load(path: Path, file: str) -> YamlDocument:
    try:
        with path.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{file} is larger than {MOST_BYTES // 1024} KiB, which no profile, substrate or catalog is")
    try:
        return _parse(raw.decode())
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        fault = Fault(line, column, (), f"cannot be read as text: byte 0x{raw[error.start]:02x} is not UTF-8")
        return YamlDocument(None, (fault,), is_yaml=False)


def _resolve(name: str, whats: Sequence[str]) -> Path:
    """The file of a path, or of a name that ships."""
    # The runbook writes `--profile 50k.yaml`, wherever it stands.
    shipped_files = [_SHIPPED[what] / f"{name.removesuffix('.yaml')}.yaml" for what in whats if "/" not in name]
    # A bare word is what ships under that name, whatever lies in the folder where we happen to be.
    is_word = "/" not in name and not name.endswith((".yaml", ".yml"))
    for candidate in [*shipped_files, Path(name)] if is_word else [Path(name), *shipped_files]:
        if name and _is_file(candidate):
            return candidate
    known = sorted({path.stem for what in whats for path in shipped(what)})
    lists = " and ".join(f"`scaletest-runner {_LISTED_BY[what]}`" for what in whats if what in _LISTED_BY)
    hint = f"{lists} {'lists' if len(whats) == 1 else 'list'} what ships; or give a path to a YAML file"
    if name and _is_folder(Path(name)):
        raise UsageError(f"{printable(name)} is a folder, a file is wanted", hint=hint)
    near = did_you_mean(name.removesuffix(".yaml"), known)
    if not is_word:
        raise UsageError(f"there is no file {printable(name)}{near}", hint=hint)
    raise UsageError(f"there is no {either(whats)} '{shown(name)}'{near}", hint=hint)


def _is_file(path: Path) -> bool:
    """Whether it can be opened and read; pipes count, so that `validate <(…)` works."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a name too long for the file system, or with a null byte
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _shown_path(path: Path) -> str:
    """As short as it can be and still be opened from here."""
    try:
        return printable(str(path.absolute().relative_to(Path.cwd())))
    except (ValueError, OSError):
        return printable(str(path))
