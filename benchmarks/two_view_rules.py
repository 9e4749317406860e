"""What radiologists' rules say about where a finding in one view lies in the other: the line to stay above.

    python -m benchmarks.two_view_rules OUT        # a folder of `benchmarks.two_view_cases`

Each rule measures a point in one view and expects the same measure in the other: that leaves a band, not a
point. `line`: the distance from the nipple along y. `arc`: the distance from the nipple in the plane of the
detector. `sphere`: the distance from the nipple in space. `turn` alone names a point: the breast turned
stiffly about the axis through the nipple by the angle between the views. Nothing but points, the nipples and
the extent of the breast is used.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.hexahedra import Floats
from benchmarks.two_view_case import Truth, TwoViewCase
from benchmarks.two_view_squeeze import turned
from duotomo.geometry.frame import voxel_centers_mm

Measure = Callable[[Floats, Floats], Floats]


def line(points_mm: Floats, nipple_mm: Floats) -> Floats:
    """Return how far points, (point, xyz), lie behind the nipple, (point,)."""
    behind: Floats = nipple_mm[1] - points_mm[:, 1]
    return behind


def arc(points_mm: Floats, nipple_mm: Floats) -> Floats:
    """Return the distance of points, (point, xyz), from the nipple, seen along z, (point,)."""
    away: Floats = np.linalg.norm((points_mm - nipple_mm)[:, :2], axis=1)
    return away


def sphere(points_mm: Floats, nipple_mm: Floats) -> Floats:
    """Return the distance of points, (point, xyz), from the nipple, (point,)."""
    away: Floats = np.linalg.norm(points_mm - nipple_mm, axis=1)
    return away


RULES: dict[str, Measure] = {"line": line, "arc": arc, "sphere": sphere}
COVERED = 0.95
_BREAST_PER_MM = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """Where one rule sends the eye, from one view to the other.

    errors_mm: of its measure, (point,). distances_mm: from the true place to the middle of the band,
    (point,). volumes_ml: of the band within the breast, (point,), with the half width that it was asked for.
    breast_ml: of the whole breast in that view.
    """

    errors_mm: Floats
    distances_mm: Floats
    volumes_ml: Floats
    breast_ml: float


def errors_mm(rule: Measure, one: Truth, other: Truth) -> Floats:
    """Return how much a measure differs between the views, (landmark,)."""
    difference: Floats = rule(other.landmarks_mm, other.nipple_mm) - rule(one.landmarks_mm, one.nipple_mm)
    return difference


def search(rule: Measure, one: Truth, other: Truth, half_width_mm: float) -> Search:
    """Return where a rule has one look in the other view for the landmarks of one view."""
    inside = voxel_centers_mm(other.grid)[other.volume > _BREAST_PER_MM]
    voxel_ml = math.prod(other.grid.spacing_mm) / 1000
    measured = rule(inside, other.nipple_mm)
    volumes, distances = [], []
    for wanted, true in zip(rule(one.landmarks_mm, one.nipple_mm), other.landmarks_mm, strict=True):
        band = inside[np.abs(measured - wanted) <= half_width_mm]
        volumes.append(len(band) * voxel_ml)
        # An empty band leaves no better guess than the voxel nearest to it.
        guess = band.mean(axis=0) if len(band) else inside[np.argmin(np.abs(measured - wanted))]
        distances.append(float(np.linalg.norm(guess - true)))
    return Search(
        errors_mm=errors_mm(rule, one, other),
        distances_mm=np.array(distances),
        volumes_ml=np.array(volumes),
        breast_ml=len(inside) * voxel_ml,
    )


def turn(one: Truth, other: Truth, roll_rad: float) -> Floats:
    """Return where a stiff turn about the axis through the nipple puts landmarks, (point, xyz).

    roll_rad: of the breast from one view to the other. The nipples lie on each other.
    """
    guess: Floats = other.nipple_mm + turned(one.landmarks_mm - one.nipple_mm, roll_rad)
    return guess


def half_width_mm(rule: Measure, cases: Sequence[TwoViewCase]) -> float:
    """Return the half width of a band that holds 95 % of the landmarks of some cases, both ways."""
    errors = np.concatenate([errors_mm(rule, case.mlo, case.cc) for case in cases])
    return float(np.quantile(np.abs(errors), COVERED))


def rows(cases: Sequence[TwoViewCase], widths_mm: dict[str, float]) -> list[str]:
    """Return the rows of a table for some cases, from the oblique view to the craniocaudal one and back."""
    table = []
    for said, back in (("MLO to CC", False), ("CC to MLO", True)):
        pairs = [(case.cc, case.mlo) if back else (case.mlo, case.cc) for case in cases]
        for name, rule in RULES.items():
            found = [search(rule, one, other, widths_mm[name]) for one, other in pairs]
            missed, away, volume = (
                np.concatenate([getattr(one, key) for one in found])
                for key in ("errors_mm", "distances_mm", "volumes_ml")
            )
            share = np.concatenate([one.volumes_ml / one.breast_ml for one in found])
            held = float(np.mean(np.abs(missed) <= widths_mm[name]))
            table.append(
                f"| {said} | {name} | {np.abs(missed).mean():.1f} | {widths_mm[name]:.1f} | {held:.0%} "
                f"| {volume.mean():.0f} ({share.mean():.0%}) | {away.mean():.1f} |"
            )
        guesses = []
        for case, (one, other) in zip(cases, pairs, strict=True):
            roll = case.about["mlo"]["roll_rad"] - case.about["cc"]["roll_rad"]
            guess = turn(one, other, roll if back else -roll)
            guesses.append(np.linalg.norm(guess - other.landmarks_mm, axis=1))
        away = np.concatenate(guesses)
        radius = float(np.quantile(away, COVERED))
        ball_ml = 4 / 3 * math.pi * radius**3 / 1000
        table.append(f"| {said} | turn | | {radius:.1f} | 95% | {ball_ml:.0f}, a ball | {away.mean():.1f} |")
    return table


def main() -> None:
    """Print what the rules reach on the cases of a folder, by split."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    cases = [TwoViewCase.read(path.parent) for path in sorted(options.out.glob("case_*/case.json"))]
    if not cases:
        raise SystemExit(f"two_view_rules: no case_* in {options.out}")
    of = {split: [c for c in cases if c.about["split"] == split] for split in ("development", "judged")}
    widths = {name: half_width_mm(rule, of["development"] or cases) for name, rule in RULES.items()}
    for split, some in of.items():
        if some:
            print(f"\n{split}: {len(some)} breasts, {sum(len(c.cc.landmarks_mm) for c in some)} landmarks\n")
            print(
                "| from, to | rule | error of the measure, mm | half width, mm | within | search volume, ml "
                "(of the breast) | true place to the middle of the band, mm |"
            )
            print("| --- | --- | --- | --- | --- | --- | --- |")
            print("\n".join(rows(some, widths)))


if __name__ == "__main__":
    main()
