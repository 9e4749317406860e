"""Inputs that are guided by coverage: what reaches new code of a reader is kept, and changed further.

`python -m tests.fuzz.guided TARGET --runs 20000` needs atheris (`pip install atheris`), which measures the
branches that Python code takes; of the libraries in C it sees nothing. A fault is an exception that is no
`DuotomoError`; the input that raised it is left in the folder of `--found`, and the exit code is not 0.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.fuzz.drawn.tokens import CHANGES, changed, elsewhere

TARGETS = {
    "metaimage": "volume mha",
    "nrrd": "volume nrrd",
    "transform": "transform tfm",
    "rtk": "rtk",
    "geometry": "geometry",
    "dicom": "dicom",
    "tomosynthesis": "volume dicom",
    "nifti": "nifti",
    "mat": "mat",
    "npy": "npy",
}
"""The sample of each, whose file is changed and described, as `duotomo info` does."""

LONGEST_S, MOST_MIB, LONGEST = 20, 2048, 2**16
_TEXTS = ("metaimage", "nrrd", "transform", "rtk", "geometry", "npy")


def fuzz(target: str, *, n_runs: int, found: Path) -> None:
    """Describe ever new files; the process ends with the first fault, or after so many."""
    import atheris

    with atheris.instrument_imports(include=["duotomo.io", "duotomo.geometry", "xml.etree"]):
        from duotomo.errors import DuotomoError
        from duotomo.io.description import describe

    from tests.fuzz.samples import SAMPLES

    sample = SAMPLES[TARGETS[target]]
    warnings.simplefilter("error")

    def one(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(DuotomoError):
            describe(path)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if target in _TEXTS and data and random.random() < 0.5:
            return changed(data, random, (*CHANGES, elsewhere))[:most]
        return bytes(atheris.Mutate(data, most))

    with TemporaryDirectory(prefix="duotomo-guided-") as name:
        folder, corpus = Path(name) / "in", Path(name) / "corpus"
        folder.mkdir()
        corpus.mkdir()
        path = sample.put(folder)
        (corpus / "whole").write_bytes(path.read_bytes())
        options = [
            f"-runs={n_runs}",
            f"-timeout={LONGEST_S}",
            f"-rss_limit_mb={MOST_MIB}",
            f"-max_len={LONGEST}",
        ]
        where = [f"-artifact_prefix={found}/{target}-", "-print_final_stats=1", "-seed=1"]
        atheris.Setup([sys.argv[0], *options, *where, str(corpus)], one, custom_mutator=mutated)
        atheris.Fuzz()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--found", type=Path, default=Path("."))
    given = parser.parse_args()
    fuzz(given.target, n_runs=given.runs, found=given.found)


if __name__ == "__main__":
    main()
