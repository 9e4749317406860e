"""The example in the README runs, and finds the motion that it made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_example_finds_the_motion_that_it_made(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = EXAMPLES
    exec(compile(example, str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("Status.CONVERGED {'rotation_deg': tensor([")
    rotation_deg, translation_mm = (
        [float(number) for number in re.findall(rf"'{name}': tensor\(\[(.*?)\]", printed)[0].split(",")]
        for name in ("rotation_deg", "translation_mm")
    )
    # Measured: 0.23 degrees and 0.02 mm off.
    assert rotation_deg == pytest.approx([0.0, 8.0, 0.0], abs=0.3)
    assert translation_mm == pytest.approx([4.0, 0.0, 0.0], abs=0.05)
