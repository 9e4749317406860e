"""Photograph report pages for the documentation: `python -m tools.screenshots DEMO_FOLDER FDA_FILE`.

DEMO_FOLDER is that of `duotomo demo`, FDA_FILE is `g_noi.mat` of the third-party data. Pictures go to
`docs/images`. Needs Chromium and its driver; without a graphics card the CPU draws, as in the tests.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from duotomo.geometry import VolumeGrid
from duotomo.report.page import write_page
from tests.report.chromium import Page, start_browser
from tests.report.page_changes import change, finding, silent_of
from tests.report.page_results import result, save

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DESKTOP, PHONE = (1280, 800), (390, 844)
FDA = [
    "--pixel-spacing",
    "0.4,0.4",
    "--source-to-detector",
    "650",
    "--source-to-pivot",
    "605",
    "--angles",
    "15,10,5,0,-5,-10,-15",
    "--thickness",
    "50",
    "--method",
    "cgls",
    "--steps",
    "10",
    "--voxel",
    "2,0.8,0.8",
]


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A picture of a page. keys: pressed first. drags: tool, and from where to where in the first picture."""

    name: str
    page: Path
    keys: str = ""
    drags: tuple[tuple[str, tuple[float, float], tuple[float, float]], ...] = ()
    second: str = ""
    phone: bool = False
    drawer: bool = False


def synthetic(folder: Path) -> Path:
    """Write the page of a breast with one new mass and one that is gone; return it."""
    grid = VolumeGrid.on_detector((22, 62, 104), (2.0, 1.0, 1.0))
    z, y, x = (torch.arange(n, dtype=torch.float32) for n in grid.shape)
    z, y, x = torch.meshgrid(z * 2 - 21, y, x - 51.5, indexing="ij")
    inner, outer = ((x / (r - 1)) ** 2 + (y / r) ** 2 + (z / (r / 2)) ** 4 for r in (50.0, 51.5))
    generator = torch.Generator().manual_seed(4)
    noise = torch.randn(2, 1, *grid.shape, generator=generator)
    smooth = torch.nn.functional.interpolate(noise[:1, :, ::4, ::10, ::10], size=grid.shape, mode="trilinear")
    tissue = 0.045 + 0.012 * (smooth[0, 0] > 0.1)
    skin = (outer < 1) & (inner >= 1)
    plain = torch.where(inner < 1, tissue, torch.where(skin, 0.075, 0.0))
    places = ((11, 27, 30), (11, 20, 68))
    first, second = plain + 0.0012 * noise[0, 0], plain + 0.0012 * noise[1, 0]
    # Skin does not lie alike twice, and nothing is said of it.
    second[skin & (x > 0) & (silent_of(plain) != 0)] *= 1.2
    for volume, (k, j, i), radius, more in ((first, places[0], 4.0, 0.019), (second, places[1], 3.2, 0.018)):
        apart = (z - (k * 2 - 21)) ** 2 + (y - j) ** 2 + (x - (i - 51.5)) ** 2
        volume += more * (apart < radius**2)
    found = (
        finding(1, places[0], 7.6, **_as_placed(grid, places[0], 8.1, "27 mm from the chest wall")),
        finding(2, places[1], -5.3, **_as_placed(grid, places[1], 6.4, "20 mm from the chest wall")),
    )
    made = result(
        grid=grid,
        volume=(first + second) / 2,
        others={"visit_1": first, "visit_2_registered": second},
        grids={},
        motion=_still(grid),
    )
    return write_page(save(folder, made, change=change(grid=grid, volume=plain, findings=found)))


def _as_placed(grid: VolumeGrid, voxel: tuple[int, int, int], size_mm: float, words: str) -> dict[str, Any]:
    k, j, i = voxel
    place = (i - grid.shape[2] / 2 + 0.5, j + 0.5, 2.0 * k + 1.0)
    return {
        "place_mm": place,
        "prior_place_mm": place,
        "size_mm": size_mm,
        "size_interval_mm": (0.85 * size_mm, 1.2 * size_mm),
        "words": words,
    }


def _still(grid: VolumeGrid) -> Any:
    from duotomo.transforms import Motion, Translation

    transform = Translation(grid)
    return Motion(transform, transform.identity())


def one_visit(folder: Path, file: Path) -> Path:
    """Reconstruct the FDA's scan; return its page."""
    out = folder / "fda"
    command = [sys.executable, "-c", "from duotomo.cli import main; main()", "reconstruct", str(file), *FDA]
    subprocess.run([*command, "--out", str(out), "--quiet"], check=True)
    return write_page(out)


def photograph(driver: Any, shot: Shot) -> Path:
    """Take a picture of a page; return it."""
    page = Page(driver, shot.page.resolve(), size=PHONE if shot.phone else DESKTOP, touch=shot.phone)
    if shot.second:
        page.set("Second picture", shot.second)
    for key in shot.keys.split():
        page.key(key)
        page.settle()
    for tool, start, end in shot.drags:
        _, _, width, height = page.box("reference")
        page.set("Left drag", tool)
        ends = [(x * width, y * height) for x, y in (start, end)]
        page.drag("reference", ends[0], ends[1], "left")
        if tool == "landmark":
            page.click("prior", ends[1][0], ends[1][1])
    if shot.drawer:
        page.script("document.querySelector('.opener').click()")
    page.settle()
    time.sleep(0.3)
    path = IMAGES / f"{shot.name}.png"
    path.write_bytes(driver.get_screenshot_as_png())
    with Image.open(path) as image:
        image.convert("RGB").save(path, optimize=True)
    return path


def main() -> None:
    """Make all pictures of the page that the documentation shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path)
    parser.add_argument("fda", type=Path)
    parser.add_argument("--only", nargs="*", help="names of pictures")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        demo = write_page(told.demo / "result", folder / "demo.html")
        findings = synthetic(folder / "findings")
        wanted = told.only
        fda = demo if wanted and "report_page_one_visit" not in wanted else one_visit(folder, told.fda)
        measured = (
            ("ruler", (0.30, 0.70), (0.55, 0.74)),
            ("region", (0.36, 0.27), (0.47, 0.35)),
            ("landmark", (0.57, 0.47), (0.57, 0.475)),
        )
        pointed = (("point", (0.36, 0.42), (0.36, 0.42)),)
        shots = (
            Shot(name="report_page", page=demo),
            Shot(name="report_page_overlays", page=demo, keys="g j"),
            Shot(name="report_page_measured", page=demo, keys="c", drags=measured),
            Shot(name="report_page_not_registered", page=demo, keys="c", second="visit_2"),
            Shot(name="report_page_own_frame", page=demo, keys="o", drags=pointed),
            Shot(name="report_page_phone", page=demo, phone=True),
            Shot(name="report_page_phone_tools", page=demo, phone=True, drawer=True),
            Shot(name="report_page_findings", page=findings, keys="c n"),
            Shot(name="report_page_one_visit", page=fda),
        )
        driver = start_browser()
        try:
            for shot in shots:
                if not wanted or shot.name in wanted:
                    print(photograph(driver, shot))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
