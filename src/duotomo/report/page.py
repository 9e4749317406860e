"""`report.html`: one file to look at a result with, in any browser, without a network."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from duotomo.change.change import RESEARCH
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io import FileError, SavedResult
from duotomo.io.durable import durable, held
from duotomo.io.file_set import together
from duotomo.io.paths import AnyPath, reason, target
from duotomo.io.result_folder import write_drawn
from duotomo.io.result_format import PAGE
from duotomo.io.result_index import INDEX, read_index
from duotomo.io.result_reader import read_but
from duotomo.methods.correspondence import LEVEL
from duotomo.report.offline import offline_html
from duotomo.report.page_breast import breast_label, breast_letters, is_right
from duotomo.report.page_deformation import packed_floats, page_deviations
from duotomo.report.page_findings import described_change
from duotomo.report.page_own_frame import PageOwnFrame
from duotomo.report.page_seen import packed_mask
from duotomo.report.page_text import text_html
from duotomo.report.page_volumes import (
    PageVolumes,
    is_registered,
    nifti_gzip,
    page_volumes,
    registered_name,
    title_of,
    visit_of,
)
from duotomo.transforms import Recompression

SCRIPT, STYLE = "viewer.js", "viewer.css"


def viewer_part(name: str) -> str:
    """Return the text of a part of the viewer; raise where the package was not built with it."""
    part = files("duotomo.report") / "viewer" / name
    if not part.is_file():
        raise DuotomoError(
            f"duotomo.report: expected the viewer's {name} in the package; got nothing there. Install "
            f"duotomo from a wheel, or build the viewer: npm ci && npm run build, in viewer/."
        )
    return part.read_text(encoding="utf-8")


CHEST_WALL_LEFT, CHEST_WALL_RIGHT = 1, 3
"""How a page first shows the view from above: quarter turns from the chest wall at the bottom.
Right breasts are read with it to the right; so what is lateral, or the head, is up in both."""


def write_page(folder: AnyPath, out: AnyPath | None = None) -> Path:
    """Write `report.html`, which shows the result in a folder.

    The page holds all it needs, and forbids the browser to fetch anything else. It reads the folder alone, so
    it can be written again at any time.

    Parameters
    ----------
    folder : str or path
        That `write_result` wrote to.
    out : str or path, optional
        Where to; `folder/report.html` unless given.

    Returns
    -------
    Path
        Of the page.

    Raises
    ------
    FileError
        If the folder holds no result that is whole, or the page cannot be written.
    DuotomoError
        If the package was not built with the viewer.
    """
    folder = Path(folder)
    path = target("write_page", folder / PAGE if out is None else out, (".html", ".htm"))

    def write(path: Path) -> None:
        # An older page is replaced, whatever became of it.
        text = page_of(folder, but=(PAGE,))
        with durable("write_page", path) as fresh:
            fresh.write_text(text, encoding="utf-8")

    if path.resolve() == (folder / PAGE).resolve():
        with held("write_page", folder):
            write_drawn("write_page", folder, PAGE, kind="page", write=write)
    else:
        with together("write_page", path.parent, path.name) as draft:
            write(draft / path.name)
    return path


def page_of(folder: AnyPath, *, but: Collection[str] = ()) -> str:
    """Return the page of the result in a folder; but: files of it that are not looked at."""
    folder = Path(folder)
    saved, index = read_but("write_page", folder, but=but), read_index("write_page", folder)
    parts = viewer_part(SCRIPT), viewer_part(STYLE)
    try:
        return page_html(saved, index, parts)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Before version 3 its own words had no checksum: somebody may have edited them.
        raise FileError(
            f"write_page: expected {folder / INDEX} as write_result wrote it; got: {reason(error)}. "
            f"Restore it."
        ) from error


def page_html(saved: SavedResult, index: dict[str, Any], parts: tuple[str, str]) -> str:
    """Return the page of a result. index: the content of its `result.json`. parts: script and style."""
    script, style = parts
    shown = page_volumes(saved)
    described, blocks = _viewer_data(saved, shown)
    body = f"""<main id="viewer"><p>Unpacking the volumes ...</p></main>
<aside id="text" aria-label="The result in words" tabindex="0">{text_html(saved, index, shown)}</aside>
<footer>{escape(RESEARCH)}</footer>
<noscript><p>The pictures need JavaScript; the text does not.</p></noscript>
<script type="application/json" id="viewer-data">{_json(described)}</script>
{"".join(blocks)}"""
    return offline_html(
        title=f"duotomo: {saved.method}", style=style, script=script, body=body, images="data: blob:"
    )


def _viewer_data(saved: SavedResult, shown: PageVolumes) -> tuple[dict[str, Any], list[str]]:
    """Return what the viewer reads first, and the elements that hold the arrays."""
    blocks: list[str] = []
    volumes: list[dict[str, Any]] = []
    deformations: list[dict[str, Any]] = []
    for name, numbers in shown.numbers.items():
        element = f"volume-{len(volumes)}"
        own = shown.own.get(name)
        blocks.append(_block(element, nifti_gzip(numbers, own or shown.grid, shown.slope)))
        inside = None if own is None else f"inside-{len(volumes)}"
        if inside is not None:
            blocks.append(_block(inside, packed_mask(shown.own_inside[name])))
        unseen = f"unseen-{len(volumes)}" if name in shown.unseen else None
        if unseen is not None:
            blocks.append(_block(unseen, packed_mask(shown.unseen[name])))
        volumes.append(
            {
                "name": name,
                "title": title_of(name, shown.numbers),
                "visit": visit_of(name),
                "breast": breast_label(saved.settings, visit_of(name)),
                "registered": is_registered(name),
                "element": element,
                "unseen": unseen,
                "lattice": None if own is None else _lattice(own),
                "inside": inside,
                "letters": breast_letters(saved.settings, visit_of(name)),
            }
        )
    blocks.append(_block("inside", packed_mask(shown.inside)))
    for number, found in enumerate(shown.deformations):
        element = f"deformation-{number}"
        blocks.append(_block(element, found.packed()))
        lattice = {"shape": found.shape, "spacing": found.spacing_mm, "first": found.first_mm}
        of, title = registered_name(number + 2), f"visit {number + 2}"
        known = saved.saved_uncertainties[number : number + 1]
        packed = page_deviations(known[0], found) if known else None
        deviations = None if packed is None else f"deviations-{number}"
        if packed is not None:
            blocks.append(_block(f"deviations-{number}", packed))
        deformations.append(
            {
                "of": of,
                "title": title,
                "lattice": lattice,
                "element": element,
                "deviations": deviations,
                "own": _own_frame(number, shown.own_frames[number], blocks),
            }
        )
    changed = None
    if saved.change is not None and shown.maps is not None:
        blocks.append(_block("scores", shown.maps.packed_scores()))
        blocks.append(_block("silent", shown.maps.packed_silent()))
        changed = described_change(saved.change, shown.prior, "scores", "silent")
    described = {
        "lattice": _lattice(shown.grid),
        "slope": shown.slope,
        "unit": "1/mm",
        "volumes": volumes,
        "deformations": deformations,
        "change": changed,
        "reference": shown.reference,
        "prior": shown.prior,
        "linked": is_two_views(saved),
        "window": shown.window,
        "spread": shown.spread,
        "turn": CHEST_WALL_RIGHT if is_right(saved.settings) else CHEST_WALL_LEFT,
        "letters": breast_letters(saved.settings),
        "inside": "inside",
    }
    return described, blocks


def is_two_views(saved: SavedResult) -> bool:
    """Return whether a result is of two compressions, which readers see each in its own frame."""
    return Recompression.__name__ in saved.models


def _own_frame(number: int, found: PageOwnFrame, blocks: list[str]) -> dict[str, Any]:
    """Return what the viewer reads of a visit's own frame; its numbers are added to the blocks."""
    fields = {
        "there": found.there,
        "ellipsoidThere": found.covariance_there,
        "ellipsoidBack": found.covariance_back,
    }
    described: dict[str, Any] = {"level": LEVEL}
    described["lattice"] = {"shape": found.shape, "spacing": found.spacing_mm, "first": found.first_mm}
    for name, values in fields.items():
        described[name] = None if values is None else f"{name}-{number}"
        if values is not None:
            blocks.append(_block(f"{name}-{number}", packed_floats(values)))
    return described


def _lattice(grid: VolumeGrid) -> dict[str, Any]:
    first = [low + d / 2 for low, d in zip(grid.low_mm, grid.spacing_mm, strict=True)]
    return {"shape": grid.shape[::-1], "spacing": grid.spacing_mm[::-1], "first": first[::-1]}


def _block(element: str, content: bytes) -> str:
    return f'<script type="application/gzip" id="{element}">{b64encode(content).decode()}</script>\n'


def _json(value: Any) -> str:
    # JSON knows \\u003c, and HTML does not, so no text can end the element.
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
