"""`duotomo report`: a page to look at a result with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duotomo.cli._options import Talk


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A result folder.", show_default=False)],
    talk: Talk,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write. [default: report.html in the folder]", show_default=False),
    ] = None,
) -> None:
    """Write a page that shows a result: one file, which opens in any browser without a network.

    Example: duotomo report result
    """
    # Imported here: `duotomo --help` needs none of it.
    from duotomo.io.result_index import notes_of, read_index
    from duotomo.report.page import write_page

    for note in notes_of(read_index("report", folder)):
        talk.progress(f"Note: {note}")
    path = write_page(folder, out)
    size_mb = path.stat().st_size / 1e6
    talk.say(f"Wrote {path} ({size_mb:.1f} MB)")
    talk.finish({"status": "done", "page": str(path), "megabytes": round(size_mb, 3)})
