"""Simulated scans are what was asked for, and the truth beside them is the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.geometry import MACHINES
from duotomo.io import read_displacement, read_volume
from duotomo.io.line_integrals import LogSettings, to_line_integrals
from duotomo.io.scan import Values
from duotomo.io.scan_file import read_scan
from duotomo.operators import Projector
from tests.cli.commands import duotomo

TINY = ("--views", 5, "--pixel", 4, "--radii", "30,26,20", "--photons", 1e6)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "pair"
    ran = duotomo(
        "simulate", "--out", out, *TINY, "--second-visit", "--lesion", "second", "--truth", "--shift", "4,0,0"
    )
    assert ran.code == 0, ran.err
    return out


def test_two_visits_and_the_truth_are_written_and_named(pair: Path) -> None:
    names = ["truth_1.nii.gz", "truth_2.nii.gz", "truth_motion.nii.gz", "visit_1.h5", "visit_2.h5"]
    assert sorted(path.name for path in pair.iterdir()) == names


def test_a_scan_is_the_projection_of_its_truth(pair: Path) -> None:
    for number in (1, 2):
        scan = read_scan(pair / f"visit_{number}.h5")
        volume, grid = read_volume(pair / f"truth_{number}.nii.gz")
        expected = Projector(grid=grid, acquisition=scan.acquisition)(volume)
        # The scan was made on a finer grid, with noise.
        assert float((scan.projections - expected).norm() / expected.norm()) < 0.1
        assert not torch.equal(scan.projections, expected)
        assert scan.values is Values.LINE_INTEGRALS
        assert scan.thickness_mm == pytest.approx(grid.size_mm[0])


def test_the_motion_brings_the_first_visit_to_the_second(pair: Path) -> None:
    (first, reference), (second, moving) = (read_volume(pair / f"truth_{n}.nii.gz") for n in (1, 2))
    motion = read_displacement(pair / "truth_motion.nii.gz")
    seen = motion.warp(reference, moving)(first)
    inside = (first > 0.01) & (second > 0.01)
    apart, after = ((image - second)[inside].norm() for image in (first, seen))
    assert float(after) < 0.6 * float(apart)
    # The body was shifted by +4 mm along x, so T takes points back: by -4 mm where the roll does nothing.
    along_x = motion.displacement(motion.grid)[0]
    assert float(along_x.mean()) == pytest.approx(-4.0, abs=0.5)


def test_only_the_second_visit_has_the_mass(pair: Path, tmp_path: Path) -> None:
    options = ("--second-visit", "--truth", "--shift", "4,0,0")
    assert duotomo("simulate", "--out", tmp_path, *TINY, *options).code == 0
    for number, differs in ((1, False), (2, True)):
        without, with_mass = (
            read_volume(folder / f"truth_{number}.nii.gz")[0] for folder in (tmp_path, pair)
        )
        assert (not torch.equal(without, with_mass)) == differs
    # A mass attenuates more than the tissue that it takes the place of.
    assert float((with_mass - without).max()) > 0.01
    assert float((with_mass - without).sum()) > 0


def test_the_machine_is_the_one_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "scan.h5"
    ran = duotomo(
        "simulate", "--out", out, *TINY, "--machine", "ge_senoclaire", "--phantom", "toroid", "--json"
    )
    assert ran.code == 0, ran.err
    assert ran.json["files"] == [str(out)]
    acquisition = read_scan(out).acquisition
    full = MACHINES["ge_senoclaire"]()
    assert acquisition.pixel_spacing_mm == pytest.approx((4.0, 4.0))
    np.testing.assert_allclose(acquisition.sources_mm, full.sources_mm[[0, 2, 4, 6, 8]])


def test_counts_become_the_same_line_integrals(tmp_path: Path) -> None:
    options = (*TINY, "--phantom", "shepp-logan", "--seed", 3)
    assert duotomo("simulate", "--out", tmp_path / "a.h5", *options).code == 0
    assert duotomo("simulate", "--out", tmp_path / "b.h5", *options, "--counts").code == 0
    plain, counted = read_scan(tmp_path / "a.h5"), read_scan(tmp_path / "b.h5")
    assert counted.values is Values.COUNTS
    assert bool((counted.projections == counted.projections.round()).all())
    again, _ = to_line_integrals(counted, LogSettings())
    torch.testing.assert_close(again.projections, plain.projections, atol=1e-4, rtol=0)


def test_the_seed_decides(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert duotomo("simulate", "--out", tmp_path / f"{name}.h5", *TINY, "--seed", seed).code == 0
    a, b, c = (read_scan(tmp_path / f"{name}.h5").projections for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_dicom_has_the_same_geometry(tmp_path: Path) -> None:
    ran = duotomo("simulate", "--out", tmp_path, *TINY, "--format", "dcm", "--phantom", "toroid")
    assert ran.code == 0, ran.err
    assert duotomo("simulate", "--out", tmp_path / "b.h5", *TINY, "--phantom", "toroid").code == 0
    dicom, own = read_scan(tmp_path / "visit_1.dcm"), read_scan(tmp_path / "b.h5")
    np.testing.assert_allclose(dicom.acquisition.sources_mm, own.acquisition.sources_mm, atol=1e-6)
    assert dicom.values is Values.COUNTS


def test_a_compressed_breast_is_as_thick_as_the_plates_are_apart(tmp_path: Path) -> None:
    pytest.importorskip("skfem")
    ran = duotomo(
        "simulate", "--out", tmp_path, *TINY, "--compressed", "--thickness", 32, "--second-visit", "--truth"
    )
    assert ran.code == 0, ran.err
    thick = [read_scan(tmp_path / f"visit_{n}.h5").thickness_mm for n in (1, 2)]
    assert thick == pytest.approx([32.0, 0.92 * 32.0])
    (first, reference), (second, moving) = (read_volume(tmp_path / f"truth_{n}.nii.gz") for n in (1, 2))
    motion = read_displacement(tmp_path / "truth_motion.nii.gz")
    seen = motion.warp(reference, moving)(first)
    assert float((seen - second).norm()) < 0.25 * float(second.norm())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--machine", "nobody"), "expected --machine as one of paper, "),
        (("--views", 26), "expected --views of at most 25, which victre has; got 26"),
        (("--radii", "1,2"), "expected 3 numbers, with commas between them, for --radii"),
        (("--radii=-1,2,3",), "expected --radii above 0"),
        (("--photons", 0), "expected --photons above 0"),
        (("--lesion", "second"), "expected --second-visit with --lesion second"),
        (("--second-visit",), "expected a folder for two visits; got 'scan.h5'"),
        (("--compressed", "--phantom", "toroid"), "expected --phantom breast with --compressed; got toroid"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    ran = duotomo("simulate", "--out", tmp_path / "scan.h5", *options)
    assert ran.code == 2
    assert message in ran.err
    assert list(tmp_path.iterdir()) == []


def test_machines_are_listed(tmp_path: Path) -> None:
    ran = duotomo("simulate", "--out", tmp_path, "--machine", "list")
    assert ran.code == 0
    assert [line.split(":")[0] for line in ran.out.splitlines()] == list(MACHINES)


def test_help_ends_with_an_example() -> None:
    for command in ("simulate", "info", "convert"):
        ran = duotomo(command, "--help")
        assert ran.code == 0
        assert f"Example: duotomo {command}" in " ".join(ran.out.split())
