"""Bad inputs made from good cases: none of them may be trusted, and the check that fails names the cause.

    python -m benchmarks.bad_inputs CASES                                  # a few cases, 3 mm voxels
    python -m benchmarks.bad_inputs CASES --voxel-mm 4 --cases AL_small_0,CR_large_0 --json rows.json
    python -m benchmarks.bad_inputs CASES --changes untouched,other_side --device cuda
    python -m benchmarks.bad_inputs CASES --changes strangers --transform bspline

CASES is a folder of two-visit studies (`benchmarks.robust_cases`). The moving visit is replaced, or its views
or geometry are changed, and the study is solved and judged as any other. One row for each case and change:
whether it is trusted, which checks failed, with value and limit, and whether one of them names the cause.
Strangers are visits that do not show this breast: another woman's, the other side, noise, air, or one and the
same number. A change may also be the name of another case, whose moving visit is then taken.

`scanner_5mm` shifts source and detector of one visit together: a translation of the breast, which harms
nothing. A source that is off against the detector is, to 0.05 mm, a translation and a shear of the breast,
and a turned tube nearly so. Neither contradicts the data: such errors are noticed because two visits to one
machine are described by different geometries. Where that comparison fails, as in the changes named
`unseen_...`, whose detectors differ by two columns or are described alike, nothing is expected: the rows show
what the error does to the motion and to the volume.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.robust_cases import RobustCase
from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition
from duotomo.methods import Settings, Study, Visit, simultaneous, trust_of
from duotomo.transforms import Affine, BSpline

Row = dict[str, Any]
Change = Callable[[Visit], Visit]

CASES = ("AL_small_0", "CR_large_0", "GL_combined_0", "KR_wave_0")
OTHER_PATIENT = {"A": "C", "C": "G", "G": "K", "K": "O", "O": "A", "H": "I", "I": "M", "M": "H"}
"""Whose breast is taken for the moving visit: one of the same split."""

TRANSFORMS: dict[str, Callable[[Study], Settings]] = {
    "auto": Settings.automatic,
    "affine": lambda study: Settings.staged(study.grid, Affine),
    "bspline": lambda study: Settings.staged(study.grid, BSpline.shaped((7, 7, 7))),
}

CLIPPED, SATURATED_VIEWS = 0.6, 3
"""Share of a visit's largest line integral at which views saturate, and how many do."""


def moved(
    visit: Visit,
    *,
    source: tuple[float, float, float] = (0.0, 0.0, 0.0),
    detector: tuple[float, float, float] = (0.0, 0.0, 0.0),
    tube_deg: float = 0.0,
    views: slice = slice(None),
) -> Visit:
    """Return a visit whose geometry is wrong: shifts (x, y, z) in mm, and a turn of the tube about y."""
    old, turn = visit.acquisition, math.radians(tube_deg)
    rotation = torch.eye(3, dtype=torch.float64)
    rotation[0, 0] = rotation[2, 2] = math.cos(turn)
    rotation[0, 2], rotation[2, 0] = math.sin(turn), -math.sin(turn)
    sources, centers = _vectors(old.source_mm), _vectors(old.detector_center_mm)
    sources[views] = sources[views] @ rotation.T + _vectors(source)
    centers[views] += _vectors(detector)
    acquisition = Acquisition(
        source_mm=sources.tolist(),
        detector_center_mm=centers.tolist(),
        u_axis=old.u_axis,
        v_axis=old.v_axis,
        pixel_spacing_mm=old.pixel_spacing_mm,
        detector_shape=old.detector_shape,
    )
    return replace(visit, acquisition=acquisition)


def widened(visit: Visit, tube_deg: float) -> Visit:
    """Return a visit whose sweep is described as wider, by so much at both ends."""
    last = visit.acquisition.n_views - 1
    for view in range(last + 1):
        turn_deg = tube_deg * (2 * view / last - 1)
        visit = moved(visit, tube_deg=turn_deg, views=slice(view, view + 1))
    return visit


def reordered(visit: Visit, order: Sequence[int]) -> Visit:
    """Return a visit with its views in another order, and its geometry as it was."""
    return replace(visit, projections=visit.projections[list(order)])


def swapped(visit: Visit) -> Visit:
    """Return a visit with two neighbours near the middle of the sweep swapped."""
    order = list(range(visit.acquisition.n_views))
    middle = len(order) // 2
    order[middle], order[middle + 1] = order[middle + 1], order[middle]
    return reordered(visit, order)


def saturated(visit: Visit) -> Visit:
    """Return a visit with a few views clipped at the top."""
    views = visit.projections.clone()
    views[:SATURATED_VIEWS].clamp_(max=CLIPPED * float(views.max()))
    return replace(visit, projections=views)


def emptied(visit: Visit) -> Visit:
    """Return a visit with half of its views showing air."""
    views = visit.projections.clone()
    views[::2] = 0.0
    return replace(visit, projections=views)


def halved(visit: Visit, kept: slice) -> Visit:
    """Return a visit without half of its views."""
    return Visit(projections=visit.projections[kept].clone(), acquisition=visit.acquisition[kept])


def rolled(visit: Visit, shift_mm: float) -> Visit:
    """Return a visit whose detector was elsewhere along u than is said."""
    pixels = round(shift_mm / visit.acquisition.pixel_spacing_mm[1])
    return replace(visit, projections=visit.projections.roll(pixels, dims=2))


def cropped(visit: Visit) -> Visit:
    """Return a visit without the two outer columns of its detector, as if of another machine."""
    old = visit.acquisition
    acquisition = Acquisition(
        source_mm=old.source_mm,
        detector_center_mm=old.detector_center_mm,
        u_axis=old.u_axis,
        v_axis=old.v_axis,
        pixel_spacing_mm=old.pixel_spacing_mm,
        detector_shape=(old.detector_shape[0], old.detector_shape[1] - 2),
    )
    return Visit(projections=visit.projections[:, :, 1:-1].clone(), acquisition=acquisition)


def noise(visit: Visit) -> Visit:
    """Return a visit of independent pixels, with the mean and the spread of the breast's."""
    views = visit.projections
    return replace(visit, projections=views.mean() + views.std() * _drawn(views))


def air(visit: Visit) -> Visit:
    """Return a visit that shows nothing but the noise of about 200,000 photons."""
    return replace(visit, projections=_drawn(visit.projections) / 200_000**0.5)


def _drawn(views: torch.Tensor) -> torch.Tensor:
    return torch.randn(views.shape, generator=torch.Generator().manual_seed(0)).to(views)


def constant(visit: Visit) -> Visit:
    """Return a visit all of whose line integrals are the mean of the breast's."""
    views = visit.projections
    return replace(visit, projections=torch.full_like(views, float(views.mean())))


CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "untouched": (lambda visit: visit, ()),
    "half_missing": (lambda visit: halved(visit, slice(0, visit.acquisition.n_views // 2)), ("missing",)),
    "every_other": (lambda visit: halved(visit, slice(0, None, 2)), ("missing",)),
    "half_empty": (emptied, ("lost",)),
    "saturated": (saturated, ("saturated",)),
    "reversed": (lambda visit: reordered(visit, range(visit.acquisition.n_views)[::-1]), ("reversed",)),
    "swapped": (swapped, ("order",)),
    "source_x_5mm": (lambda visit: moved(visit, source=(5.0, 0.0, 0.0)), ("geometry",)),
    "source_y_5mm": (lambda visit: moved(visit, source=(0.0, 5.0, 0.0)), ("geometry",)),
    "source_z_5mm": (lambda visit: moved(visit, source=(0.0, 0.0, 5.0)), ("geometry",)),
    "detector_x_5mm": (lambda visit: moved(visit, detector=(5.0, 0.0, 0.0)), ("geometry",)),
    "detector_y_5mm": (lambda visit: moved(visit, detector=(0.0, 5.0, 0.0)), ("geometry",)),
    "tube_2deg": (lambda visit: moved(visit, tube_deg=2.0), ("geometry",)),
    "one_view_2deg": (lambda visit: moved(visit, tube_deg=2.0, views=slice(2, 3)), ("displaced", "geometry")),
    "half_2deg": (lambda visit: moved(visit, tube_deg=2.0, views=slice(0, None, 2)), ("geometry",)),
    "sweep_2deg": (lambda visit: widened(visit, 2.0), ("geometry",)),
    "scanner_5mm": (
        lambda visit: moved(visit, source=(5.0, 0.0, 0.0), detector=(5.0, 0.0, 0.0)),
        ("geometry",),
    ),
    "unseen_5mm": (lambda visit: rolled(visit, 5.0), ()),
    "unseen_2deg": (lambda visit: moved(cropped(visit), tube_deg=2.0), ()),
    "noise": (noise, ("no breast",)),
    "air": (air, ("no breast",)),
    "constant": (constant, ("no breast",)),
}
"""What is done to the moving visit, and the words one of which has to stand in a check that fails."""

OTHERS = {"other_breast": ("same breast",), "other_side": ("same side",)}
"""The moving visit is one of another case; and the words, as in `CHANGES`."""

GROUPS = {"strangers": ["noise", "air", "constant", *OTHERS]}
"""Names that stand for several changes."""


def changed(case: RobustCase, change: str, folder: Path, voxel_mm: float, device: str) -> Study | None:
    """Return the study with a change to its moving visit; None where there is no such other case."""
    study = case.study
    if change in CHANGES:
        visit = CHANGES[change][0](study.moving[0])
    else:
        other = _other_name(case.name, change)
        path = next(iter(sorted(folder.glob(f"{other}.npz"))), None)
        if path is None:
            return None
        theirs = RobustCase.read(path, voxel_mm, device=device).study
        visit = replace(theirs.moving[0], grid=theirs.grid)
    return Study(grid=study.grid, visits=(study.reference, visit))


def row_of(case: RobustCase, change: str, study: Study, transform: str = "auto") -> Row:
    """Return what is found about one changed study, with one of `TRANSFORMS`."""
    words = CHANGES[change][1] if change in CHANGES else OTHERS.get(change, ("same breast",))
    row: Row = {
        "case": case.name,
        "change": change,
        "transform": transform,
        "trusted": False,
        "tre_mm": None,
        "failed": [],
    }
    began = time.perf_counter()
    try:
        settings = TRANSFORMS[transform](study)
        result = simultaneous(study, settings)
        trust = trust_of(study, settings, result)
        failed = [check for check in trust.checks if not check.passed]
        row |= {
            "trusted": trust.trusted,
            "use": trust.use,
            "reason": trust.reason,
            "tre_mm": case.errors_mm(result.motions[0])[0],
            "relative_error": case.relative_error(result.volume) if result.grid == study.grid else None,
            "status": result.status.value,
            "failed": [{"name": one.name, "value": one.value, "limit": one.limit} for one in failed],
            "checks": trust.to_dict()["checks"],
        }
    except DuotomoError as error:
        row |= {"status": "error", "reason": str(error)}
    row["named"] = any(word in row["reason"] for word in words) if words else None
    return row | {"seconds": time.perf_counter() - began}


def line(row: Row) -> str:
    """Return a row of the table."""
    failed = ", ".join(
        f"{one['name']} {one['value']:.3g} (limit {one['limit']:.3g})" for one in row["failed"]
    )
    tre = "" if row["tre_mm"] is None else f"{row['tre_mm']:.2f}"
    named = {None: "", True: "yes", False: "NO"}[row["named"]]
    return (
        f"{row['case']:16s} {row['change']:15s} {'yes' if row['trusted'] else 'no':7s} {named:5s} "
        f"{row['seconds']:6.1f} {tre:>6s}  {failed or row['status']}"
    )


def summary(rows: Sequence[Row]) -> str:
    """Return how many good cases were trusted, and bad ones not, by their change."""
    lines = []
    for change in dict.fromkeys(row["change"] for row in rows):
        chosen = [row for row in rows if row["change"] == change]
        lines.append(
            f"{change:15s} trusted {sum(row['trusted'] for row in chosen)} of {len(chosen)}, "
            f"cause named {sum(bool(row['named']) for row in chosen)}"
        )
    return "\n".join(lines)


def _vectors(rows: object) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _other_name(name: str, change: str) -> str:
    if change not in OTHERS:
        return change
    if change == "other_breast":
        return f"{OTHER_PATIENT[name[0]]}[LR]{name[2:]}"
    return name[0] + {"L": "R", "R": "L"}[name[1]] + name[2:]


def _rows(folder: Path, names: Sequence[str], options: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        case = RobustCase.read(folder / f"{name}.npz", options.voxel_mm, device=options.device)
        for change in options.changes:
            study = changed(case, change, folder, options.voxel_mm, options.device)
            if study is not None:
                yield {**row_of(case, change, study, options.transform), "voxel_mm": options.voxel_mm}


def main() -> None:
    """Change the cases of a folder, judge them and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of cases (.npz)")
    parser.add_argument("--voxel-mm", type=float, default=3.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=CASES)
    parser.add_argument("--changes", type=lambda text: text.split(","), default=[*CHANGES, *OTHERS])
    parser.add_argument("--transform", choices=list(TRANSFORMS), default="auto")
    parser.add_argument("--json", type=Path, help="write the rows here, after every one")
    options = parser.parse_args()
    options.changes = [one for name in options.changes for one in GROUPS.get(name, [name])]
    known = {*CHANGES, *OTHERS, *(path.stem for path in options.folder.glob("*.npz"))}
    if unknown := [change for change in options.changes if change not in known]:
        parser.error(
            f"--changes: expected some of {', '.join([*CHANGES, *OTHERS])}; got {', '.join(unknown)}"
        )
    print(f"{'case':16s} {'change':15s} trusted named {'s':>6s} {'TRE mm':>6s}  failed")
    rows: list[Row] = []
    for row in _rows(options.folder, options.cases, options):
        rows.append(row)
        print(line(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print(summary(rows))


if __name__ == "__main__":
    main()
