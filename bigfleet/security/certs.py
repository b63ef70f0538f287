"""`bigfleet certs`: a small certificate authority for those who run BigFleet without the harness's issuer."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from bigfleet.errors import BigFleetError
from bigfleet.process.commandline import Parser, is_of_output
from bigfleet.security.authority import CA_KEY, Authority
from bigfleet.security.files import CA_CERTIFICATE, CERTIFICATE, IdentityFiles
from bigfleet.security.identity import Identity, InvalidIdentity, identity_of

# These answer calls, and their clients look for `<kind>.bigfleet`.
_SERVERS = ("shard", "provider", "coordinator")
# Of its life, when it should have been renewed.
_LAST_PART = 1 / 3
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_OK, _BAD, _USAGE = 0, 1, 2


class CertsError(BigFleetError):
    """What was asked for cannot be done, with what would help."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 fine, 1 a certificate that will not do, 2 a wrong use."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except CertsError as error:
        sys.stderr.write(f"bigfleet certs: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return _USAGE
    except OSError as error:
        if is_of_output(error):
            raise
        sys.stderr.write(f"bigfleet certs: {error.filename}: {error.strerror}\n")
        return _USAGE
    return code


def _parser() -> Parser:
    parser = Parser("bigfleet certs", description="Certificates for BigFleet's mutual TLS.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: object, text: str) -> Parser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    create = add("create-ca", _create, "make a certificate authority; no process trusts it yet")
    create.add_argument("--dir", type=Path, required=True, help="gets ca.crt and ca.key; keep the key to yourself")
    create.add_argument("--name", default="own", help="what the CA is for, shown by inspect (default: own)")
    create.add_argument("--days", type=_positive, default=365, help="its life (default: 365)")
    issue = add("issue", _issue, "issue or renew an identity; running processes take a renewed one up by themselves")
    issue.add_argument("--ca", type=Path, required=True, help="directory with ca.crt and ca.key")
    issue.add_argument("--identity", required=True, metavar="bigfleet://KIND[/NAME]", help="e.g. bigfleet://admin")
    issue.add_argument("--out", type=Path, required=True, help="gets tls.crt, tls.key and ca.crt: a --tls-dir")
    issue.add_argument("--dns", action="append", default=[], help="a name that a server is reached by; may be repeated")
    issue.add_argument("--ip", action="append", default=[], help="an address of it; may be repeated")
    issue.add_argument("--hours", type=_positive, default=24, help="its life (default: 24)")
    inspect = add("inspect", _inspect, "show certificates: whose they are, how long they live, whether they will do")
    inspect.add_argument("paths", type=Path, nargs="+", metavar="FILE|DIR", help="a certificate, or a --tls-dir")
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not a sensible time")
    return number


def _create(options: argparse.Namespace) -> int:
    if (options.dir / CA_KEY).exists():
        raise CertsError(f"{options.dir} holds a CA already", "a new one locks out the peers of the old one")
    Authority.create(options.name, timedelta(days=options.days)).save(options.dir)
    _print(f"created CA {options.dir / CA_CERTIFICATE}; its key is {options.dir / CA_KEY}\n")
    return _OK


def _issue(options: argparse.Namespace) -> int:
    try:
        identity = Identity.parse(options.identity)
    except InvalidIdentity as error:
        raise CertsError(str(error), "give one such as bigfleet://admin or bigfleet://shard/shard-0") from error
    try:
        authority = Authority.load(options.ca)
    except FileNotFoundError as error:
        raise CertsError(
            f"there is no CA in {options.ca}", f"run `bigfleet certs create-ca --dir {options.ca}`"
        ) from error
    names = [f"{identity.kind}.bigfleet"] if identity.kind in _SERVERS else []
    try:
        files = authority.issue(
            identity,
            dns_names=[*names, *options.dns],
            ip_addresses=options.ip,
            lifetime=timedelta(hours=options.hours),
        )
    except ValueError as error:
        raise CertsError(f"this cannot be certified: {error}") from error
    files.write(options.out)
    until = x509.load_pem_x509_certificate(files.certificate).not_valid_after_utc
    _print(f"issued {identity} to {options.out}, good until {until:{_TIME}}\n")
    return _OK


@dataclass(frozen=True)
class CertificateFinding:
    """One certificate as people read it."""

    path: Path
    lines: list[tuple[str, str]]
    complaints: list[str]


def _inspect(options: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    findings = [look_at(path, now) for path in options.paths]
    for finding in findings:
        _print(f"{finding.path}\n")
        for label, text in finding.lines:
            _print(f"  {label:<10} {text}\n")
        for complaint in finding.complaints:
            _print(f"  {'problem':<10} {complaint}\n")
    return _BAD if any(finding.complaints for finding in findings) else _OK


def look_at(path: Path, now: datetime) -> CertificateFinding:
    """What a certificate says, and what is wrong with it; in a directory also whether its key and CA fit."""
    file = path / CERTIFICATE if path.is_dir() else path
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    except ValueError as error:
        raise CertsError(f"{file} holds no PEM certificate") from error
    names = _names(certificate)
    complaints = [*_complaints_of_time(certificate, now)]
    identity = "none (a CA)" if _signs(certificate) else ""
    if not identity:
        try:
            identity = str(identity_of(names["uri"]))
        except InvalidIdentity as error:
            identity = "none"
            complaints.append(str(error))
    if path.is_dir():
        complaints += _complaints_of_company(path, certificate)
    lines = [
        ("identity", identity),
        ("serves as", ", ".join([*names["dns"], *names["ip"]]) or "no server"),
        ("issuer", certificate.issuer.rfc4514_string()),
        ("valid", f"{certificate.not_valid_before_utc:{_TIME}} to {certificate.not_valid_after_utc:{_TIME}}"),
    ]
    return CertificateFinding(file, lines, complaints)


def _names(certificate: x509.Certificate) -> dict[str, list[str]]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return {"uri": [], "dns": [], "ip": []}
    return {
        "uri": found.get_values_for_type(x509.UniformResourceIdentifier),
        "dns": found.get_values_for_type(x509.DNSName),
        "ip": [str(address) for address in found.get_values_for_type(x509.IPAddress)],
    }


def _signs(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _complaints_of_time(certificate: x509.Certificate, now: datetime) -> list[str]:
    if now >= certificate.not_valid_after_utc:
        return ["it has expired"]
    if now < certificate.not_valid_before_utc:
        return ["it is not valid yet: do the clocks agree?"]
    left = certificate.not_valid_after_utc - now
    if left < (certificate.not_valid_after_utc - certificate.not_valid_before_utc) * _LAST_PART:
        return [f"it expires in {left.total_seconds() / 3600:.1f} hours: issue it anew into the same directory"]
    return []


def _complaints_of_company(directory: Path, certificate: x509.Certificate) -> list[str]:
    files = IdentityFiles.read(directory)
    complaints = [] if files.fits else ["its private key is another's"]
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(files.ca_certificate))
    except (ValueError, TypeError, InvalidSignature):
        complaints.append(f"the {CA_CERTIFICATE} beside it did not sign it")
    return complaints


def _print(text: str) -> None:
    sys.stdout.write(text)
