"""The secret by which the patients of a folder are named, the same at each call."""

from __future__ import annotations

import secrets
from pathlib import Path

from duotomo.io.dicom.deidentification import Pseudonyms
from duotomo.io.durable import durable
from duotomo.io.paths import make_folder


def pseudonyms_of(path: Path, *, draw: bool) -> Pseudonyms:
    """Return the pseudonyms of the key in a file; draw: make it, for its owner only, if it is not there.

    Without a file, and without drawing one, they are others each time.
    """
    if path.exists():
        return Pseudonyms.of_file(path)
    if not draw:
        return Pseudonyms()
    make_folder("cohort", path.parent, choice="`out`")
    with durable("cohort", path) as fresh:
        fresh.write_bytes(secrets.token_bytes(32))
    return Pseudonyms.of_file(path)
