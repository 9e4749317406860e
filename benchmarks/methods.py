"""The methods side by side on the study set, each beside an oracle that knows the motion.

    python -m benchmarks.methods --set a            # same grid, no noise; 21 cases
    python -m benchmarks.methods --set b --cases 5  # twice finer grid, Poisson noise; the first five cases
    python -m benchmarks.methods --set a --methods coupled,alternating,sequential,iterative --json rows.json

One row per case and method: mean target registration error over the object, relative error
|f - truth|^2 / |truth|^2 of the volume, that of the same solver given the true motion, projector applications
(A or its adjoint, one visit), and seconds. All methods have the same priors and the same stages. Cases are
numbered from 0; the last is the large motion, which is always run first.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.study_set import GRID, N_CASES, motion, relative_error, study, tre_mm
from duotomo.methods import (
    Alternating,
    Coupled,
    Result,
    Settings,
    State,
    Study,
    iterative,
    sequential,
    simultaneous,
    with_known_motion,
)
from duotomo.transforms import Affine, Motion, Rigid, Translation, model_name

Row = dict[str, Any]
MODELS = {model_name(model): model for model in (Translation, Rigid, Affine)}
COLUMNS = (
    "case",
    "method",
    "solver",
    "tre_mm",
    "relative_error",
    "oracle_relative_error",
    "projector_applications",
    "seconds",
    "status",
)


class Trace:
    """Notes, after every block, how far the motion is from the truth and what that has cost."""

    def __init__(self, true: Motion) -> None:
        self.points: list[tuple[int, float]] = []
        self._true = true

    def load(self) -> None:
        """There is nothing to go on from."""

    def save(self, state: State) -> None:
        """Note a state."""
        found = Motion(MODELS[state.model](GRID), state.params[0])
        self.points.append((state.applications, tre_mm(found, self._true)))


def applications_to(tre: float, points: list[tuple[int, float]]) -> int | None:
    """Return what the first block of a trace that ended within `tre` had cost."""
    return next((count for count, reached in points if reached <= tre), None)


def rows_of(case: int, data: str, methods: list[str], *, device: str, n_visits: int) -> list[Row]:
    """Return the rows of one case."""
    others = tuple((case + 7 * k) % (N_CASES - 1) for k in range(1, n_visits - 1))
    visits, true = study(case, data, device=device, extra=others), motion(case)
    known = [true, *map(motion, others)]
    coupled = Settings.for_study(visits, Affine)
    oracle = relative_error(with_known_motion(visits, coupled, known).volume)
    rows = []
    for method in methods:
        trace = Trace(true)
        result = METHODS[method](visits, trace)
        row = {
            "case": case,
            "method": "simultaneous" if method in ("coupled", "alternating") else method,
            "solver": method if method in ("coupled", "alternating") else None,
            "tre_mm": tre_mm(result.motions[0], true),
            "relative_error": relative_error(result.volume),
            "oracle_relative_error": oracle,
            "projector_applications": result.applications,
            "seconds": result.seconds,
            "status": result.status.value,
            "trace": trace.points,
        }
        if "visit_2_registered" in result.others:
            row["registered_relative_error"] = relative_error(result.others["visit_2_registered"])
        rows.append(row)
    return rows


def _simultaneous(solver: Coupled | Alternating) -> Callable[[Study, Trace], Result]:
    def run(visits: Study, trace: Trace) -> Result:
        settings = Settings.for_study(visits, Affine, solver=solver)
        return simultaneous(visits, settings, checkpoint=trace)

    return run


METHODS: dict[str, Callable[[Study, Trace], Result]] = {
    "coupled": _simultaneous(Coupled()),
    "alternating": _simultaneous(Alternating()),
    "sequential": lambda visits, _: sequential(visits, Settings.for_study(visits, Affine)),
    "iterative": lambda visits, _: iterative(visits, Settings.for_study(visits, Affine)),
}


def summary(rows: list[Row]) -> list[str]:
    """Return what the rows come to, one sentence each."""
    lines = []
    of: dict[str, list[Row]] = {}
    for row in rows:
        of.setdefault(row["solver"] or row["method"], []).append(row)
    for name, group in of.items():
        tre = [row["tre_mm"] for row in group]
        ratio = [row["relative_error"] / row["oracle_relative_error"] for row in group]
        lines.append(
            f"{name}: TRE median {statistics.median(tre):.3f}, worst {max(tre):.3f} mm; relative error "
            f"{min(ratio):.2f} to {max(ratio):.2f} times the oracle's, median "
            f"{statistics.median(ratio):.2f}; {sum(row['seconds'] for row in group):.0f} s in all"
        )
    if "coupled" in of and "sequential" in of:
        pairs = list(zip(of["coupled"], of["sequential"], strict=True))
        reference = [s["relative_error"] / c["relative_error"] for c, s in pairs]
        moved = [s["registered_relative_error"] / c["relative_error"] for c, s in pairs]
        lines.append(
            f"sequential / simultaneous relative error: reference {min(reference):.2f} to "
            f"{max(reference):.2f}, registered {min(moved):.2f} to {max(moved):.2f}; the paper's toroid: 31"
        )
    if "iterative" in of and "sequential" in of:
        pairs = list(zip(of["iterative"], of["sequential"], strict=True))
        moved = [s["registered_relative_error"] / i["registered_relative_error"] for i, s in pairs]
        lines.append(
            f"sequential / iterative relative error, registered: {min(moved):.2f} to {max(moved):.2f}; "
            f"the paper's toroid: 1.6"
        )
    if "coupled" in of and "alternating" in of:
        lines.append(_race(of["coupled"], of["alternating"]))
    return lines


def _race(coupled: list[Row], alternating: list[Row]) -> str:
    shares, worse = [], 0
    for ours, theirs in zip(coupled, alternating, strict=True):
        goal = 1.05 * theirs["tre_mm"]
        cost = applications_to(goal, ours["trace"])
        worse += ours["tre_mm"] > theirs["tre_mm"]
        if cost is not None:
            shares.append(cost / theirs["projector_applications"])
    return (
        f"coupled reaches the TRE that alternating ends with (within 5 %) with "
        f"{statistics.median(shares):.2f} of its projector applications, median of {len(shares)} (worst "
        f"{max(shares):.2f}); it ends worse in {worse}"
    )


def main() -> None:
    """Run the cases asked for, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set", choices="ab", default="a", help="a: same grid, no noise; b: finer grid, noise"
    )
    parser.add_argument(
        "--cases", type=int, default=N_CASES, help="how many, the large motion always among them"
    )
    parser.add_argument("--methods", default="coupled,sequential", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--visits", type=int, default=2, help="visits of each study")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    cases = [N_CASES - 1, *range(N_CASES - 1)][: max(1, options.cases)]
    # Once on a small part, so that no case pays for compiling.
    rows_of(0, options.set, [], device=options.device, n_visits=2)
    rows: list[Row] = []
    print("  ".join(f"{name[:12]:>12}" for name in COLUMNS), flush=True)
    for case in cases:
        for row in rows_of(
            case, options.set, options.methods.split(","), device=options.device, n_visits=options.visits
        ):
            rows.append(row)
            print("  ".join(f"{_text(row[name]):>12}" for name in COLUMNS), flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print()
    for line in summary(rows):
        print(line)


def _text(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)[:12]


if __name__ == "__main__":
    main()
