"""Files that lack a part, or have numbers of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import h5py
import nibabel
import numpy as np
import scipy.io
import tifffile

from tests.fuzz.changes import Change, case, dicom, hdf5_without, json_edited
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import GRID, VIEWS


def _without_line(start: str) -> Change:
    def change(path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join(line for line in lines if not line.startswith(start.encode())))

    return change


_SCAN = "projections source_mm u_axis v_axis detector_center_mm pixel_spacing_mm @values @version @format"
_STUDY = "grid visits visits/0 visits/1/projections visits/0@acquisition grid@json @version"


def parts() -> Iterator[Hostile]:
    """Give files without one of their parts."""
    kind = Category.MISSING
    for name in _SCAN.split():
        yield case("scan", kind, f"no {name}", hdf5_without(name))
    for name in _STUDY.split():
        yield case("study", kind, f"no {name}", hdf5_without(name))
    for keyword in (
        "Rows",
        "Columns",
        "PixelData",
        "SharedFunctionalGroupsSequence",
        "BitsStored",
        "PerFrameFunctionalGroupsSequence",
        "PixelRepresentation",
    ):
        yield case(
            "dicom", kind, f"no {keyword}", dicom(lambda dataset, keyword=keyword: dataset.pop(keyword))
        )
    for keyword in (
        "Rows",
        "PixelData",
        "SharedFunctionalGroupsSequence",
        "PerFrameFunctionalGroupsSequence",
    ):
        yield case(
            "volume dicom",
            kind,
            f"no {keyword}",
            dicom(lambda dataset, keyword=keyword: dataset.pop(keyword)),
            command=1,
        )
    for name in ("source_mm", "u_axis", "pixel_spacing_mm", "detector_shape", "kind"):
        yield case(
            "geometry", kind, f"no {name}", json_edited(lambda c, name=name: c.pop(name)), fate=Fate.REFUSED
        )
    for name in (
        "files",
        "generation",
        "grid",
        "format",
        "version",
        "motions",
        "status",
        "method",
    ):
        yield case("result", kind, f"no {name}", json_edited(lambda c, name=name: c.pop(name)), command=0)
        value = Random(name).choice([None, [], "x", -1, {"a": 1}])
        yield case(
            "result",
            Category.DTYPE,
            f"{name} is {value}",
            json_edited(lambda c, name=name, value=value: c.update({name: value})),
            command=1,
            fate=Fate.EITHER,
        )
    for name, start in (
        ("mha", "NDims"),
        ("mha", "DimSize"),
        ("mha", "ElementType"),
        ("mha", "ElementDataFile"),
    ):
        yield case(name, kind, f"no {start}", _without_line(start), command=1)
    for start in ("Transform:", "Parameters", "FixedParameters"):
        yield case("transform tfm", kind, f"no {start}", _without_line(start), fate=Fate.REFUSED)
    for name in (
        "TransformGroup",
        "TransformGroup/0/TransformType",
        "TransformGroup/0/TransformParameters",
        "TransformGroup/0/TransformFixedParameters",
    ):
        yield case("transform hdf5", kind, f"no {name}", hdf5_without(name), fate=Fate.REFUSED)


def _hdf5_with(name: str, values: Any) -> Change:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            if name in file:
                del file[name]
            file[name] = values

    return change


def _kind(values: Any) -> str:
    return f"{type(values).__name__} {np.shape(values)} {getattr(values, 'dtype', '')}"


def _writes(sample: str, array: Any) -> Change:
    from tests.io.scan_helpers import WRITERS

    return lambda path: WRITERS[sample][1](path, array)


def _nifti_of(array: Any) -> Change:
    return lambda path: nibabel.Nifti1Image(array, np.diag([6.0, 6, 6, 1])).to_filename(str(path))


def dtypes() -> Iterator[Hostile]:
    """Give numbers of the wrong kind, or axes."""
    kind = Category.DTYPE
    complex_, text = VIEWS.astype(np.complex64), np.full(VIEWS.shape, b"abcd")
    flag = VIEWS > 1
    for name, array in {
        "complex": complex_,
        "text": text,
        "flags": flag,
        "long": VIEWS.astype(np.longdouble),
        "dates": VIEWS.astype("M8[s]"),
        "one axis": VIEWS.ravel(),
        "no axis": np.float32(3),
        "five axes": np.ones((3, 6, 7, 2, 2), "f4"),
        "records": np.zeros(3, "f4,i4"),
        "infinite": VIEWS * np.inf,
        "nan": VIEWS * np.nan,
        "counts": VIEWS * 1000,
        "whole": (VIEWS * 1000).astype("u2"),
        "turned": VIEWS.T.copy(),
        "fewer": VIEWS[1:],
        "none": VIEWS[:0],
    }.items():
        yield case(
            "npy", kind, name, lambda path, array=array: np.save(path, array), command=1 + len(name) % 3
        )
    for name in ("projections", "source_mm", "pixel_spacing_mm"):
        for values in ("text", b"bytes", complex_, flag, np.float32(1), np.ones((1,) * 5), [np.nan] * 3):
            yield case(
                "scan",
                kind,
                f"{name} as {_kind(values)}",
                _hdf5_with(name, values),
                fate=Fate.EITHER if name == "pixel_spacing_mm" else None,
            )
    for values in ("text", complex_, VIEWS.astype("i4"), VIEWS[0], VIEWS * np.nan, VIEWS[:2]):
        yield case(
            "study", kind, f"projections as {_kind(values)}", _hdf5_with("visits/0/projections", values)
        )
    for name in ("nifti", "nifti packed"):
        yield case(name, kind, "complex", _writes(name, complex_), command=1)
        yield case(name, kind, "fewer views", _writes(name, VIEWS[1:]), command=2)
        yield case(name, kind, "one axis", _writes(name, VIEWS.ravel()), command=1)
    for name in ("tiff", "tiff packed", "mha", "nrrd", "mat", "hdf5"):
        yield case(name, kind, "fewer views", _writes(name, VIEWS[1:]), command=2)
        yield case(name, kind, "infinite", _writes(name, VIEWS * np.inf), command=2)
    yield case(
        "tiff",
        kind,
        "colours",
        lambda path: tifffile.imwrite(path, np.zeros((6, 7, 3), "u1"), photometric="rgb"),
        command=1,
    )
    yield case(
        "mat",
        kind,
        "cells",
        lambda path: scipy.io.savemat(path, {"g": np.array([VIEWS, 1], dtype=object)}),
        command=1,
    )
    yield case("mat", kind, "text", lambda path: scipy.io.savemat(path, {"g": "text"}), command=2)
    shape = GRID.shape[::-1]
    for name, array in {
        "complex": np.ones(shape, "c8"),
        "five axes": np.ones((*shape, 1, 2), "f4"),
        "plane": np.ones(shape[:2], "f4"),
        "nan": np.full(shape, np.nan, "f4"),
        "infinite": np.full(shape, np.inf, "f4"),
    }.items():
        yield case("volume nifti", kind, name, _nifti_of(array), command=2)
