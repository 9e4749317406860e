"""`duotomo view`: the page of a result, in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duotomo.cli._flatten import Fields
from duotomo.cli._options import Talk


def view(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A result folder.", show_default=False)],
    talk: Annotated[Talk, Fields(only=("quiet",))],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
) -> None:
    """Show a result in the browser, from this machine to this machine only, until Ctrl-C.

    The address has a random part, new every time: without it, nobody gets anything. Nothing is written.

    Example: duotomo view result
    """
    # Imported here: `duotomo --help` needs none of it.
    import webbrowser

    from duotomo.io.result_index import notes_of, read_index
    from duotomo.report.page import page_of
    from duotomo.report.page_server import PageServer, doorway, serving, until_interrupted

    for note in notes_of(read_index("view", folder)):
        talk.progress(f"Note: {note}")
    talk.progress("Making the page")
    page = page_of(folder)
    # Before the address is said: whoever reads it may press Ctrl-C at once.
    with (
        until_interrupted() as wait,
        serving(PageServer(page, port=port)) as server,
        doorway(server.url) as door,
    ):
        # Without the address the command is of no use, so --quiet leaves it.
        typer.echo(server.url)
        talk.progress("Ctrl-C stops it")
        if browser:
            webbrowser.open(door.as_uri())
        wait()
        talk.progress("Stopped")
