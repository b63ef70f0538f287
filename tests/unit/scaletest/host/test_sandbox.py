"""A pod's place on this machine goes whole, whatever happens meanwhile."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scaletest.host.kubelet.pod.sandbox import Sandbox

POD = {"metadata": {"uid": "u", "name": "web", "namespace": "mine"}, "spec": {"containers": []}}


class Names:
    """All that the cluster has names for."""

    def __init__(self) -> None:
        self.lines = [("127.64.0.9", ["web.mine"])]

    def host_lines(self, _: Any) -> list[tuple[str, list[str]]]:
        return self.lines


async def test_a_name_that_goes_while_the_pod_is_removed_leaves_no_hosts_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names()
    runtime: Any = SimpleNamespace(
        directory=tmp_path, client=None, names=names, isolation=SimpleNamespace(possible=True)
    )
    place = Sandbox(runtime, POD, "127.64.0.9")
    place.directory.mkdir(parents=True)
    place.refresh_hosts()
    assert "web.mine" in (place.directory / "hosts").read_text()
    remove = shutil.rmtree

    def interrupted(directory: Path, **flags: Any) -> None:
        """The pod's own name goes when all files are gone and their directory is about to."""
        (directory / "hosts").unlink()
        names.lines = []
        place.refresh_hosts()
        assert list(directory.iterdir()) == []
        remove(directory, **flags)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    await place.remove()
    assert list((tmp_path / "pods").iterdir()) == []
    place.refresh_hosts()
    assert list((tmp_path / "pods").iterdir()) == []
