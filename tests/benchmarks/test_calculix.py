"""What CalculiX is told and what is read back; and, where it is installed, a block whose shape is known."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import fsolve

from benchmarks import calculix
from benchmarks.calculix import Load, deck, displacements, solve, version
from benchmarks.compress_agreement import TRIALS, compare
from benchmarks.hexahedra import CORNERS, EDGES, Hexahedra, half_ball
from benchmarks.wall_means import wall_means, wall_weights
from duotomo.errors import DuotomoError

needs_calculix = pytest.mark.skipif(calculix.installed() is None, reason="CalculiX (ccx) is not installed")


def block(size_mm: float = 10.0) -> Hexahedra:
    """Return one element, whose face at y = 0 is the chest wall."""
    corners = np.array(CORNERS, dtype=np.float64)
    nodes = np.concatenate([corners, corners[np.array(EDGES)].mean(axis=1)]) * size_mm / 2
    return Hexahedra(
        nodes_mm=nodes,
        elements=np.arange(20)[None],
        # All faces but the one at y = 0.
        skin=np.array([(0, face) for face in (0, 1, 3, 4, 5)]),
        wall=np.flatnonzero(nodes[:, 1] == 0),
    )


def rows(text: str, keyword: str) -> list[list[str]]:
    """Return the words of the lines that follow a keyword, up to the next."""
    block = re.search(rf"^\*{re.escape(keyword)}\n((?:[^*\n].*\n)*)", text, re.MULTILINE)
    assert block is not None, keyword
    return [[word.strip() for word in line.split(",") if word.strip()] for line in block[1].splitlines()]


def test_the_deck_says_what_the_body_is_and_what_is_done_to_it() -> None:
    mesh = block()
    load = Load(
        low_mm=1.0,
        high_mm=8.0,
        shear_kpa=np.array([2.0]),
        bulk_over_shear=50.0,
        gravity_kpa_per_mm=(0.0, 0.0, -0.01),
        friction=0.3,
        wall_kpa_per_mm=0.5,
        wall_travel_mm=np.full(8, 1.5),
    )
    text = deck(mesh, load)
    nodes = np.array(rows(text, "NODE, NSET=BODY"), dtype=float)
    assert nodes[:, 0].tolist() == list(range(1, 21))
    assert nodes[:, 1:] == pytest.approx(mesh.nodes_mm)
    words = [word for row in rows(text, "ELEMENT, TYPE=C3D20R, ELSET=ALL") for word in row]
    assert [int(word) for word in words] == list(range(1, 2)) + list(range(1, 21))
    # C10 = G / 2 and D1 = 2 / K.
    assert [float(word) for word in rows(text, "HYPERELASTIC, NEO HOOKE")[0]] == pytest.approx([1.0, 0.02])
    assert rows(text, "DLOAD") == [["ALL", "GRAV", "0.01", "0", "0", "-1"]]
    assert rows(text, "FRICTION")[0][0] == "0.3"
    springs = rows(text, "SPRING, ELSET=SPRING1")[1:] + rows(text, "SPRING, ELSET=SPRING3")[1:]
    assert sum(8 * float(row[0]) for row in springs) == pytest.approx(2 * 0.5 * np.pi / 4 * 100)
    travels = rows(text[text.index("*STEP") :], "BOUNDARY")
    assert ["LOWER", "3", "3", "1"] in travels
    assert ["UPPER", "3", "3", "-2"] in travels
    assert sum(row[1:] == ["2", "2", "1.5"] for row in travels) == 8


def test_stiffer_elements_are_another_material() -> None:
    mesh = half_ball(lambda q: 30 * q, n_core=2, n_layers=1)
    shear = np.where(mesh.middles_mm()[:, 1] > 12, 3.0, 1.0)
    text = deck(mesh, Load(low_mm=-20, high_mm=20, shear_kpa=shear))
    members = [int(word) - 1 for row in rows(text, "ELSET, ELSET=T2") for word in row]
    assert members == np.flatnonzero(shear == 3.0).tolist()


def test_equations_keep_the_sums_at_zero_and_eliminate_no_term_twice() -> None:
    mesh = half_ball(lambda q: q * (40, 38, 27), n_core=2, n_layers=1)
    wanted = wall_means(mesh)
    load = Load(low_mm=-20, high_mm=20, shear_kpa=np.ones(len(mesh.elements)), wall_rows=wanted)
    text = deck(mesh, load)
    found = np.zeros_like(wanted)
    dependent = []
    parts = re.findall(r"^\*EQUATION\n\d+\n((?:[^*\n].*\n)*)", text, re.MULTILINE)
    for row, part in zip(found, parts, strict=True):
        terms = np.array(part.replace("\n", ",").strip(", ").split(","), dtype=float).reshape(-1, 3)
        row[terms[:, 0].astype(int) - 1, terms[:, 1].astype(int) - 1] = terms[:, 2]
        dependent.append((int(terms[0, 0]) - 1, int(terms[0, 1]) - 1))
    for number, (node, axis) in enumerate(dependent):
        assert np.flatnonzero(found[:, node, axis]).tolist() == [number]
    # The same three sums, mixed.
    both = np.concatenate([found, wanted]).reshape(6, -1)
    assert np.linalg.matrix_rank(both, tol=1e-6) == 3


def test_wall_weights_give_the_mean_over_the_wall() -> None:
    mesh = half_ball(lambda q: q * (40, 38, 27) + (3, 0, 5), n_core=6, n_layers=3)
    weights = wall_weights(mesh)
    x, _, z = mesh.nodes_mm.T
    # Of an ellipse: the middle, and a quarter of the squares of the half axes.
    assert [weights @ x, weights @ z] == pytest.approx([3, 5])
    assert [weights @ (x - 3) ** 2, weights @ (z - 5) ** 2] == pytest.approx([400, 27**2 / 4], rel=0.02)


def test_the_last_displacements_are_read() -> None:
    heading = " displacements (vx,vy,vz) for set BODY and time  0.1\n\n"
    text = heading + " 1 0. 0. 0.\n 2 0. 0. 0.\n\n" + heading + " 2 1.E-1 0. -2.\n 1 0. 3. 0.\n"
    assert displacements(text, 2).tolist() == [[0.0, 3.0, 0.0], [0.1, 0.0, -2.0]]
    with pytest.raises(DuotomoError, match="expected displacements of 3 nodes; got 2"):
        displacements(text, 3)
    with pytest.raises(DuotomoError, match="expected displacements of 2 nodes; got 0"):
        displacements("", 2)


def pretended(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pretended_ccx"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(calculix, "PROGRAM", str(program))


LOAD = Load(low_mm=1.0, high_mm=8.0, shear_kpa=np.ones(1))


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calculix, "PROGRAM", "no_such_ccx")
    with pytest.raises(DuotomoError, match="expected the program no_such_ccx on the path"):
        solve(block(), LOAD, tmp_path)


def test_a_run_that_breaks_off_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "     1          1     1     7  0.25  0.25  0.25"
    pretended(tmp_path, f"echo '{row}' > body.sta", monkeypatch)
    with pytest.raises(DuotomoError, match=r"expected the plates to close; they got to 0\.25 of the way"):
        solve(block(), LOAD, tmp_path / "run")
    pretended(tmp_path, "exit 1", monkeypatch)
    with pytest.raises(DuotomoError, match="they got to 0 of the way"):
        solve(block(), LOAD, tmp_path / "other")


def test_a_run_without_an_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended(tmp_path, "exec sleep 30", monkeypatch)
    with pytest.raises(DuotomoError, match=r"expected an end within 0\.2 s"):
        solve(block(), LOAD, tmp_path, limit_s=0.2)


@needs_calculix
def test_a_block_between_slippery_plates_takes_the_shape_that_it_must(tmp_path: Path) -> None:
    mesh, k, height = block(), 50.0, 0.7
    load = Load(
        low_mm=0.0,
        high_mm=10.0 * height,
        shear_kpa=np.full(1, 2.0),
        bulk_over_shear=k,
        # A single node holds it along x.
        wall_rows=np.eye(60)[[0]].reshape(1, 20, 3),
        plate_kpa_per_mm=1e4,
    )
    moved = solve(mesh, load, tmp_path).moved_mm

    def side_stress(stretch: np.ndarray) -> np.ndarray:
        # Energy (J^(-2/3) (2 a^2 + h^2) - 3) / 2 + k (J - 1)^2 / 2 with J = a^2 h, by a.
        a, j = stretch, stretch**2 * height
        shear = j ** (-2 / 3) * (2 * a - 2 / (3 * a) * (2 * a**2 + height**2))
        return np.asarray(shear + k * (j - 1) * 2 * a * height)

    stretch = float(fsolve(side_stress, height**-0.5)[0])
    assert np.ptp(moved, axis=0) == pytest.approx([10 * stretch, 10 * stretch, 10 * height], rel=1e-3)
    assert re.fullmatch(r"\d+\.\d+\S*", version())


@needs_calculix
def test_compress_agrees_with_it_as_far_as_coarse_meshes_let_it(tmp_path: Path) -> None:
    row = compare(TRIALS[1], tmp_path, n_core=2, n_layers=2, refinements=2).split("|")
    assert row[1].strip() == "40 x 38 x 27 mm to 37 mm, by 10 degrees"
    moved_mm, mean_mm, most_mm = float(row[2].split()[0]), float(row[3]), float(row[5])
    assert 4.0 < moved_mm < 4.6
    assert mean_mm < 0.45
    assert most_mm < 1.8


def test_a_trial_says_what_is_done() -> None:
    trial = replace(TRIALS[0], gland_over_fat=4.0, weight_per_mm=0.0093, friction=0.3)
    assert trial.said == (
        "40 x 38 x 27 mm to 40 mm, by 0 degrees, gland 4 times as stiff, weight 0.0093 / mm, friction 0.3"
    )
