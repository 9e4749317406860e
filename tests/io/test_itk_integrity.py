"""A transform file that is not whole is never read as another transform."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest

from duotomo.io import FileError, read_transform, write_transform
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Motion, Transform, Translation
from tests.cases.transforms import draw_params
from tests.io.itk_helpers import GRID, sitk, text_file

AFFINE = "AffineTransform_double_3_3"
SPLINE = "BSplineTransform_double_3_3"
PLACE = "0 0 0 1 1 1 1 0 0 0 1 0 0 0 1"
PARAMS = "1 0 0 0 1 0 0 0 1 0.25 0.5 0.75"
# A translation and an affine transform, as ITK's TransformFileWriter writes a list; SimpleITK writes none.
TWO_IN_HDF5 = (
    "eNrr9HBx4+WS4mLi4GCAgf9Q8EEBwjeAiudcF+b193AJYlL4M/9nFjKuYBJC1ggDXEwMjAwMbKIMQIrLM8Q7LLWoODM/7zDUPKgE"
    "0AVQifuMEAkBAQaGZ6wQthUDQswYKqYAd+prppofYCcpojuJgZFRhIGBiREIoGphNLMIA6MkkCPAAMEQcQ4GVqBrmZk4gD5hZmSA"
    "hoYAzKINDEMOlH152UaLsBGQGPphU/Sk8DotwkZhGISNzuSdZrQIG4NhEDas8z+K+jt7eLOJgPzI6R8MLbnEWSDyJktSGskpInlA"
    "xjEaKLBBS0YI37BDCmqvBflO5t5mEAl2siDITDb/YL/E3NTfTFCLJEGCfCFFiXnFaflFue5F+aUFwdBi9ltg3V1yPCMBMpMXbmZI"
    "ZUHqZpjHlEFyEnA5t8yK1JSAxCKgk0qAIRkggSjsz7ND2FoMSGmtyvjyVFqkTYdhkDZtpdt6wREtB/KjMDyMEcGbIwlRWayaPgWW"
    "oEGe5kAEmLuzvw8jUkgwIqkDAVM9Ez1zIA1NPwwyUBpYiZsq5GQmFSUWVSqUQTKFlYKhnqGRniE4EtDM8cnMK60A0tB8w8APpc30"
    "DC30TEx005J1y0xMTOHq5aE02Fc5iSVA4+EejE/JL03KSY03jjdmgKYzBljGcUxLy8xLxaoUBQjwM4yCUTAKRsEoGAWjYBSMglEw"
    "CkbBKBgFIwbIII0HMKGNDzBD++kwPgu0Xw7jg9QSGpxBtw80OCOoYA8db3dgMOFmMPkPtAg8OMMFGZyBDS/BNQ3BwZmrmke/Ewob"
    "2BgJMwlhE6AAUSsxhMPmmbjkLiqNM0pLQ4wkMM5oDh22Ao0z5stB2CjjjFLvd+6ixThjBjS6hvI4o83G+cm0SMoVwyApG9Tk6xEK"
    "Gx6oWh4SwmYCNGwShnDY/P50iQn/+HSwLERlvc69jNGqeFgBKaR2AhtB1R/saSUPANSvzRo="
)


def written(path: Path, transform: Transform) -> bytes:
    """Write a transform through SimpleITK, in any of its formats, and return the file."""
    write_transform(path.with_suffix(".h5"), Motion(transform, draw_params(transform, seed=1)))
    sitk.WriteTransform(sitk.ReadTransform(str(path.with_suffix(".h5"))), str(path))
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".tfm", ".txt", ".mat"])
@pytest.mark.parametrize("kind", [Translation, Affine])
def test_a_file_cut_anywhere_is_refused(kind: type[Transform], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    data = written(path, kind(GRID))
    for n in range(len(data)):
        path.write_bytes(data[:n])
        with pytest.raises(FileError, match="read_transform: "):
            read_transform(path, GRID)


@pytest.mark.parametrize("suffix", [".tfm", ".h5", ".mat"])
@pytest.mark.parametrize(
    "transform", [BSpline.over(GRID, (4, 4, 4)), DisplacementField(GRID)], ids=["spline", "field"]
)
def test_a_lattice_cut_somewhere_is_refused(transform: Transform, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    data = written(path, transform)
    for n in [0, *np.random.default_rng(2).integers(1, len(data), 8), len(data) - 20, len(data) - 1]:
        path.write_bytes(data[:n])
        with pytest.raises(FileError, match="read_transform: "):
            read_transform(path, GRID)


def test_a_composite_cut_anywhere_but_between_its_parts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.tfm"
    data = written(path, Composition(Translation(GRID), Affine(GRID), Translation(GRID)))
    read = []
    for n in range(len(data)):
        path.write_bytes(data[:n])
        try:
            read_transform(path, GRID)
        except FileError:
            continue
        read.append(n)
    # Nothing in the format says how many parts there are.
    assert read == [data.index(b"#Transform 2"), data.index(b"#Transform 3")]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "expected its last line to end; got no end of line"),
        ("\n", "expected a line that starts with Transform:; got the end of the file"),
        ("#Insight Transform File V1.0\n#Transform 0\n", "expected a line that starts with Transform:"),
        ('(Transform "EulerTransform")\n', r"expected lines of Transform:, .*; got '\(Transform"),
        ("Parameters: 1 2 3\n", "expected lines of Transform:, Parameters: or FixedParameters:"),
        (f"Transform: {AFFINE}\nParameters: {PARAMS}\n", "starts with FixedParameters: for Affine"),
        (f"Transform: {AFFINE}\nFixedParameters: 0 0 0\n", "starts with Parameters: for Affine"),
        (f"Transform: {AFFINE}\nParameters: {PARAMS}\nFixedParameters: 0 0 0", "got no end of line"),
        (f"Transform: {AFFINE}\nParameters: 1 one\nFixedParameters:\n", "after Parameters:; got 'one'"),
        (f"Transform: {AFFINE}\nParameters: {PARAMS}\nFixedParameters: nan 0 0\n", "got 'nan'"),
        (f"Transform: {AFFINE}\nParameters: 1e999\nFixedParameters:\n", "got '1e999'"),
        (
            f"Transform: {AFFINE}\nParameters: 1 0 0\nFixedParameters: 0 0 0\n",
            "12 parameters of the .*; got 3",
        ),
        (
            f"Transform: {AFFINE}\nParameters: {PARAMS}\nFixedParameters: 0 0\n",
            "3 fixed parameters of .*; got 2",
        ),
        (f"Transform: {'A' * 5000}_double_3_3\nParameters: 1\nFixedParameters: 0\n", "name of a transform"),
        (f"Transform: {AFFINE}\nParameters: 1-2\nFixedParameters: 0 0\n", "after Parameters:; got '1-2'"),
        (f"Transform: {AFFINE}\nParameters: 1_0\nFixedParameters: 0 0\n", "after Parameters:; got '1_0'"),
        (f"Transform: {AFFINE}\nParameters: 1\nParameters: 1\n", "got 'Parameters: 1'"),
        (
            f"Transform: {SPLINE}\nParameters: 0\nFixedParameters: -4 -4 -4 {PLACE}\n",
            "whole numbers of points",
        ),
        (
            f"Transform: {SPLINE}\nParameters: 0\nFixedParameters: 4.5 4 4 {PLACE}\n",
            "whole numbers of points",
        ),
        (f"Transform: {SPLINE}\nParameters: 0\nFixedParameters: 4 4 4 {PLACE}\n", "192 parameters .*; got 1"),
        (f"Transform: {SPLINE}\nParameters: 0\nFixedParameters: 4 4 4 {PLACE} 1\n", "18 fixed .*; got 19"),
        (
            f"Transform: {SPLINE}\nParameters: 0\nFixedParameters: 4 4 4 {PLACE[:-1]}2\n",
            "spacings above 0 and axes of unit length",
        ),
    ],
)
def test_damaged_text_is_refused(text: str, match: str, tmp_path: Path) -> None:
    (tmp_path / "t.tfm").write_text(text)
    with pytest.raises(FileError, match=match):
        read_transform(tmp_path / "t.tfm", GRID)


def test_the_same_text_undamaged_is_read(tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.tfm", AFFINE, PARAMS, "0 0 0")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    motion = read_transform(path, GRID)
    assert motion.physical()["translation_mm"].tolist() == [-0.25, -0.5, 0.75]


@pytest.mark.parametrize("suffix", [".tfm", ".h5", ".mat", ".txt"])
def test_noise_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(np.random.default_rng(3).bytes(400) + b"\n")
    with pytest.raises(FileError, match=f"read_transform: .*t{suffix}: expected "):
        read_transform(path, GRID)


def test_matlab_arrays_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.mat"
    data = written(path, Translation(GRID))
    path.write_bytes(b"\x14" + data[1:])
    with pytest.raises(FileError, match="MATLAB's level-4 format, little-endian; got one of type 20"):
        read_transform(path, GRID)
    path.write_bytes(data[:10])
    with pytest.raises(FileError, match="expected 20 bytes before every array; got 10"):
        read_transform(path, GRID)
    path.write_bytes(data[:-1])
    with pytest.raises(FileError, match=rf"expected {len(data)} bytes, .*; got {len(data) - 1}"):
        read_transform(path, GRID)


@pytest.mark.parametrize("suffix", [".tfm", ".mat"])
def test_a_list_of_transforms_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(2 * written(path, Translation(GRID)))
    with pytest.raises(FileError, match="expected one transform, or a CompositeTransform of several; got 2"):
        read_transform(path, GRID)


def test_a_list_of_transforms_in_hdf5_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.h5").write_bytes(zlib.decompress(base64.b64decode(TWO_IN_HDF5)))
    with pytest.raises(FileError, match="expected one transform, or a CompositeTransform of several; got 2"):
        read_transform(tmp_path / "t.h5", GRID)
