"""`--transform` names models of motion, those of other packages too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duotomo.cli._transform import parse_transform
from duotomo.errors import DuotomoError
from duotomo.io import read_result
from duotomo.transforms import Affine, BSpline, Rigid, Translation, Velocity, chain, model_name
from tests.cli.commands import duotomo
from tests.cli.test_register import GRID, SHIFT_MM, blob, volumes

__all__ = ["volumes"]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("translation", Translation),
        ("rigid", Rigid),
        ("affine", Affine),
        ("bspline:25mm", BSpline.spaced(25.0)),
        ("bspline:7,9,9", BSpline.shaped((7, 9, 9))),
        ("velocity:12.5mm", Velocity.spaced(12.5)),
        ("velocity:7,9,9", Velocity.shaped((7, 9, 9))),
        ("affine+bspline:25mm", chain(Affine, BSpline.spaced(25.0))),
        ("rigid + affine + velocity:7,9,9", chain(Rigid, Affine, Velocity.shaped((7, 9, 9)))),
    ],
)
def test_names_stand_for_models(text: str, model: object) -> None:
    assert parse_transform(text) == model
    assert model_name(parse_transform(text)) == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "elastic",
            r"expected --transform as one of translation, rigid, affine, bspline:25mm, .*; got 'elastic'",
        ),
        ("", "expected --transform as one of"),
        ("affine:3", "got 'affine:3'"),
        ("affine+", "got ''"),
        ("bspline", r"expected the distance of control points, bspline:25mm, or three counts of them"),
        ("bspline:3", "got bspline:3. Write one of the two"),
        ("velocity:a,b,c", "velocity:7,9,9, for --transform; got velocity:a,b,c"),
        ("bspline:xmm", "got bspline:xmm"),
        ("bspline:-5mm", "expected spacing_mm above 0 and finite; got -5"),
        ("bspline:1000,1000,1000", "expected at most 10000000 control points; got 1000,1000,1000"),
    ],
)
def test_what_is_none_is_explained(text: str, message: str) -> None:
    with pytest.raises(DuotomoError, match=message):
        parse_transform(text)


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a transform of its own."""
    (tmp_path / "other_package.py").write_text(
        "from duotomo.transforms import Rigid\n\n\nclass Sliding(Rigid):\n    '''Another transform.'''\n"
    )
    about = tmp_path / "other_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[duotomo.transforms]\nsliding = other_package:Sliding\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "other_package", raising=False)


@pytest.mark.usefixtures("distribution")
def test_transforms_of_other_packages_are_known() -> None:
    model = parse_transform("sliding")
    assert model_name(model) == "sliding"
    assert type(model(GRID)).__name__ == "Sliding"
    assert model_name(parse_transform("sliding+bspline:25mm")) == "sliding+bspline:25mm"
    with pytest.raises(DuotomoError, match=r"velocity:7,9,9, sliding, or several .*; got 'elastic'"):
        parse_transform("elastic")


@pytest.mark.usefixtures("distribution")
def test_commands_take_them(volumes: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = duotomo("register", *volumes, "--transform", "sliding", "--steps", 2, "--out", out, "--quiet")
    assert ran.code == 0, ran.err
    assert read_result(out).settings["model"] == "sliding"


def test_a_chain_is_registered(volumes: tuple[Path, Path], tmp_path: Path) -> None:
    words = ("--transform", "translation+bspline:20mm", "--steps", 5, "--out", tmp_path, "--json")
    ran = duotomo("register", *volumes, *words)
    assert ran.code == 0, ran.err
    registered = read_result(tmp_path).others["visit_2_registered"]
    assert (registered - blob()).norm() < 0.2 * blob().norm()
    assert ran.json["quality"]["mean_displacement_mm"][0] == pytest.approx(
        sum(one**2 for one in SHIFT_MM) ** 0.5, abs=0.5
    )
