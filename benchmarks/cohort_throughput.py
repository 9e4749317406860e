"""How much sooner a cohort is done than a loop over its cases.

    python -m benchmarks.cohort_throughput --out out/throughput --cases 17
    python -m benchmarks.cohort_throughput --out out/throughput --cases 17 --device cuda --per-gpu 8 17

The loop is what a user would write: `duotomo joint` for each study, one after the other, with all cores. Then
`duotomo cohort` computes the same studies with its own workers. Compiled loops are cached before either
begins. `--loop 6` computes the first six only in the loop, and counts each of the others as their mean. The
load of the machine before each says what else it was doing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.cohort_studies import write_cohort

OPTIONS = {"transform": "rigid", "uncertainty": "false"}
DUOTOMO = [sys.executable, "-m", "duotomo"]


def seconds_of(*commands: list[str]) -> float:
    """Return the seconds that commands take, one after the other; a result that is not trusted is one too."""
    began = time.monotonic()
    for words in commands:
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if ran.returncode not in (0, 3):
            said = f"{' '.join(words)}: {ran.stderr.strip()}"
            raise SystemExit(f"cohort_throughput: expected exit code 0 or 3; got {ran.returncode} of {said}")
    return time.monotonic() - began


def main() -> None:
    """Print, and write if asked, the seconds of both and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that is made anew")
    parser.add_argument("--cases", type=int, nargs="+", default=[17], help="of each cohort")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--per-gpu", type=int, nargs="+", default=[1], help="cases that share a GPU")
    parser.add_argument("--loop", type=int, help="so many cases in the loop; all unless given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    rows = []
    for n_cases in options.cases:
        folder = options.out / str(n_cases)
        manifest = write_cohort(folder, n_cases, broken=False, options=OPTIONS)
        studies = sorted(folder.glob("*.h5"))
        model = ["--transform", "rigid", "--no-uncertainty", "--device", options.device, "--quiet"]
        loop = [
            [*DUOTOMO, "joint", str(study), "--out", str(folder / "loop" / study.stem), *model]
            for study in studies[: options.loop]
        ]
        if not rows:
            seconds_of([*DUOTOMO, "joint", str(studies[0]), "--out", str(options.out / "first"), *model])
        busy = os.getloadavg()[0]
        alone = seconds_of(*loop) * n_cases / len(loop)
        for per_gpu in options.per_gpu:
            row = {
                "cases": n_cases,
                "device": options.device,
                "per_gpu": per_gpu,
                "cores": len(os.sched_getaffinity(0)),
                "load_before": [busy, os.getloadavg()[0]],
                "in_loop": len(loop),
                "loop_s": alone,
            }
            where = ["--device", options.device, "--per-gpu", str(per_gpu), "--quiet"]
            out = folder / f"cohort_{per_gpu}"
            together = seconds_of([*DUOTOMO, "cohort", str(manifest), "--out", str(out), *where])
            rows.append(row | {"cohort_s": together, "ratio": alone / together})
            seconds = f"{alone:.1f} s in a loop, {together:.1f} s as a cohort"
            shared = f" of {per_gpu} at once" if options.device == "cuda" else ""
            print(f"{n_cases} cases: {seconds}{shared}, {alone / together:.2f} times as fast", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
