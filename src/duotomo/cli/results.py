"""`duotomo results`: one page of all experiments that have been reproduced, beside the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def results(
    root: Annotated[Path, typer.Option(help="The folder that `duotomo reproduce` wrote to.")] = Path(
        "out/reproduce"
    ),
    page: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/results.md"),
    figures: Annotated[Path, typer.Option(help="Folder for its pictures and rows.")] = Path("docs/results"),
    quick: Annotated[bool, typer.Option("--quick", help="With experiments of reduced size, too.")] = False,
) -> None:
    """Write the page that puts all reproduced experiments beside the paper.

    Example: duotomo results --root out/reproduce
    """
    # Imported here: `duotomo --help` needs none of it.
    from duotomo.reproduction import write_results_page

    written, *others = write_results_page(root, page, figures=figures, quick=quick)
    pictures = [path for path in others if path.suffix == ".png"]
    size_mb = sum(path.stat().st_size for path in others) / 1e6
    typer.echo(f"Wrote {written}, {len(pictures)} pictures and all rows ({size_mb:.1f} MB) in {figures}")
