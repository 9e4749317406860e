"""The findings beside the pictures, as HTML, and what the viewer has to know of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from html import escape
from typing import Any

from duotomo.change import Change, FalseFindings, Finding
from duotomo.change.change import SILENT_WORDS
from duotomo.report.page_change import NO_SCORE, SCORE_STEP
from duotomo.report.page_table import table
from duotomo.report.page_words import Rows

_MINUS = "\N{MINUS SIGN}"


def findings_html(change: Change, slices: int = 1) -> str:
    """Return the list of findings, each with a button that the viewer answers.

    slices: of the volume in one slice of the page.
    """
    if change.reason:
        return f'<p class="reason"><b>The visits were not compared.</b> {escape(change.reason)}</p>'
    if not change.findings:
        expected = expected_at(change.false_findings, change.threshold)
        told = "not known" if expected is None else few(expected)
        return (
            f"<p>No change found above |z| = {change.threshold:.1f}. False findings to expect per breast at "
            f'this threshold: {told}.</p><div class="threshold"></div>'
        )
    items = "".join(_item(finding, slices) for finding in change.findings)
    return (
        '<p class="soft">New: in visit 1 and not in the visit before; gone: the other way round. '
        "Intervals hold 95 %. FDR: share of false ones to expect among the findings up to this one.</p>"
        f'<div class="threshold"></div><ol class="findings">{items}</ol>'
    )


def described_change(change: Change, prior: str | None, scores: str, silent: str) -> dict[str, Any]:
    """Return what the viewer reads first of a change. scores, silent: the elements that hold the maps."""
    return {
        "scores": scores,
        "step": SCORE_STEP,
        "none": NO_SCORE,
        "silent": silent,
        "compared": not change.reason,
        "reasons": {str(int(code)): words for code, words in SILENT_WORDS.items()},
        "prior": prior,
        # Infinite where nothing was compared, which JSON cannot say.
        "threshold": change.threshold if math.isfinite(change.threshold) else 0.0,
        "thresholds": change.false_findings.thresholds,
        "expected": change.false_findings.expected,
        "findings": [
            {
                "number": finding.number,
                "kind": finding.kind,
                "place": finding.place_mm,
                "size": finding.size_mm,
                "z": finding.z,
            }
            for finding in change.findings
        ],
    }


def expected_at(curve: FalseFindings, threshold: float) -> float | None:
    """Return how many false findings to expect at a threshold, linear in the logarithm between those known.

    At the ends of the curve, what is nearest of it; None without a curve.

    >>> round(expected_at(FalseFindings(thresholds=(3.0, 5.0), expected=(1.0, 0.01)), 4.0), 6)
    0.1
    """
    if not curve.thresholds:
        return None
    right = bisect_right(curve.thresholds, threshold)
    if right in (0, len(curve.thresholds)):
        return curve.expected[max(0, right - 1)]
    (low, high), (a, b) = curve.thresholds[right - 1 : right + 1], curve.expected[right - 1 : right + 1]
    share = (threshold - low) / (high - low)
    if min(a, b) <= 0:
        return a + share * (b - a)
    return math.exp(math.log(a) + share * (math.log(b) - math.log(a)))


def few(value: float) -> str:
    """Return a small number with two digits.

    >>> few(0.1), few(2.345), few(12.3), few(0.00004)
    ('0.1', '2.3', '12', 'below 0.001')
    """
    if value < 0.001:
        return "below 0.001"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _item(finding: Finding, slices: int) -> str:
    kind = escape(finding.kind)
    return (
        f'<li class="{kind}" data-number="{finding.number}"><button type="button">'
        f'<span class="number">{finding.number}</span> <b>{kind}</b> {escape(finding.words)}</button>'
        f"{table(_rows(finding))}"
        f"<details><summary>where, and what it looks like</summary>{table(_more(finding, slices))}"
        "</details></li>"
    )


def _rows(finding: Finding) -> Rows:
    low, high = finding.size_interval_mm
    decimals = 3 if abs(finding.contrast_per_mm) >= 0.01 else 4
    change, least, most = (
        _signed(value, decimals) for value in (finding.contrast_per_mm, *finding.contrast_interval_per_mm)
    )
    return [
        ("Size", f"{finding.size_mm:.1f} mm ({low:.1f} to {high:.1f})"),
        ("Change, 1/mm", f"{change} ({least} to {most})"),
        ("Score", f"z = {_signed(finding.z, 1)}"),
        ("False findings", f"{few(finding.false_findings)} to expect per breast"),
        ("FDR", _percent(finding.false_discovery_rate)),
    ]


def _more(finding: Finding, slices: int) -> Rows:
    return [
        ("Visit 1", f"slice {finding.slice_index // slices + 1}; {_xyz(finding.place_mm)}"),
        ("Deviation", _xyz(finding.place_deviation_mm)),
        ("Visit before", _xyz(finding.prior_place_mm)),
        ("Looks like", f"{finding.template}, drawn out to {finding.smear_mm:.0f} mm in depth"),
    ]


def _xyz(place_mm: tuple[float, float, float]) -> str:
    return (
        ", ".join(f"{name} {_signed(mm, 1, plus='')}" for name, mm in zip("xyz", place_mm, strict=True))
        + " mm"
    )


def _signed(value: float, decimals: int, plus: str = "+") -> str:
    text = f"{abs(value):.{decimals}f}"
    return f"{plus if value > 0 else _MINUS if value < 0 else ''}{text}"


def _percent(share: float) -> str:
    return "below 0.1 %" if share < 0.001 else f"{100 * share:.2g} %"
