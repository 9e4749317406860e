"""How the file of a sample is changed, and the case that makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import pydicom

from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import SAMPLES
from tests.io.saved_helpers import reseal

Change = Callable[[Path], None]


def case(
    sample: str,
    category: Category,
    name: str,
    change: Change,
    *,
    command: int | None = None,
    says: str = "",
    fate: Fate | None = None,
) -> Hostile:
    """Return a sample whose file was changed, for one of its commands; drawn by the name unless given."""
    whole = SAMPLES[sample]
    n = Random(name).randrange(len(whole.commands)) if command is None else command
    words = whole.commands[n]

    def make(folder: Path) -> None:
        path = whole.put(folder)
        change(path)
        # Otherwise nothing but the SHA-256 would be tested.
        reseal(path)

    # Of a scan whose geometry cannot be used, info says the rest.
    fate = fate or (Fate.DESCRIBED if words[0] == "info" else Fate.REFUSED)
    return Hostile(name=f"{sample}/{name}", category=category, words=words, make=make, fate=fate, says=says)


def edited(old: str, new: str) -> Change:
    """Return what replaces a text in a file."""

    def change(path: Path) -> None:
        text = path.read_text(encoding="latin-1")
        assert old in text, (old, text[:400])
        path.write_text(text.replace(old, new, 1), encoding="latin-1")

    return change


def replaced(data: bytes) -> Change:
    """Return what replaces a whole file."""
    return lambda path: path.write_bytes(data) and None


def dicom(change: Callable[[Any], None]) -> Change:
    """Return what changes the dataset of a DICOM file."""

    def edit(path: Path) -> None:
        dataset = pydicom.dcmread(path)
        # What the writer keeps for itself would say the truth.
        dataset.remove_private_tags()
        change(dataset)
        dataset.save_as(path)

    return edit


def attribute(keyword: str, value: Any) -> Callable[[Any], None]:
    """Return what sets an attribute, wherever the dataset has it."""

    def change(dataset: Any) -> None:
        if keyword in dataset:
            setattr(dataset, keyword, value)
            return
        for item in dataset.iterall():
            if item.keyword == keyword:
                item.value = value

    return change


def json_edited(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Return what changes the content of a JSON file."""

    def edit(path: Path) -> None:
        content = json.loads(path.read_text())
        change(content)
        if isinstance(content, dict) and "sha256" in content:
            content["sha256"] = content.pop("sha256")
        path.write_text(json.dumps(content, indent=1) + "\n")

    return edit


def hdf5_without(name: str) -> Change:
    """Return what removes a member, or after an @ an attribute, of an HDF5 file."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            group, _, attribute = name.rpartition("@")
            if "@" in name:
                del file[group or "/"].attrs[attribute]
            else:
                del file[name]

    return change
