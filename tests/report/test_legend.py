"""Laws of legends: every name on the page, in the room set aside."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from duotomo.report.figure import columns, draw_legend, legend_mm, new_figure
from duotomo.report.style import DPI, styled


@pytest.mark.parametrize("length", [1, 8, 15, 30, 60, 75])
@pytest.mark.parametrize("n_names", [1, 2, 5, 7])
def test_a_legend_keeps_to_the_page_and_to_its_height(length: int, n_names: int) -> None:
    names = [f"{n}{'mie' * 25}"[:length] + str(n) for n in range(n_names)]

    @styled
    def draw() -> Figure:
        figure = new_figure(90)
        axes = figure.subplots()
        for name in names:
            axes.plot([0, 1], [0, 1], label=name)
        draw_legend(figure, axes, place="upper left")
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert box.height / DPI * 25.4 <= legend_mm(names) + 0.5
        return figure

    draw()


def test_names_share_lines_where_they_fit() -> None:
    assert columns(["a", "b", "c"]) == 3
    assert columns(["a" * 80, "b"]) == 1
