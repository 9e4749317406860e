"""The projector needs little more than its input and its output: below a tenth of the volume.

Measured in a process of its own, since a high-water mark never falls: VmHWM, the most memory the program ever
had resident (ru_maxrss would do, but it inherits the mark of the process that started it). The program first
compiles and warms up on a tiny volume, then allocates its input and writes to it; that is the level before.
The mark after the call, less that level and less the output, is what the projector itself needed at most.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from math import radians
from pathlib import Path

import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector

direction, tilt_deg = sys.argv[1], float(sys.argv[2])


def most_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def operator(shape, detector_shape):
    grid = VolumeGrid.on_detector(shape, (1.0, 0.1, 0.1), gap_mm=8.0)
    scan = Acquisition.arc(
        n_views=4,
        angle_range_rad=radians(20),
        detector_tilt_range_rad=radians(tilt_deg),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        detector_shape=detector_shape,
        pixel_spacing_mm=(0.1, 0.1),
    )
    projector = Projector(grid=grid, acquisition=scan)
    return projector if direction == "forward" else projector.adjoint


tiny = operator((3, 20, 30), (25, 40))
tiny(torch.ones(tiny.domain))
large = operator((64, 700, 1200), (800, 1400))
x = torch.ones(large.domain)
before = most_bytes()
y = large(x)
after = most_bytes()
volume = 4 * 64 * 700 * 1200
print((after - before - 4 * y.numel()) / volume, (after - before) / volume)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("tilt_deg", [0.0, 4.2], ids=["static", "tilting"])
@pytest.mark.parametrize("direction", ["forward", "adjoint"])
def test_the_projector_needs_less_than_a_tenth_of_the_volume(direction: str, tilt_deg: float) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, direction, str(tilt_deg)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    extra, grown = (float(share) for share in done.stdout.split())
    print(f"{direction}, tilt {tilt_deg} degrees: {extra:.1%} of the volume beyond input and output")
    # The mark did rise, by the output at least: otherwise something earlier had hidden the call.
    assert grown > 0.05
    assert extra < 0.10
