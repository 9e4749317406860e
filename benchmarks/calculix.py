"""A breast between two plates by CalculiX (the program `ccx`): its input deck, its run, its displacements.

Lengths are mm, stresses kPa, forces mN. CalculiX is no dependency of the package; Debian has it as
calculix-ccx.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.hexahedra import Floats, Hexahedra, Ints
from duotomo.errors import DuotomoError

PROGRAM = "ccx"

_PLATE_MM = 20.0
_SURFACE_FACES = ("S1", "S2", "S3", "S4", "S5", "S6")


@dataclass(frozen=True, kw_only=True, eq=False)
class Load:
    """What is done to a body, in the frame of the plates.

    Parameters
    ----------
    low_mm, high_mm : float
        Where the plates end up, along z. They start where they touch the body.
    shear_kpa : numpy.ndarray
        Shear modulus of each element, (element,).
    bulk_over_shear : float
        Of all tissue.
    gravity_kpa_per_mm : tuple of float
        Weight per volume, (x, y, z); 9.81e-3 downwards for tissue as dense as water.
    friction : float
        Coefficient, on both plates.
    wall_kpa_per_mm : float
        Springs that hold the chest wall in its plane, per area. 0 leaves it free but for its mean motion and
        its mean turn, given by `wall_rows`.
    wall_rows : numpy.ndarray
        Sums of displacements that stay zero, (row, node, xyz).
    wall_travel_mm : numpy.ndarray, optional
        How far each node of the chest wall goes along y, (node of the wall,); nowhere unless given.
    plate_kpa_per_mm : float
        Pressure of the plates per depth that the skin has gone into them.
    n_increments : int
        In which the plates close, at first.
    """

    low_mm: float
    high_mm: float
    shear_kpa: Floats = field(repr=False)
    bulk_over_shear: float = 99.67
    gravity_kpa_per_mm: tuple[float, float, float] = (0.0, 0.0, 0.0)
    friction: float = 0.0
    wall_kpa_per_mm: float = 0.0
    wall_rows: Floats | None = field(default=None, repr=False)
    wall_travel_mm: Floats | None = field(default=None, repr=False)
    plate_kpa_per_mm: float = 100.0
    n_increments: int = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Solved:
    """Where the nodes went, (node, xyz) in mm, and what that took."""

    moved_mm: Floats = field(repr=False)
    seconds: float
    n_increments: int
    n_iterations: int


def installed() -> str | None:
    """Return where CalculiX is, or None."""
    return shutil.which(PROGRAM)


def version() -> str:
    """Return what CalculiX calls its version."""
    text = subprocess.run([_found(), "-v"], capture_output=True, text=True, check=False).stdout
    return text.strip().rpartition(" ")[2]


def _found() -> str:
    path = installed()
    if path is None:
        raise DuotomoError(
            f"calculix: expected the program {PROGRAM} on the path; it is not there. Install CalculiX, on "
            f"Debian with `apt-get install calculix-ccx`."
        )
    return path


def deck(mesh: Hexahedra, load: Load) -> str:
    """Return the input deck, whose nodes and elements are counted from 1 in the order of the mesh."""
    n_nodes, n_elements = len(mesh.nodes_mm), len(mesh.elements)
    lines = ["*NODE, NSET=BODY", *_rows(range(1, n_nodes + 1), mesh.nodes_mm)]
    lines += _elements("C3D20R", "ALL", mesh.elements + 1, 1)
    lines += _tissue(load)
    low, high = mesh.nodes_mm[:, 2].min(), mesh.nodes_mm[:, 2].max()
    plates = {
        "LOWER": (low - _PLATE_MM, load.low_mm - low, "S2"),
        "UPPER": (high, load.high_mm - high, "S1"),
    }
    lines += ["*MATERIAL, NAME=PLATE", "*ELASTIC", "1e5, 0.3"]
    for number, (name, (bottom, _, face)) in enumerate(plates.items()):
        lines += _plate(mesh, name, float(bottom), n_nodes + 8 * number, n_elements + number, face)
    lines += ["*SURFACE, NAME=SKIN, TYPE=ELEMENT"]
    lines += [f"{element + 1}, {_SURFACE_FACES[face]}" for element, face in mesh.skin]
    lines += _contact(load, list(plates))
    lines += [*_set("NSET", "WALL", mesh.wall + 1), "*BOUNDARY", "WALL, 2, 2"]
    if load.wall_rows is not None:
        lines += _equations(load.wall_rows)
    if load.wall_kpa_per_mm:
        lines += _springs(mesh, load.wall_kpa_per_mm, n_elements + 3)
    step = 1 / load.n_increments
    lines += ["*STEP, NLGEOM, INC=400", "*STATIC", f"{step:.6g}, 1., 1e-4, {step:.6g}"]
    lines += ["*BOUNDARY"]
    for name, (_, travel, _) in plates.items():
        lines += [f"{name}, 1, 2", f"{name}, 3, 3, {travel:.9g}"]
    if load.wall_travel_mm is not None:
        travels = zip(mesh.wall + 1, load.wall_travel_mm, strict=True)
        lines += [f"{node}, 2, 2, {travel:.9g}" for node, travel in travels]
    weight = np.array(load.gravity_kpa_per_mm)
    size = float(np.linalg.norm(weight))
    if size:
        x, y, z = weight / size
        lines += ["*DLOAD", f"ALL, GRAV, {size:.9g}, {x:.9g}, {y:.9g}, {z:.9g}"]
    lines += ["*NODE PRINT, NSET=BODY, FREQUENCY=1000", "U", "*END STEP"]
    return "\n".join(lines) + "\n"


def _tissue(load: Load) -> list[str]:
    lines = []
    for number, shear in enumerate(np.unique(load.shear_kpa), start=1):
        name = f"T{number}"
        lines += _set("ELSET", name, np.flatnonzero(load.shear_kpa == shear) + 1)
        bulk = load.bulk_over_shear * shear
        lines += [f"*MATERIAL, NAME={name}", "*HYPERELASTIC, NEO HOOKE", f"{shear / 2:.9g}, {2 / bulk:.9g}"]
        # Gravity is given as weight per volume.
        lines += ["*DENSITY", "1.", f"*SOLID SECTION, ELSET={name}, MATERIAL={name}"]
    return lines


def _plate(mesh: Hexahedra, name: str, bottom: float, node: int, element: int, face: str) -> list[str]:
    """Return one brick, all of whose nodes are moved."""
    low, high = mesh.nodes_mm.min(axis=0), mesh.nodes_mm.max(axis=0)
    middle, half = (low + high)[:2] / 2, 2.0 * (high - low)[:2]
    square = middle + half * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    corners = [(*xy, z) for z in (bottom, bottom + _PLATE_MM) for xy in square]
    numbers = np.arange(node + 1, node + 9)
    return [
        f"*NODE, NSET={name}",
        *_rows(numbers, np.array(corners)),
        *_elements("C3D8", f"E{name}", numbers[None], element + 1),
        f"*SOLID SECTION, ELSET=E{name}, MATERIAL=PLATE",
        f"*SURFACE, NAME=S{name}, TYPE=ELEMENT",
        f"E{name}, {face}",
    ]


def _contact(load: Load, plates: Sequence[str]) -> list[str]:
    lines = ["*SURFACE INTERACTION, NAME=TOUCH", "*SURFACE BEHAVIOR, PRESSURE-OVERCLOSURE=LINEAR"]
    # Stiffness, the tension where nearly in touch, and the clearance beyond which there is none.
    lines += [f"{load.plate_kpa_per_mm:.9g}, 1e-6, 1e-3"]
    if load.friction:
        lines += ["*FRICTION", f"{load.friction:.9g}, {load.plate_kpa_per_mm / 10:.9g}"]
    for name in plates:
        lines += ["*CONTACT PAIR, INTERACTION=TOUCH, TYPE=SURFACE TO SURFACE", f"SKIN, S{name}"]
    return lines


def _equations(rows: Floats) -> list[str]:
    """Return sums of displacements that are zero, each with a dependent term that no other has.

    They are solved for those terms first, as a term that another equation eliminates must not be used.
    """
    flat = rows.reshape(len(rows), -1).copy()
    chosen: list[int] = []
    for row in range(len(flat)):
        best = int(np.argmax(np.abs(flat[row])))
        chosen.append(best)
        flat[row] /= flat[row, best]
        for other in range(len(flat)):
            if other != row:
                flat[other] -= flat[other, best] * flat[row]
    lines = []
    for sums, first in zip(flat, chosen, strict=True):
        terms = [first, *(int(k) for k in np.flatnonzero(np.abs(sums) > 1e-12) if k not in chosen)]
        parts = [f"{k // 3 + 1}, {k % 3 + 1}, {sums[k]:.9g}" for k in terms]
        lines += ["*EQUATION", str(len(parts))]
        lines += [", ".join(parts[i : i + 4]) for i in range(0, len(parts), 4)]
    return lines


def _springs(mesh: Hexahedra, kpa_per_mm: float, first: int) -> list[str]:
    """Return springs from the nodes of the chest wall to the ground, along x and z, by equal shares."""
    low, high = mesh.nodes_mm[mesh.wall].min(axis=0), mesh.nodes_mm[mesh.wall].max(axis=0)
    area = float(np.pi / 4 * (high - low)[0] * (high - low)[2])
    lines = []
    for axis in (1, 3):
        name = f"SPRING{axis}"
        lines += [f"*ELEMENT, TYPE=SPRING1, ELSET={name}"]
        lines += [f"{first + i}, {node + 1}" for i, node in enumerate(mesh.wall)]
        lines += [f"*SPRING, ELSET={name}", f"{axis}", f"{kpa_per_mm * area / len(mesh.wall):.9g}"]
        first += len(mesh.wall)
    return lines


def _rows(numbers: Sequence[int] | Ints, values: Floats) -> list[str]:
    return [f"{n}, {x:.12g}, {y:.12g}, {z:.12g}" for n, (x, y, z) in zip(numbers, values, strict=True)]


def _elements(kind: str, name: str, nodes: Ints, first: int) -> list[str]:
    """Return elements, at most 16 numbers on a line: a line that ends in a comma goes on."""
    lines = [f"*ELEMENT, TYPE={kind}, ELSET={name}"]
    for number, row in enumerate(nodes, start=first):
        words = [str(number), *map(str, row)]
        lines += [",".join(words[:12]) + ("," if len(words) > 12 else "")]
        if len(words) > 12:
            lines += [",".join(words[12:])]
    return lines


def _set(kind: str, name: str, numbers: Ints) -> list[str]:
    lines = [f"*{kind}, {kind}={name}"]
    return lines + [", ".join(map(str, numbers[i : i + 12])) for i in range(0, len(numbers), 12)]


def displacements(text: str, n_nodes: int) -> Floats:
    """Return the last displacements, (node, xyz) in mm, of what CalculiX printed.

    >>> displacements("displacements (vx,vy,vz) of BODY\\n\\n  1  0.5 0. -1.\\n", 1).tolist()
    [[0.5, 0.0, -1.0]]
    """
    found = np.full((n_nodes, 3), np.nan)
    _, heading, block = text.rpartition("displacements (vx,vy,vz)")
    for line in block.splitlines()[1:]:
        words = line.split()
        if len(words) != 4 or not 1 <= int(words[0]) <= n_nodes:
            continue
        found[int(words[0]) - 1] = [float(word) for word in words[1:]]
    if not heading or np.isnan(found).any():
        n_found = int(np.isfinite(found).all(axis=1).sum())
        raise DuotomoError(
            f"calculix: expected displacements of {n_nodes} nodes; got {n_found}. The run broke off; its "
            f"output says where."
        )
    return found


def solve(mesh: Hexahedra, load: Load, folder: Path, *, n_threads: int = 1, limit_s: float = 900.0) -> Solved:
    """Run CalculiX in a folder, which keeps its files, and return where the nodes went."""
    program = _found()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "body.inp").write_text(deck(mesh, load))
    began = time.perf_counter()
    environment = os.environ | {
        "OMP_NUM_THREADS": str(n_threads),
        "CCX_NPROC_EQUATION_SOLVER": str(n_threads),
    }
    try:
        run = subprocess.run(
            [program, "-i", "body"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DuotomoError(
            f"calculix: expected an end within {limit_s:g} s; got none. Allow more, or use a coarser mesh."
        ) from error
    (folder / "body.log").write_text(run.stdout + run.stderr)
    increments, iterations, end = _progress(folder / "body.sta")
    if end < 1 - 1e-6:
        raise DuotomoError(
            f"calculix: expected the plates to close; they got to {end:.3g} of the way. Use more increments, "
            f"or compress less; {folder / 'body.log'} has the program's words."
        )
    moved = mesh.nodes_mm + displacements((folder / "body.dat").read_text(), len(mesh.nodes_mm))
    return Solved(
        moved_mm=moved,
        seconds=time.perf_counter() - began,
        n_increments=increments,
        n_iterations=iterations,
    )


def _progress(path: Path) -> tuple[int, int, float]:
    """Return increments, iterations and the part of the load that was reached, from a status file."""
    rows = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
    numbers = [row for row in rows if len(row) >= 6 and row[0].isdigit()]
    if not numbers:
        return 0, 0, 0.0
    return len(numbers), sum(int(row[3]) for row in numbers), float(numbers[-1][4])
