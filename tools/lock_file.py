"""Files that name versions and the hashes of their wheels, as `pip install --require-hashes` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.requirements import ROOT

FOLDER = ROOT / "requirements"


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One distribution: its version, and the SHA-256 of every wheel that may be installed."""

    name: str
    version: str
    sha256: tuple[str, ...]

    def __str__(self) -> str:
        """Return the requirement, as it stands in a file."""
        return " \\\n    ".join(
            [f"{self.name}=={self.version}", *(f"--hash=sha256:{one}" for one in self.sha256)]
        )


def read_lock(path: Path) -> dict[str, Locked]:
    """Return what a file locks, by normalised names; nothing if there is no such file."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    found = [line.split() for line in lines if line and not line.startswith("#")]
    locked = [
        Locked(
            name=name, version=version, sha256=tuple(re.findall(r"sha256:([0-9a-f]{64})", " ".join(hashes)))
        )
        for (name, version), hashes in ((words[0].split("=="), words[1:]) for words in found)
    ]
    return {canonicalize_name(one.name): one for one in locked}


def write_lock(path: Path, what: str, locked: Iterable[Locked]) -> None:
    """Write a file that locks some distributions. what: a sentence for people."""
    head = f"# {what}\n# Made by `make lock` from constraints.txt; see docs/decisions/0016-supply.md.\n"
    path.write_text(head + "".join(f"{one}\n" for one in locked), encoding="utf-8")
