"""Which cases a trial of change detection has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.change_anatomies import ANATOMIES, Anatomy
from duotomo.errors import DuotomoError

Kind = Literal["none", "mass", "growth", "calcifications", "gone"]
Nuisance = Literal["plain", "roll", "chest_wall", "density", "weight", "repeat"]
NUISANCES: tuple[Nuisance, ...] = ("plain", "roll", "chest_wall", "density", "weight", "repeat")
TISSUES = ("fat", "gland")
CHANGES: tuple[tuple[Kind, float, bool], ...] = (
    *(("mass", size_mm, spiculated) for size_mm in (3.0, 5.0, 8.0, 12.0) for spiculated in (False, True)),
    ("growth", 8.0, False),
    ("growth", 8.0, True),
    ("calcifications", 8.0, False),
    ("gone", 8.0, False),
    ("gone", 12.0, False),
)
"""Kind, size in mm, and whether it is spiculated."""


@dataclass(frozen=True, kw_only=True)
class CaseSpec:
    """What a case is to be; all that is random about it follows from its name.

    tissue: where the lesion is sought. size_mm: its diameter, 0 without one.
    """

    name: str
    anatomy: Anatomy
    kind: Kind
    nuisance: Nuisance
    size_mm: float = 0.0
    spiculated: bool = False
    tissue: str | None = None


def plan(n_without: int, n_with: int, *, anatomies: Sequence[Anatomy] = ANATOMIES) -> list[CaseSpec]:
    """Return the cases of a trial, so many without and with a change.

    In each split, every anatomy, nuisance, and kind of change with its size and tissue comes equally often,
    give or take one; which of them come together is drawn, always alike.
    """
    specs = []
    for has_change, n_cases in ((False, n_without), (True, n_with)):
        order = np.random.default_rng(0).permutation(len(anatomies))
        chosen = [anatomies[order[number % len(order)]] for number in range(n_cases)]
        for split in ("development", "judged"):
            mine = [(number, one) for number, one in enumerate(chosen) if one.split == split]
            rng = np.random.default_rng([has_change, *split.encode()])
            nuisances = _deck(rng, NUISANCES, len(mine))
            changes = _deck(rng, [(*change, tissue) for change in CHANGES for tissue in TISSUES], len(mine))
            for (number, anatomy), nuisance, change in zip(mine, nuisances, changes, strict=True):
                kind, size_mm, spiculated, tissue = change if has_change else ("none", 0.0, False, None)
                looks = "spiculated" if spiculated else "round"
                what = [kind, f"{size_mm:g}mm", looks, tissue] if has_change else [kind]
                specs.append(named("-".join([anatomy.name, *what, nuisance, str(number)]), anatomies))
    return specs


def repeats(n: int, *, anatomies: Sequence[Anatomy] = ANATOMIES) -> list[CaseSpec]:
    """Return so many more pairs of one breast scanned twice, beyond those of any plan, in each split."""
    specs = []
    for split in ("development", "judged"):
        mine = [one for one in anatomies if one.split == split]
        names = [f"{mine[number % len(mine)].name}-none-repeat-more{number}" for number in range(n)]
        specs += [named(name, anatomies) for name in names]
    return specs


def chosen(n_without: int, n_with: int, *, split: str | None, names: Path | None = None) -> list[CaseSpec]:
    """Return the cases asked for: of a file with a name on each line, or of one split of a plan."""
    if names is not None:
        return [named(line.strip()) for line in names.read_text().splitlines() if line.strip()]
    return [spec for spec in plan(n_without, n_with) if split in (None, spec.anatomy.split)]


def _deck(rng: np.random.Generator, values: Sequence[Any], n: int) -> list[Any]:
    """Return n values, each equally often, shuffled."""
    first = rng.permutation(len(values))
    return [values[first[number % len(values)]] for number in rng.permutation(n)]


def named(name: str, anatomies: Sequence[Anatomy] = ANATOMIES) -> CaseSpec:
    """Return the case of a name, such as "fatty1-none-roll-7" or "AL-mass-8mm-round-fat-plain-12"."""
    found = {one.name: one for one in anatomies}
    match name.split("-"):
        case [anatomy, "none", nuisance, _] if anatomy in found and nuisance in NUISANCES:
            return CaseSpec(name=name, anatomy=found[anatomy], kind="none", nuisance=nuisance)
        case [anatomy, kind, size, looks, tissue, nuisance, _] if (
            anatomy in found and nuisance in NUISANCES and tissue in TISSUES
        ):
            for change in CHANGES:
                if change == (kind, float(size.removesuffix("mm")), looks == "spiculated"):
                    return CaseSpec(
                        name=name,
                        anatomy=found[anatomy],
                        kind=change[0],
                        nuisance=nuisance,
                        size_mm=change[1],
                        spiculated=change[2],
                        tissue=tissue,
                    )
    raise DuotomoError(
        f"change_plan: expected the name of a case, such as AL-mass-8mm-round-fat-plain-12; got {name!r}. "
        f"`python -m benchmarks.change_cases list 60 120` lists those of a trial."
    )
