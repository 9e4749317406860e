"""A fused volume and its mask come back from a result folder; a damaged mask is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch

from duotomo.io import FileError, read_result, write_result
from duotomo.io.mask_file import read_mask
from duotomo.io.result_format import is_ours
from tests.report.page_results import GRID, body, result

MASK = "fused_mask.nii.gz"


def test_a_fused_volume_comes_back_with_its_mask(tmp_path: Path) -> None:
    volume = body((5, 16, 13))
    mask = volume > 0.06
    made = replace(result(), fused_mask=mask)
    made = replace(made, others={**made.others, "fused": volume})
    write_result(tmp_path, made, moving_grids=(GRID,), settings={})
    found = read_result(tmp_path)
    assert torch.equal(found.others["fused"], volume)
    assert found.fused_mask is not None
    assert torch.equal(found.fused_mask, mask)
    image = nibabel.load(tmp_path / MASK)
    assert image.get_data_dtype() == np.uint8
    assert image.get_fdata().sum() == float(mask.sum())
    text = (tmp_path / "README.txt").read_text()
    assert "that of both views where their motion is sure, elsewhere that of visit 1 alone" in text
    assert is_ours(MASK)
    assert is_ours("fused.nii.gz")
    # A result without one removes it.
    write_result(tmp_path, result(), moving_grids=(GRID,), settings={})
    assert read_result(tmp_path).fused_mask is None
    assert not (tmp_path / MASK).exists()
    assert not (tmp_path / "fused.nii.gz").exists()


@pytest.mark.parametrize(("shape", "value"), [(GRID.shape, 2), ((2, 3, 4), 1)])
def test_a_mask_of_something_else_is_refused(shape: tuple[int, int, int], value: int, tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.full(shape[::-1], value, np.uint8), np.eye(4))
    image.to_filename(tmp_path / MASK)
    with pytest.raises(FileError, match=f"{MASK}: expected 0 and 1 on the grid of the volume; got others"):
        read_mask(tmp_path / MASK, GRID)
