"""Scans that no machine can take: not finite, beyond all measure, the source below the detector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.fuzz.changes import Change, attribute, case, dicom, edited
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import GEOMETRY, VIEWS, Words

_UNUSED = (
    ("DistanceSourceToDetector", 2),
    ("PositionerPrimaryAngle", 0),
    ("BodyPartThickness", 0),
    ("RescaleSlope", 2),
)
"""Values that a conversion does not look at: others say where the views are, and counts are copied."""


def _json_field(name: str, value: Any) -> Change:
    def change(path: Path) -> None:
        content = json.loads(path.read_text())
        content[name] = value
        path.write_text(json.dumps(content))

    return change


def _hdf5_value(name: str, value: Any) -> Change:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            data = np.array(file[name][...], dtype=np.float64)
            data.flat[-1] = value
            del file[name]
            file[name] = data

    return change


def _study_json(name: str, value: Any) -> Change:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            group = file["visits/0"]
            content = json.loads(group.attrs["acquisition"])
            content[name] = value
            group.attrs["acquisition"] = json.dumps(content)

    return change


def geometries() -> Iterator[Hostile]:
    """Give absurd geometries, in every format that has one."""
    n = GEOMETRY.n_views
    below = [[0.0, 0.0, -660.0]] * n
    fields: dict[str, list[Any]] = {
        "source_mm": [
            [[0, 0, float("nan")]] * n,
            [[0, 0, float("inf")]] * n,
            below,
            [[0, 0, 0]] * n,
            [[0, 0, 1e300]] * n,
            [[1e300, 0, 660]] * n,
            [],
            [[]],
            None,
            "up",
            [[0, 0]] * n,
            10**400,
            [[10**400, 0, 660]] * n,
            {"x": 1},
            [[0, 0, 660]] * 4000,
            [["x" * 10_000] * 3] * n,
        ],
        "u_axis": [[[0, 0, 0]] * n, [[0, 1, 0]] * n, [[float("nan"), 0, 0]] * n, [[1e300, 0, 0]] * n],
        "detector_center_mm": [[[0, 0, 1e300]] * n, [[0, 0, float("-inf")]] * n, [[0, 24, 900]] * n],
        "pixel_spacing_mm": [[0, 8], [-8, 8], [float("nan"), 8], [1e300, 8], [8], [1e-300, 1e-300], "8"],
        "detector_shape": [[0, 7], [-6, 7], [10**12, 10**12], [6.5, 7], [6], None, [True, "7"]],
    }
    for name, values in fields.items():
        for number, value in enumerate(values):
            yield case(
                "geometry",
                Category.GEOMETRY,
                f"{name}/{number}",
                _json_field(name, value),
                command=number % 4,
            )
            if number % 3 == 0:
                yield case("study", Category.GEOMETRY, f"{name}/{number}", _study_json(name, value))
    for name in ("source_mm", "u_axis", "v_axis", "detector_center_mm", "pixel_spacing_mm"):
        for value in (float("nan"), float("inf"), 1e300, -1e300):
            yield case("scan", Category.GEOMETRY, f"{name}/{value}", _hdf5_value(name, value))
    yield case("scan", Category.GEOMETRY, "pixel/0", _hdf5_value("pixel_spacing_mm", 0.0))
    for old, new in (
        ("650.0", "nan"),
        ("650.0", "1e400"),
        ("650.0", "-650.0"),
        ("650.0", "0"),
        ("600.0", "1e308"),
        ("340.0", "inf"),
        ("340.0", "180.0"),
        ("650.0", "1e300"),
        ("650.0", "10" * 400),
    ):
        yield case(
            "rtk", Category.GEOMETRY, f"{old} to {new[:8]}", edited(old, new), command=1 + len(new) % 2
        )
    for keyword, values in {
        "ImagerPixelSpacing": (["0", "8"], ["-8", "8"], ["1e300", "8"]),
        "DistanceSourceToDetector": ("0", "-660", "1e300"),
        "PositionerPrimaryAngle": ("1e300",),
        "DetectorActiveAreaTLHCPosition": ([1e30] * 3, [float("nan")] * 3),
        "XRaySourceIsocenterPrimaryAngle": (float("nan"), 1e30, 180.0),
        "DistanceSourceToIsocenter": (0.0, -1e30, 1e30),
        "DetectorActiveAreaOrientation": ([0.0] * 6, [1.0] * 6, [float("inf")] * 6),
        "BodyPartThickness": ("-1", "1e300"),
        "RescaleSlope": ("0", "1e300", "-1e300"),
    }.items():
        for number, value in enumerate(values):
            fate = Fate.EITHER if (keyword, number) in _UNUSED else Fate.REFUSED
            yield case(
                "dicom",
                Category.GEOMETRY,
                f"{keyword}/{number}",
                dicom(attribute(keyword, value)),
                command=1 + number % 2,
                fate=fate,
            )
    for option, value in (
        ("--pixel-spacing", "0,8"),
        ("--pixel-spacing", "nan,8"),
        ("--source-to-detector", "inf"),
        ("--source-to-detector", "0"),
        ("--source-to-pivot", "1e300"),
        ("--angles", "-1,0,nan"),
        ("--angles", "-1,0,1e300"),
        ("--angles", "90,91,92"),
        ("--thickness", "nan"),
        ("--thickness", "-3"),
        ("--thickness", "1e300"),
        ("--voxel", "0,1,1"),
        ("--voxel", "1e-300,1,1"),
        ("--voxel", "1e-9,1e-9,1e-9"),
        ("--voxel", "1e300,1,1"),
        ("--gap", "1e300"),
        ("--gap", "nan"),
        ("--geometry", "{in}/nothing.json"),
    ):
        yield _option_case(option, value)


def _option_case(option: str, value: str) -> Hostile:
    given = {
        "--pixel-spacing": "8,8",
        "--source-to-detector": "660",
        "--source-to-pivot": "660",
        "--angles": "-10,0,10",
        "--thickness": "24",
        "--voxel": "8,8,8",
    }
    given |= {option: value}
    words: Words = ("reconstruct", "{in}/s.npy", "--method", "bp", "--out", "{out}")
    for pair in given.items():
        words += pair

    def make(folder: Path) -> None:
        np.save(folder / "s.npy", VIEWS)

    says = {"--voxel": "spacing_mm", "--gap": "gap", "--thickness": "thickness", "--geometry": "one way"}
    return Hostile(
        name=f"option {option} {value}",
        category=Category.GEOMETRY,
        words=words,
        make=make,
        says=option if "nan" in value else says.get(option, "s.npy"),
    )
