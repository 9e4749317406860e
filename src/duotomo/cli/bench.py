"""`duotomo bench`: how fast projector and warps are on this machine, beside other programs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Annotated

import typer

from duotomo.cli._common import Device, DeviceOption, JsonOption, QuietOption, SeedOption, Talk, ThreadsOption

WIDTH = 110

Programs = dict[str, dict[str, Callable[[], object]]]
"""By name and direction, what a program does."""


class Size(Enum):
    """How large the problem is."""

    TINY = "tiny"
    SMALL = "small"
    MEDIUM = "medium"
    CLINICAL = "clinical"


_SHAPES: dict[Size, tuple[tuple[int, int, int], tuple[float, float, float], int, tuple[int, int], float]] = {
    # Voxels and their edges (z, y, x), views, pixels (v, u) and their edge.
    Size.TINY: ((12, 14, 16), (4.0, 4.0, 4.0), 3, (20, 24), 4.0),
    Size.SMALL: ((70, 70, 70), (1.0, 1.0, 1.0), 11, (128, 128), 1.0),
    Size.MEDIUM: ((125, 292, 267), (0.48, 0.48, 0.48), 11, (400, 400), 0.48),
    Size.CLINICAL: ((60, 1000, 2000), (1.0, 0.1, 0.1), 15, (1300, 2400), 0.1),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation of one program. rate: voxel-views, or voxels, per second."""

    operation: str
    program: str
    seconds: float
    rate: float
    unit: str


def bench(
    size: Annotated[Size, typer.Option(help="How large the problem is.")] = Size.SMALL,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each, after one to warm up.")] = 5,
    peers: Annotated[bool, typer.Option(help="Time other programs too, where installed.")] = True,
    device: DeviceOption = Device.CPU,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time the projector and the warps on this machine, beside RTK, PyTorch and SimpleITK.

    The programs take turns, and the best of the runs counts. float32. `grid_sample` is timed without
    its forward pass in the adjoint, and SimpleITK has no adjoint.

    Example: duotomo bench --size medium
    """
    import os

    import torch

    from duotomo.cli._aligned import aligned
    from duotomo.cli._common import prepare

    talk = Talk(quiet=quiet, as_json=as_json)
    prepare("duotomo bench", device=device, threads=threads, seed=seed)
    name = torch.cuda.get_device_name() if device is Device.CUDA else f"CPU, {os.cpu_count()} cores"
    shape, _, n_views, pixels, _ = _SHAPES[size]
    problem = (
        f"{' x '.join(map(str, shape))} voxels (z, y, x), {n_views} views of {' x '.join(map(str, pixels))}"
    )
    talk.progress(f"{name}; {problem}; float32; best of {repeats}")
    rows = list(_measure(size, device=device, repeats=repeats, peers=peers, seed=seed))
    table = [["operation", "program", "seconds", "rate", ""]]
    table += [
        [row.operation, row.program, f"{row.seconds:.4g}", f"{row.rate / 1e9:.3g}", f"1e9 {row.unit}/s"]
        for row in rows
    ]
    for line in aligned(table, width=WIDTH):
        talk.say(line)
    talk.finish({"machine": name, "problem": problem, "rows": [asdict(row) for row in rows]})


def _measure(size: Size, *, device: Device, repeats: int, peers: bool, seed: int) -> Iterator[Row]:
    import torch

    from duotomo.cli._peers import grid_sample_runs, rtk_runs, simpleitk_runs
    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.operators import Projector
    from duotomo.transforms import Affine, BSpline

    shape, spacing_mm, n_views, detector_shape, pixel_mm = _SHAPES[size]
    grid = VolumeGrid.on_detector(shape, spacing_mm, gap_mm=5.0)
    scan = Acquisition.arc(
        n_views=n_views,
        angle_range_rad=math.radians(50),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        detector_shape=detector_shape,
        pixel_spacing_mm=(pixel_mm, pixel_mm),
    )
    generator = torch.Generator(device.value).manual_seed(seed)
    volume = torch.rand(grid.shape, generator=generator, device=device.value)
    projections = torch.rand(scan.shape, generator=generator, device=device.value)
    others = peers and device is Device.CPU

    A = Projector(grid=grid, acquisition=scan)
    programs: Programs = {
        "duotomo": {"forward": lambda: A(volume), "adjoint": lambda: A.adjoint(projections)}
    }
    if others:
        programs["RTK"] = rtk_runs(grid, scan, volume, projections)
    work = grid.n_voxels * n_views
    yield from _rows("project", programs, work, "voxel-views", device, repeats)

    affine, spline = Affine(grid), BSpline.over(grid, (8, 8, 8))
    for transform in (affine, spline):
        params = torch.randn(transform.n_params, generator=torch.Generator().manual_seed(seed)).double()
        warp = transform.warp(params)
        programs = {
            "duotomo": {
                "forward": lambda warp=warp: warp(volume),  # type: ignore[misc]
                "adjoint": lambda warp=warp: warp.adjoint(volume),  # type: ignore[misc]
            }
        }
        if peers and transform is affine:
            programs["grid_sample"] = grid_sample_runs(affine, params, volume)
        if others and transform is affine:
            programs["SimpleITK"] = simpleitk_runs(affine, params, volume)
        name = type(transform).__name__
        yield from _rows(f"warp, {name}", programs, grid.n_voxels, "voxels", device, repeats)


def _rows(
    what: str,
    programs: Programs,
    work: int,
    unit: str,
    device: Device,
    repeats: int,
) -> Iterator[Row]:
    for direction in ("forward", "adjoint"):
        runs = {name: found[direction] for name, found in programs.items() if direction in found}
        best = dict.fromkeys(runs, math.inf)
        # In turns, so that a change of the machine's load meets all. The first compiles, and does not count.
        for turn in range(repeats + 1):
            for name, run in runs.items():
                seconds = _seconds(run, device)
                best[name] = min(best[name], seconds) if turn else math.inf
        for name, seconds in best.items():
            yield Row(
                operation=f"{what}, {direction}",
                program=name,
                seconds=seconds,
                rate=work / seconds,
                unit=unit,
            )


def _seconds(run: Callable[[], object], device: Device) -> float:
    import torch

    if device is Device.CUDA:
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device is Device.CUDA:
        torch.cuda.synchronize()
    return time.perf_counter() - start
