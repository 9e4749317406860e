"""Subjects that others made: read into the machine frame, the right way round, tissue by tissue.

Small files written here stand in for the data where a law can be tested on them. What needs the data
themselves is skipped without them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import SimpleITK
from numpy.typing import NDArray
from scipy import ndimage

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import world_to_voxel
from duotomo.io.images import read_image
from duotomo.io.paths import FileError
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.sampled import Sampled
from duotomo.reproduction.third_party.breast_mr import breast_mr
from duotomo.reproduction.third_party.fda import FILE as FDA
from duotomo.reproduction.third_party.fda import fda_projections
from duotomo.reproduction.third_party.files import find, scipy_part
from duotomo.reproduction.third_party.victre import AFTER, BEFORE, victre

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("DUOTOMO_DATA", ROOT.parent / "shared" / "data"))
ADIPOSE, GLANDULAR, SKIN, MASS = (
    np.float32(attenuation_per_mm(tissue, energy_kev=20.0))
    for tissue in (Tissue.ADIPOSE, Tissue.GLANDULAR, Tissue.SKIN, Tissue.MASS)
)


def needs(folder: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not (DATA / folder).is_dir(), reason=f"needs {folder} in {DATA}; set DUOTOMO_DATA to its parent"
    )


READERS: list[tuple[Callable[[Path], object], str, str]] = [
    (breast_mr, r"breast_mr/A_69b91dc2_dyn_t0_pre\.nii\.gz", r"MIMBCD-UI.*CC BY-SA 4\.0"),
    (lambda folder: breast_mr(folder, patient="C"), r"breast_mr/C_313efebf_s09\.nii\.gz", "MIMBCD-UI"),
    (victre, r"victre_phantom/pc_1_crop\.mha", r"DIDSR/VICTRE_PIPELINE.*CC0"),
    (lambda folder: victre(folder, lesion=True), r"victre_phantom/pcl_1\.mha", "DIDSR/VICTRE_PIPELINE"),
    (fda_projections, r"fda_dbt_projections/g_noi\.mat", "DIDSR/ReconDBT.*public domain"),
]


@pytest.mark.parametrize(("read", "file", "origin"), READERS)
def test_missing_data_are_named_with_their_origin_and_licence(
    read: Callable[[Path], object], file: str, origin: str, tmp_path: Path
) -> None:
    with pytest.raises(FileError, match=f"expected the file {file}; got none: there is no folder .*{origin}"):
        read(tmp_path)


def test_find_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "breasts").mkdir()
    with pytest.raises(FileError, match=r"there is no file .*breasts.one\.nii\. Ask\."):
        find(tmp_path, "breasts/one.nii", how_to_get="Ask.")
    with pytest.raises(FileError, match=r"there is no folder .*elsewhere\. Ask\."):
        find(tmp_path / "elsewhere", "breasts/one.nii", how_to_get="Ask.")
    (tmp_path / "breasts" / "one.nii").touch()
    assert find(tmp_path, "breasts/one.nii", how_to_get="Ask.") == tmp_path / "breasts" / "one.nii"


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(FileError, match=r"expected scipy\.alchemy to be installed.*pip install scipy"):
        scipy_part("alchemy")


@needs("victre_phantom")
@pytest.mark.parametrize("file", [BEFORE, AFTER])
def test_labels_are_those_that_simpleitk_reads(file: str) -> None:
    image = SimpleITK.ReadImage(str(DATA / file))
    found = read_image(DATA / file)
    np.testing.assert_array_equal(found.array, SimpleITK.GetArrayFromImage(image))
    assert found.array.dtype == np.uint8
    assert tuple(found.spacing_mm) == image.GetSpacing()


def test_unknown_patient_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DuotomoError, match="expected patient to be one of A, C; got 'B'"):
        breast_mr(tmp_path, patient="B")


def write_labels(path: Path, labels: NDArray[np.uint8]) -> None:
    """Write labels (compression, lateral, chest wall to nipple), as VICTRE does."""
    path.parent.mkdir(exist_ok=True)
    image = SimpleITK.GetImageFromArray(labels)
    image.SetSpacing((0.2, 0.2, 0.2))
    SimpleITK.WriteImage(image, str(path))


def small_phantom() -> NDArray[np.uint8]:
    labels = np.zeros((8, 6, 7), dtype=np.uint8)
    labels[[0, 7]] = 50
    labels[1:7, 1:5, 0:4] = 1
    labels[3, 3, 4] = 33  # The nipple.
    labels[2, 1, 1] = 29  # Gland, low in z and low in the file's lateral axis.
    return labels


def test_victre_axes_are_turned_not_mirrored_and_paddles_removed(tmp_path: Path) -> None:
    write_labels(tmp_path / BEFORE, small_phantom())
    subject = victre(tmp_path)
    assert subject.volume.shape == (6, 5, 4)
    assert subject.volume.dtype == np.float32
    assert subject.grid.low_mm == pytest.approx((5.0, 0.0, -0.4))
    assert subject.volume[0, 0, 0] == ADIPOSE
    assert np.argwhere(subject.volume == SKIN).tolist() == [[2, 4, 1]]
    assert np.argwhere(subject.volume == GLANDULAR).tolist() == [[1, 1, 3]]
    assert np.count_nonzero(subject.volume[:, 4]) == 1


def test_victre_differs_where_the_mass_is(tmp_path: Path) -> None:
    labels = small_phantom()
    write_labels(tmp_path / BEFORE, labels)
    labels[4:6, 2, 2] = 200
    write_labels(tmp_path / AFTER, labels)
    changed = victre(tmp_path, lesion=True).volume != victre(tmp_path).volume
    assert (victre(tmp_path, lesion=True).volume[changed] == MASS).all()
    assert np.count_nonzero(changed) == 2


def test_victre_labels_without_a_tissue_are_refused(tmp_path: Path) -> None:
    labels = small_phantom()
    labels[3, 2, 1] = 7
    write_labels(tmp_path / BEFORE, labels)
    with pytest.raises(DuotomoError, match=r"victre: .*expected labels \[0, 1, 2, 29,.*got also \[7\]"):
        victre(tmp_path)


def test_fda_data_of_another_shape_are_refused(tmp_path: Path) -> None:
    (tmp_path / FDA).parent.mkdir()
    scipy.io.savemat(tmp_path / FDA, {"g_noi": np.zeros((5, 4, 3))})
    with pytest.raises(ShapeError, match=r"expected g_noi \(s, t, view\) = \(615, 170, 7\); got \(5, 4, 3\)"):
        fda_projections(tmp_path)


@needs("fda_dbt_projections")
def test_fda_scan_is_in_the_machine_frame() -> None:
    scan = fda_projections(DATA)
    assert scan.projections.shape == scan.acquisition.shape == (7, 170, 615)
    assert scan.lesion_center_mm == pytest.approx((-0.2, 31.0, 23.6))
    assert scan.acquisition.sources_mm[3].tolist() == pytest.approx([0.0, 0.0, 650.0])
    # No photon at all would be log(photons), and nothing can be darker.
    assert 0 <= scan.projections.min() < scan.projections.max() < np.log(scan.photons)


@needs("victre_phantom")
def test_victre_mass_is_all_that_changes_and_has_the_published_size() -> None:
    before, after = victre(DATA), victre(DATA, lesion=True)
    assert before.grid == after.grid
    changed = before.volume != after.volume
    assert np.count_nonzero(changed) == 29007
    assert np.count_nonzero(changed) * 0.2**3 == pytest.approx(232, abs=0.5)
    assert set(after.volume[changed].tolist()) == {float(MASS)}
    # Some slices of the middle, for speed.
    assert_skin_around(before.volume[100:120])


@pytest.fixture(scope="module", params=["A", "C"])
def woman(request: pytest.FixtureRequest) -> Sampled:
    return breast_mr(DATA, patient=request.param)


@needs("breast_mr")
def test_mr_breast_is_one_piece_on_the_chest_wall_with_the_nipple_in_front(woman: Sampled) -> None:
    breast = woman.volume > 0
    assert ndimage.label(breast)[1] == 1
    areas = breast.sum(axis=(0, 2))
    assert areas[0] == areas[:4].max()
    assert areas[-3] < areas[0] / 10
    assert 0.2e6 < np.count_nonzero(breast) * np.prod(woman.grid.spacing_mm) < 0.8e6
    assert woman.grid.low_mm[:2] == (5.0, 0.0)


@needs("breast_mr")
def test_mr_breast_has_gland_within_fat_within_skin(woman: Sampled) -> None:
    assert_skin_around(woman.volume)
    inside = woman.volume[(woman.volume > 0) & (woman.volume != SKIN)]
    assert inside.min() == ADIPOSE
    assert inside.max() == pytest.approx(GLANDULAR)
    # Volumetric densities of breasts range from a few to about thirty per cent.
    share = (inside.mean(dtype=np.float64) - ADIPOSE) / (GLANDULAR - ADIPOSE)
    assert 0.05 < share < 0.3
    # Both are there, not a mixture of them everywhere.
    assert (inside < ADIPOSE + 0.1 * (GLANDULAR - ADIPOSE)).mean() > 0.5
    assert (inside > ADIPOSE + 0.9 * (GLANDULAR - ADIPOSE)).mean() > 0.02


@needs("breast_mr")
def test_mediolateral_view_is_a_turn_about_the_nipple_axis() -> None:
    above, side = breast_mr(DATA), breast_mr(DATA, mediolateral=True)
    assert side.grid.shape == above.grid.shape[::-1]
    offset_mm = np.random.default_rng(0).uniform(-25, 25, size=(200, 3))
    x, y, z = offset_mm.T
    turned_mm = np.stack([-z, y, x], axis=-1)
    assert (value_at(above, offset_mm) == value_at(side, turned_mm)).all()
    assert len(set(value_at(above, offset_mm).tolist())) > 20


def value_at(subject: Sampled, from_middle_mm: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the voxels at points (n, xyz), measured from the middle of the grid."""
    points_mm = from_middle_mm + np.array(subject.grid.center_mm[::-1])
    index = np.rint(world_to_voxel(subject.grid, points_mm)).astype(int)
    return subject.volume[tuple(index.T)]


def assert_skin_around(volume: NDArray[Any]) -> None:
    """What touches air is skin, but near the chest wall, and skin is a small part."""
    breast, skin = volume > 0, volume == SKIN
    rim = breast & ndimage.binary_dilation(~breast)
    rim[:, :8] = False
    assert (skin & rim).sum() > 0.99 * rim.sum()
    assert rim.sum() > 1000
    assert skin.sum() < 0.15 * breast.sum()
