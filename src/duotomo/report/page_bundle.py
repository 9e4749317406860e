"""The viewer's script and style sheet, as `viewer/` builds them into the package."""

from __future__ import annotations

from importlib.resources import files

from duotomo.errors import DuotomoError

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
