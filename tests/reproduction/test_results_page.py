"""The page of results: every experiment, its numbers and pictures; equal folders make equal pages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from duotomo.errors import DuotomoError
from duotomo.reproduction.results_page import SHARE_ALIKE, write_results_page
from duotomo.reproduction.results_text import TITLES
from tests.reproduction.written_folder import METHODS, method, row, table, write_table

NAMES = ("zebra", "inner-outer", "toroid-simultaneous", "toroid-iterative")


def rows() -> list[dict[str, object]]:
    errors = {"sequential": 0.6, "iterative": 0.4, "simultaneous": 0.2, "known-motion": 0.1}
    return [row(1, name, relative_error=error) for name, error in errors.items()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in NAMES:
        for level in ("honest", "as-published"):
            folder = tmp_path / "out" / name / level
            content = table(METHODS, rows(), experiment=name, title=f"The title of {name}", level=level)
            write_table(folder, content)
            (folder / "figures").mkdir()
            for figure in ("results", "profiles", "objective-applications", "cases-tre", "displacement"):
                (folder / "figures" / f"{figure}.png").write_bytes(f"{name} {level} {figure}".encode())
    write_table(
        tmp_path / "out" / "breast-mr" / "honest-quick",
        table(METHODS, rows(), experiment="breast-mr", quick=True),
    )
    return tmp_path / "out"


def write(root: Path, *, quick: bool = False) -> tuple[str, list[Path]]:
    docs = root.parent / "docs"
    files = write_results_page(root, docs / "results.md", figures=docs / "results", quick=quick)
    return (docs / "results.md").read_text(encoding="utf-8"), files


def test_every_experiment_and_level_is_there_in_order(root: Path) -> None:
    page, _ = write(root)
    titles = re.findall(r"^## The title of (.*)$", page, flags=re.MULTILINE)
    assert titles == ["toroid-iterative", "toroid-simultaneous", "inner-outer", "zebra"]
    levels = re.findall(r"^### (.*)$", page, flags=re.MULTILINE)
    assert levels == [f"{name}: {level}" for name in titles for level in ("as-published", "honest")]
    assert "breast-mr: honest" not in page


def test_the_numbers_of_the_table_are_on_the_page(root: Path) -> None:
    page, _ = write(root)
    assert "| sequential / simultaneous | 3.00 | - | 31.0 |" in page
    assert "| sequential / known motion | 6.00 | - | - |" in page
    assert "- simultaneous < iterative < sequential for our methods: holds with visit 1 alone." in page
    assert "- The paper contradicts itself." in page
    assert page.count("| size mm | (40, 40, 40) |\n") == len(NAMES)
    assert "All was computed with duotomo 0.1.0, torch 2.6, on cpu." in page


def test_the_page_begins_with_all_experiments_at_a_glance(root: Path) -> None:
    page, _ = write(root)
    glance = page[page.index("## At a glance") : page.index("## The title of")]
    assert "| toroid-iterative | as-published | 6.00 | 0.500 | 0.500 | 3.00 | - | 31.0 |" in glance
    assert glance.count("\n| ") == 2 + 4 * 2


def test_pictures_are_copied_and_named(root: Path) -> None:
    page, files = write(root)
    pictures = re.findall(r"\]\((.*\.png)\)", page)
    copied_pictures = {path for path in files if path.suffix == ".png"}
    assert len(pictures) == len(copied_pictures) == 4 * 2 * 4
    docs = root.parent / "docs"
    assert {docs / picture for picture in pictures} == copied_pictures
    copied = docs / "results" / "zebra-honest-results.png"
    assert copied.read_bytes() == b"zebra honest results"
    assert "![Case 1: truth, results and differences to the truth](results/zebra-honest-results.png)" in page
    # The most telling ones are chosen.
    assert "profiles" not in page


def test_the_rows_of_every_level_are_beside_the_page(root: Path) -> None:
    page, files = write(root)
    named = re.findall(r"\[All rows\]\((.*\.json)\)", page)
    docs = root.parent / "docs"
    assert [docs / name for name in named] == [path for path in files if path.suffix == ".json"]
    assert len(named) == 4 * 2
    copied, table = docs / "results" / "zebra-honest.json", root / "zebra" / "honest" / "table.json"
    assert copied.read_bytes() == table.read_bytes()


def test_a_picture_too_large_for_a_page_keeps_fewer_colours(root: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 300, 3), dtype=np.uint8)
    pixels[:, :150] = (10, 200, 30)
    source = root / "zebra" / "honest" / "figures" / "results.png"
    Image.fromarray(pixels).save(source)
    # Noise hardly compresses.
    assert source.stat().st_size > 250_000
    _, files = write(root)
    (copied,) = [path for path in files if path.name == "zebra-honest-results.png"]
    assert copied.stat().st_size < source.stat().st_size / 2
    with Image.open(copied) as image:
        assert image.size == (300, 600)
        found = np.asarray(image.convert("RGB")).astype(int)
    assert np.abs(found[:, :150] - (10, 200, 30)).max() < 8


def test_results_of_two_models_both_show(root: Path) -> None:
    figures = root / "zebra" / "honest" / "figures"
    (figures / "results.png").unlink()
    for name in ("results-affine", "results-bspline", "results-plain"):
        (figures / f"{name}.png").write_bytes(b"")
    page, _ = write(root)
    found = re.findall(r"results/zebra-honest-(.*)\.png", page)
    assert found == ["results-bspline", "results-affine", "objective-applications", "cases-tre"]
    assert "![Case 1: truth, results and differences to the truth (bspline)]" in page


def test_the_most_telling_of_several_figures_is_chosen(root: Path) -> None:
    for name in ("zebra", "inner-outer"):
        for tail in ("-plain", "-affine-simultaneous", "-bspline-simultaneous", "-bspline-iterative"):
            (root / name / "honest" / "figures" / f"control-grids{tail}.png").write_bytes(b"")
    page, _ = write(root)
    found = re.findall(r"results/(.*)-honest-control-grids-(.*)\.png", page)
    # The splits of the paper's alternation are what that experiment is about.
    assert found == [("inner-outer", "plain"), ("zebra", "bspline-simultaneous")]


def test_numbers_in_words_lose_the_digits_that_floats_add(root: Path) -> None:
    about = {"grid": "Grid(spacing_mm=1.9696969696969697, n=33, edge=0.215)"}
    write_table(root / "zebra" / "honest", table(METHODS, rows(), experiment="zebra", about=about))
    assert "Grid(spacing_mm=1.9697, n=33, edge=0.215)" in write(root)[0]


def test_equal_folders_make_equal_pages(root: Path) -> None:
    first, files = write(root)
    again, same = write(root)
    assert (first, files) == (again, same)
    assert str(root) not in first


def test_levels_that_differ_in_their_set_up_have_a_line_each(root: Path) -> None:
    about = {"grid": "Grid(n=8)", "size_mm": [40.0, 40.0, 40.0], "seed": 3}
    write_table(root / "zebra" / "honest", table(METHODS, rows(), experiment="zebra", about=about))
    page = write(root)[0]
    zebra = page[page.index("Experiment `zebra`") :]
    assert "| grid, as-published | 8 x 8 x 8 |\n| grid, honest | `Grid(n=8)` |\n| size mm |" in zebra
    assert "| n views, as-published | 11 |\n| seed, honest | 3 |" in zebra


def test_cases_that_have_not_run_are_counted(root: Path) -> None:
    some = [*rows(), row(2, "iterative")]
    write_table(root / "zebra" / "honest", table(METHODS, some, experiment="zebra", n_cases=15))
    page = write(root)[0]
    assert "### zebra: honest\n\n1 of 15 cases.\n\nNot finished: 1 of 15 cases ran with all" in page
    assert page.count("Not finished") == 1


def test_a_page_that_cannot_be_written_is_said(root: Path) -> None:
    (root.parent / "docs").write_text("A letter.", encoding="utf-8")
    with pytest.raises(
        DuotomoError, match=r"write_results_page: expected to make the folder .*Choose another"
    ):
        write(root)


def test_reduced_sizes_are_there_when_asked_for(root: Path) -> None:
    page, _ = write(root, quick=True)
    assert "### breast-mr: honest, reduced size" in page


def test_tables_are_whole_and_bars_do_not_break_them(root: Path) -> None:
    write_table(root / "zebra" / "honest", table([method("a", "iterative", label="|a|")], [row(1, "a")]))
    page, _ = write(root)
    blocks = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
    assert len(blocks) > 10
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_unlike_versions_are_not_claimed_to_be_one(root: Path) -> None:
    write_table(root / "zebra" / "honest", table(METHODS, rows(), experiment="zebra", device="cuda"))
    page, _ = write(root)
    assert "All was computed" not in page
    assert "One case, computed with duotomo 0.1.0, torch 2.6, on cuda." in page


def test_an_experiment_without_pictures_or_paper(tmp_path: Path) -> None:
    content = table([method("a", "iterative")], [row(1, "a")], paper=None, experiment="e")
    write_table(tmp_path / "out" / "e" / "honest", content)
    page, files = write(tmp_path / "out")
    assert [path.suffix for path in files] == [".md", ".json"]
    assert ".png" not in page


def test_no_folders_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "e" / "honest-quick", table(METHODS, rows(), quick=True))
    with pytest.raises(
        DuotomoError, match=r"write_results_page: expected folders NAME/LEVEL .*got none of full size"
    ):
        write(tmp_path)
    (tmp_path / "e" / "honest-quick" / "table.json").unlink()
    with pytest.raises(DuotomoError, match=r"got none\. Run `reproduce` first"):
        write(tmp_path, quick=True)


def test_an_unknown_level_is_refused(root: Path) -> None:
    write_table(root / "zebra" / "honest", table(METHODS, rows(), experiment="zebra", level="magic"))
    with pytest.raises(DuotomoError, match=r"results_page: expected one of the levels .*got 'magic' in"):
        write(root)


def test_pictures_of_the_women_are_not_copied() -> None:
    assert set(SHARE_ALIKE["breast-mr-real"]) == {"cases-tre", "parameter-errors"} <= set(TITLES)
