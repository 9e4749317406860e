"""RTK's geometries are read as RTK means them, and RTK's projections are what our projector makes.

Where itk-rtk is not installed, geometries are written by hand and only their laws are tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.peers import rtk as peer
from duotomo.geometry import VolumeGrid, pixel_to_world, voxel_to_world, world_to_pixel
from duotomo.io.paths import FileError
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_options import Supplied
from duotomo.io.scan_rtk import parse_rtk, read_rtk_geometry
from duotomo.io.stacks import PixelPlace
from duotomo.operators import Projector
from tests.cases.scans import arc
from tests.io.itk_helpers import sitk

needs_rtk = pytest.mark.skipif(not peer.available(), reason="needs RTK: pip install itk-rtk")
pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
)

NAMES = (
    "SourceToIsocenterDistance",
    "SourceToDetectorDistance",
    "GantryAngle",
    "ProjectionOffsetX",
    "ProjectionOffsetY",
    "OutOfPlaneAngle",
    "InPlaneAngle",
    "SourceOffsetX",
    "SourceOffsetY",
)
CENTERED = PixelPlace(spacing_mm=np.array([2.0, 2.0]), first_mm=np.array([-19.0, -11.0]), axes=np.eye(2))


def xml(*projections: str, common: str = "", version: str = "3", before: str = "") -> str:
    """Return a geometry as RTK writes it."""
    inside = "".join(f"<Projection>{text}</Projection>" for text in projections)
    return (
        f'<?xml version="1.0"?>\n<!DOCTYPE RTKGEOMETRY{before}>\n'
        f'<RTKThreeDCircularGeometry version="{version}">{common}{inside}</RTKThreeDCircularGeometry>\n'
    )


def element(**values: float) -> str:
    return "".join(f"<{name}>{value!r}</{name}>" for name, value in values.items())


FAR = element(SourceToIsocenterDistance=600.0, SourceToDetectorDistance=650.0)
PLAIN = xml(*(element(GantryAngle=float(angle)) for angle in (340, 0, 20)), common=FAR)


def write_stack(
    path: Path, array: Any, *, first: tuple[float, float], spacing: tuple[float, float], **direction: Any
) -> None:
    """Write (view, v, u) as an image whose first pixel is at `first`, (u, v) in mm."""
    image = sitk.GetImageFromArray(array)
    image.SetOrigin((*first, 0.0))
    image.SetSpacing((*spacing, 1.0))
    if direction:
        image.SetDirection(direction["direction"])
    sitk.WriteImage(image, str(path))


def random_rows(seed: int, n: int = 5) -> np.ndarray:
    """Return the nine numbers of each projection, in the order of RTK's AddProjection."""
    rng = np.random.default_rng(seed)
    low = np.array([400, 650, -40, -30, -30, -20, -20, -30, -30.0])
    high = np.array([640, 900, 40, 30, 30, 20, 20, 30, 30.0])
    return rng.uniform(low, high, (n, 9))


def written_by_rtk(path: Path, rows: np.ndarray) -> Any:
    from itk import RTK

    geometry = RTK.ThreeDCircularProjectionGeometry.New()
    for row in rows:
        geometry.AddProjection(*row.tolist())
    write_xml(path, geometry)
    return geometry


def write_xml(path: Path, geometry: Any) -> None:
    from itk import RTK

    # The writer does not keep the geometry alive; the argument does.
    writer = RTK.ThreeDCircularProjectionGeometryXMLFileWriter.New()
    writer.SetFilename(str(path))
    writer.SetObject(geometry)
    writer.WriteFile()


@needs_rtk
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("matrix", ["with", "without", "alone"])
def test_sources_and_pixels_are_where_rtk_has_them(seed: int, matrix: str, tmp_path: Path) -> None:
    import itk

    rows = random_rows(seed)
    if seed == 1:
        rows[:, :2] = rows[0, :2]  # RTK writes what is common only once.
    theirs = written_by_rtk(tmp_path / "g.xml", rows)
    if matrix != "with":
        _cut(tmp_path / "g.xml", keep_matrix=matrix == "alone")
    ours = read_rtk_geometry(tmp_path / "g.xml")
    for view in range(len(rows)):
        np.testing.assert_allclose(
            ours.source_mm[view], list(theirs.GetSourcePosition(view))[:3], rtol=0, atol=1e-6
        )
        to_fixed = itk.array_from_matrix(theirs.GetProjectionCoordinatesToFixedSystemMatrix(view))
        for a, b in ((0.0, 0.0), (120.0, -40.0), (-75.0, 230.0)):
            found = ours.origin_mm[view] + a * ours.u_axis[view] + b * ours.v_axis[view]
            np.testing.assert_allclose(found, (to_fixed @ [a, b, 0.0, 1.0])[:3], rtol=0, atol=1e-6)


def _cut(path: Path, *, keep_matrix: bool) -> None:
    """Leave only the matrices, or all but them."""
    import re

    text = path.read_text()
    if keep_matrix:
        for name in NAMES:
            text = re.sub(rf"\s*<{name}>[^<]*</{name}>", "", text)
    else:
        text = re.sub(r"\s*<Matrix>[^<]*</Matrix>", "", text)
    path.write_text(text)


@needs_rtk
def test_scans_of_ours_survive_rtk(tmp_path: Path) -> None:
    """A scan in the machine frame, told to RTK and written by it, comes back without being moved."""
    scan = arc(
        (12, 20),
        (2.0, 3.0),
        n_views=5,
        degrees=28.6,
        tilt_deg=5.7,
        source_to_detector_mm=650.0,
        pivot_height_mm=40.0,
    )
    from itk import RTK

    write_xml(tmp_path / "s.xml", peer._geometry(RTK, scan))
    first = (-(20 - 1) / 2 * 3.0, -(12 - 1) / 2 * 2.0)
    write_stack(tmp_path / "s.mha", np.ones(scan.shape, np.float32), first=first, spacing=(3.0, 2.0))
    found = read_scan(tmp_path / "s.mha")
    assert found.facts["RTK's origin"] == "at (0, 0, 0) mm"
    np.testing.assert_allclose(found.acquisition.sources_mm, scan.sources_mm, atol=1e-6)
    corners = [(0, 0), (11, 19), (5.5, 3.0)]
    np.testing.assert_allclose(
        pixel_to_world(found.acquisition, corners), pixel_to_world(scan, corners), atol=1e-6
    )


def difference_from_rtk(folder: Path, factor: int) -> float:
    """Return the relative L2 difference of projections, with voxels and pixels of 1 mm / factor.

    RTK projects a blob in its own frame, whose origin is 50 mm above the detector, and writes the views; we
    read them, and project the blob in the machine frame.
    """
    import itk
    from itk import RTK

    rows = np.zeros((5, 9))
    rows[:, 0], rows[:, 1], rows[:, 2] = 600.0, 650.0, np.linspace(-20.0, 20.0, 5)
    rows[:, 4], rows[:, 5] = 10.0, 1.0
    geometry = written_by_rtk(folder / "s.xml", rows)
    shape, edge = (44 * factor, 42 * factor, 46 * factor), 1.0 / factor
    center = np.array([2.0, 30.0, 10.0])
    from_center = np.stack(
        np.meshgrid(*((np.arange(n) - (n - 1) / 2) * edge for n in shape), indexing="ij"), axis=-1
    )[..., ::-1]
    blob = 0.05 * np.exp(-(((from_center - [3.0, -2.0, 3.0]) / [4.0, 3.5, 4.5]) ** 2).sum(-1) / 2)
    volume = itk.image_from_array(blob.astype(np.float32))
    volume.SetOrigin((center - (np.array(shape[::-1]) - 1) / 2 * edge).tolist())
    volume.SetSpacing([edge] * 3)
    image = itk.Image[itk.F, 3]
    zeros = image.New()
    zeros.SetRegions([66 * factor, 60 * factor, 5])
    zeros.Allocate(True)
    zeros.SetOrigin([-(66 * factor - 1) / 2 * edge, -10.0, 0.0])
    zeros.SetSpacing([edge, edge, 1.0])
    project = RTK.JosephForwardProjectionImageFilter[image, image].New()
    project.SetGeometry(geometry)
    project.SetInput(0, zeros)
    project.SetInput(1, volume)
    project.Update()
    itk.imwrite(project.GetOutput(), str(folder / "s.mha"))

    scan = read_scan(folder / "s.mha")
    # Where RTK's origin is in the machine frame, as the words for people say.
    numbers = scan.facts["RTK's origin"].split("(")[1].split(")")[0]
    z, y, x = (center + [float(word) for word in numbers.split(",")])[::-1].tolist()
    grid = VolumeGrid(shape=shape, spacing_mm=(edge,) * 3, center_mm=(z, y, x))
    ours = Projector(grid=grid, acquisition=scan.acquisition)(torch.from_numpy(blob.astype(np.float32)))
    assert scan.projections.max() > 0.3
    return float((ours - scan.projections).norm() / scan.projections.norm())


@needs_rtk
def test_what_rtk_projects_is_what_we_project(tmp_path: Path) -> None:
    """The programs differ by how they sample; a wrong angle, axis or shift would stay on a finer grid."""
    coarse, fine = difference_from_rtk(tmp_path, 1), difference_from_rtk(tmp_path, 2)
    assert coarse < 8e-3
    assert fine < 2.5e-3
    assert fine < 0.4 * coarse


def test_the_machine_frame_has_its_origin_on_the_detector(tmp_path: Path) -> None:
    (tmp_path / "g.xml").write_text(PLAIN)
    scan, shift = read_rtk_geometry(tmp_path / "g.xml").acquisition(CENTERED, (12, 20))
    np.testing.assert_allclose(shift, [0.0, 12.0, 50.0], atol=1e-12)
    np.testing.assert_allclose(scan.source_mm[1], [0.0, 12.0, 650.0], atol=1e-9)
    np.testing.assert_allclose(scan.detector_center_mm[1], [0.0, 12.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(pixel_to_world(scan, (-0.5, 0.0))[1, 1], 0.0, atol=1e-9)
    # RTK's gantry angle takes the tube towards +x, and the tube's travel is along x.
    np.testing.assert_allclose(np.degrees(scan.angles_rad), [-18.6, 0.0, 18.6], atol=0.1)
    # What casts its shadow on a pixel in RTK's frame casts it there in the machine frame.
    grid = VolumeGrid.on_detector((3, 3, 3), (5.0, 5.0, 5.0), gap_mm=20.0)
    point = voxel_to_world(grid, (1, 2, 0))
    rtk = read_rtk_geometry(tmp_path / "g.xml")._in_rtk_frame(CENTERED, (12, 20))
    np.testing.assert_allclose(world_to_pixel(scan, point), world_to_pixel(rtk, point - shift), atol=1e-9)


def test_images_may_be_turned_in_their_plane(tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text(PLAIN)
    array = np.random.default_rng(0).random((3, 12, 20)).astype(np.float32)
    write_stack(tmp_path / "s.mha", array, first=(-19.0, -11.0), spacing=(2.0, 2.0))
    plain = read_scan(tmp_path / "s.mha")
    flipped = {"direction": [-1, 0, 0, 0, -1, 0, 0, 0, 1]}
    turned = array[:, ::-1, ::-1]
    write_stack(tmp_path / "s.mha", turned, first=(19.0, 11.0), spacing=(2.0, 2.0), **flipped)
    found = read_scan(tmp_path / "s.mha")
    np.testing.assert_allclose(
        pixel_to_world(found.acquisition, (11, 19)), pixel_to_world(plain.acquisition, (0, 0)), atol=1e-9
    )


def test_a_source_over_the_far_edge_is_worth_a_warning(tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text(PLAIN)
    write_stack(
        tmp_path / "s.mha", np.ones((3, 12, 20), np.float32), first=(-19.0, -23.0), spacing=(2.0, 2.0)
    )
    scan = read_scan(tmp_path / "s.mha")
    assert "may run from the nipple to the chest wall" in scan.warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected XML; got: no element found"),
        (PLAIN.replace("?>", ' encoding="odd"?>'), r"expected XML; got: "),
        (PLAIN.replace("?>", ' encoding="utf-7"?>'), r"expected XML; got: "),
        (PLAIN[:-40], r"expected XML; got: "),
        ("<other/>", r"expected RTKThreeDCircularGeometry; got 'other' at the start"),
        (xml(common=FAR), r"expected at least one Projection; got none"),
        (xml(FAR, version="2"), r"expected version '3' of RTKThreeDCircularGeometry; got '2'"),
        (xml(FAR + "<Odd>1</Odd>"), r"expected an element of RTKThreeDCircularGeometry; got 'Odd' in Projec"),
        (
            xml(FAR + element(GantryAngle=float("nan"))),
            r"expected 1 finite number in GantryAngle of projection 0; got 'nan'",
        ),
        (xml(FAR + "<Matrix>1 2 3</Matrix>"), r"expected 12 finite numbers in Matrix of projection 0; got"),
        (xml(FAR, FAR + "<GantryAngle>x</GantryAngle>"), r"number in GantryAngle of projection 1; got 'x'"),
        (xml(element(GantryAngle=3.0)), r"SourceToDetectorDistance above 0; got 0\.0 and 0\.0 in proj"),
        (
            xml(FAR + element(RadiusCylindricalDetector=900.0)),
            r"expected a flat detector; got a RadiusCylindricalDetector of 900\.0 mm in projection 0",
        ),
        (xml(FAR + f"<Matrix>{'1 ' * 12}</Matrix>"), r"expected the Matrix and the angles .* to agree"),
        (xml(f"<Matrix>{'1 ' * 12}</Matrix>"), r"expected a Matrix that projects from a point; got"),
        (
            xml("<Matrix>-650 0 0 0 0 -300 0 0 0 0 1 -600</Matrix>"),
            r"expected a Matrix to millimetres on the detector; got scales 650 and 300 along u and v",
        ),
        (
            xml(FAR, before=' [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]'),
            r"expected XML without entities; got one",
        ),
        (xml(FAR, before=' [<!ENTITY a SYSTEM "file:///etc/hostname">]'), r"expected XML without entities"),
    ],
)
def test_wrong_geometries_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "g.xml"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        read_rtk_geometry(path)


def test_a_geometry_of_many_megabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g.xml").write_text(PLAIN)
    monkeypatch.setattr("duotomo.io.scan_rtk.MAX_BYTES", 100)
    with pytest.raises(FileError, match=r"expected at most 100 bytes of geometry; got \d+"):
        parse_rtk(tmp_path / "g.xml")


def test_scans_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.ones((3, 12, 20), np.float32))
    (tmp_path / "g.xml").write_text(PLAIN)
    with pytest.raises(FileError, match=r"expected an image that says where its pixels are, .*; got a NumPy"):
        read_scan(tmp_path / "s.npy", Supplied(geometry=tmp_path / "g.xml"))
    write_stack(tmp_path / "s.mha", np.ones((4, 12, 20), np.float32), first=(0, 0), spacing=(1, 1))
    with pytest.raises(FileError, match=r"expected projections \(view, v, u\) = \(3, 12, 20\), as the geom"):
        read_scan(tmp_path / "s.mha", Supplied(geometry=tmp_path / "g.xml"))
    below = xml(*(element(GantryAngle=float(angle)) for angle in (170, 180, 190)), common=FAR)
    (tmp_path / "g.xml").write_text(below)
    write_stack(tmp_path / "s.mha", np.ones((3, 12, 20), np.float32), first=(0, 0), spacing=(1, 1))
    with pytest.raises(FileError, match=r"detector behind the source.* gantry angles about 0"):
        read_scan(tmp_path / "s.mha", Supplied(geometry=tmp_path / "g.xml"))
