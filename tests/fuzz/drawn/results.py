"""Result folders that mean harm: an index that was changed, or a file of it; every SHA-256 computed anew."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

from tests.fuzz.drawn import binaries, headers, trees
from tests.fuzz.drawn.tokens import PATHS
from tests.fuzz.samples import RESULT_COMMANDS, Words

_REGISTER = ("--transform", "translation", "--steps", "1", "--out", "{out}")
COMMANDS: tuple[Words, ...] = (
    *RESULT_COMMANDS,
    ("info", "{in}/result", "--json"),
    ("convert", "{in}/result", "{out}.nrrd", "--what", "visit_2"),
    ("convert", "{in}/result", "{out}.tfm", "--what", "visit_2_to_reference"),
    ("register", "{in}/result/volume.nii.gz", "{in}/result/visit_2.nii.gz", *_REGISTER),
)
_FILES = {
    ".csv": headers.text,
    ".tfm": headers.text,
    ".txt": headers.text,
    ".toml": headers.text,
    ".nii.gz": binaries.nifti,
}


def index(path: Path, random: Random) -> None:
    """Change the index of a result, which is sealed afterwards."""
    tree = json.loads(path.read_text())
    seal = tree.pop("sha256")
    for _ in range(random.choice((1, 1, 2, 3))):
        trees.change(tree, random)
    if random.random() < 0.1:
        tree["version"] = random.choice((1, 2))
    if isinstance(tree.get("files"), dict) and tree["files"] and random.random() < 0.15:
        name = random.choice(list(tree["files"]))
        tree["files"][random.choice(PATHS)] = tree["files"].pop(name)
    path.write_text(trees.written({**tree, "sha256": seal}) + "\n")


def file(path: Path, random: Random) -> None:
    """Change a file of a result, or put another or a link in its place, and let the index say so."""
    folder, content = path.parent, json.loads(path.read_text())
    known = [name for name in content["files"] if name.endswith(tuple(_FILES)) and (folder / name).is_file()]
    one = folder / random.choice(known)
    what = random.random()
    if what < 0.8:
        change = next(change for suffix, change in _FILES.items() if one.name.endswith(suffix))
        change(one, random)
    elif what < 0.9:
        one.write_bytes((folder / random.choice(known)).read_bytes())
    else:
        one.unlink()
        one.symlink_to(random.choice(("../../../sentinel/kept.txt", "/etc/passwd", one.name, known[0], ".")))
    if one.is_file() and (not one.is_symlink() or random.random() < 0.5):
        data = one.read_bytes()
        content["files"][one.name] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["sha256"] = content.pop("sha256")
    path.write_text(json.dumps(content, indent=1) + "\n")
