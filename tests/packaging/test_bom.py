"""The bill of materials of the wheel is CycloneDX, and says what the locks say."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("packaging")

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.lock_file import FOLDER, read_lock
from tools.requirements import PYPROJECT, ROOT

BOM = ROOT / "sboms" / "duotomo.cdx.json"
BILL = json.loads(BOM.read_text())
NPM = json.loads((ROOT / "viewer" / "package-lock.json").read_text())["packages"]
VIEWER = ROOT / "src" / "duotomo" / "report" / "viewer" / "viewer.js"


def parts(kind: str) -> dict[str, dict[str, Any]]:
    """Return the components from PyPI or from npm, by name."""
    found = [one for one in BILL["components"] if one["purl"].startswith(f"pkg:{kind}/")]
    return {one["name"] if kind == "npm" else canonicalize_name(one["name"]): one for one in found}


def test_it_is_cyclonedx() -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(BOM.read_text()) is None
    assert validator.validate_str(BOM.read_text().replace('"CycloneDX"', '"other"')) is not None


def test_it_has_the_versions_and_hashes_that_users_install() -> None:
    locked = read_lock(FOLDER / "core.txt")
    found = parts("pypi")
    assert {name: one["version"] for name, one in found.items()} == {
        name: one.version for name, one in locked.items()
    }
    for name, one in found.items():
        assert {digest["content"] for digest in one["hashes"]} == {*locked[name].sha256}


def test_it_has_what_the_viewer_is_built_of() -> None:
    found = {name: one["version"] for name, one in parts("npm").items() if name != "duotomo-viewer"}
    needed = {
        path.removeprefix("node_modules/"): one["version"]
        for path, one in NPM.items()
        if path and not (one.get("dev") or one.get("optional"))
    }
    assert found == needed
    assert all(one["integrity"].startswith("sha512-") for path, one in NPM.items() if path)


@pytest.mark.skipif(not VIEWER.is_file(), reason="needs the viewer, built")
def test_what_the_viewer_says_that_it_contains_is_in_it() -> None:
    head = VIEWER.read_text().partition("*/")[0]
    said = re.findall(r"^(@?[\w./-]+) (\d+\.\d+\.\d+\S*) \(", head, flags=re.MULTILINE)
    assert ("@niivue/niivue", NPM["node_modules/@niivue/niivue"]["version"]) in said
    found = {(name, one["version"]) for name, one in parts("npm").items()}
    assert {*said} - found == set()


def test_every_part_has_a_licence_and_is_asked_for() -> None:
    assert [one["name"] for one in BILL["components"] if not one.get("licenses")] == []
    edges = {one["ref"]: one["dependsOn"] for one in BILL["dependencies"]}
    root = BILL["metadata"]["component"]
    assert root["version"] == PYPROJECT["project"]["version"]
    direct = {canonicalize_name(Requirement(one).name) for one in PYPROJECT["project"]["dependencies"]}
    assert {*edges[root["bom-ref"]]} == {
        *(parts("pypi")[name]["bom-ref"] for name in direct),
        parts("npm")["duotomo-viewer"]["bom-ref"],
    }
    reached, waiting = set[str](), [root["bom-ref"]]
    while waiting:
        one = waiting.pop()
        waiting += [] if one in reached else edges[one]
        reached.add(one)
    assert reached == {root["bom-ref"], *(one["bom-ref"] for one in BILL["components"])}


def test_nothing_in_it_changes_from_one_day_to_the_next() -> None:
    assert "serialNumber" not in BILL
    assert "timestamp" not in BILL["metadata"]


def test_the_wheel_carries_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hatchling = pytest.importorskip("hatchling.build")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DUOTOMO_WITHOUT_VIEWER", "1")
    wheel = tmp_path / hatchling.build_wheel(str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        (carried,) = [one for one in archive.namelist() if "/sboms/" in one]
        assert carried.endswith(f".dist-info/sboms/{BOM.name}")
        assert archive.read(carried) == BOM.read_bytes()
