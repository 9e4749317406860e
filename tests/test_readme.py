"""The examples in the README run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
PRINTED = [
    r"Status\.\w+ \{'rotation_deg': tensor\(\[.*, *8\.\d+e\+00, .*'translation_mm': tensor\(\[ *(4\.0|3\.9)",
]


@pytest.mark.parametrize(("example", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)))
def test_readme_examples_run(example: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, str(README), "exec"), {})
    assert re.match(printed, capsys.readouterr().out)
