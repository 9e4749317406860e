"""What changed, in a result folder, told wrongly: by findings and maps that contradict each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from duotomo.io.change_files import CURRENT, FINDINGS, SCORES, SILENT
from duotomo.io.result_index import entry_of
from tests.fuzz.changes import Change, json_edited
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import RESULT_COMMANDS, SAMPLES
from tests.io.saved_helpers import reseal

NAN, INF = float("nan"), float("inf")

_CONTENT: dict[str, Callable[[Any], Any]] = {
    **{
        f"no {name}": lambda c, n=name: c.pop(n)
        for name in ("findings", "threshold", "grid", "files", "reason")
    },
    "findings that were not compared": lambda c: c.update(reason="Other breasts."),
    "findings without a threshold": lambda c: c.update(threshold=None),
    "a threshold above them": lambda c: c.update(threshold=6.0),
    "a threshold that is no number": lambda c: c.update(threshold=NAN),
    "no order": lambda c: c["findings"].reverse(),
    "one twice": lambda c: c["findings"].append(c["findings"][0]),
    "thresholds that fall": lambda c: c["false_findings"]["thresholds"].reverse(),
    "more expected above": lambda c: c["false_findings"]["expected"].reverse(),
    "another grid": lambda c: c["grid"].update(center_mm=[9.0, 9.0, 9.0]),
    "another version": lambda c: c.update(version=2),
    "a list": lambda c: c.update(findings={"1": c["findings"][0]}),
    "many": lambda c: c.update(findings=c["findings"] * 5_000),
}
"""Contents that contradict themselves."""

_IMAGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "scores without end": (SCORES, lambda a: np.full_like(a, INF)),
    "scores where nothing is said": (SCORES, lambda a: np.ones_like(a)),
    "scores of whole numbers": (SCORES, lambda a: np.ones(a.shape, np.int16)),
    "scores in another shape": (SCORES, lambda a: a[1:]),
    "scores with a time axis": (SCORES, lambda a: np.stack([a, a], axis=-1)),
    "codes there are not": (SILENT, lambda a: np.full_like(a, 77)),
    "codes as reals": (SILENT, lambda a: a.astype(np.float32)),
    "a volume that is NaN": (CURRENT, lambda a: np.full_like(a, NAN)),
    "a volume without end": (CURRENT, lambda a: np.full_like(a, INF)),
    "a volume in another shape": (CURRENT, lambda a: a[:-1]),
}

_WORDS = {
    "HTML": "</script><script>fetch('//127.0.0.1:9')</script><img src=x onerror=alert(1)>",
    "escapes": "\x1b[2J\x1b]0;title\x07 here",
    "directions": "\u202e\u2066 here\x00",
}
"""Texts that are taken for something else where they are not written as text."""

_FIRST: dict[str, tuple[Any, ...]] = {
    "number": (0, 7, "1", True),
    "kind": ("gone", "<b>", None),
    "template": (3, "x" * 300),
    "place_mm": ([1e5, 0.0, 5.0], [0.1, 1.7], [NAN, 1.7, 5.2], "here"),
    "place_deviation_mm": ([-1.0, 0.1, 0.1], [INF, 0.1, 0.1]),
    "prior_place_mm": ([1e9, 0.0, 0.0], [0.0] * 4),
    "size_mm": (-1.0, 40.0, NAN, 1e300),
    "size_interval_mm": ([1.6, 0.9], [0.9]),
    "contrast_per_mm": (-0.0013, 1.0, INF),
    "contrast_interval_per_mm": ([0.0016, 0.0011], []),
    "z": (-7.25, 4.0, 5.0, NAN, 10**400),
    "p_value": (-0.1, 1.5, NAN),
    "false_findings": (-1.0, INF),
    "false_discovery_rate": (2.0, None),
    "smear_mm": (-3.0, INF),
    "slice_index": (4, -1, 2.5, 10**30),
    "words": (None, "x" * 20_000),
}
"""Values that the first of the two findings cannot have, by field."""


def _edited(change: Callable[[Any], Any]) -> Change:
    """Return what changes `findings.json`."""
    return lambda path: json_edited(change)(path.parent / FINDINGS)


def _image(name: str, change: Callable[[Any], Any]) -> Change:
    """Return what changes the numbers of a map."""

    def edit(path: Path) -> None:
        image = nibabel.load(path.parent / name)
        values = change(np.asarray(image.dataobj).copy())
        nibabel.Nifti1Image(values, image.affine, dtype=values.dtype).to_filename(path.parent / name)

    return edit


def _case(name: str, category: Category, change: Change, *, n: int, fate: Fate = Fate.REFUSED) -> Hostile:
    """Return a result that was changed, for its n-th command; every SHA-256 is made anew."""

    def make(folder: Path) -> None:
        path = SAMPLES["result"].put(folder)
        change(path)
        # Findings name their maps, and the index names all.
        for index in (path.parent / FINDINGS, path):
            if index.is_file():
                _named_anew(index)
                reseal(index)

    words = RESULT_COMMANDS[n % 2]
    return Hostile(name=f"result/what changed: {name}", category=category, words=words, make=make, fate=fate)


def _named_anew(index: Path) -> None:
    """Let an index of files say what they are now."""
    try:
        content = json.loads(index.read_text())
        named = {name: entry["kind"] for name, entry in content["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for name, kind in named.items():
        if (index.parent / name).is_file():
            content["files"][name] = entry_of(kind, index.parent / name)
    index.write_text(json.dumps(content, indent=1) + "\n")


def findings() -> Iterator[Hostile]:
    """Give results of which what changed was changed."""
    for field, values in _FIRST.items():
        for value in values:
            change = _edited(lambda c, f=field, v=value: c["findings"][0].update({f: v}))
            yield _case(f"{field} {str(value)[:20]}", Category.DTYPE, change, n=len(field))
    for number, (name, edit) in enumerate(_CONTENT.items()):
        yield _case(name, Category.MISSING, _edited(edit), n=number)
    for number, (name, (file, array)) in enumerate(_IMAGES.items()):
        yield _case(name, Category.DTYPE, _image(file, array), n=number)
    for number, (name, text) in enumerate(_WORDS.items()):
        change = _edited(lambda c, t=text: c["findings"][0].update(words=t, template=t[:200]))
        yield _case(f"words {name}", Category.TERMINAL, change, n=number, fate=Fate.EITHER)
        change = _edited(lambda c, t=text: c.update(reason=t, findings=[], threshold=None))
        yield _case(f"reason {name}", Category.TERMINAL, change, n=number + 1, fate=Fate.EITHER)
    for number, name in enumerate((FINDINGS, SCORES, SILENT, CURRENT)):
        yield _case(f"no {name}", Category.MISSING, lambda path, n=name: (path.parent / n).unlink(), n=number)
    away = "../../../sentinel/kept.txt"
    for role in ("findings", "scores", "silent", "volume"):
        for name in (away, "README.txt", "volume.nii.gz" if role != "volume" else "three_views.png"):
            change = json_edited(lambda c, r=role, f=name: c["change"].update({r: f}))
            yield _case(f"{role} in {name}", Category.ESCAPE, change, n=len(role))
