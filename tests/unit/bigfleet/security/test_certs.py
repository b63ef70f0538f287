"""`bigfleet certs`: a CA, identities from it, and what is wrong with a certificate."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigfleet.security.certs import look_at, main


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    assert main(["create-ca", "--dir", str(tmp_path / "ca")]) == 0
    return tmp_path / "ca"


def issue(ca: Path, out: Path, identity: str = "bigfleet://shard/s-0", *more: str) -> int:
    return main(["issue", "--ca", str(ca), "--identity", identity, "--out", str(out), *more])


def test_an_identity_is_complete_private_and_serves_under_its_roles_name(
    ca: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert issue(ca, tmp_path / "s-0", "bigfleet://shard/s-0", "--dns", "s-0.example", "--ip", "127.0.0.1") == 0
    assert stat.S_IMODE((tmp_path / "s-0" / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((ca / "ca.key").stat().st_mode) == 0o600
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "s-0"), str(ca / "ca.crt")]) == 0
    shown = capsys.readouterr().out
    assert "identity   bigfleet://shard/s-0" in shown
    assert "serves as  shard.bigfleet, s-0.example, 127.0.0.1" in shown
    assert "identity   none (a CA)" in shown


def test_a_person_serves_as_no_server(ca: Path, tmp_path: Path) -> None:
    issue(ca, tmp_path / "me", "bigfleet://admin")
    assert ("serves as", "no server") in look_at(tmp_path / "me", datetime.now(UTC)).lines


def test_a_ca_is_never_replaced_by_accident(ca: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (ca / "ca.crt").read_bytes()
    assert main(["create-ca", "--dir", str(ca)]) == 2
    assert "holds a CA already" in capsys.readouterr().err
    assert (ca / "ca.crt").read_bytes() == before


@pytest.mark.parametrize(
    ("identity", "sentence"),
    [("bigfleet://root", "unknown kind"), ("bigfleet://shard", "cannot be named"), ("admin", "is not a bigfleet://")],
)
def test_an_identity_that_is_none_is_refused(
    ca: Path, tmp_path: Path, identity: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert issue(ca, tmp_path / "x", identity) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_missing_ca_and_a_bad_address_are_named(ca: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert issue(tmp_path / "nowhere", tmp_path / "x") == 2
    assert "hint: run `bigfleet certs create-ca" in capsys.readouterr().err
    assert issue(ca, tmp_path / "x", "bigfleet://admin", "--ip", "here") == 2
    assert "'here' does not appear to be" in capsys.readouterr().err


def test_what_will_not_do_is_said(ca: Path, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    mine = tmp_path / "mine"
    issue(ca, mine, "bigfleet://admin", "--hours", "9")
    assert look_at(mine, now).complaints == []
    assert look_at(mine, now + timedelta(hours=7)).complaints == [
        "it expires in 2.0 hours: issue it anew into the same directory"
    ]
    assert look_at(mine, now + timedelta(hours=10)).complaints == ["it has expired"]
    assert look_at(mine, now - timedelta(hours=1)).complaints == ["it is not valid yet: do the clocks agree?"]
    main(["create-ca", "--dir", str(tmp_path / "other")])
    (mine / "ca.crt").write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
    issue(ca, tmp_path / "theirs", "bigfleet://admin")
    (mine / "tls.key").write_bytes((tmp_path / "theirs" / "tls.key").read_bytes())
    assert look_at(mine, now).complaints == ["its private key is another's", "the ca.crt beside it did not sign it"]


def test_what_is_no_certificate_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.crt").write_text("hello")
    assert main(["inspect", str(tmp_path / "x.crt")]) == 2
    assert "holds no PEM certificate" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "y.crt")]) == 2
    assert "No such file" in capsys.readouterr().err
