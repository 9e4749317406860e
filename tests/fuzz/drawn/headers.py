"""Files whose header is text: MetaImage, NRRD, ITK's transforms, RTK's XML, geometries, settings, tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

from duotomo.io.itk_linear import LINEAR
from tests.fuzz.drawn import tokens, trees
from tests.fuzz.drawn.streams import stream

Mutation = Callable[[Path, Random], None]

_METAIMAGE = re.compile(rb"ElementDataFile = LOCAL\n")
_NRRD = re.compile(rb"\n\n")
_IMAGE_CHANGES = (*tokens.CHANGES, tokens.elsewhere, tokens.elsewhere)


def text(path: Path, random: Random) -> None:
    """Change a file that is text from end to end."""
    path.write_bytes(tokens.changed(path.read_bytes(), random))


def image(path: Path, random: Random) -> None:
    """Change the header of a MetaImage or an NRRD, and rarely the packed data after it."""
    data = path.read_bytes()
    found = (_NRRD if path.suffix == ".nrrd" else _METAIMAGE).search(data)
    end = len(data) if found is None else found.end()
    packed = b"CompressedData = True" in data[:end] or b"encoding: gzip" in data[:end]
    if packed and random.random() < 0.5:
        path.write_bytes(data[:end] + stream(data[end:], random))
        return
    path.write_bytes(tokens.changed(data[:end], random, _IMAGE_CHANGES) + data[end:])


def tree(path: Path, random: Random) -> None:
    """Change a JSON file: as a tree, or word by word."""
    if random.random() < 0.3:
        text(path, random)
    else:
        path.write_text(trees.changed(path.read_text(), random))


_KINDS = (
    *LINEAR,
    *("TranslationTransform", "BSplineTransform", "DisplacementFieldTransform", "CompositeTransform"),
    *(
        "ThinPlateSplineKernelTransform",
        "GaussianExponentialDiffeomorphicTransform",
        "IdentityTransform",
        "X",
    ),
)
_ENDS = (
    "double_3_3",
    "float_3_3",
    "double_3_3",
    "double_2_2",
    "double_3_3_3",
    "double_3_3_0",
    "double_9_9",
    "",
)
_EYE = "1 0 0 0 1 0 0 0 1"


def kinds(path: Path, random: Random) -> None:
    """Write transforms of any of ITK's kinds, most with as many parameters as they have."""
    rows = ["#Insight Transform File V1.0"]
    for number in range(random.choice((1, 1, 1, 2, 3))):
        kind, end = random.choice(_KINDS), random.choice(_ENDS)
        params, fixed = _numbers(kind, random)
        rows += [f"#Transform {number}", f"Transform: {kind}_{end}", f"Parameters: {params}"]
        rows += [f"FixedParameters: {fixed}"]
    if random.random() < 0.3:
        rows[1:1] = ["#Transform 0", "Transform: CompositeTransform_double_3_3"]
    data = ("\n".join(rows) + "\n").encode()
    path.write_bytes(tokens.changed(data, random) if random.random() < 0.4 else data)


def _numbers(kind: str, random: Random) -> tuple[str, str]:
    def row(n: int) -> str:
        values = [
            f"{random.uniform(-2, 2):.4g}" for _ in range(max(0, n + random.choice((0, 0, 0, 0, 1, -1))))
        ]
        if values and random.random() < 0.5:
            values[random.randrange(len(values))] = random.choice(tokens.NUMBERS)
        return " ".join(values)

    if kind in ("BSplineTransform", "DisplacementFieldTransform"):
        sides = [random.choice((1, 2, 4, 5, 0, -1, 1000)) for _ in range(3)]
        n = 3 * sides[0] * sides[1] * sides[2]
        place = random.choice(
            (f"0 0 0 1 1 1 {_EYE}", row(15), f"0 0 0 0 1 1 {_EYE}", "0 0 0 1 1 1 " + "0 " * 9)
        )
        return row(min(max(n, 0), 400)), f"{' '.join(map(str, sides))} {place}"
    known = LINEAR.get(kind)
    return row(3 if known is None else known.n_params), row(0 if known is None else known.n_fixed[-1])
