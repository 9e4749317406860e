"""Run duotomo beside its peers, whatever of them is installed, in one process: `python -m benchmarks.peers`.

Projectors and warps, on the CPU and, where there is one, on the GPU. The programs take turns. A program that
fails is a row with the reason; one that cannot run here is named before the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks import projector, warp
from benchmarks.cases import CASES, FOR_A_GPU, WARPS
from benchmarks.contest import Entrant
from benchmarks.rows import Row, print_header, print_rows, write_rows
from benchmarks.timing import machine

PACKAGES = ("duotomo", "torch", "itk-rtk", "SimpleITK", "astra-toolbox", "leapct")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print its table and write its file, which grows with every case."""
    options = parse(arguments)
    machines = {device: machine(device) for device in options.devices}
    missing = left_out(options)
    about = {"machines": machines, "versions": versions(), "left_out": missing}
    for device, words in machines.items():
        print(f"{device}: {words}; float32; {repeats_on(device, options)} repeats")
    for name, why in missing.items():
        print(f"{name} is left out: {why}")
    print_header("duotomo beside its peers")
    rows: list[Row] = []
    for device in options.devices:
        for case in options.cases or default_cases(device):
            found = run(case, device, options)
            print_rows(found)
            rows += found
            if options.json is not None:
                write_rows(options.json, rows, about)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    gpu = ["cuda"] if torch.cuda.is_available() else []
    lists = {
        "--devices": (["cpu", *gpu], "default: the CPU and, where there is one, the GPU"),
        "--cases": ([*CASES, *WARPS], f"default: all, {' and '.join(FOR_A_GPU)} on a GPU only"),
        "--programs": (list(entrants()), "default: whatever is installed"),
    }
    for name, (known, words) in lists.items():
        parser.add_argument(name, type=_words, help=f"some of {','.join(known)}; {words}")
    parser.add_argument("--repeats", type=int, help="runs after warm-up; default 5 (GPU: 20)")
    parser.add_argument(
        "--limit",
        type=float,
        default=60.0,
        help="seconds for all runs of an operation by a program; default 60",
    )
    parser.add_argument("--shape", type=warp.triple, default=warp.SHAPE, help="voxels z,y,x of the warps")
    parser.add_argument("--control", type=warp.triple, default=warp.CONTROL, help="control points z,y,x")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    for name, (known, _) in lists.items():
        asked = getattr(options, name.strip("-"))
        if unknown := sorted(set(asked or ()) - set(known)):
            parser.error(f"{name}: expected some of {known}; got {unknown}")
    options.devices = options.devices or lists["--devices"][0]
    options.programs = options.programs or list(entrants())
    return options


def _words(text: str) -> list[str]:
    return text.split(",")


def default_cases(device: str) -> list[str]:
    """Return the cases that run on a device unless others are asked for."""
    return [case for case in (*CASES, *WARPS) if device == "cuda" or case not in FOR_A_GPU]


def repeats_on(device: str, options: argparse.Namespace) -> int:
    """Return how often a program runs."""
    return options.repeats or (20 if device == "cuda" else 5)


def run(case: str, device: str, options: argparse.Namespace) -> list[Row]:
    """Judge and time the programs on one case."""
    repeats = repeats_on(device, options)
    if case in CASES:
        names = [name for name in projector.PROGRAMS if name in options.programs]
        return projector.run_case(case, names, device=device, repeats=repeats, limit_s=options.limit)
    names = [name for name in warp.PROGRAMS if name in options.programs]
    return warp.run_transform(
        case, names, options.shape, options.control, device=device, repeats=repeats, limit_s=options.limit
    )


def left_out(options: argparse.Namespace) -> dict[str, str]:
    """Return the programs that can run on none of the devices, and why."""
    reasons = {}
    for name, entrant in entrants().items():
        states = [entrant.available(device) for device in options.devices]
        if name in options.programs and not any(states):
            reasons[name] = str(states[-1])
    return reasons


def entrants() -> dict[str, Entrant]:
    """Return all programs, of projectors and of warps."""
    return {**projector.PROGRAMS, **warp.PROGRAMS}


def versions() -> dict[str, str]:
    """Return the versions of what is installed as a package."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
