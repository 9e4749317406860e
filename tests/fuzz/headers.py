"""Headers that are written to lead a reader astray: beyond its memory, or to other files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tifffile

from tests.fuzz.changes import Change, case, edited, json_edited, replaced
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import SAMPLES, VIEWS

SECRET = "../../sentinel/kept.txt"
ESCAPE = "\x1b]0;gone\x07\x9b31m"
"""What would change a terminal's title and colours."""

_SPLINE = (
    "#Insight Transform File V1.0\n#Transform 0\nTransform: BSplineTransform_double_3_3\n"
    "Parameters: {params}\nFixedParameters: {counts} 0 0 0 1 1 1 1 0 0 0 1 0 0 0 1\n"
)


def crashes() -> Iterator[Hostile]:
    """Give headers that made ITK write beyond its memory, or wait for ever."""
    kind = Category.CRASH
    for command in range(2):
        for name, field in (("nrrd", "type: float"), ("volume nrrd", "type: float")):
            change = edited(field, f"type: {'f' * 5000}")
            yield case(
                name, kind, f"type/{command}", change, command=command * (name == "nrrd"), fate=Fate.REFUSED
            )
        for n in ("12", "-1", "300", "1000", "99999999999999999999"):
            for name in ("mha", "volume mha"):
                change = edited("NDims = 3", f"NDims = {n}")
                yield case(name, kind, f"NDims {n}/{command}", change, command=command, fate=Fate.REFUSED)
        for counts in ("-4 -4 -4", "4 4 -4", "1e9 1e9 1e9", "4294967296 4294967296 4"):
            text = _SPLINE.format(params="0 0 0", counts=counts)
            change = replaced(text.encode())
            yield case(
                "transform tfm", kind, f"{counts}/{command}", change, command=command, fate=Fate.REFUSED
            )
        for value in ("1e308", "-1e308", "1e3"):
            change = edited("TransformMatrix = ", f"TransformMatrix = {value} 0 0 0 1 0 0 0 1\nWas = ")
            yield case(
                "volume mha", kind, f"matrix {value}/{command}", change, command=command, fate=Fate.REFUSED
            )


def detours() -> Iterator[Hostile]:
    """Give other ways of naming a file for the data."""
    kind = Category.ESCAPE
    local = "ElementDataFile = LOCAL"
    for name, line in {
        "colon": f"ElementDataFile: {SECRET}",
        "absolute colon": "ElementDataFile: /etc/passwd",
        "leading space": f" ElementDataFile = {SECRET}",
        "local": f"ElementDataFile = LOCAL/{SECRET}",
        "list": f"ElementDataFile = LIST\n{SECRET}",
        "list 2D": f"ElementDataFile = LIST 2\n{SECRET}",
        "long": f"Comment = {'x' * 70_000}\nElementDataFile = {SECRET}",
        "lines": "".join(f"C{n} = x\n" for n in range(20_000)) + f"ElementDataFile = {SECRET}",
        "twice": f"Comment = x\nComment = y\n{local}",
        "zero": "ElementDataFile = \0kept.txt",
    }.items():
        for sample in ("mha", "volume mha", "displacement mha"):
            yield case(sample, kind, f"header {name}", edited(local, line), fate=Fate.REFUSED)
    for field in (
        "Data File",
        "DATA FILE",
        "datafile",
        "DataFile",
        "data  file",
        "data file ",
        "Data file:=",
    ):
        change = edited("encoding: raw", f"encoding: raw\n{field}: {SECRET}")
        for sample in ("nrrd", "volume nrrd"):
            yield case(sample, kind, f"header {field}", change, fate=_fate(field))
    for name, array in (("scan", "projections"), ("study", "visits/0/projections"), ("hdf5", "views/g")):
        yield case(name, kind, f"through an external link {array}", _through(array), fate=Fate.REFUSED)
    yield case("transform hdf5", kind, "group elsewhere", _elsewhere("TransformGroup"), fate=Fate.REFUSED)
    yield case(
        "transform hdf5", kind, "through", _through("TransformGroup/0/TransformParameters"), fate=Fate.REFUSED
    )
    yield case("tiff", kind, "pages of another file", _ome, command=0)


def _fate(field: str) -> Fate:
    # NRRD's own pairs of keys and values say nothing about the data.
    return Fate.EITHER if field.endswith(":=") else Fate.REFUSED


def _through(name: str) -> Change:
    """Put a soft link in place of an array, to one that an external link leads to."""

    def change(path: Path) -> None:
        other = path.parent / "other.h5"
        other.write_bytes(path.read_bytes())
        with h5py.File(path, "r+") as file:
            del file[name]
            file["out"] = h5py.ExternalLink(str(other), "/")
            file[name] = h5py.SoftLink(f"/out/{name}")

    return change


def _elsewhere(name: str) -> Change:
    def change(path: Path) -> None:
        other = path.parent / "other.h5"
        other.write_bytes(path.read_bytes())
        with h5py.File(path, "r+") as file:
            del file[name]
            file[name] = h5py.ExternalLink(str(other), f"/{name}")

    return change


def _ome(path: Path) -> None:
    """Name a file beside it for the pages of a TIFF, as microscopes do."""
    tifffile.imwrite(path.parent / "other.ome.tif", VIEWS + 100, ome=True)
    there = '<UUID FileName="other.ome.tif">urn:uuid:a</UUID>'
    plane = f'<TiffData FirstT="0" IFD="0" PlaneCount="3">{there}</TiffData>'
    text = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:b">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="float" SizeX="7" SizeY="6" '
        'SizeZ="1" SizeC="1" SizeT="3"><Channel ID="Channel:0:0" SamplesPerPixel="1"/>'
        f"{plane}</Pixels></Image></OME>"
    )
    tifffile.imwrite(path, VIEWS[:1], description=text, metadata=None, photometric="minisblack")


def _attribute(name: str, value: Any) -> Change:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            group, _, attribute = name.rpartition("@")
            file[group or "/"].attrs[attribute] = value

    return change


def absurd() -> Iterator[Hostile]:
    """Give values of a shape or a length that nobody expects."""
    kind = Category.DTYPE
    for name in ("@format", "@version", "@values", "@thickness_mm"):
        for number, value in enumerate(
            ([], [1, 2], ["a", "b"], np.zeros((2, 2)), h5py.Empty("f4"), [[b"x"]])
        ):
            yield case("scan", kind, f"{name} {number}", _attribute(name, value), fate=Fate.EITHER)
    for name in ("visits/0@acquisition", "grid@json"):
        for number, value in enumerate(([], [1, 2], 3.0)):
            yield case("study", kind, f"{name} {number}", _attribute(name, value), fate=Fate.REFUSED)
    digits = "1" * 5000
    for name, text in {
        "digits": f"steps = {digits}",
        "hex": f"steps = 0x{'f' * 5000}",
        "large": f"steps = {10**400}",
        "seed": f"seed = {10**19}",
        "list": f"voxel = [0x{'f' * 5000}]",
        "float": f"total_variation = {10**400}",
    }.items():
        change = replaced(f"[joint]\n{text}\n".encode())
        yield case("settings joint", kind, f"whole {name}", change, says="s.toml")
    for words in (("--seed", "9" * 20), ("--seed", "-1")):
        yield _command(("reconstruct", "{in}/s.h5", *words, "--method", "bp", "--out", "{out}"), words)
    yield case("result's history", kind, "long field", _history("0," + "x" * 200_000), fate=Fate.REFUSED)
    for field, value in (("seconds", 10**400), ("status", 10**400), ("applications", [10**400])):
        change = json_edited(lambda content, field=field, value=value: content.update({field: value}))
        yield case("result", kind, f"{field} beyond measure", change, command=1)

    for command in range(2):
        yield case(
            "result", kind, f"motions without numbers/{command}", json_edited(_not_numbers), command=command
        )


def _not_numbers(content: dict[str, Any]) -> None:
    content["motions"] = json.loads(json.dumps(content["motions"]), parse_float=lambda _: float("nan"))


def _command(words: tuple[str, ...], option: tuple[str, ...]) -> Hostile:
    def make(folder: Path) -> None:
        SAMPLES["scan"].put(folder)

    return Hostile(f"option {' '.join(option)}", Category.DTYPE, words, make, says=option[0])


def _history(row: str) -> Change:
    """Put a row into the history, with the checksum that the index then has to have."""

    def change(path: Path) -> None:
        path.write_text(path.read_text().splitlines()[0] + f"\n{row}\n")
        index = path.with_name("result.json")
        content = json.loads(index.read_text())
        content["files"][path.name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        index.write_text(json.dumps(content))

    return change


def titles() -> Iterator[Hostile]:
    """Give texts that a terminal would act on, wherever a message quotes a file."""
    kind = Category.TERMINAL
    toml = json.dumps(ESCAPE)
    changes: dict[tuple[str, int], Change] = {
        ("settings joint", 0): replaced(f"[joint]\n{toml} = 1\n".encode()),
        ("scan", 1): _attribute("@values", ESCAPE),
        ("scan", 0): _attribute("@format", ESCAPE),
        ("study", 1): _attribute("visits/0@acquisition", json.dumps({"kind": ESCAPE})),
        ("hdf5", 1): _renamed,
        ("mha", 1): edited("MET_FLOAT", ESCAPE),
        ("nrrd", 1): edited("type: float", f"type: {ESCAPE}"),
        ("transform tfm", 1): replaced(f"Transform: {ESCAPE}_double_3_3\n".encode()),
        ("geometry", 1): json_edited(lambda content: content.update({ESCAPE: 1})),
        ("result", 2): json_edited(
            lambda content: content["files"].update({ESCAPE: content["files"].popitem()[1]})
        ),
        ("rtk", 1): replaced(f"<{'x' * 3} a='{ESCAPE[1:5]}'/>".encode()),
    }
    for (sample, command), change in changes.items():
        yield case(sample, kind, "escape", change, command=command, fate=Fate.EITHER)


def _renamed(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        for number in range(2):
            file[f"{ESCAPE}{number}"] = VIEWS


HEADERS: tuple[Callable[[], Iterator[Hostile]], ...] = (detours, absurd, titles)
