"""Notebooks show scans, grids and volumes as pictures."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from duotomo.errors import ShapeError
from duotomo.geometry import MACHINES, VolumeGrid, paper
from duotomo.io import read_result, write_result
from duotomo.methods import Result
from duotomo.notebook import Picture
from duotomo.solvers import Status

GRID = VolumeGrid.on_detector((4, 10, 20), (2.0, 1.0, 1.0), gap_mm=3.0)


def images(html: str) -> list[np.ndarray]:  # type: ignore[type-arg]
    found = re.findall(r"base64,([^\"]+)", html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


@pytest.mark.parametrize("name", MACHINES)
def test_a_scan_is_drawn_with_its_sources_above_the_detector(name: str) -> None:
    scan = MACHINES[name]()
    drawn = ElementTree.fromstring(scan._repr_html_())
    dots = [element for element in drawn.iter() if element.tag.endswith("circle")]
    assert len(dots) == scan.n_views
    # From the left to the right, as the sources go along x; upwards is a small number.
    places = [float(dot.attrib["cx"]) for dot in dots]
    assert places == sorted(places)
    plates = [element for element in drawn.iter() if element.attrib.get("stroke") == "#0072B2"]
    lowest = min(float(plate.attrib["y1"]) for plate in plates)
    assert all(float(dot.attrib["cy"]) < lowest for dot in dots)


def test_a_grid_is_drawn_in_its_proportions() -> None:
    drawn = ElementTree.fromstring(GRID._repr_html_())
    edges = [element.attrib for element in drawn.iter() if element.attrib.get("stroke") == "#0072B2"]
    xs = [float(edge[name]) for edge in edges for name in ("x1", "x2")]
    ys = [float(edge[name]) for edge in edges for name in ("y1", "y2")]
    assert (max(xs) - min(xs)) / (max(ys) - min(ys)) == pytest.approx(2.0, abs=0.01)
    assert "4 x 10 x 20" in GRID._repr_html_()


def test_a_bright_voxel_is_seen_where_it_is() -> None:
    volume = torch.zeros(GRID.shape)
    volume[2, 8, 15] = 1.0
    above, wall, side = images(Picture(volume=volume, spacing_mm=GRID.spacing_mm)._repr_html_())
    assert [above.shape, wall.shape, side.shape] == [(10, 20), (4, 20), (4, 10)]
    # y runs up, so y = 8 of 10 is the second row from above.
    assert np.unravel_index(above.argmax(), above.shape) == (1, 15)
    assert np.unravel_index(wall.argmax(), wall.shape) == (1, 15)
    assert np.unravel_index(side.argmax(), side.shape) == (1, 8)


def test_pictures_have_the_proportions_of_the_body() -> None:
    html = Picture(
        volume=np.random.default_rng(0).random(GRID.shape), spacing_mm=GRID.spacing_mm
    )._repr_html_()
    sizes = [(int(w), int(h)) for w, h in re.findall(r'<img width="(\d+)" height="(\d+)"', html)]
    assert sizes == [(260, 130), (260, 104), (130, 104)]


def test_even_and_broken_values_are_drawn_too() -> None:
    assert len(images(Picture(volume=np.full((2, 3, 4), 5.0))._repr_html_())) == 3
    assert len(images(Picture(volume=torch.full((2, 3, 4), float("nan")))._repr_html_())) == 3


def test_what_is_no_volume_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"expected a volume with three axes, \(z, y, x\); got \(2, 3\)"):
        Picture(volume=torch.zeros(2, 3))


def test_a_result_shows_its_volume_and_escapes_its_words(tmp_path: Path) -> None:
    result = Result(
        method="simultaneous",
        grid=GRID,
        volume=torch.rand(GRID.shape),
        motions=(),
        status=Status.CONVERGED,
        reason="<script>",
        applications=3,
        seconds=0.5,
        history=(),
    )
    write_result(tmp_path, result, moving_grids=(), settings={})
    for html in (result._repr_html_(), read_result(tmp_path)._repr_html_()):
        assert len(images(html)) == 3
        assert "<script>" not in html
        assert "converged: &lt;script&gt;" in html


def test_the_scan_of_the_paper_says_its_angles() -> None:
    assert "11, from -2" in paper()._repr_html_()
