"""One small scan, written in every format that a stack can have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import scipy.io
import tifffile

from tests.io.itk_helpers import sitk
from tests.io.saved_helpers import SCAN

ARRAY = np.random.default_rng(0).uniform(0.1, 5.0, SCAN.shape).astype(np.float32)
"""Line integrals, (view, v, u) = (3, 6, 7): no two axes have the same length."""

Writer = Callable[[Path, Any], None]


def write_nifti(path: Path, array: Any) -> None:
    """Write (u, v, view)."""
    nibabel.Nifti1Image(array.T, np.eye(4)).to_filename(str(path))


def write_nifti2(path: Path, array: Any) -> None:
    """Write (u, v, view) with the longer header."""
    nibabel.Nifti2Image(array.T, np.eye(4)).to_filename(str(path))


def write_itk(path: Path, array: Any, *, packed: bool = False) -> None:
    """Write by ITK, which counts axes from the fastest."""
    sitk.WriteImage(sitk.GetImageFromArray(array), str(path), packed)


def write_packed(path: Path, array: Any) -> None:
    """Write by ITK, compressed."""
    write_itk(path, array, packed=True)


def write_tiff(path: Path, array: Any) -> None:
    """Write a page per view."""
    tifffile.imwrite(path, array, photometric="minisblack")


def write_tiff_packed(path: Path, array: Any) -> None:
    """Write a page per view, compressed."""
    tifffile.imwrite(path, array, photometric="minisblack", compression="zlib")


def write_mat(path: Path, array: Any) -> None:
    """Write (u, v, view), as MATLAB users have it."""
    scipy.io.savemat(path, {"g": array.T, "dose": 3.0})


def write_mat_packed(path: Path, array: Any) -> None:
    """Write as MATLAB 7 does."""
    scipy.io.savemat(path, {"g": array.T, "dose": 3.0}, do_compression=True)


def write_mat_73(path: Path, array: Any) -> None:
    """Write as MATLAB 7.3 does: HDF5 behind a header, axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["g"], file["dose"] = array, [[3.0]]
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")


def write_hdf5(path: Path, array: Any) -> None:
    """Write one compressed array."""
    with h5py.File(path, "w") as file:
        file.create_dataset("views/g", data=array, compression="gzip")


WRITERS: dict[str, tuple[str, Writer]] = {
    "nifti": ("s.nii", write_nifti),
    "nifti packed": ("s.nii.gz", write_nifti),
    "nifti 2": ("s.nii", write_nifti2),
    "mha": ("s.mha", write_itk),
    "mha packed": ("s.mha", write_packed),
    "mhd": ("s.mhd", write_itk),
    "nrrd": ("s.nrrd", write_itk),
    "nrrd packed": ("s.nrrd", write_packed),
    "tiff": ("s.tif", write_tiff),
    "tiff packed": ("s.tiff", write_tiff_packed),
    "npy": ("s.npy", lambda path, array: np.save(path, array)),
    "mat": ("s.mat", write_mat),
    "mat packed": ("s.mat", write_mat_packed),
    "mat 7.3": ("s.mat", write_mat_73),
    "hdf5": ("s.h5", write_hdf5),
}


def put(folder: Path, kind: str, array: Any = ARRAY, *, geometry: Any = SCAN) -> Path:
    """Write an array in one of the formats, with its geometry beside it, and return the path."""
    name, write = WRITERS[kind]
    write(folder / name, array)
    if geometry is not None:
        (folder / "s.json").write_text(geometry.to_json())
    return folder / name
