"""What a scan may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from duotomo.errors import DtypeError, DuotomoError, GeometryError, NonFiniteError, ShapeError
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Supplied, Values
from tests.io.saved_helpers import SCAN, draw

INTEGRALS: dict[str, Any] = {
    "projections": draw(*SCAN.shape, seed=0),
    "values": Values.LINE_INTEGRALS,
    "acquisition": SCAN,
}
COUNTS = {**INTEGRALS, "values": Values.COUNTS}


class Secret:
    """An identity that must not be shown."""

    def __repr__(self) -> str:
        return "SECRET"


def test_what_identifies_is_not_shown() -> None:
    scan = Scan(**INTEGRALS, identity=Secret(), facts={"kVp": "30"})
    assert "SECRET" not in repr(scan)
    assert "SECRET" not in str(scan)


def test_projections_become_contiguous() -> None:
    turned = draw(*SCAN.shape[::-1], seed=0).permute(2, 1, 0)
    scan = Scan(**{**INTEGRALS, "projections": turned})
    assert scan.projections.is_contiguous()
    assert torch.equal(scan.projections, turned)


def test_facts_do_not_change_with_what_they_were_made_of() -> None:
    facts = {"kVp": "30"}
    scan = Scan(**INTEGRALS, facts=facts)
    facts["kVp"] = "40"
    assert scan.facts["kVp"] == "30"
    with pytest.raises(TypeError):
        scan.facts["kVp"] = "50"  # type: ignore[index]


@pytest.mark.parametrize("shape", [SCAN.shape, SCAN.detector_shape, (SCAN.n_views, 1, 1), ()])
def test_flat_fields_have_four_shapes(shape: tuple[int, ...]) -> None:
    assert Scan(**COUNTS, flat_field=torch.ones(shape)).flat_field is not None


def test_dead_pixels_are_no_reason_to_refuse_counts() -> None:
    dead = draw(*SCAN.shape, seed=0)
    dead[0, 0, :3] = torch.tensor([0.0, torch.nan, torch.inf])
    assert Scan(**{**COUNTS, "projections": dead}).values is Values.COUNTS


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        (
            {**INTEGRALS, "projections": torch.ones(SCAN.shape[::-1])},
            ShapeError,
            r"Scan: expected projections \(view, v, u\) = \(3, 6, 7\); got \(7, 6, 3\)\. Axes reversed\?",
        ),
        (
            {**INTEGRALS, "projections": torch.ones(SCAN.shape, dtype=torch.int16)},
            DtypeError,
            r"Scan: expected projections of torch\.float32",
        ),
        (
            {**INTEGRALS, "projections": torch.full(SCAN.shape, torch.nan)},
            NonFiniteError,
            r"Scan: expected projections to be finite",
        ),
        (
            {**INTEGRALS, "flat_field": torch.tensor(3.0)},
            DtypeError,
            r"Scan: expected flat_field only with counts; got one with line integrals",
        ),
        (
            {**COUNTS, "flat_field": torch.ones(2, 2)},
            ShapeError,
            r"Scan: expected flat_field \(view, v, u\) = \(3, 6, 7\), .* or one number; got \(2, 2\)",
        ),
        (
            {**COUNTS, "flat_field": torch.ones(6, 7, dtype=torch.int32)},
            DtypeError,
            r"Scan: expected flat_field of torch\.float32 or torch\.float64; got torch\.int32",
        ),
        (
            {**COUNTS, "flat_field": torch.zeros(6, 7)},
            NonFiniteError,
            r"Scan: expected flat_field with positive counts; got none",
        ),
        ({**INTEGRALS, "thickness_mm": 0.0}, GeometryError, r"Scan: expected thickness_mm as a positive"),
        ({**INTEGRALS, "thickness_mm": np.nan}, GeometryError, r"Scan: expected thickness_mm as a positive"),
    ],
)
def test_what_cannot_be_a_scan_is_refused(
    fields: dict[str, Any], kind: type[DuotomoError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Scan(**fields)


def test_nothing_is_supplied_unless_said() -> None:
    assert set(vars(Supplied()).values()) == {None}
