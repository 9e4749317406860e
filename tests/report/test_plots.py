"""Laws of curves, bars, profiles and cases: the numbers given are the numbers drawn."""

from __future__ import annotations

import numpy as np
import pytest

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.report.cases import draw_cases
from duotomo.report.curves import draw_objective_curves
from duotomo.report.parameter_errors import draw_parameter_errors
from duotomo.report.profiles import draw_profiles

RNG = np.random.default_rng(2)
GRID = VolumeGrid.on_detector((6, 7, 8), (2.0, 1.0, 1.0))


def test_curves_show_their_numbers_and_names() -> None:
    x, y = np.arange(5), np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    figure = draw_objective_curves(
        curves={"one": (x, y), "two": (x[:3], 2 * y[:3])}, x_label="seconds", y_label="objective", log_y=False
    )
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("seconds", "objective", "linear")
    assert np.array_equal(axes.lines[0].get_xydata(), np.stack([x, y], axis=1))
    assert len(axes.lines[1].get_xdata()) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines}
    assert len(looks) == 2


def test_more_curves_than_colours_differ() -> None:
    figure = draw_objective_curves(
        curves={str(n): ([0, 1], [2.0, 1.0]) for n in range(9)}, x_label="step", y_label="objective"
    )
    lines = figure.axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == 9


def test_pieces_of_a_curve_are_not_joined() -> None:
    curve = np.arange(5), np.array([5.0, 4.0, 9.0, 2.0, 8.0])
    figure = draw_objective_curves(
        curves={"a": curve, "b": curve}, x_label="step", y_label="objective", pieces={"a": [2, 4]}
    )
    broken, whole = (line.get_ydata() for line in figure.axes[0].lines)
    assert np.array_equal(broken, [5.0, 4.0, np.nan, 9.0, 2.0, np.nan, 8.0], equal_nan=True)
    assert np.array_equal(whole, curve[1])


@pytest.mark.parametrize(
    ("curve", "match"),
    [
        (([0, 1], [1.0, 0.0]), "expected y of a above 0 on a logarithmic axis; got 0.0. Pass log_y=False"),
        (([0, 1], [1.0, np.nan]), "expected y of a to be finite; got 1 NaN or infinite of 2"),
        (([0, 1], [1.0]), "expected x and y of a equally long; got 2 and 1"),
        (([], []), "expected x of a with 1 axes and at least one number"),
    ],
)
def test_wrong_curves_are_refused(curve: tuple[list[float], list[float]], match: str) -> None:
    with pytest.raises(DuotomoError, match=f"objective_curves: {match}"):
        draw_objective_curves(curves={"a": curve}, x_label="x", y_label="y")


def test_no_curves_are_refused() -> None:
    with pytest.raises(DuotomoError, match="objective_curves: expected at least one of curves; got none"):
        draw_objective_curves(curves={}, x_label="x", y_label="y")


def test_bars_are_means_of_absolute_errors_split_by_unit() -> None:
    errors = {"a": RNG.normal(0, 1, (9, 12)), "b": RNG.normal(0, 1, (9, 12))}
    matrix, translation = draw_parameter_errors(errors=errors).axes
    entries = [
        [int(t.get_text().split("\n")[0]) for t in axes.get_xticklabels()] for axes in (matrix, translation)
    ]
    assert entries == [[1, 2, 3, 5, 6, 7, 9, 10, 11], [4, 8, 12]]
    for axes, numbers in zip((matrix, translation), entries, strict=True):
        heights = np.array([bar.get_height() for bar in axes.patches]).reshape(2, -1)
        means = np.stack([np.abs(values).mean(axis=0) for values in errors.values()])
        assert np.allclose(heights, means[:, np.array(numbers) - 1])
    assert translation.get_ylabel().endswith("mm")
    assert not matrix.get_ylabel().endswith("mm")


def test_whiskers_reach_one_standard_deviation_but_not_below_zero() -> None:
    errors = np.zeros((4, 12))
    errors[:, 0] = [0.0, 0.0, 0.0, 4.0]  # mean 1, standard deviation 2
    axes = draw_parameter_errors(errors={"a": errors}).axes[0]
    (low, high), *_ = (segment[:, 1] for segment in axes.collections[0].get_segments())
    assert (low, high) == pytest.approx((0.0, 3.0))


def test_one_case_has_no_spread() -> None:
    axes = draw_parameter_errors(errors={"a": np.ones((1, 12))}).axes[0]
    for segment in axes.collections[0].get_segments():
        assert segment[:, 1].tolist() == [1.0, 1.0]


def test_wrong_parameter_errors_are_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"parameter_errors: expected a \(case, entry\) with 12.*got \(3, 9\)"
    ):
        draw_parameter_errors(errors={"a": np.ones((3, 9))})
    with pytest.raises(ShapeError, match="parameter_errors: expected a with 2 axes"):
        draw_parameter_errors(errors={"a": np.ones(12)})
    with pytest.raises(DuotomoError, match="parameter_errors: expected at least one of errors"):
        draw_parameter_errors(errors={})


def test_profiles_are_the_lines_through_the_voxel() -> None:
    volume = RNG.random(GRID.shape)
    figure = draw_profiles(
        rows={"truth": volume, "other": 2 * volume}, grid=GRID, unit="1/mm", at_mm=(-1.5, 2.5, 7.0)
    )
    expected = (volume[3, 2, :], volume[3, :, 2], volume[:, 2, 2])
    for axes, line, axis in zip(figure.axes[1::2], expected, (2, 1, 0), strict=True):
        truth, other = axes.lines
        middles = GRID.low_mm[axis] + (np.arange(GRID.shape[axis]) + 0.5) * GRID.spacing_mm[axis]
        assert np.allclose(truth.get_xdata(), middles)
        assert np.allclose(truth.get_ydata(), line)
        assert np.allclose(other.get_ydata(), 2 * line)
        assert axes.get_xlim() == (GRID.low_mm[axis], GRID.high_mm[axis])
    assert len({axes.get_ylim() for axes in figure.axes[1::2]}) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["truth", "other"]


def test_pictures_show_the_lines_of_the_profiles() -> None:
    figure = draw_profiles(rows={"f": RNG.random(GRID.shape)}, grid=GRID, unit="1/mm", at_mm=(-1.5, 2.5, 7.0))
    above, side, chest_wall = (axes.lines[0] for axes in figure.axes[::2])
    assert list(np.unique(above.get_ydata())) == [2.5]
    assert list(np.unique(side.get_ydata())) == [7.0]
    assert list(np.unique(chest_wall.get_xdata())) == [-1.5]


def test_no_profiles_are_refused() -> None:
    with pytest.raises(DuotomoError, match="profiles: expected at least one of rows; got none"):
        draw_profiles(rows={}, grid=GRID, unit="1/mm")


def test_cases_keep_their_pairs_when_sorted() -> None:
    first, second = np.array([3.0, 1.0, 2.0]), np.array([0.3, 0.1, 0.2])
    pairs, boxes = draw_cases(values={"a": first, "b": second}, y_label="mean TRE, mm").axes
    assert [text.get_text() for text in pairs.get_xticklabels()] == ["2", "3", "1"]
    assert list(pairs.lines[0].get_ydata()) == [1.0, 2.0, 3.0]
    assert list(pairs.lines[1].get_ydata()) == [0.1, 0.2, 0.3]
    assert pairs.get_yscale() == boxes.get_yscale() == "log"
    assert pairs.get_ylabel() == "mean TRE, mm"


def test_cases_have_the_numbers_given() -> None:
    pairs, _ = draw_cases(values={"a": [3.0, 1.0]}, y_label="error", case_numbers=[7, 12]).axes
    assert [text.get_text() for text in pairs.get_xticklabels()] == ["12", "7"]
    with pytest.raises(ShapeError, match="cases: expected case_numbers of 2 cases; got 1"):
        draw_cases(values={"a": [3.0, 1.0]}, y_label="error", case_numbers=[7])


def test_boxes_have_the_median_and_reach_the_ends() -> None:
    values = RNG.random(11) + 0.5
    boxes = draw_cases(values={"a": values}, y_label="error", log_y=False).axes[1]
    assert boxes.get_yscale() == "linear"
    whiskers, caps, median = (np.array(lines.get_segments())[:, :, 1] for lines in boxes.collections)
    (box,) = boxes.patches
    quarter, three_quarters = np.percentile(values, [25, 75])
    assert whiskers.ravel() == pytest.approx([values.min(), quarter, three_quarters, values.max()])
    assert [box.get_y(), box.get_height()] == pytest.approx([quarter, three_quarters - quarter])
    assert np.unique(caps) == pytest.approx([values.min(), values.max()])
    assert np.unique(median) == pytest.approx(np.median(values))
    assert np.array_equal(boxes.lines[0].get_ydata(), np.sort(values))


def test_wrong_cases_are_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"cases: expected as many cases for every method; got \{'a': 2, 'b': 1\}"
    ):
        draw_cases(values={"a": [1.0, 2.0], "b": [1.0]}, y_label="error")
    with pytest.raises(DuotomoError, match=r"cases: expected a above 0 on a logarithmic axis; got -1\.0"):
        draw_cases(values={"a": [-1.0]}, y_label="error")
    with pytest.raises(DuotomoError, match="cases: expected at least one of values"):
        draw_cases(values={}, y_label="error")
