"""Transforms and checks in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from statistics import median
from typing import Any

import torch

from duotomo.methods.remedies import remedy_of
from duotomo.transforms import Recompression

Rows = list[tuple[str, str]]

PASS, LOOK, NOTE = "pass", "look", "note"

MOST_RESIDUAL = 2.0
"""In units of the median view's; a view that is further from its data should be looked at. Not in units of
the noise: voxels leave some of every view unexplained, at the skin above all."""


_LOOK_AT_VIEW = (
    "Look at this view in the scan: did the patient move during it, is part of the detector dead, or is its "
    "geometry another one?"
)


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One line of the quality checks. verdict: PASS, LOOK (a person should) or NOTE. remedy: what to do."""

    verdict: str
    words: str
    remedy: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the line as plain values, which JSON can hold."""
        return asdict(self)


def signed(value: float, unit: str) -> str:
    """Return a number with its sign.

    >>> signed(1.25, "mm"), signed(0.0, "mm"), signed(2.5, "°")
    ('+1.25 mm', '0.00 mm', '+2.50°')
    """
    text = f"{abs(value):.2f}"
    sign = "" if float(text) == 0 else "+" if value > 0 else "\N{MINUS SIGN}"
    return f"{sign}{text}{'' if unit == '°' else ' '}{unit}"


def physical_rows(physical: Mapping[str, Any]) -> Rows:
    """Return the meaning of a transform's parameters, line by line, in millimetres, degrees and per cent.

    >>> physical_rows({"translation_mm": [1.0, 0.0, 2.0]})
    [('Shift', 'x +1.00 mm, y 0.00 mm, z +2.00 mm')]
    >>> physical_rows({"rotation_deg": [0.0, 0.0, 3.0]})
    [('Turn', '3.00° about (0.00, 0.00, 1.00)')]
    """
    rows: Rows = []
    for name, value in physical.items():
        if isinstance(value, Mapping):
            rows += [(f"{name}: {what}", words) for what, words in physical_rows(value)]
        elif name == "translation_mm":
            rows.append(("Shift", _xyz(value, "mm")))
        elif name == "rotation_deg":
            rows.append(("Turn", _turn(value)))
        elif name == "center_mm":
            rows.append(("About the point", "({:.1f}, {:.1f}, {:.1f}) mm".format(*value)))
        elif name == "matrix":
            rows += matrix_rows(value)
        else:
            rows.append((name.replace("_", " "), str(value)))
    return rows


def matrix_rows(matrix: Sequence[Sequence[float]]) -> Rows:
    """Return a matrix as a turn, stretches and a change of volume: `M = R S`, S symmetric.

    >>> matrix_rows([[1.1, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])[1]
    ('Stretch', 'x +10.0 %, y 0.0 %, z 0.0 %')
    """
    m = torch.tensor(matrix, dtype=torch.float64)
    u, _, vh = torch.linalg.svd(m)
    turn, stretch = u @ vh, vh.T @ (u.T @ m)
    angle = math.degrees(math.acos(max(-1.0, min(1.0, (float(turn.trace()) - 1) / 2))))
    skew = torch.stack([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    axis = (skew / skew.norm() if float(skew.norm()) > 0 else skew) * angle
    percent = [100 * (float(stretch[i, i]) - 1) for i in range(3)]
    shear = [float(stretch[i, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    names = ("x", "y", "z")
    return [
        ("Turn", _turn(axis.tolist())),
        ("Stretch", ", ".join(f"{n} {_percent(p)}" for n, p in zip(names, percent, strict=True))),
        ("Shear", "xy {:.3f}, xz {:.3f}, yz {:.3f}".format(*(s + 0.0 for s in shear))),
        ("Volume", _percent(100 * (float(torch.linalg.det(m)) - 1))),
    ]


def quality_checks(index: Mapping[str, Any]) -> list[CheckLine]:
    """Return what a reader should know before believing a result, from the content of `result.json`."""
    checks = [_status_check(str(index["status"]), str(index["reason"]))]
    quality = index.get("quality") or {}
    trust = quality.get("trust") or {}
    if trust.get("trusted") is True:
        checks.append(CheckLine(verdict=PASS, words=f"Trusted. {trust.get('reason', '')}".rstrip()))
    residuals, noise = quality.get("residual_by_view") or [], numbers(quality.get("noise"))
    for visit, (rms, sigma) in enumerate(zip_longest(map(numbers, residuals), noise), start=1):
        if rms and sigma:
            checks.append(_residual_check(visit, rms, sigma))
    models = [one.get("model") for one in index.get("motions") or []]
    two_views = Recompression.__name__ in models
    folds, least = numbers(quality.get("folded_voxels")), numbers(quality.get("least_jacobian"))
    for visit, (n_folded, lowest) in enumerate(zip_longest(folds, least), start=2):
        if n_folded is not None:
            told = "" if lowest is None else f" Least volume ratio {lowest:.2f}."
            place = f"folds at {n_folded:.0f} voxels" if n_folded else "folds nowhere"
            words = f"The motion of visit {visit} {place}.{told}"
            remedy = remedy_of("folding", two_views=two_views) if n_folded else ""
            checks.append(CheckLine(verdict=LOOK if n_folded else PASS, words=words, remedy=remedy))
    for row in trust.get("checks") or []:
        if not row.get("passed", True):
            words, remedy = str(row.get("text", "")), str(row.get("remedy", ""))
            checks.append(CheckLine(verdict=LOOK, words=words, remedy=remedy))
    means = numbers(quality.get("mean_displacement_mm"))
    largest = numbers(quality.get("largest_displacement_mm"))
    for visit, (mean, most) in enumerate(zip_longest(means, largest), start=2):
        if mean is not None and most is not None:
            words = f"Visit {visit} moved by {mean:.1f} mm on average, {most:.1f} mm at most."
            checks.append(CheckLine(verdict=NOTE, words=words))
    fusion = quality.get("fused")
    if isinstance(fusion, Mapping):
        words = str(fusion.get("words", "")).rstrip(".")
        checks.append(CheckLine(verdict=NOTE, words=f"{words[:1].upper()}{words[1:]}."))
    for visit, row in enumerate(quality.get("uncertainty") or [], start=2):
        words = f"How sure the motion of visit {visit} is: {row.get('words', 'not known')}"
        checks.append(CheckLine(verdict=NOTE, words=words if words.endswith(".") else f"{words}."))
    return checks


def numbers(values: Any) -> list[float | None]:
    """Return a list from a file as numbers; None stands for what is none, or is not finite.

    >>> numbers([1, None, "x", float("nan")]), numbers(None)
    ([1.0, None, None, None], [])
    """
    if not isinstance(values, list):
        return []
    return [
        float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        else None
        for value in values
    ]


def _residual_check(visit: int, rms: Sequence[float | None], sigma: float) -> CheckLine:
    known = [value for value in rms if value is not None]
    if len(known) < len(rms):
        words = f"Visit {visit}: the residual of a view is not a number."
        return CheckLine(verdict=LOOK, words=words, remedy=_LOOK_AT_VIEW)
    worst, typical = max(known), median(known)
    words = (
        f"Visit {visit}: the worst view's residual is {worst / (typical or 1):.1f} times the median view's, "
        f"and {worst / sigma:.1f} times the noise."
    )
    if worst <= MOST_RESIDUAL * typical:
        return CheckLine(verdict=PASS, words=words)
    return CheckLine(verdict=LOOK, words=words, remedy=_LOOK_AT_VIEW)


def _status_check(status: str, reason: str) -> CheckLine:
    verdict = {"converged": PASS, "step limit": NOTE}.get(status, LOOK)
    remedy = remedy_of("convergence") if verdict == LOOK else ""
    return CheckLine(verdict=verdict, words=f"{status.capitalize()}. {reason}", remedy=remedy)


def _xyz(values: Sequence[float], unit: str) -> str:
    return ", ".join(f"{name} {signed(value, unit)}" for name, value in zip("xyz", values, strict=True))


def _turn(rotation_deg: Sequence[float]) -> str:
    angle = math.hypot(*rotation_deg)
    if angle < 0.005:
        return "0.00°"
    x, y, z = (value / angle + 0.0 for value in rotation_deg)
    return f"{angle:.2f}° about ({x:.2f}, {y:.2f}, {z:.2f})"


def _percent(value: float) -> str:
    text = f"{abs(value):.1f}"
    sign = "" if float(text) == 0 else "+" if value > 0 else "\N{MINUS SIGN}"
    return f"{sign}{text} %"
