"""Versions that a result depends on, and the commit of duotomo."""

from __future__ import annotations

import functools
import json
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.metadata import version as installed
from pathlib import Path

import numpy as np
import torch

import duotomo

UNKNOWN = "unknown"


@functools.cache
def commit() -> str:
    """Return the commit that duotomo was installed from; "unknown" unless from a checkout or a git address.

    >>> len(commit()) in (len(UNKNOWN), 40)
    True
    """
    source = Path(duotomo.__file__).parents[1]
    if source.name == "src" and (source.parent / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            words = ["git", "-C", str(source), "rev-parse", "HEAD"]
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
            return done.stdout.strip()
    with suppress(PackageNotFoundError, KeyError, ValueError, TypeError):
        address = json.loads(distribution("duotomo").read_text("direct_url.json") or "{}")
        return str(address["vcs_info"]["commit_id"])
    return UNKNOWN


def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on.

    Returns
    -------
    dict of str to str
        By the name of the library, and the commit of duotomo.

    Examples
    --------
    >>> sorted(library_versions())
    ['commit', 'duotomo', 'numba', 'numpy', 'python', 'torch']
    """
    return {
        "duotomo": duotomo.__version__,
        "commit": commit(),
        "numba": installed("numba"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
