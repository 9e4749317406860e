"""What a trial of change detection shows: free-response curves, and whether what was promised holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from duotomo.change.false_findings import threshold_for
from duotomo.methods.trust import may_be_a_change

Row = dict[str, Any]

LARGE_MM = 5.0
"""Masses from here on count."""

IN_PLANE_MM, IN_DEPTH_MM = 4.0, 12.0
"""How far a peak may be from a lesion, beyond its radius, along z."""

NOMINAL = (0.1, 0.5, 1.0)
N_BOOTSTRAP = 500
OURS = "duotomo"


def hit(row: Row, place: Sequence[float], z: float) -> bool:
    """Return whether a peak or a finding is the lesion of a row, of the right sign."""
    if row["lesion_mm"] is None or z * _sign(row) <= 0:
        return False
    dx, dy, dz = (a - b for a, b in zip(place, row["lesion_mm"], strict=True))
    reach = row["lesion_size_mm"] / 2
    return math.hypot(dx, dy) <= IN_PLANE_MM + reach / 2 and abs(dz) <= IN_DEPTH_MM


def _sign(row: Row) -> float:
    return -1.0 if row["kind"] == "gone" else 1.0


def is_large(row: Row) -> bool:
    """Return whether a row has a mass that counts: new, grown or gone."""
    return row["kind"] in ("mass", "growth", "gone") and row["lesion_size_mm"] >= LARGE_MM


def lesion_score(row: Row, method: str) -> float:
    """Return the score of the lesion: the largest peak that is it; zero if there is none."""
    if _is_refused(row, method):
        return 0.0
    return max((abs(p[3]) for p in row["peaks"].get(method, []) if hit(row, p[:3], p[3])), default=0.0)


def false_scores(row: Row, method: str) -> list[float]:
    """Return the scores of the peaks of a row without change; of one visit alone, what is new only."""
    if _is_refused(row, method):
        return []
    sizes = [p[3] if method == "current visit" else abs(p[3]) for p in row["peaks"].get(method, [])]
    return [one for one in sizes if one > 0]


def _is_refused(row: Row, method: str) -> bool:
    """Return whether nothing is said: duotomo does not compare visits whose motion is not trusted."""
    values = row.get("checks", {})
    return method == OURS and not all(
        may_be_a_change(one, values.get(one, 0)) for one in row["not_trusted_for"]
    )


class Curve:
    """Sensitivity and false positives per volume of one method on some rows."""

    def __init__(self, rows: Sequence[Row], method: str) -> None:
        self._method = method
        self.without = [row for row in rows if row["kind"] == "none"]
        self.lesions = np.array([lesion_score(row, method) for row in rows if is_large(row)])
        scores = [one for row in self.without for one in false_scores(row, method)]
        self.false = np.sort(np.array(scores))[::-1]

    def false_at(self, sensitivity: float) -> float:
        """Return the false positives per volume at a sensitivity; infinite where it is not reached."""
        order = np.sort(self.lesions)[::-1]
        threshold = order[math.ceil(sensitivity * len(order)) - 1] if len(order) else 0.0
        return float((self.false >= threshold).sum() / len(self.without)) if threshold > 0 else math.inf

    def sensitivity_at(self, per_volume: float) -> float:
        """Return the sensitivity at so many false positives per volume."""
        found = self.lesions > self.threshold_at(per_volume)
        return float(found.mean()) if len(found) else math.nan

    def threshold_at(self, per_volume: float) -> float:
        """Return the score that so many false positives per volume exceed."""
        allowed = round(per_volume * len(self.without))
        return float(self.false[allowed]) if allowed < len(self.false) else 0.0

    def points(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return false positives per volume and sensitivity, over all thresholds."""
        per_volume = np.linspace(0.0, 5.0, 501)
        return per_volume, np.array([self.sensitivity_at(float(one)) for one in per_volume])

    def area(self) -> float:
        """Return the probability that a lesion scores higher than the highest of a volume without change."""
        tops = np.array([max(false_scores(row, self._method), default=0.0) for row in self.without])
        return float(np.mean([(tops < one).mean() + 0.5 * (tops == one).mean() for one in self.lesions]))


def judged(rows: Sequence[Row]) -> Row:
    """Return the figures of a trial."""
    usable = [row for row in rows if row["peaks"]]
    methods = list(usable[0]["peaks"])
    found: Row = {
        "pairs": len(rows),
        "without change": sum(row["kind"] == "none" for row in rows),
        "not compared": {row["name"]: row["reason"] for row in rows if not row["peaks"]},
        "not trusted, nothing said": sum(_is_refused(row, OURS) for row in rows),
        "anatomies": len({row["anatomy"] for row in rows}),
        "methods": {},
    }
    for method in methods:
        found["methods"][method] = figures(Curve(usable, method))
    found["bootstrap over anatomies"] = bootstrapped(usable, methods)
    found["nominal and observed"] = calibration(usable)
    found["sensitivity by change, at 0.5"] = {
        key: f"{n} of {of}" for key, (n, of) in by_change(usable).items()
    }
    found |= of_findings(usable)
    return found


def figures(curve: Curve) -> Row:
    """Return the figures of one method."""
    return {
        "false positives per volume at 80 % sensitivity": curve.false_at(0.8),
        "area under the curve": curve.area(),
        "sensitivity at 0.1, 0.5, 1 false positives": [curve.sensitivity_at(one) for one in NOMINAL],
    }


def redrawn(rows: Sequence[Row], n: int) -> Iterator[list[Row]]:
    """Yield the rows of as many anatomies, drawn with repetition, n times; always alike."""
    rng = np.random.default_rng(0)
    names = sorted({row["anatomy"] for row in rows})
    of = {name: [row for row in rows if row["anatomy"] == name] for name in names}
    for _ in range(n):
        yield [row for name in rng.choice(names, len(names)) for row in of[name]]


def bootstrapped(rows: Sequence[Row], methods: Sequence[str]) -> Row:
    """Return intervals of 95 % of ratios and differences to each other method, resampling anatomies."""
    ratios: dict[str, list[float]] = {name: [] for name in methods if name != OURS}
    gains: dict[str, list[float]] = {name: [] for name in ratios}
    for drawn in redrawn(rows, N_BOOTSTRAP):
        curves = {name: Curve(drawn, name) for name in methods}
        for name in ratios:
            ratios[name].append(_ratio(curves[OURS].false_at(0.8), curves[name].false_at(0.8)))
            gains[name].append(curves[OURS].sensitivity_at(0.5) - curves[name].sensitivity_at(0.5))
    return {
        name: {
            "false positives at 80 %, of its": _interval(ratios[name]),
            "sensitivity at 0.5, more than its": _interval(gains[name]),
        }
        for name in ratios
    }


def _ratio(ours: float, other: float) -> float:
    """Return a ratio of false positives; infinite ones are of a sensitivity that is not reached.

    >>> _ratio(0.1, 2.0), _ratio(0.1, math.inf), _ratio(math.inf, 2.0), _ratio(math.inf, math.inf)
    (0.05, 0.0, inf, nan)
    """
    if ours == other:
        return 1.0 if math.isfinite(ours) else math.nan
    return ours / other if other > 0 else math.inf


def _interval(values: Sequence[float]) -> list[float]:
    kept = [one for one in values if not math.isnan(one)]
    return [float(one) for one in np.quantile(kept, (0.025, 0.5, 0.975))] if kept else []


def calibration(rows: Sequence[Row]) -> Row:
    """Return observed false positives per volume by what was to be expected, over all and by nuisance."""
    without = [row for row in rows if row["kind"] == "none"]
    groups = {"all": without}
    for nuisance in sorted({row["nuisance"] for row in without}):
        groups[nuisance] = [row for row in without if row["nuisance"] == nuisance]
    found: Row = {}
    for name, group in groups.items():
        found[name] = {"pairs": len(group)}
        for nominal in NOMINAL:
            counts = [n_above(row, nominal) for row in group]
            found[name][f"{nominal:g}"] = float(np.mean(counts)) if counts else math.nan
        found[name]["pairs with any at 0.05"] = float(np.mean([n_above(row, 0.05) > 0 for row in group]))
    return found


def repeated(rows: Sequence[Row]) -> Row:
    """Return in how many pairs of one breast scanned twice nothing is found at a level of 5 %."""
    pairs = [row for row in rows if row["kind"] == "none" and row["nuisance"] == "repeat"]
    return {"pairs": len(pairs), "without a finding at 0.05": sum(n_above(row, 0.05) == 0 for row in pairs)}


def n_above(row: Row, nominal: float) -> int:
    """Return how many false findings a row has where so many are to be expected."""
    threshold = threshold_for(nominal, row["litres"])
    return sum(one > threshold for one in false_scores(row, OURS))


def by_change(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Return how many of each kind, size and tissue are found at 0.5 false positives, and of how many."""
    found: dict[str, tuple[int, int]] = {}
    limit = Curve(rows, OURS).threshold_at(0.5)
    for row in rows:
        if row["kind"] != "none":
            key = f"{row['kind']} {row['lesion_size_mm']:g} mm in {row['tissue']}"
            n, of = found.get(key, (0, 0))
            found[key] = (n + (lesion_score(row, OURS) > limit), of + 1)
    return dict(sorted(found.items()))


def of_findings(rows: Sequence[Row]) -> Row:
    """Return contrast kept, errors of place, coverage of intervals, and cost.

    A place is that of the middle of what changed; where a lesion takes the place of fat and gland, this is
    not its own middle.
    """
    plane, depth, ratio, joint_ratio, in_place, covered = [], [], [], [], [], []
    contrasts, in_size = [], []
    for row in rows:
        for one in row["findings"]:
            if is_large(row) and hit(row, one["place_mm"], one["z"]):
                dx, dy, dz = (a - b for a, b in zip(one["place_mm"], row["change_mm"], strict=True))
                plane.append(math.hypot(dx, dy))
                depth.append(abs(dz))
                pairs = zip((dx, dy, dz), one["place_deviation_mm"], strict=True)
                in_place += [abs(error) < 1.96 * deviation for error, deviation in pairs]
                low, high = one["contrast_interval_per_mm"]
                if row["kind"] != "growth":
                    # Of a shell, a sphere's contrast says nothing.
                    covered.append(low < row["lesion_contrast_per_mm"] < high)
                    contrasts.append(one["contrast_per_mm"] / row["lesion_contrast_per_mm"])
                low, high = one["size_interval_mm"]
                in_size.append(low <= row["lesion_size_mm"] <= high)
                if row["kind"] == "mass" and row.get("contrast", {}).get("alone", 0) > 0:
                    ratio.append(row["contrast"]["f + c"] / row["contrast"]["alone"])
                    joint_ratio.append(row["contrast"]["joint"] / row["contrast"]["alone"])
                break
    seconds = [row["seconds"]["change"] / row["seconds"]["joint"] for row in rows]
    return {
        "findings of lesions": len(plane),
        "error of place in plane, in depth, median mm": [_median(plane), _median(depth)],
        "error of place in plane, in depth, 90th percentile mm": [_tenth(plane), _tenth(depth)],
        "places within 95 %": _mean(in_place),
        "sizes within 95 %": _mean(in_size),
        "contrasts within 95 %": _mean(covered),
        "contrast found over true, median": _median(contrasts),
        "contrast of f + c over one visit's, median": _median(ratio),
        "contrast of the joint volume over one visit's, median": _median(joint_ratio),
        "cost of the joint run": _median(seconds),
        "error of the motion, median mm": _median([row["tre_mm"] for row in rows]),
    }


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else math.nan


def _tenth(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.9)) if values else math.nan


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else math.nan
