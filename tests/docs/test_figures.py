"""The figures of the documentation can be drawn, show what they say, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from docs.figures import central_difference, transform_direction
from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.phantoms import Ellipsoid
from duotomo.transforms import Translation

DOCS = Path(__file__).parents[2] / "docs"


def n_colours(path: Path) -> int:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return len(image.convert("RGB").getcolors(maxcolors=2**24))


def test_the_direction_drawn_is_the_direction_computed(tmp_path: Path) -> None:
    scene = transform_direction.draw(tmp_path / "figure.png", quick=True)
    assert n_colours(tmp_path / "figure.png") > 50
    lesion_mm = np.array(transform_direction.LESION_MM)
    # The lesion shows at T^-1, which is far from where the opposite direction would show it.
    np.testing.assert_allclose(scene.found_mm, scene.seen_mm, atol=0.2)
    assert np.linalg.norm(scene.found_mm - lesion_mm) > 10
    taken_mm = scene.transform.points(scene.params, torch.from_numpy(scene.seen_mm)).numpy()
    np.testing.assert_allclose(taken_mm, lesion_mm, atol=1e-5)


def test_the_central_difference_errs_as_the_caption_says(tmp_path: Path) -> None:
    found = central_difference.draw(tmp_path / "figure.png", quick=True)
    assert n_colours(tmp_path / "figure.png") > 50
    linear, cubic = (found.curves[name, torch.float64] for name in ("linear", "cubic"))
    np.testing.assert_allclose(linear.steps[1:3], (1e-1, 1e-2))
    # Powers of the step, over a decade: 2 where no voxel centre is crossed, less where some are.
    powers = {
        name: np.log10(errors[1] / errors[2])
        for name, errors in (
            ("linear, typical", linear.median),
            ("cubic, typical", cubic.median),
            ("linear, all", linear.rms),
            ("cubic, all", cubic.rms),
        )
    }
    assert powers == pytest.approx(
        {"linear, typical": 2.0, "cubic, typical": 2.0, "linear, all": 0.5, "cubic, all": 1.5}, abs=0.25
    )
    for name in ("linear", "cubic"):
        single = found.curves[name, torch.float32]
        assert 100 * single.analytic_rms < single.rms.min()


@pytest.mark.parametrize("name", ["transform_direction", "central_difference"])
def test_the_stored_figure_is_a_light_one(name: str) -> None:
    path = DOCS / "figures" / f"{name}.png"
    assert n_colours(path) > 100
    assert path.stat().st_size < 300_000
    assert f"figures/{name}.png" in (DOCS / "conventions.md").read_text()


def test_the_lesion_of_the_conventions_is_seen_where_they_say() -> None:
    grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    lesion = Ellipsoid(center_mm=(10.0, 20.0, 30.0), radii_mm=(4.0, 4.0, 4.0), value=1.0)
    shift = Translation(grid)
    warp = shift.warp(shift.params(translation_mm=(5.0, 0.0, 0.0)))
    seen = warp(torch.from_numpy(lesion.voxels(grid))).numpy()
    index = [np.average(i, weights=seen) for i in np.indices(seen.shape)]
    np.testing.assert_allclose(voxel_to_world(grid, index), (5.0, 20.0, 30.0), atol=1e-9)


def test_the_new_transform_runs_and_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = DOCS / "adding_a_transform.md"
    text = page.read_text()
    names: dict[str, object] = {"__name__": page.stem}
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    printed = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    assert capsys.readouterr().out == "".join(printed)
    name, build = names["case"]  # type: ignore[misc]
    assert (name, build) == ("scaling", names["Scaling"])
