"""Pins, versions and cache keys: one place says which version, and any change of a recipe is another binary."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from scaletest.errors import ToolchainError
from scaletest.toolchain.tools import GO_TOOLS, GoTool, Module
from scaletest.toolchain.versions import GoVersion, release_in

GO_MOD = """module scaletest.tools/greeter

go 1.24

require (
\texample.org/other v0.9.0 // indirect
\texample.org/greeter v1.2.3 // indirect
)
"""


@pytest.fixture
def module(tmp_path: Path) -> Module:
    (tmp_path / "go.mod").write_text(GO_MOD)
    (tmp_path / "go.sum").write_text("example.org/greeter v1.2.3 h1:abc=\n")
    return Module(tmp_path, pinned_by="example.org/greeter", stamps={"main.version": "v{release}"})


def fresh(module: Module, package: str = "example.org/greeter") -> GoTool:
    """A tool that reads its module's files anew."""
    return GoTool("greeter", replace(module), package)


def test_the_version_is_the_one_that_go_mod_requires(module: Module) -> None:
    assert module.release == "1.2.3"
    assert "-ldflags=-s -w -X main.version=v1.2.3" in module.build_flags


def test_the_minimum_go_is_the_directive_of_go_mod(module: Module) -> None:
    assert module.minimum_go == GoVersion(1, 24, 0)


def test_a_module_that_pins_nothing_is_refused(module: Module) -> None:
    with pytest.raises(ToolchainError, match=r"does not require example\.org/absent"):
        _ = replace(module, pinned_by="example.org/absent").release


def test_the_key_is_stable_and_names_the_tool(module: Module) -> None:
    assert fresh(module).key == fresh(module).key
    assert fresh(module).key.startswith("greeter-1.2.3-")


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_the_key_changes_with_the_lock(module: Module, file: str) -> None:
    before = fresh(module).key
    with (module.directory / file).open("a") as lock:
        lock.write("\n")
    assert fresh(module).key != before


def test_the_key_changes_with_flags_and_package(module: Module) -> None:
    keys = {
        fresh(module).key,
        fresh(replace(module, tags="small")).key,
        fresh(replace(module, stamps={"main.version": "{release}"})).key,
        fresh(module, "example.org/greeter/cmd").key,
    }
    assert len(keys) == 4


def test_a_change_of_one_module_leaves_the_tools_of_others_alone(module: Module) -> None:
    others = {name: tool.key for name, tool in GO_TOOLS.items()}
    (module.directory / "go.sum").write_text("")
    assert {name: replace(tool, module=replace(tool.module)).key for name, tool in GO_TOOLS.items()} == others


def test_prometheus_release_is_read_from_its_module_version(tmp_path: Path) -> None:
    pinned_by = "github.com/prometheus/prometheus"
    (tmp_path / "go.mod").write_text(f"module m\n\ngo 1.26\n\nrequire {pinned_by} v0.307.12\n")
    assert replace(GO_TOOLS["prometheus"].module, directory=tmp_path).release == "3.7.12"


def test_kubernetes_binaries_carry_major_and_minor_for_clients_that_ask() -> None:
    module = GO_TOOLS["kube-apiserver"].module
    major, minor, _ = module.release.split(".")
    (linker_flags,) = (flag for flag in module.build_flags if flag.startswith("-ldflags="))
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v{module.release}" in linker_flags
        assert f"-X {package}.gitMajor={major}" in linker_flags
        assert f"-X {package}.gitMinor={minor}" in linker_flags


@pytest.mark.parametrize("tool", GO_TOOLS.values(), ids=lambda tool: tool.name)
def test_every_shipped_tool_is_pinned_and_declared_in_its_module(tool: GoTool) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", tool.release)
    assert re.search(rf"^(tool)?\s+{re.escape(tool.package)}$", (tool.module.directory / "go.mod").read_text(), re.M)


def test_shipped_tools_have_keys_of_their_own() -> None:
    assert len({tool.key for tool in GO_TOOLS.values()}) == len(GO_TOOLS) == 8


@pytest.mark.parametrize(
    ("answer", "release"),
    [
        ("etcd Version: 3.6.6\nGit SHA: Not provided\nGo Version: go1.26.8", "3.6.6"),
        ("Kubernetes v1.34.4\n", "1.34.4"),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", "1.32.4-dispatcher"),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)", "0.8.0"),
        ("prometheus, version 3.15.0 (branch: , revision: unknown)", "3.15.0"),
        ("v3.17.3+ge4da497", "3.17.3"),
        ("usage: greeter", None),
    ],
)
def test_the_release_is_found_in_what_a_binary_says(answer: str, release: str | None) -> None:
    assert release_in(answer) == release


def test_go_versions_compare_by_number_and_candidates_come_before_their_release() -> None:
    texts = [
        "go version go1.9.7 linux/amd64",
        "go1.24",
        "1.26rc1",
        "go1.26",
        "go version go1.26.8 linux/amd64",
        "1.27rc2",
    ]
    versions = [GoVersion.parse(text) for text in texts]
    assert versions == sorted(versions)
    assert len(set(versions)) == len(texts)


def test_what_is_no_go_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no Go version in 'devel'"):
        GoVersion.parse("devel")
