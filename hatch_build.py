"""Builds the viewer into the package, before a wheel, an sdist or an editable install is made."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLE = ("viewer.js", "viewer.css")
SKIP = "DUOTOMO_WITHOUT_VIEWER"
"""An environment variable: where it is set, the package is made without the viewer."""


class ViewerBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs npm in `viewer/` where the bundle is missing or older than its source."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make sure that the bundle is there, and that it goes into what is built, though git ignores it."""
        root = Path(self.root)
        source, built = root / "viewer", root / "src" / "duotomo" / "report" / "viewer"
        if not os.environ.get(SKIP) and needs_build(source, built):
            build(source)
        build_data["artifacts"] += [f"/src/duotomo/report/viewer/{name}" for name in BUNDLE]


def needs_build(source: Path, built: Path) -> bool:
    """Return whether a part of the bundle is missing, or older than a file it is made of."""
    parts = [built / name for name in BUNDLE]
    if not all(part.is_file() for part in parts):
        return True
    # An sdist carries the bundle; times of its files say nothing of their order.
    if (source.parent / "PKG-INFO").is_file():
        return False
    made_of = [*source.glob("*.*"), *source.glob("src/*"), *source.glob("licenses/*")]
    oldest = min(part.stat().st_mtime for part in parts)
    return any(file.stat().st_mtime > oldest for file in made_of)


def build(source: Path) -> None:
    """Run `npm ci && npm run build`; raise, and say what is missing, where that cannot be done."""
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(
            "duotomo: expected npm, to build the report page's viewer; got none. Install Node.js 18.19 or "
            "newer with npm (https://nodejs.org, or your system's packages nodejs and npm), or install "
            f"duotomo from a wheel, which needs neither, or set {SKIP}=1 to go without the viewer."
        )
    for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run([npm, *command], cwd=source, capture_output=True, text=True)
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
            raise RuntimeError(
                f"duotomo: expected `npm {' '.join(command)}` in {source} to build the viewer; got:\n{said}"
            )
