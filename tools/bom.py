"""Writes `sboms/duotomo.cdx.json`: the bill of materials that the wheel carries, in CycloneDX.

    python -m tools.bom

`cyclonedx-py` tells the licences and the dependencies of what is installed here, `npm sbom` those of what is
built into the viewer; `requirements/core.txt` has the hashes of the wheels. Nothing in the file depends on
the time, the machine, or the build of PyTorch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hatch_build import find_npm
from tools.lock_file import FOLDER, Locked, read_lock
from tools.requirements import PYPROJECT, ROOT

BOM = ROOT / "sboms" / "duotomo.cdx.json"
TOLD = ("type", "name", "version", "description", "licenses", "purl")
"""What the bill says of a part, as the tools give it. Addresses of projects change."""

Part = dict[str, Any]
Edges = dict[str, list[str]]


def main() -> None:
    """Write the bill; raise unless it is CycloneDX."""
    text = json.dumps(bill(), indent=1) + "\n"
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        sys.exit(f"bom: expected CycloneDX 1.6; got: {fault}")
    BOM.write_text(text, encoding="utf-8")


def bill() -> Part:
    """Return the bill of materials."""
    python, python_edges = _python()
    viewer, viewer_edges = _viewer()
    project = PYPROJECT["project"]
    root = {
        "bom-ref": f"pkg:pypi/duotomo@{project['version']}",
        "type": "library",
        "name": "duotomo",
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"license": {"id": project["license"]}}],
        "purl": f"pkg:pypi/duotomo@{project['version']}",
    }
    refs = {canonicalize_name(one["name"]): one["bom-ref"] for one in python}
    direct = [refs[canonicalize_name(Requirement(one).name)] for one in project["dependencies"]]
    edges = {root["bom-ref"]: [*direct, viewer[0]["bom-ref"]], **python_edges, **viewer_edges}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": [*python, *viewer],
        "dependencies": [{"ref": ref, "dependsOn": sorted(edges[ref])} for ref in sorted(edges)],
    }


def _python() -> tuple[list[Part], Edges]:
    """Return the distributions that users install, and what each asks for."""
    command = ["-m", "cyclonedx_py", "environment", "--output-reproducible", "--short-PURLs", sys.executable]
    found = _json([sys.executable, *command], ROOT)
    locked = read_lock(FOLDER / "core.txt")
    parts = {one["bom-ref"]: one for one in found["components"] if canonicalize_name(one["name"]) in locked}
    missing = {*locked} - {canonicalize_name(one["name"]) for one in parts.values()}
    if missing:
        sys.exit(f"bom: expected {', '.join(sorted(missing))} among the installed; got none. Run make.")
    renamed = {ref: _locked(one, locked[canonicalize_name(one["name"])]) for ref, one in parts.items()}
    edges = _edges(found, {ref: one["bom-ref"] for ref, one in renamed.items()})
    return sorted(renamed.values(), key=lambda one: str(one["bom-ref"])), edges


def _locked(part: Part, locked: Locked) -> Part:
    """Return a distribution by the version and the hashes that are locked, whichever build is installed."""
    if part["version"].partition("+")[0] != locked.version:
        sys.exit(f"bom: expected {locked.name} {locked.version}; got {part['version']}. Run make.")
    purl = f"pkg:pypi/{locked.name}@{locked.version}"
    hashes = [{"alg": "SHA-256", "content": one} for one in locked.sha256]
    said = _told({**part, "version": locked.version, "purl": purl})
    return {"bom-ref": purl, **said, "hashes": hashes}


def _viewer() -> tuple[list[Part], Edges]:
    """Return the viewer and the packages of npm that it is built of, and what each asks for."""
    npm = find_npm()
    if npm is None:
        sys.exit("bom: expected npm; got none. Install Node.js.")
    command = ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only", "--omit", "dev"]
    found = _json([*npm, *command], ROOT / "viewer")
    # Optional ones are programs for one system, which no page can run.
    packages = [one for one in found["components"] if one["scope"] == "required"]
    own = {**found["metadata"]["component"], "name": "duotomo-viewer"}
    parts = {one["bom-ref"]: _package(one) for one in [own, *packages]}
    return list(parts.values()), _edges(found, {ref: one["bom-ref"] for ref, one in parts.items()})


def _package(part: Part) -> Part:
    hashes = {"hashes": part["hashes"]} if "hashes" in part else {}
    return {"bom-ref": part["purl"], **_told(part), **hashes}


def _told(part: Part) -> Part:
    return {name: part[name] for name in TOLD if name in part}


def _edges(found: Part, refs: dict[str, str]) -> Edges:
    """Return who asks for whom, among parts that are kept. refs: their new names."""
    asks = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"] if one["ref"] in refs}
    return {refs[ref]: [refs[one] for one in wanted if one in refs] for ref, wanted in asks.items()}


def _json(command: list[str], folder: Path) -> Any:
    return json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
