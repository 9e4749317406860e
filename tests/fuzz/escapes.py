"""Names and links that lead out of the folder, and pickles, which would run what they like."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import torch

from tests.fuzz.changes import Change, case, edited, json_edited, replaced
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import RESULT_COMMANDS, SAMPLES, VIEWS, scan_commands
from tests.io.saved_helpers import reseal


def _link_to(target: str) -> Change:
    """Move a file elsewhere, and link to it."""

    def change(path: Path) -> None:
        away = path.parent / target
        away.parent.mkdir(parents=True, exist_ok=True)
        path.rename(away)
        path.symlink_to(away)

    return change


def _hdf5_link(name: str, link: Callable[[Path], Any]) -> Change:
    """Put a link to another file, which is there, in place of an array or a group."""

    def change(path: Path) -> None:
        other = path.parent / "other.h5"
        other.write_bytes(path.read_bytes())
        with h5py.File(path, "r+") as file:
            del file[name]
            file[name] = link(other)

    return change


def escapes() -> Iterator[Hostile]:
    """Give names and links that lead elsewhere."""
    kind = Category.ESCAPE
    for target in ("/etc/passwd", "../../sentinel/kept.txt", "sub/s.raw", "", "LIST", "s%03d.raw 1 3 1"):
        yield case(
            "mhd",
            kind,
            f"data in {target}",
            edited("ElementDataFile = s.raw", f"ElementDataFile = {target}"),
            command=1,
        )
        if target:
            yield case(
                "mha",
                kind,
                f"data in {target}",
                edited("ElementDataFile = LOCAL", f"ElementDataFile = {target}"),
                command=2,
            )
            change = edited("ElementDataFile = LOCAL", f"ElementDataFile = {target}")
            for name in ("volume mha", "displacement mha"):
                yield case(name, kind, f"data in {target}", change, fate=Fate.REFUSED)
    for target in ("/etc/passwd", "../../sentinel/kept.txt", "LIST"):
        change = edited("encoding: raw", f"encoding: raw\ndata file: {target}")
        for name in ("nrrd", "volume nrrd"):
            yield case(name, kind, f"data in {target}", change, fate=Fate.REFUSED)
    for target in ("../../../sentinel/kept.txt", "/etc/passwd", "..", "", "a/b", ".", 3, None, ["x"]):
        yield _result_case(f"file {target}", json_edited(lambda c, t=target: c["motions"][0].update(file=t)))
        if isinstance(target, str):
            yield _result_case(f"volume {target}", json_edited(lambda c, t=target: _renamed(c["files"], t)))
            yield _result_case(
                f"further file {target}",
                json_edited(lambda c, t=target: c["files"].update({t: dict(c["files"]["README.txt"])})),
                out=True,
            )
    yield case("result's volume", Category.LINK, "volume", _link_to("../../away/volume.nii.gz"))
    away = "../../away/visit_2_to_reference.tfm"
    yield case("result's motion", Category.LINK, "motion", _link_to(away))
    yield case("mhd's data", Category.LINK, "data", _link_to("../away/s.raw"), command=1)
    for name, array in (
        ("scan", "projections"),
        ("scan", "source_mm"),
        ("study", "visits/0/projections"),
        ("study", "visits"),
        ("study", "visits/1"),
        ("hdf5", "views/g"),
    ):
        yield case(
            name,
            kind,
            f"external link {array}",
            _hdf5_link(array, lambda other, array=array: h5py.ExternalLink(str(other), f"/{array}")),
            fate=Fate.REFUSED,
        )
        yield case(
            name,
            kind,
            f"soft link {array}",
            _hdf5_link(array, lambda other, array=array: h5py.SoftLink(f"/{array}")),
        )
    for name in ("scan", "hdf5"):
        yield case(name, kind, "external storage", _external_storage, fate=Fate.REFUSED)
        yield case(name, kind, "virtual dataset", _virtual, fate=Fate.REFUSED)
    yield case(
        "settings reconstruct",
        kind,
        "out in the settings",
        lambda path: path.write_text('[reconstruct]\nsettings = "x"\n') and None,
    )


def _renamed(files: dict[str, Any], name: str) -> None:
    files[name] = files.pop("volume.nii.gz")


def _where(path: Path) -> str:
    with h5py.File(path, "r") as file:
        return "projections" if "projections" in file else "views/g"


def _external_storage(path: Path) -> None:
    name = _where(path)
    (path.parent / "numbers").write_bytes(VIEWS.tobytes())
    with h5py.File(path, "r+") as file:
        del file[name]
        file.create_dataset(
            name,
            shape=VIEWS.shape,
            dtype="f4",
            external=[(str(path.parent / "numbers"), 0, h5py.h5f.UNLIMITED)],
        )


def _virtual(path: Path) -> None:
    name = _where(path)
    other = path.parent / "other.h5"
    other.write_bytes(path.read_bytes())
    with h5py.File(path, "r+") as file:
        del file[name]
        layout = h5py.VirtualLayout(shape=VIEWS.shape, dtype="f4")
        layout[...] = h5py.VirtualSource(str(other), name, shape=VIEWS.shape)
        file.create_virtual_dataset(name, layout)


def _result_case(name: str, change: Change, *, out: bool = False) -> Hostile:
    """Return a result that a command reads; or, with out, that one would write to."""
    words = RESULT_COMMANDS[Random(name).randrange(2)]
    if out:
        words = ("reconstruct", "{in}/s.h5", "--method", "bp", "--voxel", "8,8,8", "--out", "{in}/result")

    def make(folder: Path) -> None:
        SAMPLES["scan"].put(folder)
        path = SAMPLES["result"].put(folder)
        change(path)
        reseal(path)

    return Hostile(name=f"result/{name}", category=Category.ESCAPE, words=words, make=make)


class _Harm:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("unpickled"),)


def pickles() -> Iterator[Hostile]:
    """Give pickles and archives."""
    kind = Category.PICKLE
    harm = np.array([_Harm()] * 3, dtype=object)
    stream = io.BytesIO()
    np.save(stream, harm, allow_pickle=True)
    for command in range(4):
        yield case("npy", kind, f"objects/{command}", replaced(stream.getvalue()), command=command)
        yield case("npy", kind, f"pickle/{command}", replaced(pickle.dumps(_Harm())), command=command)
    packed = io.BytesIO()
    np.savez(packed, a=harm)
    yield case("npy", kind, "npz", replaced(packed.getvalue()), command=1)
    yield case("npy", kind, "zip", replaced(_zip()), command=2)
    saved = io.BytesIO()
    torch.save({"projections": torch.ones(3)}, saved)
    for suffix in (".pt", ".pkl", ".npz", ".pth"):
        for command in scan_commands(f"s{suffix}")[:3]:
            yield Hostile(
                name=f"other/s{suffix}",
                category=kind,
                words=command,
                make=lambda folder, suffix=suffix: (
                    (folder / f"s{suffix}").write_bytes(saved.getvalue()) and None
                ),
            )


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", bytes(10**6))
    return stream.getvalue()
