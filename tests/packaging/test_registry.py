"""Wheels that indexes offer: those that can be installed, with their hashes and what they ask for."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from tools import registry
from tools.registry import Wheel, requirements, wheels

NAMES = [
    "thing-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    "thing-1.0-cp312-cp312-manylinux2014_aarch64.whl",
    "thing-1.0-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "thing-1.0-py3-none-any.whl",
]
OTHERS = [
    "thing-1.0-cp311-cp311-win_amd64.whl",
    "thing-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    "thing-1.0-cp39-cp39-manylinux_2_28_x86_64.whl",
    "thing-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl",
    "thing-1.1-py3-none-any.whl",
    "thing_else-1.0-py3-none-any.whl",
    "thing-1.0.tar.gz",
]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an index, and a folder with a build of its own; return where both are."""
    page = tmp_path / "simple" / "thing"
    page.mkdir(parents=True)
    links = [f'<a href="../../{name}#sha256={number:064x}">' for number, name in enumerate(NAMES + OTHERS)]
    (page / "index.html").write_text("\n".join(links))
    for name in ("thing-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "thing-1.0+cpu-py3-none-any.whl"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("thing.dist-info/METADATA", "Name: thing\nRequires-Dist: other[fast]>=2\n")
    options = {"index-url": [page.parent.as_uri()], "find-links": [str(tmp_path)]}
    monkeypatch.setattr(registry, "_pip_options", lambda: options)
    # A folder's page has no name of its own in a file: URL.
    whole = registry._listed
    monkeypatch.setattr(registry, "_listed", lambda url: whole(f"{url}index.html"))
    yield tmp_path
    wheels.cache_clear()
    requirements.cache_clear()


def test_wheels_that_fit_are_found_with_their_hashes(index: Path) -> None:
    found = [one for one in wheels("Thing", "1.0") if one.sha256 in {f"{n:064x}" for n in range(20)}]
    assert [one.url.rsplit("/", 1)[1] for one in found] == NAMES
    assert [one.sha256 for one in found] == [f"{number:064x}" for number in range(len(NAMES))]


def test_files_in_folders_are_hashed_here(index: Path) -> None:
    (build,) = wheels("thing", "1.0+cpu")
    path = index / "thing-1.0+cpu-py3-none-any.whl"
    assert build == Wheel(url=path.as_uri(), sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def test_metadata_say_what_is_asked_for(index: Path) -> None:
    assert [str(one) for one in requirements("thing", "1.0")] == ["other[fast]>=2"]


def test_what_cannot_be_had_is_said(index: Path) -> None:
    with pytest.raises(SystemExit, match=r"expected a wheel of thing 2\.0 for Linux; got none"):
        requirements("thing", "2.0")
    with pytest.raises(SystemExit, match=r"expected a SHA-256 of .*a\.whl in its index; got none"):
        registry._sha256(Wheel(url="https://index.invalid/a.whl", sha256=""))


def test_what_pip_is_set_up_with_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.invalid/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://one.invalid https://two.invalid")
    registry._pip_options.cache_clear()
    expected = ["https://index.invalid/simple", "https://one.invalid", "https://two.invalid"]
    assert registry._indexes() == expected
    registry._pip_options.cache_clear()
