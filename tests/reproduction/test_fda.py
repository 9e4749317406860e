"""The lesion of the FDA's projections: measured where it is put, found where it was put, computed once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duotomo.errors import DuotomoError
from duotomo.phantoms import Ellipsoid
from duotomo.reconstruct import BackProjection, Sart
from duotomo.reproduction import DataLevel, Plan, fda
from duotomo.reproduction.third_party.fda import FILE, FdaScan, _acquisition

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("DUOTOMO_DATA", ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (DATA / FILE).exists(), reason=f"needs {FILE} in {DATA}; set DUOTOMO_DATA to the folder that holds it"
)
SCAN = FdaScan(
    projections=np.zeros((7, 170, 615)),
    acquisition=_acquisition(),
    photons=4e4,
    lesion_center_mm=(-0.2, 31.0, 23.6),
    lesion_radii_mm=(3.2, 3.2, 1.6),
    lesion_per_mm=0.36,
)
GRID = fda.grid_of(SCAN, quick=True)


def with_lesion(moved_mm: tuple[float, float, float], value: float = 0.1) -> np.ndarray:
    """Return tissue of 0.05 with a lesion of `value` more, moved away from its true place."""
    x, y, z = (at + by for at, by in zip(SCAN.lesion_center_mm, moved_mm, strict=True))
    # Larger than a voxel, so that its centroid is not the voxel's.
    spot = Ellipsoid(center_mm=(x, y, z), radii_mm=(4.0, 4.0, 5.0), value=value)
    volume: np.ndarray = 0.05 + spot.voxels(GRID)
    return volume


@pytest.mark.parametrize("moved_mm", [(0.0, 0.0, 0.0), (1.3, 0.0, -2.0), (-2.0, 1.0, 3.0)])
def test_the_spot_is_found_where_it_is(moved_mm: tuple[float, float, float]) -> None:
    found = fda.measures(with_lesion(moved_mm), GRID, SCAN)
    np.testing.assert_allclose(found["offset_mm"], moved_mm, atol=0.5)


def test_contrast_is_that_over_the_surroundings() -> None:
    found = fda.measures(with_lesion((0.0, 0.0, 0.0)), GRID, SCAN)
    assert found["surroundings_per_mm"] == pytest.approx(0.05)
    assert found["contrast_per_mm"] == pytest.approx(0.1, rel=0.05)
    assert found["noise_per_mm"] == pytest.approx(0.0, abs=1e-12)


def test_noise_is_measured_in_the_calm_square() -> None:
    noise = np.random.default_rng(2).normal(scale=0.01, size=GRID.shape)
    found = fda.measures(with_lesion((0.0, 0.0, 0.0)) + noise, GRID, SCAN)
    assert found["noise_per_mm"] == pytest.approx(0.01, rel=0.4)


def test_the_grid_covers_the_detectors_depth() -> None:
    for quick in (True, False):
        grid = fda.grid_of(SCAN, quick=quick)
        np.testing.assert_allclose(grid.size_mm, (50.0, 68.0, 220.0), rtol=0.02)


def test_settings_are_the_same_in_every_run() -> None:
    settings = [one.settings for one in fda.algorithms(SCAN, quick=False)]
    assert "FilteredBackProjection(window=hann)" in settings
    assert not any(" at 0x" in one for one in settings)


def test_rows_of_version_1_are_known_by_the_names_they_had() -> None:
    plan = Plan(level=DataLevel.REAL)
    older = [
        fda._keys(plan, GRID, one)[1].removeprefix(f"cpu {GRID!r} ")
        for one in fda.algorithms(SCAN, quick=False)
    ]
    assert older == [
        "BackProjection()",
        "FilteredBackProjection(window=hann)",
        "Sart(n_sweeps=8, relaxation=0.5, nonnegative=True)",
        "Cgls(n_steps=12, tolerance=0.0)",
        "Mlem(n_steps=60, photons=40000.0)",
        # Its settings were others then, so that rows of version 1 are computed anew.
        "TotalVariation(n_steps=1500, tolerance=3e-05, tv_weight=None, kappa=0.4, depth_weight=1.0)",
    ]


def test_data_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DuotomoError, match="fda-projections: expected a folder with third-party data"):
        fda.reproduce_fda(Plan(level=DataLevel.REAL), tmp_path, on_row=lambda row, before: None)


@needs_data
def test_what_is_finished_is_kept_and_the_lesion_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = (
        fda.Named(name="back-projection", label="back projection", algorithm=BackProjection()),
        fda.Named(name="sart", label="SART", algorithm=Sart(n_sweeps=2)),
    )
    monkeypatch.setattr(fda, "algorithms", lambda scan, quick: chosen)
    plan = Plan(level=DataLevel.REAL, quick=True, data=DATA)
    seen: list[tuple[str, bool]] = []

    def note(row: dict[str, Any], before: bool) -> None:
        seen.append((row["name"], before))

    table = fda.reproduce_fda(plan, tmp_path, on_row=note)
    blurred, sharper = table["rows"]
    for row in (blurred, sharper):
        assert np.hypot(*row["offset_mm"][:2]) < 1.0
        assert abs(row["offset_mm"][2]) < 3.0
    assert blurred["contrast_per_mm"] < sharper["contrast_per_mm"] < table["true_contrast_per_mm"][0]
    (tmp_path / "sart.json").unlink()
    again = fda.reproduce_fda(plan, tmp_path, on_row=note)
    assert seen == [("back-projection", False), ("sart", False), ("back-projection", True), ("sart", False)]
    assert again["rows"][0] == blurred
    monkeypatch.setattr(fda, "algorithms", lambda scan, quick: (chosen[0], _other(chosen[1])))
    with pytest.raises(DuotomoError, match="to come from the same settings and device; got another"):
        fda.reproduce_fda(plan, tmp_path, on_row=note)


def _other(named: fda.Named) -> fda.Named:
    return fda.Named(name=named.name, label=named.label, algorithm=Sart(n_sweeps=1))
