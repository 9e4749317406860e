"""One function reads every scan, finds its geometry, and names the option that supplies what is missing."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.geometry import Acquisition, victre
from duotomo.io.line_integrals import LogSettings, to_line_integrals
from duotomo.io.paths import FileError
from duotomo.io.scan_file import read_scan, read_scan_arrays
from duotomo.io.scan_geometry import sweep
from duotomo.io.scan_options import Supplied, Values
from duotomo.io.size_check import check_bytes, check_size
from duotomo.reproduction.third_party.fda import FILE, fda_projections
from tests.cases.scans import arc
from tests.io.saved_helpers import SCAN, same
from tests.io.scan_helpers import ARRAY, put

DATA = Path(os.environ.get("DUOTOMO_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
needs_fda = pytest.mark.skipif(not (DATA / FILE).exists(), reason=f"needs {FILE} in {DATA}; set DUOTOMO_DATA")

FDA = Supplied(
    pixel_spacing_mm=(0.4, 0.4),
    source_to_detector_mm=650.0,
    source_to_pivot_mm=605.0,
    angles_deg=(15.0, 10.0, 5.0, 0.0, -5.0, -10.0, -15.0),
)


@needs_fda
def test_the_fda_projections_are_read_with_a_geometry_or_with_four_numbers(tmp_path: Path) -> None:
    known = fda_projections(DATA)
    (tmp_path / "fda.json").write_text(known.acquisition.to_json())
    by_file = read_scan(DATA / FILE, Supplied(geometry=tmp_path / "fda.json"))
    by_numbers = read_scan(DATA / FILE, FDA)
    assert same(by_file.projections, torch.from_numpy(known.projections))
    assert same(by_numbers.projections, by_file.projections)
    assert by_file.acquisition == known.acquisition
    np.testing.assert_allclose(by_numbers.acquisition.sources_mm, known.acquisition.sources_mm, atol=1e-9)
    assert by_numbers.acquisition.u_axis == known.acquisition.u_axis


@needs_fda
def test_the_fda_counts_become_the_fda_line_integrals() -> None:
    path = (DATA / FILE).with_name("proj_noi.mat")
    scan = read_scan(path, replace(FDA, values=Values.COUNTS))
    settings = LogSettings(flat_field=3e5 / 7, clip_negative=True)
    found, _ = to_line_integrals(scan, settings)
    known = fda_projections(DATA).projections
    np.testing.assert_allclose(found.projections.numpy(), known, rtol=0, atol=1e-6)
    estimated, _ = to_line_integrals(scan, LogSettings(estimate_flat_field=True, clip_negative=True))
    np.testing.assert_allclose(estimated.projections.numpy(), known, rtol=0, atol=1e-3)


# Where the geometry comes from.


def test_a_geometry_that_is_named_goes_before_the_one_beside(tmp_path: Path) -> None:
    path = put(tmp_path, "npy", geometry=SCAN)
    other = replace_spacing(SCAN)
    (tmp_path / "other.json").write_text(other.to_json())
    assert read_scan(path).acquisition == SCAN
    assert read_scan(path, Supplied(geometry=tmp_path / "other.json")).acquisition == other


def replace_spacing(scan: Acquisition) -> Acquisition:
    fields = json.loads(scan.to_json())
    return Acquisition.from_json(json.dumps({**fields, "pixel_spacing_mm": [2.0, 2.0]}))


@pytest.mark.parametrize("factor", [1, 4])
def test_machines_may_be_binned(factor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = victre().bin(50)
    monkeypatch.setitem(__import__("duotomo.geometry").geometry.MACHINES, "victre", lambda: small)
    np.save(tmp_path / "s.npy", np.ones(small.bin(factor).shape, dtype=np.float32))
    assert read_scan(tmp_path / "s.npy", Supplied(machine="victre")).acquisition == small.bin(factor)


@given(
    angles=st.lists(st.floats(-40, 40), min_size=1, max_size=6).map(tuple),
    distance=st.floats(500, 700),
    radius=st.floats(100, 499),
)
def test_the_sweep_is_about_the_pivot(angles: tuple[float, ...], distance: float, radius: float) -> None:
    scan = sweep(
        angles_deg=angles,
        source_to_detector_mm=distance,
        source_to_pivot_mm=radius,
        pixel_spacing_mm=(0.5, 0.25),
        detector_shape=(8, 6),
    )
    pivot = np.array([0.0, 0.0, distance - radius])
    from_pivot = scan.sources_mm - pivot
    np.testing.assert_allclose(np.linalg.norm(from_pivot, axis=1), radius)
    np.testing.assert_allclose(np.degrees(np.arctan2(from_pivot[:, 0], from_pivot[:, 2])), angles, atol=1e-9)
    assert scan.shape == (len(angles), 8, 6)


def test_the_sweep_of_even_angles_is_an_arc() -> None:
    over_arc = arc(
        (8, 6), (0.5, 0.25), n_views=3, degrees=20.0, source_to_detector_mm=650.0, pivot_height_mm=45.0
    )
    swept = sweep(
        angles_deg=(-10.0, 0.0, 10.0),
        source_to_detector_mm=650.0,
        source_to_pivot_mm=605.0,
        pixel_spacing_mm=(0.5, 0.25),
        detector_shape=(8, 6),
    )
    np.testing.assert_allclose(swept.sources_mm, over_arc.sources_mm)
    assert swept.detector_center_mm == over_arc.detector_center_mm


def test_spacings_that_differ_are_worth_a_warning(tmp_path: Path) -> None:
    from tests.io.itk_helpers import sitk

    (tmp_path / "s.json").write_text(SCAN.to_json())
    image = sitk.GetImageFromArray(ARRAY)
    image.SetSpacing((0.6, 0.8, 1.0))
    sitk.WriteImage(image, str(tmp_path / "s.mha"))
    assert read_scan(tmp_path / "s.mha").warnings == ()
    image.SetSpacing((0.8, 0.6, 1.0))
    sitk.WriteImage(image, str(tmp_path / "s.mha"))
    assert read_scan(tmp_path / "s.mha").warnings == (
        "the file says that pixels (v, u) are 0.6 x 0.8 mm, the geometry 0.8 x 0.6 mm; the geometry counts",
    )


def _beside(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def _nothing(_: Path) -> None:
    pass


BAD_AXES = {**json.loads(SCAN.to_json()), "u_axis": [[1.0, 0.0, 0.0]] * 2 + [[float("nan"), 0.0, 0.0]]}


@pytest.mark.parametrize(
    ("prepare", "supplied", "message"),
    [
        (_nothing, {}, r"expected a geometry for a NumPy array; got none\. Give `geometry` .*`angles_deg`"),
        (_nothing, {"geometry": Path("none.json")}, r"expected a geometry at none\.json; got nothing there"),
        (_nothing, {"machine": "odd"}, r"expected `machine` as one of paper, .*; got 'odd'"),
        (_nothing, {"machine": "victre"}, r"= \(25, 1500, 3000\), as the geometry says; got \(3, 6, 7\)"),
        (
            _nothing,
            {"machine": "victre", "pixel_spacing_mm": (1.0, 1.0)},
            r"expected the geometry in one way; got `machine`, `pixel_spacing_mm`",
        ),
        (
            _nothing,
            {"pixel_spacing_mm": (1.0, 1.0), "angles_deg": (0.0, 1.0, 2.0)},
            r"expected .* together; got no `source_to_detector_mm`, `source_to_pivot_mm`\. Give them too",
        ),
        (
            _nothing,
            vars(replace(FDA, angles_deg=(0.0, 1.0))),
            r"= \(2, 6, 7\), as the geometry says; got \(3, 6, 7\)",
        ),
        (
            _nothing,
            vars(replace(FDA, angles_deg=(0.0, 1.0, float("nan")))),
            r"sweep: expected positive finite distances and finite angles; got",
        ),
        (
            _nothing,
            vars(replace(FDA, angles_deg=(0.0, 1.0, 2.0), pixel_spacing_mm=(0.4, -0.4))),
            r"expected pixel_spacing_mm as one positive finite number per axis",
        ),
        (_beside("s.json", "{"), {}, r"Acquisition\.from_json: expected JSON text; got"),
        (_beside("s.json", "[" * 100_000), {}, r"s\.json: .* expected JSON text; got .*recursion"),
        (_beside("s.json", "{}"), {}, r"Acquisition\.from_json: expected kind 'Acquisition'; got None"),
        (_beside("s.json", json.dumps(BAD_AXES)), {}, r"expected u_axis to be finite; got .* in view 2"),
        (
            lambda at: (at / "s.json").write_bytes(b"\xff\xfe\xff") and None,
            {},
            r"expected JSON text in UTF-8 in s\.json",
        ),
        (
            lambda at: [_beside(f"s.{kind}", "")(at) for kind in ("json", "xml")] and None,
            {},
            r"expected one geometry beside s\.npy; got s\.json and s\.xml\. Name one with `geometry`",
        ),
    ],
)
def test_a_geometry_that_is_missing_or_wrong_is_named(
    prepare: Callable[[Path], None], supplied: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = put(tmp_path, "npy", geometry=None)
    prepare(tmp_path)
    with pytest.raises(FileError, match=rf"read_scan: .*s\.npy: .*{message}"):
        read_scan(path, Supplied(**supplied))


def test_geometries_of_other_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "npy")
    (tmp_path / "g.txt").write_text(SCAN.to_json())
    with pytest.raises(FileError, match=r"expected a geometry that ends in \.json or \.xml; got 'g\.txt'"):
        read_scan(path, Supplied(geometry=tmp_path / "g.txt"))
    monkeypatch.setattr("duotomo.io.scan_geometry.MAX_BYTES", 100)
    with pytest.raises(FileError, match=r"expected at most 100 bytes of geometry; got \d+"):
        read_scan(path)


@pytest.mark.parametrize(
    ("order", "names"), [((2, 1, 0), "u, v, view"), ((1, 2, 0), "v, u, view"), ((0, 2, 1), "view, u, v")]
)
def test_permuted_axes_are_named(order: tuple[int, ...], names: str, tmp_path: Path) -> None:
    path = put(tmp_path, "npy", np.ascontiguousarray(ARRAY.transpose(order)))
    with pytest.raises(
        FileError, match=rf"The axes are in the order \({names}\): store them as \(view, v, u\)"
    ):
        read_scan(path)


# Which reader it is.


@pytest.mark.parametrize("name", ["folder", "view.dcm", "view", "view.odd"])
def test_dicom_is_told_by_its_mark_or_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(bytes(128) + (b"DICM" if name == "view.odd" else b"none"))
    seen: list[Any] = []
    projections = pytest.importorskip("duotomo.io.dicom.projections")
    monkeypatch.setattr(projections, "read_dicom_arrays", lambda *given, **_: seen.append(given))
    read_scan_arrays(tmp_path / name, Supplied(machine="victre"))
    assert seen[0][:2] == (tmp_path / name, Supplied(machine="victre"))


# What the numbers are.


def test_whole_numbers_are_counts_or_line_integrals_if_somebody_says_so(tmp_path: Path) -> None:
    path = put(tmp_path, "npy", (1000 * ARRAY).astype(np.uint16))
    with pytest.raises(
        FileError, match=r"what whole numbers \(uint16\) are; got nothing\. Pass `values=Values.COUNTS`"
    ):
        read_scan(path)
    assert read_scan(path, Supplied(values=Values.COUNTS)).values is Values.COUNTS


def test_counts_are_not_taken_for_line_integrals(tmp_path: Path) -> None:
    path = put(tmp_path, "npy", 1000 * ARRAY)
    with pytest.raises(FileError, match=r"expected line integrals, which are never above 50; got up to \d+"):
        read_scan(path)
    assert read_scan(path, Supplied(values=Values.COUNTS)).values is Values.COUNTS


def test_line_integrals_are_finite(tmp_path: Path) -> None:
    broken = ARRAY.copy()
    broken[0, 0, 0] = np.nan
    path = put(tmp_path, "npy", broken)
    with pytest.raises(
        FileError, match=r"Scan: expected projections to be finite; got 1 NaN or infinite of 126"
    ):
        read_scan(path)
    assert read_scan(path, Supplied(values=Values.COUNTS)).values is Values.COUNTS


# Paths.


def test_paths_are_checked(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"read_scan: .*expected a file or a folder at .*none\.mha; got nothing"
    ):
        read_scan(tmp_path / "none.mha")
    (tmp_path / "s.odd").write_text("odd")
    with pytest.raises(
        FileError, match=r"expected DICOM, or a name that ends in \.nii\.gz, .*; got 's\.odd'"
    ):
        read_scan(tmp_path / "s.odd")
    (tmp_path / "s.h5").write_text("odd")
    with pytest.raises(FileError, match=r"s\.h5: expected HDF5 that can be read; got"):
        read_scan(tmp_path / "s.h5")


def test_what_the_system_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "npy")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=r"read_scan: .*s\.npy: expected to read it; got: Permission denied"):
        read_scan(path)


def test_names_may_be_in_capitals(tmp_path: Path) -> None:
    put(tmp_path, "npy").rename(tmp_path / "S.NPY")
    scan = read_scan(tmp_path / "S.NPY", Supplied(geometry=tmp_path / "s.json"))
    assert same(scan.projections, torch.from_numpy(ARRAY))


# The page.


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "file_formats.md").read_text()
    examples = re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", page, flags=re.DOTALL)
    assert len(examples) == 4
    for code, printed in examples:
        exec(compile(code, "file_formats.md", "exec"), {})
        assert capsys.readouterr().out == printed
    if (DATA / FILE).exists():
        written = Acquisition.from_json((tmp_path / "fda.json").read_text())
        known = fda_projections(DATA).acquisition
        np.testing.assert_allclose(written.sources_mm, known.sources_mm, atol=1e-9)
        assert written.detector_center_mm == known.detector_center_mm


# Sizes.


def test_sizes_are_limited_by_the_memory_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duotomo.io.size_check.free_bytes", lambda: 1000)
    check_bytes("it", 1000)
    with pytest.raises(FileError, match=r"expected it to need at most the 1\.0 kB of memory that are free"):
        check_bytes("it", 1001)
    monkeypatch.setattr("duotomo.io.size_check.free_bytes", lambda: sys.maxsize)
    check_bytes("it", 10**9)
    with pytest.raises(
        FileError, match=r"at most the 10 bytes that are allowed; got a header that asks for 11"
    ):
        check_bytes("it", 11, max_bytes=10)


def test_empty_arrays_are_refused() -> None:
    with pytest.raises(
        FileError, match=r"expected an array with something in it in it; got the shape \(3, 0\)"
    ):
        check_size("it", (3, 0), 4, stored_bytes=0, compressed=False)
