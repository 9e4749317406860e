"""What every figure keeps: its size and files, one scale along both axes, text that can be read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from duotomo import report
from duotomo.geometry import VolumeGrid, paper
from duotomo.report.cases import cases, draw_cases
from duotomo.report.control_grids import draw_control_grids
from duotomo.report.curves import draw_objective_curves
from duotomo.report.displacement import draw_displacement_errors
from duotomo.report.montage import draw_montage
from duotomo.report.observability import draw_observability_curves
from duotomo.report.parameter_errors import draw_parameter_errors, parameter_errors
from duotomo.report.profiles import draw_profiles
from duotomo.report.projections import draw_projections
from duotomo.report.slices import draw_slices
from duotomo.report.style import styled
from duotomo.reproduction.columns import columns, draw_columns

CUBE = VolumeGrid.on_detector((14, 14, 14), (5.0, 5.0, 5.0))
FLAT = VolumeGrid.on_detector((9, 9, 22), (5.0, 5.0, 5.0))
BREAST = VolumeGrid.on_detector((5, 8, 16), (10.0, 10.0, 10.0))
GRIDS = {"cube": CUBE, "flat": FLAT, "breast": BREAST}
RNG = np.random.default_rng(4)
METHODS = ("sequential", "iterative", "simultaneous")


def volume(grid: VolumeGrid) -> np.ndarray:
    return RNG.random(grid.shape) * 0.08


def lattice(grid: VolumeGrid) -> np.ndarray:
    z, (y_low, x_low), (y_high, x_high) = grid.center_mm[0], grid.low_mm[1:], grid.high_mm[1:]
    y, x = np.meshgrid(np.linspace(y_low, y_high, 5), np.linspace(x_low, x_high, 4), indexing="ij")
    return np.stack([x, y, np.full_like(x, z)], axis=-1)


Draw = Callable[[], Figure]
Files = tuple[Path, Path]
FIGURES: dict[str, tuple[Draw, Callable[[Path], Files]]] = {}


def add(name: str, draw: Callable[..., Figure], write: Callable[..., Files], **inputs: object) -> None:
    FIGURES[name] = (partial(draw, **inputs), partial(write, **inputs))


for shape, grid in GRIDS.items():
    rows = {f"{method}, one of the methods": volume(grid) for method in METHODS[:2]}
    add(
        f"slices {shape}",
        draw_slices,
        report.slices,
        rows=rows,
        differences={"sequential - truth": volume(grid) - 0.04},
        grid=grid,
        unit="1/mm",
        arrows=[grid.center_mm[::-1]],
    )
    add(
        f"columns {shape}",
        draw_columns,
        columns,
        columns={"truth": volume(grid)} | {f"{method}\nerror 0.00123": volume(grid) for method in METHODS},
        grid=grid,
        unit="1/mm",
    )
    add(f"profiles {shape}", draw_profiles, report.profiles, rows=rows, grid=grid, unit="1/mm")
    add(f"displacement {shape}", draw_displacement_errors, report.displacement_errors, rows=rows, grid=grid)
    add(f"montage {shape}", draw_montage, report.montage, volume=volume(grid), grid=grid, unit="1/mm")
    add(
        f"control_grids {shape}",
        draw_control_grids,
        report.control_grids,
        lattices={name: lattice(grid) + RNG.normal(0, 1, (5, 4, 3)) for name in ("regular", "true", "found")},
        grid=grid,
        volume=volume(grid),
    )
SCAN = paper(detector_shape=(10, 13), pixel_mm=10.0)
add(
    "projections",
    draw_projections,
    report.projections,
    visits={title: (RNG.random(SCAN.shape), SCAN) for title in ("reference", "second")},
)
add(
    "objective_curves",
    draw_objective_curves,
    report.objective_curves,
    curves={method: (np.arange(40), RNG.random(40) + 0.01) for method in METHODS},
    x_label="projector applications",
    y_label="objective",
)
add(
    "parameter_errors",
    draw_parameter_errors,
    parameter_errors,
    errors={method: RNG.normal(0, 1, (6, 12)) for method in METHODS},
)
add(
    "cases",
    draw_cases,
    cases,
    values={method: RNG.random(15) + 0.1 for method in METHODS},
    y_label="mean TRE, mm",
)
add(
    "observability_curves",
    draw_observability_curves,
    report.observability_curves,
    ranges_deg=[6, 12, 25, 50],
    by_range={
        f"{what}, {axis}": RNG.random(4) + 0.1 for what in ("points", "shift") for axis in ("depth", "plane")
    },
    n_views=[5, 9, 15, 25],
    by_views={
        f"{what}, {axis}": RNG.random(4) + 0.1 for what in ("points", "shift") for axis in ("depth", "plane")
    },
    given=(25.0, 9),
)
every_figure = pytest.mark.parametrize("name", FIGURES)


@cache
def laid_out(name: str) -> Figure:
    @styled
    def draw() -> Figure:
        figure = FIGURES[name][0]()
        figure.draw_without_rendering()
        return figure

    return draw()


def texts(figure: Figure) -> list[Text]:
    """All text that is drawn."""
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        found += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            # A colour bar has its numbers on the right.
            low, high = sorted(axis.get_view_interval())
            for tick, at in zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=True):
                if low - 1e-9 <= at <= high + 1e-9:
                    found += [tick.label1, tick.label2]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


@every_figure
def test_text_lies_on_the_page_and_apart(name: str) -> None:
    figure = laid_out(name)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert len(boxes) > 5
    page = figure.bbox
    for words, box in boxes:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, words
        assert page.y0 <= box.y0 <= box.y1 <= page.y1, words
    for (words, box), (others, other) in itertools.combinations(boxes, 2):
        common = Bbox.intersection(box, other)
        assert common is None or min(common.width, common.height) < 1.0, (words, others)


@every_figure
def test_text_is_large_enough_to_read(name: str) -> None:
    sizes = {text.get_text(): text.get_fontsize() for text in texts(laid_out(name))}
    assert min(sizes.values()) >= 7.0, sizes


@every_figure
def test_pictures_are_true_to_scale(name: str) -> None:
    figure = laid_out(name)
    for axes in figure.axes:
        if not axes.images:
            continue
        box = axes.get_window_extent()
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert box.width / (right - left) == pytest.approx(box.height / (high - low), rel=1e-6)
        # Not shrunk within the room given to it, which would mean that the layout is wrong.
        assert axes.get_position(original=True).bounds == pytest.approx(axes.get_position().bounds, abs=1e-6)


# The shape of the grid changes the layout and not the files.
@pytest.mark.parametrize("name", [name for name in FIGURES if not name.endswith(("flat", "breast"))])
def test_files_are_a_page_wide_and_equal_when_drawn_again(name: str, tmp_path: Path) -> None:
    png, svg = FIGURES[name][1](tmp_path / "first")
    assert (png, svg) == (tmp_path / "first.png", tmp_path / "first.svg")
    with Image.open(png) as image:
        assert image.format == "PNG"
        assert image.width == pytest.approx(180 / 25.4 * 150, abs=1)
    root = ElementTree.parse(svg).getroot()
    assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(180 / 25.4 * 72, abs=0.1)
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True, "svg.hashsalt": "other"}):
        again = FIGURES[name][1](tmp_path / "second")
    assert [path.read_bytes() for path in again] == [png.read_bytes(), svg.read_bytes()]
