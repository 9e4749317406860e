"""The figures of an experiment's folder: all that its files allow, and no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io import write_volume
from duotomo.reproduction import figures
from duotomo.reproduction.columns import draw_columns
from duotomo.reproduction.figures import draw_experiment
from duotomo.reproduction.shown_case import distances_mm, inside_of, middle_of
from duotomo.transforms import Motion, Translation
from tests.reproduction.written_folder import GRID, METHODS, THINNER, method, spline, write_folder

RNG = np.random.default_rng(8)
ALWAYS = {"phantom-visit-1", "phantom-visit-2", "projections"}
OF_A_GROUP = {
    "reconstructions-visit-1",
    "reconstructions-visit-2",
    "results",
    "profiles",
    "objective-steps",
    "objective-applications",
    "displacement",
}
OF_CASES = {"cases-tre", "cases-error", "parameter-errors"}
BENDING = {
    "montage-truth",
    "montage-moved",
    "montage-recovered",
    "montage-difference",
    "control-grids-sequential",
    "control-grids-simultaneous",
}


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every figure, but write only its name: rendering takes most of the time."""

    def save(stem: Path, figure: Figure) -> tuple[Path, Path]:
        stem.parent.mkdir(exist_ok=True)
        files = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
        for path in files:
            path.write_text(f"{figure!r} of {path.name}", encoding="utf-8")
        return files

    monkeypatch.setattr("duotomo.report.style.save", save)


def drawn(folder: Path) -> set[str]:
    """Draw a folder, and return the names of its figures."""
    files = draw_experiment(folder)
    assert len(set(files)) == len(files)
    assert all(path.parent == folder / "figures" and path.stat().st_size > 20 for path in files)
    names = {path.stem for path in files}
    assert {path.name for path in files} == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    return names


@pytest.mark.usefixtures("unrendered")
def test_several_cases_of_an_affine_motion(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", METHODS, n_cases=3)
    assert drawn(folder) == ALWAYS | OF_A_GROUP | OF_CASES


def test_files_can_be_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[2]])
    (folder / "case_01" / "moved.nii.gz").unlink()
    files = draw_experiment(folder)
    for path in files:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.width > 1000
    assert len(files) == 10


@pytest.mark.usefixtures("unrendered")
def test_the_papers_algorithms_stand_apart(tmp_path: Path) -> None:
    methods = [method("plain-simultaneous", "simultaneous", "paper"), method("simultaneous", "simultaneous")]
    names = drawn(write_folder(tmp_path / "as-published", methods))
    assert {"results", "results-plain", "objective-steps", "objective-steps-plain"} <= names
    # Only the sequential method reconstructs visits by themselves.
    assert not any(name.startswith("reconstructions") for name in names)


@pytest.mark.usefixtures("unrendered")
def test_a_motion_that_bends_has_lattices_and_montages(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[0], METHODS[2]], transform=spline())
    assert drawn(folder) == ALWAYS | OF_A_GROUP | BENDING


@pytest.mark.usefixtures("unrendered")
def test_visits_of_unlike_grids_and_several_models(tmp_path: Path) -> None:
    methods = [method("sequential-affine", "sequential"), method("simultaneous-bspline", "simultaneous")]
    names = drawn(write_folder(tmp_path / "real", methods, moving=THINNER))
    assert {"phantom-visit-1", "phantom-visit-2", "results-affine", "results-bspline"} <= names
    assert {"reconstructions-affine-visit-1", "reconstructions-affine-visit-2"} <= names


def test_each_visit_is_cut_where_its_own_body_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[2]])
    for name, layer in (("truth", 1), ("moved", 6)):
        volume = torch.zeros(GRID.shape)
        volume[layer, 2:5, 3:6] = 0.05
        write_volume(folder / "case_01" / f"{name}.nii.gz", volume, GRID)
    calls: dict[str, dict[str, Any]] = {}

    def noted(stem: Path, **what: Any) -> tuple[Path, ...]:
        calls[stem.name] = what
        return ()

    monkeypatch.setattr(figures, "slices", noted)
    draw_experiment(folder)
    first, second = calls["phantom-visit-1"], calls["phantom-visit-2"]
    assert (first["at_mm"][2], second["at_mm"][2]) == (12.5, 37.5)
    (difference,) = first["differences"].values()
    assert (difference.max(), difference.min()) == (pytest.approx(0.05), pytest.approx(-0.05))
    assert second["differences"] is None


@pytest.mark.usefixtures("unrendered")
def test_more_ways_than_columns_go_to_a_second_figure(tmp_path: Path) -> None:
    methods = [
        method(f"split-{n}-{n}", "simultaneous", "paper", label=f"{n} volume + {n} motion")
        for n in range(1, 7)
    ]
    names = drawn(write_folder(tmp_path / "honest", methods))
    assert {"results-plain", "results-plain-2", "displacement-plain-2"} <= names
    assert {"objective-steps-plain", "objective-applications-plain"} <= names
    assert "objective-steps-plain-2" not in names


@pytest.mark.usefixtures("unrendered")
def test_what_is_not_there_is_not_drawn(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[0], METHODS[2]])
    home = folder / "case_01"
    (home / "study.h5").unlink()
    (home / "moved.nii.gz").unlink()
    shutil.rmtree(home / "sequential")
    assert drawn(folder) == {"results", "profiles", "objective-steps", "objective-applications"}


@pytest.mark.usefixtures("unrendered")
def test_without_the_true_motion_there_is_no_error_of_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[2]])
    (folder / "case_01" / "truth.tfm").unlink()
    names = drawn(folder)
    assert "phantom-visit-1" in names
    assert "displacement" not in names


def test_the_truth_is_needed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[2]])
    (folder / "case_01" / "truth.nii.gz").unlink()
    with pytest.raises(
        DuotomoError,
        match=r"draw_experiment: expected the truth of case 1 at .*Run `reproduce` for this case first",
    ):
        draw_experiment(folder)


def test_a_torn_result_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "honest", [METHODS[2]])
    path = folder / "case_01" / "simultaneous" / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": 3}))
    with pytest.raises(DuotomoError, match=r"read_result: expected .*result\.json as write_result wrote it"):
        draw_experiment(folder)


def test_columns_show_volumes_and_their_differences_to_the_first() -> None:
    truth, found, other = (RNG.random(GRID.shape) for _ in range(3))
    figure = draw_columns(columns={"truth": truth, "a": found, "b": other}, grid=GRID, unit="1/mm")
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 3 * (3 + 2)
    above = images[:5]
    for image, plane in zip(above, (truth[4], found[4], other[4]), strict=False):
        assert np.allclose(image.get_array(), plane)
    assert np.allclose(above[3].get_array(), (found - truth)[4])
    assert np.allclose(above[4].get_array(), (other - truth)[4])
    assert {image.get_clim() for image in above[:3]} == {(truth.min(), truth.max())}
    ((low, high),) = {image.get_clim() for image in above[3:]}
    assert low == -high


def test_one_column_has_no_differences() -> None:
    figure = draw_columns(columns={"truth": RNG.random(GRID.shape)}, grid=GRID, unit="1/mm")
    assert sum(bool(axes.images) for axes in figure.axes) == 3


def test_a_volume_that_is_far_off_does_not_take_the_colours_of_the_others() -> None:
    truth = RNG.random(GRID.shape)
    near = {f"near {n}": truth + 0.01 * RNG.random(GRID.shape) for n in range(2)}
    figure = draw_columns(columns={"truth": truth, **near, "far": truth + 100}, grid=GRID, unit="1/mm")
    differences = [axes.images[0] for axes in figure.axes if axes.images][4]
    assert differences.get_clim()[1] == pytest.approx(0.01, rel=0.1)


def test_no_columns_are_refused() -> None:
    with pytest.raises(DuotomoError, match="columns: expected at least one of columns; got none"):
        draw_columns(columns={}, grid=GRID, unit="1/mm")


def test_two_shifts_are_as_far_apart_as_their_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    # Slabs of one layer each, and one of all.
    for voxels in (1, 10**9):
        monkeypatch.setattr("duotomo.reproduction.shown_case.SLAB", voxels)
        shift = Translation(GRID)
        motions = [
            Motion(shift, shift.params(translation_mm=mm)) for mm in ((1.0, 2.0, 3.0), (1.0, -1.0, 7.0))
        ]
        assert torch.allclose(distances_mm(*motions, GRID), torch.tensor(5.0))


def test_slabs_lie_where_the_layers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = VolumeGrid.on_detector((7, 4, 5), (2.0, 3.0, 4.0), gap_mm=6.0)
    transform = spline()
    motion = Motion(transform, torch.linspace(-1, 1, transform.n_params, dtype=torch.float64))
    still = Motion(transform, transform.identity())
    whole = motion.displacement(grid).norm(dim=0)
    monkeypatch.setattr("duotomo.reproduction.shown_case.SLAB", 2 * 4 * 5)
    assert torch.allclose(distances_mm(motion, still, grid), whole.float(), atol=1e-5)


def test_the_middle_is_where_the_attenuation_is() -> None:
    volume = torch.zeros(GRID.shape)
    volume[2, 5, 7] = 3.0
    assert middle_of(volume, GRID) == pytest.approx((17.5, 27.5, 17.5))
    z, y, x = GRID.center_mm
    assert middle_of(torch.zeros(GRID.shape), GRID) == (x, y, z)


def test_the_object_is_what_attenuates() -> None:
    volume = torch.zeros(GRID.shape)
    volume[2:5] = 0.05
    volume[6] = 0.001
    assert torch.equal(inside_of(volume), volume == 0.05)
