"""What a case was last begun with, so that nothing that other scans or options left is taken for its own.

A command that goes on refuses the checkpoint and the result of another computation. Where the manifest was
changed, or duotomo, a case is what is written there now: it is begun anew, and its result replaced.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from duotomo.cohort.folder import CHECKPOINT, STATES
from duotomo.io.durable import durable

_ANEW = "anew"


def begun_file(out: Path, name: str) -> Path:
    """Return where it is kept what a case was begun with."""
    return out / STATES / f"{name}.begun"


def begun_with(made_of: str) -> str:
    """Return a digest of what a computation depends on. made_of: scans and options."""
    from duotomo.io.versions import library_versions

    return hashlib.sha256(json.dumps([made_of, library_versions()]).encode()).hexdigest()


def goes_on(file: Path, digest: str, result: Path) -> bool:
    """Return whether what the folder of a case holds is to be gone on with; what is not is removed.

    file: `begun_file`, written. digest: `begun_with`. result: the folder of the case, which nobody else
    writes to. A result that is to be replaced stays there until it is.
    """
    kept = result / CHECKPOINT
    try:
        before, _, how = file.read_text(encoding="ascii").strip().partition(" ")
    except (OSError, ValueError):
        before, how = digest, ""
        _write(file, digest)
    if before != digest:
        kept.unlink(missing_ok=True)
        _write(file, f"{digest} {_ANEW}")
        return False
    return how != _ANEW or kept.exists()


def _write(file: Path, text: str) -> None:
    with durable("cohort", file) as fresh:
        fresh.write_text(text, encoding="ascii")
