"""Whether memory, threads, file handles and temporary files stay level while commands go on and on.

    python -m benchmarks.soak joint                     # 200 joint runs in one process: minutes
    python -m benchmarks.soak view --minutes 120        # the server of `duotomo view` under load: two hours

The exit code is 1 where something grows. Needs Linux's /proc.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import soak_joint, soak_view
from benchmarks.usage import Limits, Usage, verdict

EVERY = 10
"""Of so many moments one is printed."""


def faults_of_end(ends: dict[str, float]) -> list[str]:
    """Return what is wrong with the way in which a server ended."""
    names = ("exit_code", "n_temporary", "n_tracebacks")
    return [f"{name} {ends[name]:g}, expected 0" for name in names if ends[name]]


def main(words: Sequence[str] | None = None) -> int:
    """Run one of them, print what is measured, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("joint", "view"))
    parser.add_argument("--runs", type=int, default=200, help="of joint")
    parser.add_argument("--minutes", type=float, default=120.0, help="of view")
    parser.add_argument("--warm-up", type=int, help="moments that do not count: 20 runs, 12 of view")
    parser.add_argument("--json", type=Path, help="write the moments here, after every one")
    options = parser.parse_args(words)
    asked: Counter[str] = Counter()
    ends: dict[str, float] = {}
    if options.what == "joint":
        limits, measured = soak_joint.LIMITS, soak_joint.soak_joint(options.runs)
    else:
        limits, measured = soak_view.LIMITS, soak_view.soak_view(options.minutes, asked, ends)
    if options.warm_up is not None:
        limits = replace(limits, warm_up=options.warm_up)
    moments: list[Usage] = []
    for moment in measured:
        moments.append(moment)
        if len(moments) % EVERY == 1:
            print(f"{len(moments):5d} {moment}", flush=True)
        _write(options.json, moments, limits)
    print(f"{len(moments):5d} {moments[-1]}")
    found = verdict(moments, limits)
    wrong = faults_of_end(ends) if options.what == "view" else []
    if options.what == "view":
        print(
            f"{sum(asked.values())} requests: {', '.join(f'{n} {name}' for name, n in sorted(asked.items()))}"
        )
        print(", ".join(f"{name} {value:g}" for name, value in ends.items()))
    print("; ".join([str(found), *wrong]))
    _write(options.json, moments, limits, verdict=asdict(found), asked=dict(asked), ends=ends)
    return 0 if found.level and not wrong else 1


def _write(path: Path | None, moments: Sequence[Usage], limits: Limits, **more: Any) -> None:
    if path is not None:
        content = {"limits": asdict(limits), "moments": [asdict(one) for one in moments], **more}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
