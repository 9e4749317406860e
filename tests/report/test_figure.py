"""Laws of the house style: what is placed, written and left alone."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from duotomo.errors import DuotomoError
from duotomo.report.figure import colour_bar, log_axis, new_figure, place, scale_bar
from duotomo.report.style import COLOURS, LINES, MARKERS, save, styled, written


def draw_square(*, size: float) -> Figure:
    """Draw a square."""
    figure = new_figure(50)
    place(figure, 10, 5, size, size)
    return figure


def test_axes_lie_where_they_are_placed() -> None:
    axes = place(new_figure(50), 9.0, 5.0, 90.0, 20.0)
    assert axes.get_position().bounds == pytest.approx((9 / 180, 25 / 50, 90 / 180, 20 / 50))


def test_a_dot_in_the_stem_stays_and_the_folder_is_made(tmp_path: Path) -> None:
    paths = save(tmp_path / "new" / "noise_0.5", new_figure(30))
    assert [path.name for path in paths] == ["noise_0.5.png", "noise_0.5.svg"]
    assert all(path.stat().st_size > 0 for path in paths)


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_stem_that_is_a_file_name_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DuotomoError, match=rf"expected a stem.*got 'a.{kind}'. Pass 'a'"):
        save(tmp_path / f"a.{kind}", new_figure(30))


def test_text_stays_text_and_no_date_is_written(tmp_path: Path) -> None:
    figure = new_figure(30)
    figure.text(0.5, 0.5, "words to find")
    text = save(tmp_path / "a", figure)[1].read_text()
    assert ">words to find<" in text
    assert "dc:date" not in text


def test_written_takes_a_stem_and_what_the_drawing_takes(tmp_path: Path) -> None:
    square = written(draw_square)
    assert square.__name__ == "square"
    assert list(inspect.signature(square).parameters) == ["stem", "size"]
    assert "Draw a square." in (square.__doc__ or "")
    assert square(tmp_path / "a", size=3.0)[0].exists()


def test_the_style_ends_with_the_drawing() -> None:
    before = dict(matplotlib.rcParams)
    inside = []

    @styled
    def draw() -> Figure:
        inside.append(matplotlib.rcParams["font.size"])
        return new_figure(30)

    draw()
    assert inside == [8.5]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("values", "extend"), [([0, 1], "neither"), ([-1, 1], "min"), ([0, 2], "max"), ([-1, 2, np.nan], "both")]
)
def test_colour_bar_points_where_values_lie_beyond(values: list[float], extend: str) -> None:
    figure = new_figure(50)
    image = place(figure, 10, 5, 30, 30).imshow(np.zeros((2, 2)), vmin=0, vmax=1)
    bar = colour_bar(figure, image, left_mm=50, top_mm=5, height_mm=30, label="value", shown=[values])
    assert bar.extend == extend


@pytest.mark.parametrize(
    ("width_mm", "length"), [(70, "20 mm"), (45, "10 mm"), (200, "50 mm"), (1, "0.2 mm")]
)
def test_scale_bar_is_as_long_as_it_says(width_mm: float, length: str) -> None:
    axes = place(new_figure(50), 10, 5, 30, 30)
    axes.set_xlim(5, 5 + width_mm)
    scale_bar(axes)
    assert axes.texts[0].get_text() == length
    ends = np.asarray(axes.lines[0].get_xdata())
    assert np.ptp(ends) == pytest.approx(float(length.removesuffix(" mm")))
    assert axes.get_xlim() == (5, 5 + width_mm)


def test_log_axis_numbers_short_ranges_in_full() -> None:
    short, long = new_figure(50).subplots(), new_figure(50).subplots()
    short.plot([0, 1], [0.1, 2.0])
    long.plot([0, 1], [0.1, 2e4])
    log_axis(short)
    log_axis(long)
    assert {0.2, 0.5, 1.0} <= {round(float(at), 9) for at in short.get_yticks()}
    assert 0.2 not in {round(float(at), 9) for at in long.get_yticks()}


def test_curves_differ_in_colour_dashes_and_markers() -> None:
    assert len(set(COLOURS)) == len(set(LINES)) == len(set(MARKERS)) == 7


def test_importing_loads_no_matplotlib_and_drawing_no_pyplot() -> None:
    code = (
        "import sys; sys.path[:0] = " + repr(sys.path) + "; import duotomo.report as report;"
        "print('matplotlib' in sys.modules);"
        "import tempfile, pathlib; folder = pathlib.Path(tempfile.mkdtemp());"
        "report.objective_curves(folder / 'a', curves={'a': ([1, 2], [1.0, 2.0])}, x_label='b', y_label='c');"
        "import io, torch; from duotomo.geometry import VolumeGrid;"
        "grid = VolumeGrid.on_detector((4, 4, 4), (1, 1, 1));"
        "report.three_views(io.BytesIO(), columns={'f': torch.ones(4, 4, 4)}, grid=grid, unit='1/mm');"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
