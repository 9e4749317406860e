"""What the page of results says beside the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from duotomo.reproduction.ratios import groups, ratios
from duotomo.reproduction.summary import NONE, digits, start_mm, summary
from duotomo.reproduction.table import Table, TableMethod

LEVELS = {
    "as-published": "data made on the grid of the reconstruction with its own projector, without noise, as "
    "in the paper. Rows marked plain are the paper's algorithms to the letter: no prior, one resolution, a "
    "volume of zeros, no first guess. The others are ours, on the same data",
    "honest": "data made on a finer grid, or analytically, with Poisson noise; our methods only",
    "real": "the same, for bodies that others have made or measured: [third-party data](third_party_data.md)",
}

COLUMNS = {
    "relative error": "`\\|f - truth\\|^2 / \\|truth\\|^2` of the reference volume: mean ± standard "
    "deviation over the cases",
    "of the registered visit 2": "the same for the moving visit's own reconstruction, transformed to the "
    "reference frame",
    "TRE": "target registration error: the mean distance, over the object, between where the recovered and "
    "the true motion take its points",
    "matrix entries, translations": "mean absolute errors of an affine motion `x -> c + A (x - c) + t` about "
    "the middle c of the grid: nine of the matrix, without a unit, and three in mm",
    "found": "cases whose TRE ends below 1 mm, and below where it started",
    "applications": "of the projector or its adjoint, one visit each",
    "seconds": "of computing; a case that shared its device with others took longer than alone",
}

NOTES = {
    "toroid-iterative": "The paper gives mean squared errors only, whose ratio is 1.6.",
    "toroid-simultaneous": "A plain torus does not change when it turns about its own axis, so twelve "
    "parameters cannot be found from it. Our phantom varies around the ring.",
    "breast-mr": "The paper's MR image of an uncompressed breast is not public; the set-up says what stands "
    "in for it.",
    "compressed-pair": "The true motion is none that an affine model can describe. The paper tried that "
    "model only; a B-spline stands beside it here.",
    "shepp-logan-bspline": "The paper shows pictures of this experiment, and no errors.",
    "inner-outer": "The paper observes that fewer inner steps are better but slower, and allows 1000 steps "
    "in all. Here the total is fixed, and only its split into turns differs.",
    "fda-projections": "Not in the paper: one visit, whose projections were made by others, with their own "
    "projector. It tests the geometry, the projector and the algorithms together.",
}

TITLES = {
    "results": "Case {case}: truth, results and differences to the truth",
    "control-grids": "Case {case}: a regular lattice, moved by the true and by the recovered motion",
    "parameter-errors": "Absolute errors of the twelve entries: mean and standard deviation over the cases",
    "objective-applications": "Case {case}: objective against projector applications",
    "cases-tre": "Target registration error of every case",
    "displacement": "Case {case}: displacement error",
}
"""What a figure of the page shows, by the start of its name."""

TELLING = {"inner-outer": ("plain",)}
"""Parts of names of figures that tell most, where there are several of a kind."""

TELLING_ELSEWHERE = ("bspline", "simultaneous")

INTRODUCTION = """\
# Results beside the paper

The experiments of Yang, Hipwell, Hawkes and Arridge, *Numerical Methods for Coupled Reconstruction and
Registration in Digital Breast Tomosynthesis*. All numbers and pictures come from two commands; the second
writes this page from the folder that the first leaves:

    duotomo reproduce all
    duotomo results

Data are made at three levels, as far as an experiment has them:
"""

GLANCE = """\
Our methods: mean target registration error before registration and with two of the methods, and the mean
error of the sequential volume over that of the method that the paper sets beside it (iterative in
`toroid-iterative`, simultaneous elsewhere). Above 1 the coupled method is better.
"""

READING = """\
## How to read the tables
"""

COMPARING = """\
*Known motion* is the same solver told the true motion: what the data allow. A ratio is the mean error of the
sequential method over that of another method. The sequential method ends with two volumes. The paper defines
its error with one of them, the reconstruction of the first visit, but its captions name the other, the second
visit's, transformed. Both ratios are given.

## What can be compared, and what cannot
- The paper leaves out the source distance, the size and the pixels of the detector, the radii of the phantom
  and what surrounds it. Its absolute errors depend on all of these: without a prior, and in one and the same
  scan, a torus in air has a relative error of 0.3 to 0.6 and a uniform cube one of 0.014. Absolute errors
  stand beside the paper's for information; orderings and ratios are compared.
- Its mean squared errors are in units of its images, ours would be in those of attenuation: not compared.
- It makes and inverts its data with one projector on one grid, without noise, which flatters every method.
  The level as-published does the same to be comparable, and the level honest does not.
- The transformed reconstruction of the second visit is empty where that visit's grid did not reach. Those
  voxels count in its error, and so in its ratio. The ratio of the first visit is free of them.
- Where the paper contradicts itself, the experiment says so below.
"""


HEADER = (
    "experiment",
    "level",
    "TRE before, mm",
    "TRE sequential",
    "TRE simultaneous",
    "error ratio",
    "with registered visit 2",
    "paper",
)


def glance_lines(tables: Sequence[Table]) -> list[list[str]]:
    """Return what our methods did: names of the columns, then one line for each experiment, level and model.

    Experiments without a sequential method are left out: there is nothing to compare.
    """
    return [[*HEADER], *(line for table in tables for line in _lines(table))]


def _lines(table: Table) -> Iterator[list[str]]:
    better = "simultaneous" if table.paper is None else table.paper.better
    tre_mm = {one.method.name: digits(one.tre_mm.mean) for one in summary(table)}
    unfinished = f", {table.n_whole} of {table.n_cases} cases" if table.n_whole < table.n_cases else ""
    for origin, model, methods in groups(table):
        of: dict[str, TableMethod] = {method.family: method for method in methods if method.name in tre_mm}
        if origin != "ours" or "sequential" not in of or better not in of:
            continue
        pair = of["sequential"].name, of[better].name
        for ratio in (one for one in ratios(table) if (one.sequential, one.better) == pair):
            yield [
                f"{table.experiment}{', ' + model if model else ''}",
                f"{table.level}{', reduced size' if table.quick else ''}{unfinished}",
                digits(start_mm(table).mean),
                tre_mm[of["sequential"].name],
                tre_mm[of["simultaneous"].name] if "simultaneous" in of else NONE,
                digits(ratio.reference),
                digits(ratio.registered),
                digits(ratio.published),
            ]
