"""The examples in the documentation run, and print what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("quick_start.md", "how_to/other_libraries.md", "how_to/notebooks.md", "how_to/adding_a_prior.md")
PAGES = (*PAGES, "how_to/adding_a_machine.md", "how_to/training_through_operators.md")
NEEDS = {"how_to/other_libraries.md": ("scipy", "pylops")}


def blocks(page: str) -> list[tuple[str, str | None]]:
    """Return the examples of a page, each with what the page says that it prints."""
    pattern = r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?"
    found = re.findall(pattern, (DOCS / page).read_text(), flags=re.DOTALL)
    return [(code, printed or None) for code, printed in found]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for library in NEEDS.get(page, ()):
        pytest.importorskip(library)
    names: dict[str, object] = {"__name__": "page"}
    examples = blocks(page)
    assert examples
    for code, printed in examples:
        exec(compile(code, page, "exec"), names)
        out = capsys.readouterr().out
        if printed is not None:
            assert out == printed


def test_the_prior_of_the_page_obeys_the_laws() -> None:
    import torch

    from duotomo.geometry import VolumeGrid

    names: dict[str, object] = {"__name__": "page"}
    code, _ = blocks("how_to/adding_a_prior.md")[0]
    exec(compile(code, "adding_a_prior.md", "exec"), names)
    grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 1.0, 1.0))
    prior = names["Plateau"](grid, value_per_mm=0.05, smoothing=0.01)  # type: ignore[operator]
    x, d = torch.rand(2, *grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    step = 1e-6
    slope = (prior.value(x + step * d) - prior.value(x - step * d)) / (2 * step)
    assert slope == pytest.approx(float((prior.value_and_gradient(x)[1] * d).sum()), rel=1e-6)
    # The parabola touches at x and nowhere lies below.
    value, gradient = prior.value_and_gradient(x)
    parabola = value + float((gradient * d).sum()) + 0.5 * float((d * prior.curvature(x)(d)).sum())
    assert prior.value(x + d) <= parabola + 1e-12


def test_every_decision_is_listed() -> None:
    index = (DOCS / "decisions" / "index.md").read_text()
    for page in (DOCS / "decisions").glob("0*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ")
        assert f"- [{title}]({page.name})" in index
