"""The command writes the page of what has been reproduced, and says where; or what is missing."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from duotomo.cli import main
from tests.reproduction.written_folder import METHODS, row, table, write_table


def run(folder: Path, *options: str) -> tuple[int, str]:
    places = {"root": folder / "out", "page": folder / "docs" / "page.md", "figures": folder / "docs" / "png"}
    named = [part for name, path in places.items() for part in (f"--{name}", str(path))]
    result = CliRunner().invoke(main, ["results", *named, *options], catch_exceptions=False)
    return result.exit_code, result.output


def with_one(tmp_path: Path, *, quick: bool) -> Path:
    """Return a folder with one experiment and one picture."""
    content = table(METHODS, [row(1, method["name"]) for method in METHODS], quick=quick)
    folder = write_table(tmp_path / "out" / "toroid-simultaneous" / "honest", content)
    (folder / "figures").mkdir()
    (folder / "figures" / "results.png").write_bytes(b"1234")
    return tmp_path


def test_the_page_and_its_pictures_are_written(tmp_path: Path) -> None:
    code, output = run(with_one(tmp_path, quick=False))
    assert code == 0, output
    page = tmp_path / "docs" / "page.md"
    assert f"Wrote {page}, 1 pictures and all rows (0.0 MB) in {tmp_path / 'docs' / 'png'}" in output
    assert "](png/toroid-simultaneous-honest-results.png)" in page.read_text(encoding="utf-8")


def test_reduced_sizes_are_only_there_when_asked_for(tmp_path: Path) -> None:
    with_one(tmp_path, quick=True)
    code, output = run(tmp_path)
    assert code == 2
    assert "got none of full size. Run `reproduce` first." in output
    code, output = run(tmp_path, "--quick")
    assert code == 0, output


def test_without_a_table_there_is_no_page(tmp_path: Path) -> None:
    code, output = run(tmp_path)
    assert code == 2
    assert f"expected folders NAME/LEVEL with a table.json in {tmp_path / 'out'}; got none" in output
    assert not (tmp_path / "docs").exists()


def test_help_lists_the_command() -> None:
    assert "results" in CliRunner().invoke(main, ["--help"]).output
