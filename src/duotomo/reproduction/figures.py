"""The figures of an experiment, drawn from its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import SavedResult
from duotomo.report.cases import cases
from duotomo.report.curves import objective_curves
from duotomo.report.displacement import displacement_errors
from duotomo.report.parameter_errors import parameter_errors
from duotomo.report.profiles import profiles
from duotomo.report.projections import projections
from duotomo.report.slices import slices
from duotomo.reproduction.columns import columns
from duotomo.reproduction.deformation_figures import (
    UNIT,
    bends,
    control_lattices,
    difference_montage,
    montages,
)
from duotomo.reproduction.ratios import groups
from duotomo.reproduction.shown_case import Shown, distances_mm, inside_of, middle_of, read_shown
from duotomo.reproduction.summary import digits
from duotomo.reproduction.table import Table, TableMethod, read_table
from duotomo.solvers import Step
from duotomo.transforms import Motion

FIGURES = "figures"
MOST_COLUMNS = 5
"""Results in one figure, beside the truth; more go to the next figure."""

Files = Iterator[Path]
Called = tuple[TableMethod, str]
"""A method, and what it is called among those that it is drawn with."""


def draw_experiment(folder: Path) -> list[Path]:
    """Draw the figures of one experiment at one level.

    Figures of a part that the folder does not have, such as the projections of a case that was not kept, are
    left out.
    """
    folder = Path(folder)
    table = read_table(folder)
    shown, out = read_shown(folder, table), folder / FIGURES
    files = [*_draw_phantom(shown, out), *_draw_projections(shown, out)]
    for origin, model, methods in groups(table):
        tail = ("-plain" if origin == "paper" else "") + (f"-{model}" if model else "")
        called = list(zip(methods, _called(methods), strict=True))
        files += _draw_group(table, shown, called, out, tail)
        files += _draw_cases(table, called, out, tail)
    return files


def _called(methods: Sequence[TableMethod]) -> list[str]:
    """Return short names that tell methods apart: their families, or else their labels."""
    families = [method.family for method in methods]
    return families if len(set(families)) == len(families) else [method.label for method in methods]


def _draw_phantom(shown: Shown, out: Path) -> Files:
    found = shown.moved()
    if found is None:
        return
    moved, grid = found
    yield from _draw_visits(out / "phantom", shown, (shown.truth, shown.grid), (moved, grid), "truth at")
    true = shown.motion(grid)
    if true is not None and bends(true):
        volumes = {"truth": (shown.truth, shown.grid), "moved": (moved, grid)}
        yield from montages(shown, volumes, out)


def _draw_visits(
    stem: Path,
    shown: Shown,
    first: tuple[torch.Tensor, VolumeGrid],
    second: tuple[torch.Tensor, VolumeGrid],
    what: str,
) -> Files:
    """Draw the volumes of both visits, each cut through its own centre: the body may have moved away.

    Below the first is the difference of both, if their grids have one shape.
    """
    same = first[1].shape == second[1].shape
    for number, (volume, grid) in enumerate((first, second), start=1):
        yield from slices(
            stem.with_name(f"{stem.name}-visit-{number}"),
            rows={f"{what} visit {number}": volume},
            differences={"visit 1 - visit 2, not registered": volume - second[0]}
            if same and number == 1
            else None,
            grid=grid,
            unit=UNIT,
            window=shown.window,
            at_mm=middle_of(volume.clamp(min=0), grid),
        )


def _draw_projections(shown: Shown, out: Path) -> Files:
    study = shown.study()
    if study is not None:
        visits = {
            f"visit {number}": (visit.projections, visit.acquisition)
            for number, visit in enumerate(study.visits, start=1)
        }
        yield from projections(out / "projections", visits=visits)


def _draw_group(table: Table, shown: Shown, methods: Sequence[Called], out: Path, tail: str) -> Files:
    volumes: dict[str, torch.Tensor] = {}
    histories: dict[str, tuple[Step, ...]] = {}
    motions: dict[str, Motion] = {}
    best = None
    for method, name in methods:
        # One at a time: a result of the largest experiment has three volumes of 88 MB.
        result = shown.result(method)
        if result is None:
            continue
        histories[name] = result.history
        if method.family != "known motion" and result.motions:
            motions[name] = result.motions[0]
        if method.family == "sequential" and "visit_2" in result.others:
            first = result.volume, result.grid
            second = result.others["visit_2"], result.grids.get("visit_2", result.grid)
            yield from _draw_visits(out / f"reconstructions{tail}", shown, first, second, "reconstruction of")
        if result.grid.shape == shown.grid.shape:
            title, volume = _titled(table, method, name, result)
            volumes[title] = volume
            best = title if method.family == "simultaneous" else best
    yield from _draw_results(shown, volumes, out, tail)
    yield from _draw_curves(histories, out, tail)
    yield from _draw_motions(shown, motions, None if best is None else volumes[best], out, tail)


def _titled(table: Table, method: TableMethod, name: str, result: SavedResult) -> tuple[str, torch.Tensor]:
    """Return the volume that a method is judged by in the paper, and its name with the error."""
    row = table.of(method).get(table.shown)
    registered = result.others.get("visit_2_registered") if method.family == "sequential" else None
    if registered is None:
        error = None if row is None else row.relative_error
        return f"{name}\nerror {digits(error)}", result.volume
    error = None if row is None else row.registered_relative_error
    return f"{name}, visit 2 registered\nerror {digits(error)}", registered


def _draw_results(shown: Shown, volumes: dict[str, torch.Tensor], out: Path, tail: str) -> Files:
    titles = list(volumes)
    for number, start in enumerate(range(0, len(titles), MOST_COLUMNS), start=1):
        page = {title: volumes[title] for title in titles[start : start + MOST_COLUMNS]}
        more = "" if number == 1 else f"-{number}"
        lines = {title.split("\n")[0]: volume for title, volume in page.items()}
        look: Any = {"grid": shown.grid, "unit": UNIT, "window": shown.window, "at_mm": shown.middle_mm}
        yield from columns(out / f"results{tail}{more}", columns={"truth": shown.truth, **page}, **look)
        yield from profiles(out / f"profiles{tail}{more}", rows={"truth": shown.truth, **lines}, **look)


def _draw_curves(histories: dict[str, tuple[Step, ...]], out: Path, tail: str) -> Files:
    kept = {name: _of_projections(history) for name, history in histories.items()}
    kept = {name: history for name, history in kept.items() if history}
    if not kept:
        return
    pieces = {
        name: [
            number
            for number, (before, now) in enumerate(pairwise(history), start=1)
            if (before.stage, before.what) != (now.stage, now.what)
        ]
        for name, history in kept.items()
    }
    for stem, along, label in (
        ("objective-steps", "number", "step"),
        ("objective-applications", "applications", "projector applications"),
    ):
        curves = {
            name: ([getattr(one, along) for one in history], [one.objective for one in history])
            for name, history in kept.items()
        }
        yield from objective_curves(
            out / f"{stem}{tail}",
            curves=curves,
            x_label=f"{label}; a curve is broken where the visit, the resolution or the model changes",
            y_label="objective",
            pieces=pieces,
        )


def _of_projections(history: Sequence[Step]) -> list[Step]:
    """Return the steps whose objective is a misfit of projections, and has a logarithm.

    The iterative method also registers volumes; the last step of a run that diverged may be infinite.
    """
    return [one for one in history if " of visit " not in one.what and 0 < one.objective < np.inf]


def _draw_motions(
    shown: Shown, motions: dict[str, Motion], recovered: torch.Tensor | None, out: Path, tail: str
) -> Files:
    found = shown.moved()
    if found is None:
        return
    moved, grid = found
    true = shown.motion(grid)
    if true is None:
        return
    names = list(motions)
    for number, start in enumerate(range(0, len(names), MOST_COLUMNS), start=1):
        rows = {name: distances_mm(motions[name], true, grid) for name in names[start : start + MOST_COLUMNS]}
        yield from displacement_errors(
            out / f"displacement{tail}{'' if number == 1 else f'-{number}'}",
            rows=rows,
            grid=grid,
            mask=inside_of(moved),
            at_mm=middle_of(moved.clamp(min=0), grid),
        )
    if bends(true):
        yield from control_lattices(shown, true, motions, grid, out, tail)
        if recovered is not None:
            yield from montages(shown, {f"recovered{tail}": (recovered, shown.grid)}, out)
            yield from difference_montage(shown, recovered, out / f"montage-difference{tail}")


def _draw_cases(table: Table, methods: Sequence[Called], out: Path, tail: str) -> Files:
    rows = {name: table.of(method) for method, name in methods if method.family != "known motion"}
    with_oracle = {name: table.of(method) for method, name in methods}
    for stem, label, some, error in (
        ("cases-tre", "mean target registration error, mm", rows, "tre_mm"),
        ("cases-error", "relative error", with_oracle, "relative_error"),
    ):
        numbers = sorted(set.intersection(*(set(one) for one in some.values()))) if some else []
        values = {name: [getattr(one[case], error) for case in numbers] for name, one in some.items()}
        every = np.array(list(values.values()))
        if len(numbers) > 1 and np.isfinite(every).all():
            yield from cases(
                out / f"{stem}{tail}",
                values=values,
                y_label=label,
                log_y=bool(every.min() > 0),
                case_numbers=numbers,
            )
    entries = {
        name: [row.entries for row in one.values() if row.entries is not None] for name, one in rows.items()
    }
    entries = {name: errors for name, errors in entries.items() if len(errors) > 1}
    if entries:
        yield from parameter_errors(out / f"parameter-errors{tail}", errors=entries)
