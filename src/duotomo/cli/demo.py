"""`duotomo demo`: simulate a scan, reconstruct it, and draw what came out beside the truth."""

from __future__ import annotations

import math
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.operators import LinearOperator
    from duotomo.phantoms import Toroid
    from duotomo.solvers import Cgls, Solution, Step

_EDGE_MM = 70.0
_GAP_MM = 5.0
_FINER = 2


class Device(Enum):
    """Where to compute."""

    CPU = "cpu"
    CUDA = "cuda"


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("out/demo"),
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    size: Annotated[int, typer.Option(min=8, help="Voxels along an edge of the 70 mm cube.")] = 70,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the reconstruction.")] = 20,
) -> None:
    """Simulate one scan of a ring in soft tissue, 11 views over +-25 degrees, and reconstruct it."""
    # Imported here: `duotomo --help` needs none of it.
    import numpy as np
    import torch
    from rich.console import Console

    from duotomo.operators import Projector
    from duotomo.report import three_views
    from duotomo.simulate import scan
    from duotomo.solvers import Cgls

    console = Console(highlight=False, soft_wrap=True)
    if device is Device.CUDA and not torch.cuda.is_available():
        raise typer.BadParameter("no CUDA device is available here; use --device cpu", param_hint="--device")
    grid, acquisition, phantom = _set_up(size)
    out.mkdir(parents=True, exist_ok=True)

    console.print(f"Volume {grid.shape} (z, y, x), {grid.spacing_mm[0]:g} mm voxels")
    console.print(
        f"Projections {acquisition.shape} (view, v, u), {acquisition.pixel_spacing_mm[0]:g} mm pixels"
    )
    console.print(f"Memory: about {_memory_bytes(grid, acquisition) / 2**20:.0f} MiB of arrays")

    projector = Projector(grid=grid, acquisition=acquisition)
    with console.status("Compiling the projector's kernels"):
        seconds = time.perf_counter()
        projector.adjoint(projector(torch.zeros(grid.shape, device=device.value)))
        seconds = time.perf_counter() - seconds
    console.print(f"Kernels compiled and run once in {seconds:.1f} s; later runs find them in the cache")

    with console.status("Simulating the scan on a finer grid, with Poisson noise"):
        generator = torch.Generator(device=device.value).manual_seed(seed)
        projections = scan(phantom, grid, acquisition, generator=generator, finer=_FINER)
        truth = torch.from_numpy(phantom.voxels(grid, dtype=np.float32))

    seconds = time.perf_counter()
    solution = _solve(console, Cgls(n_steps=steps), projector, projections)
    seconds = time.perf_counter() - seconds
    volume = solution.value.cpu()
    relative_error = float(((volume - truth) ** 2).sum() / (truth**2).sum())
    console.print(f"CGLS: {solution.status.value} after {solution.n_steps} steps in {seconds:.1f} s")
    console.print(f"Relative error |f - truth|^2 / |truth|^2: {relative_error:.4f}")

    np.save(out / "volume.npy", volume.numpy())
    (out / "grid.json").write_text(grid.to_json() + "\n")
    three_views(
        out / "three_views.png", columns={"truth": truth, "reconstruction": volume}, grid=grid, unit="1/mm"
    )
    console.print("Wrote")
    for name in ("volume.npy", "grid.json", "three_views.png"):
        console.print(f"  {out / name}")


def _set_up(size: int) -> tuple[VolumeGrid, Acquisition, Toroid]:
    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.phantoms import EllipticCylinder, Toroid

    spacing_mm = _EDGE_MM / size
    grid = VolumeGrid.on_detector((size,) * 3, (spacing_mm,) * 3, gap_mm=_GAP_MM)
    acquisition = Acquisition.arc(
        n_views=11,
        angle_range_rad=math.radians(50),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        # As wide as the cube's shadow in the outermost views, so that no view is cut off.
        detector_shape=(math.ceil(84 / spacing_mm), math.ceil(168 / spacing_mm)),
        pixel_spacing_mm=(spacing_mm, spacing_mm),
    )
    z, y, x = grid.center_mm
    # Tissue from face to face in z: the height of the compression paddle is known in a real scan.
    body = EllipticCylinder(center_mm=(x, y, z), radii_mm=(32.0, 32.0), height_mm=_EDGE_MM, value=0.046)
    phantom = Toroid(
        center_mm=(x, y, z), major_radius_mm=16.0, minor_radius_mm=7.0, value=0.034, modulation=0.5, body=body
    )
    return grid, acquisition, phantom


def _memory_bytes(grid: VolumeGrid, acquisition: Acquisition) -> int:
    n_voxels, n_pixels, single, double = grid.n_voxels, math.prod(acquisition.shape), 4, 8
    simulating = (single + double) * n_voxels * _FINER**3 + 3 * double * n_pixels
    solving = single * (4 * n_voxels + 3 * n_pixels)
    return max(simulating, solving)


def _solve(console: Console, solver: Cgls, operator: LinearOperator, projections: torch.Tensor) -> Solution:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("Reconstructing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    ) as progress:
        task = progress.add_task("", total=solver.n_steps)

        def advance(_: Step) -> None:
            progress.advance(task)

        return solver.solve(operator, projections, on_step=advance)
