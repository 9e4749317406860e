"""`import duotomo` loads nothing heavy and changes nothing outside itself."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import duotomo

HEAVY = ("torch", "numba", "llvmlite", "triton", "matplotlib", "scipy", "rich", "typer")


def run(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    source = str(Path(duotomo.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    loaded = run(f"import sys, duotomo; print([name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "[]"


def test_geometry_needs_no_torch() -> None:
    loaded = run(
        f"import sys, duotomo; duotomo.VolumeGrid; print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_import_and_use_leave_global_state_alone() -> None:
    code = """
import random, sys, warnings
import numpy, torch

def state():
    threads = sys.modules["numba"].get_num_threads() if "numba" in sys.modules else None
    return (torch.get_default_dtype(), torch.get_num_threads(), torch.get_num_interop_threads(), threads,
            torch.is_grad_enabled(), torch.random.initial_seed(), random.getstate(),
            numpy.random.get_state()[1].tolist(), numpy.geterr(), list(warnings.filters))

{before}
before = state()
import duotomo
{use}
print(before == state())
"""
    assert run(code.format(before="", use="")) == "True"
    # What the libraries themselves do when first imported is theirs, and done before the first look.
    libraries = "import numba, matplotlib.figure"
    use = "[getattr(duotomo, name) for name in duotomo.__all__]; import duotomo.report, duotomo.solvers"
    assert run(code.format(before=libraries, use=use)) == "True"


@pytest.mark.parametrize("name", duotomo.__all__)
def test_every_public_name_is_there_and_listed(name: str) -> None:
    assert getattr(duotomo, name) is not None
    assert name in dir(duotomo)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'duotomo' has no attribute 'projector'"):
        _ = duotomo.projector


def test_version_is_that_of_the_distribution() -> None:
    metadata = importlib.import_module("importlib.metadata")
    try:
        installed = metadata.version("duotomo")
    except metadata.PackageNotFoundError:
        pytest.skip("duotomo runs from its source folder, not installed")
    assert duotomo.__version__ == installed


def test_a_scan_is_described_without_torch(tmp_path: Path) -> None:
    code = f"""
import sys
import numpy as np
import duotomo
from duotomo.geometry import paper
from duotomo.io import describe

geometry = paper(detector_shape=(4, 6), pixel_mm=16.0)
np.save("{tmp_path}/scan.npy", np.ones(geometry.shape, dtype=np.float32))
_ = open("{tmp_path}/scan.json", "w").write(geometry.to_json())
facts = describe("{tmp_path}/scan.npy")
print(facts["kind"], facts["n_views"], [name for name in {HEAVY} if name in sys.modules])
"""
    assert run(code) == "scan 11 []"


@pytest.mark.parametrize("models", [("translation", "affine"), ("affine", "bspline:5,5,5")])
def test_estimating_a_motion_loads_no_compiler_of_pytorch(models: tuple[str, str]) -> None:
    """The compiler takes a second and more, and a hundred megabytes."""
    code = f"""
import sys
from duotomo.methods import Settings, simultaneous
from tests.cases.studies import shifted, study
from tests.methods.runs import stages

simultaneous(study(shifted(1.0, 0.0, 0.0)), Settings(stages=stages(*{models}, n_steps=4)))
print("torch._dynamo" in sys.modules)
"""
    assert run(code) == "False"
