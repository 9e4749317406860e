"""Texts that nest without end, expand without end, or are no text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import h5py

from tests.fuzz.changes import Change, case, replaced
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.io.test_scan_rtk import FAR, PLAIN, element, xml


def _refused(sample: str, kind: Category, name: str, text: str, *, n_commands: int) -> Iterator[Hostile]:
    """Give a text that every command refuses."""
    for command in range(n_commands):
        change = replaced(text.encode())
        yield case(sample, kind, f"{name}/{command}", change, command=command, fate=Fate.REFUSED)


def texts() -> Iterator[Hostile]:
    """Give texts."""
    deep = {"list": "[" * 100_000, "object": '{"a":' * 100_000, "both": '[{"a":' * 50_000 + "]"}
    for name, text in deep.items():
        yield from _refused("geometry", Category.NESTING, name, text, n_commands=2)
        yield case("result", Category.NESTING, name, replaced(text.encode()))
        inside = '{"kind": "Acquisition", "source_mm": ' + "[" * 50_000
        yield case("study", Category.NESTING, name, _study_text(inside), command=Random(name).randrange(3))
    yield case(
        "settings reconstruct", Category.NESTING, "list", replaced(b"[reconstruct]\nvoxel = " + b"[" * 50_000)
    )
    yield case("settings joint", Category.NESTING, "table", replaced(b"[joint]\nvoxel = " + b"{a=" * 50_000))
    yield case(
        "settings register", Category.NESTING, "keys", replaced(b"[register." + b"a." * 20_000 + b"a]\n")
    )
    yield case(
        "rtk",
        Category.NESTING,
        "elements",
        replaced(b"<RTKThreeDCircularGeometry version='3'>" + b"<Projection>" * 100_000),
    )
    entities = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(12))
    laughs = f' [<!ENTITY a0 "ha">{entities}]'
    for name, text in {
        "laughs": xml(FAR, before=laughs).replace("650.0", "&a12;"),
        "file": xml(FAR, before=' [<!ENTITY a SYSTEM "file:///etc/passwd">]').replace("650.0", "&a;"),
        "parameter": xml(FAR, before=' [<!ENTITY % a SYSTEM "file:///etc/passwd">%a;]'),
        "network": xml(FAR, before=' SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY a "1">]'),
        "quadratic": xml(FAR, before=f' [<!ENTITY a "{"1" * 100_000}">]').replace("650.0", "&a;" * 1000),
    }.items():
        yield from _refused("rtk", Category.ENTITY, name, text, n_commands=3)
    latin = "grösse".encode("latin-1")
    settings = [f"settings {command}" for command in ("reconstruct", "joint", "register")]
    for name in ("geometry", "result", "transform tfm", *settings, "result's history", "rtk"):
        for text in (latin, b"\x00" * 40):
            yield case(
                name,
                Category.ENCODING,
                f"{text[:6]!r}",
                lambda path, text=text: _spoil(path, text),
                fate=Fate.REFUSED,
            )
    for name, text, says in (
        ("unknown", "no_such_option = 1", "s.toml"),
        ("type", "steps = 'many'", "--steps"),
        ("negative", "steps = -1", "--steps"),
        ("list", "transform = [[1]]", "s.toml"),
        ("nan", "total_variation = nan", "--total-variation"),
        ("date", "steps = 1979-05-27", "--steps"),
        ("infinite", "bending = inf", "bending"),
        ("transform", "transform = 'bspline:9,9'", "bspline:9,9"),
        ("lattice", "transform = 'bspline:100000,100000,100000'", "control points"),
        ("device", "device = 'moon'", "--device"),
        ("thickness", "thickness = [nan, 3.0]", "--thickness"),
        ("table", "[nothing]", "s.toml"),
        ("other table", "[report]\nx = 1", "s.toml"),
    ):
        yield case("settings joint", Category.DTYPE, name, replaced(f"[joint]\n{text}\n".encode()), says=says)
    yield case("settings joint", Category.SIZE, "long", replaced(b"#" * 2_000_000))
    yield case("geometry", Category.SIZE, "digits", replaced(b"1" * 200_000), command=0)
    for name, text in {
        "nan": PLAIN.replace("650.0", "x"),
        "text": "x" * 400,
        "other": "<a/>",
        "version": PLAIN.replace('"3"', '"9"'),
        "no views": xml(common=FAR),
        "cylinder": xml(FAR + element(RadiusCylindricalDetector=900.0)),
    }.items():
        yield case("rtk", Category.MISSING, name, replaced(text.encode()), fate=Fate.REFUSED)


def _spoil(path: Path, text: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + text + data[len(data) // 2 :])


def _study_text(text: str) -> Change:
    def change(path: Path) -> None:
        with h5py.File(path, "r+", libver=("v110", "v110")) as file:
            file["visits/0"].attrs["acquisition"] = text

    return change
