"""What a trial of change detection shows on the pairs that another program has registered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.change_judge import N_BOOTSTRAP, NOMINAL, OURS, Curve, Row, bootstrapped, figures, redrawn

BESIDE = (OURS, "difference")
"""Methods of the trial that the difference after another registration stands beside."""

QUANTILES = (0.025, 0.5, 0.975)


def beside(rows: Sequence[Row], peers: Sequence[Row]) -> Row:
    """Return the figures on the pairs of another program, by "on the pairs of PROGRAM".

    Only pairs that both have are judged, all methods on the same. A registration that failed has no peaks:
    its lesion is missed, and nothing is found where nothing changed.

    Parameters
    ----------
    rows : sequence of dict
        Of `benchmarks.change`; those without peaks, whose visits were not compared, are left out.
    peers : sequence of dict
        Of `benchmarks.change_peers`.
    """
    found: Row = {}
    for program in sorted({one["program"] for one in peers}):
        of_program = {one["name"]: one for one in peers if one["program"] == program}
        pairs = [with_peer(row, of_program[row["name"]]) for row in rows if _in_both(row, of_program)]
        found[f"on the pairs of {program}"] = _judged(pairs, of_program) if pairs else {"pairs": 0}
    return found


def with_peer(row: Row, peer: Row) -> Row:
    """Return a row of the trial with the peaks of the difference after another registration."""
    peaks = {method: row["peaks"][method] for method in BESIDE}
    return row | {"peaks": peaks | {after(peer["program"]): [] if peer["failed"] else peer["peaks"]}}


def after(program: str) -> str:
    """Return the name of a method.

    >>> after("elastix")
    'difference after elastix'
    """
    return f"difference after {program}"


def intervals(rows: Sequence[Row], methods: Sequence[str]) -> Row:
    """Return the 2.5, 50 and 97.5 % quantiles of each method's figures, resampling anatomies."""
    false: dict[str, list[float]] = {name: [] for name in methods}
    found: dict[str, list[list[float]]] = {name: [] for name in methods}
    for drawn in redrawn(rows, N_BOOTSTRAP):
        for method in methods:
            curve = Curve(drawn, method)
            if len(curve.lesions) and curve.without:
                false[method].append(curve.false_at(0.8))
                found[method].append([curve.sensitivity_at(one) for one in NOMINAL])
    return {
        method: {
            "false positives per volume at 80 % sensitivity": _quantiles(false[method]),
            "sensitivity at 0.1, 0.5, 1 false positives": [
                _quantiles([one[number] for one in found[method]]) for number in range(len(NOMINAL))
            ],
        }
        for method in methods
    }


def _in_both(row: Row, of_program: dict[str, Row]) -> bool:
    return bool(row["peaks"]) and row["name"] in of_program


def _judged(pairs: Sequence[Row], of_program: dict[str, Row]) -> Row:
    methods = list(pairs[0]["peaks"])
    reasons = {row["name"]: of_program[row["name"]]["failed"] for row in pairs}
    return {
        "pairs": len(pairs),
        "without change": sum(row["kind"] == "none" for row in pairs),
        "anatomies": len({row["anatomy"] for row in pairs}),
        "failed": {name: reason for name, reason in reasons.items() if reason},
        "methods": {method: figures(Curve(pairs, method)) for method in methods},
        "intervals over anatomies": intervals(pairs, methods),
        "bootstrap over anatomies": bootstrapped(pairs, methods),
    }


def _quantiles(values: Sequence[float]) -> list[float]:
    # A sensitivity that is not reached has infinitely many false positives: nothing between two values.
    return [float(np.quantile(values, one, method="inverted_cdf")) for one in QUANTILES] if values else []
