"""The page is one file that holds the volumes, fetches nothing, and lets no text become markup."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.io import FileError, read_result
from duotomo.report import page, page_volumes
from duotomo.report.page import viewer_part, write_page
from duotomo.report.page_volumes import coarsening
from tests.io.saved_helpers import edited_index
from tests.report.page_results import GRID, LANDMARK, MOVED, QUALITY, body, result, save, spline

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&<!--"
SCRIPT, STYLE = "const s = '</script>';", "body { margin: 0 }"


class Parsed(HTMLParser):
    """The elements of a page, their attributes, and the text of its data elements by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.data: dict[str, str] = {}
        self.words: list[str] = []
        self._inside: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._inside = dict(attrs).get("id", tag) if tag in ("script", "style") else None

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.words.append(data)
        else:
            self.data[self._inside] = self.data.get(self._inside, "") + data

    def described(self) -> dict[str, Any]:
        return dict(json.loads(self.data["viewer-data"]))

    def volume(self, name: str) -> np.ndarray[Any, Any]:
        """Return a volume's values (z, y, x)."""
        element = next(one["element"] for one in self.described()["volumes"] if one["name"] == name)
        image = nibabel.Nifti1Image.from_bytes(gzip.decompress(b64decode(self.data[element])))
        return image.get_fdata().transpose(2, 1, 0)


@pytest.fixture(autouse=True)
def _small_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the built viewer, which these tests do not run."""
    parts = {page.SCRIPT: SCRIPT, page.STYLE: STYLE}
    monkeypatch.setattr(page, "viewer_part", parts.__getitem__)


def parsed(folder: Path) -> Parsed:
    return Parsed(write_page(folder).read_text(encoding="utf-8"))


def test_the_page_holds_the_volumes_on_their_grid(tmp_path: Path) -> None:
    found = parsed(save(tmp_path, result()))
    described = found.described()
    assert [one["name"] for one in described["volumes"]] == ["visit_1", "volume", "visit_2_registered"]
    assert (described["reference"], described["prior"]) == ("visit_1", "visit_2_registered")
    assert tuple(described["lattice"]["shape"]) == GRID.shape[::-1]
    for name, landmark in (("visit_1", LANDMARK), ("visit_2_registered", MOVED)):
        np.testing.assert_allclose(found.volume(name), body(landmark), atol=described["slope"] / 2, rtol=0)


def test_a_landmark_keeps_its_place_in_the_world(tmp_path: Path) -> None:
    found = parsed(save(tmp_path, result()))
    element = found.described()["volumes"][0]["element"]
    image = nibabel.Nifti1Image.from_bytes(gzip.decompress(b64decode(found.data[element])))
    world = nibabel.affines.apply_affine(image.affine, LANDMARK[::-1])
    lattice = found.described()["lattice"]
    expected = [
        f + i * d for f, i, d in zip(lattice["first"], LANDMARK[::-1], lattice["spacing"], strict=True)
    ]
    np.testing.assert_allclose(world, expected, atol=1e-4)
    low = GRID.low_mm[::-1]
    np.testing.assert_allclose(
        expected,
        [a + (i + 0.5) * d for a, i, d in zip(low, LANDMARK[::-1], GRID.spacing_mm[::-1], strict=True)],
    )


def test_nothing_can_be_fetched(tmp_path: Path) -> None:
    text = write_page(save(tmp_path, result())).read_text(encoding="utf-8")
    found = Parsed(text)
    policy = next(
        value for name, value in found.attributes if name == "content" and "default-src" in str(value)
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    assert "unsafe" not in policy
    assert "http" not in policy
    # What the browser hashes is what stands between the tags.
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for rule, contents in (("script-src", script), ("style-src", style)):
        assert [f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in contents] == [
            rules[rule]
        ]
    links = [value for name, value in found.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert links == ["data:,"]
    assert not any(name == "style" or name.startswith("on") for name, _ in found.attributes)


def test_the_script_cannot_end_its_own_element(tmp_path: Path) -> None:
    found = parsed(save(tmp_path, result()))
    assert found.data["script"] == SCRIPT.replace("</script>", "<\\/script>")


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    tame = parsed(save(tmp_path / "tame", result(), settings={"x": "y"}))
    step = replace(result().history[0], what=HOSTILE)
    made = result(method=HOSTILE, reason=HOSTILE, history=(step, *result().history[1:]))
    found = parsed(save(tmp_path / "hostile", made, settings={HOSTILE: HOSTILE, "python": HOSTILE}))
    assert set(found.tags) - set(tame.tags) <= {"details", "summary"}
    assert found.tags.count("script") == tame.tags.count("script")
    assert "img" not in found.tags
    assert "".join(found.words).count(HOSTILE) >= 5
    assert not any(name.startswith("on") for name, _ in found.attributes)


def test_one_visit_has_one_picture_and_no_motion(tmp_path: Path) -> None:
    found = parsed(save(tmp_path, result(compared=False), quality=None))
    described = found.described()
    assert [one["title"] for one in described["volumes"]] == ["Reconstruction"]
    assert described["prior"] is None
    assert described["deformations"] == []
    assert "Motion between the visits" not in found.words


def test_a_registration_compares_the_fixed_volume_with_the_registered_one(tmp_path: Path) -> None:
    others = {"visit_2_registered": body(MOVED), "visit_2": body(MOVED)}
    described = parsed(save(tmp_path, result(others=others))).described()
    # What the visit shows in its own frame is there to compare with, and last.
    assert [one["name"] for one in described["volumes"]] == ["volume", "visit_2_registered", "visit_2"]
    assert [one["registered"] for one in described["volumes"]] == [True, True, False]
    assert described["volumes"][0]["title"] == "Reference (visit 1)"
    assert described["volumes"][2]["title"] == "Visit 2, not registered"
    assert described["prior"] == "visit_2_registered"


def test_a_volume_on_another_grid_is_brought_to_the_reference_grid(tmp_path: Path) -> None:
    fine = GRID.refine((1, 2, 2))
    doubled = body(MOVED).repeat_interleave(2, 1).repeat_interleave(2, 2)
    others = {"visit_1": body(LANDMARK), "visit_2_registered": doubled}
    found = parsed(save(tmp_path, result(others=others, grids={"visit_2_registered": fine})))
    inner = (slice(1, -1), slice(1, -1), slice(1, -1))
    difference = np.abs(found.volume("visit_2_registered") - body(MOVED).numpy())[inner]
    assert difference.max() < found.described()["slope"]


def test_large_volumes_are_coarsened_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_volumes, "MOST_VOXELS", GRID.n_voxels // 4)
    found = parsed(save(tmp_path, result()))
    described = found.described()
    assert described["lattice"]["shape"] == [20, 15, 12]
    assert any(
        "coarser than the result: voxels of 3 \N{MULTIPLICATION SIGN} 3" in words for words in found.words
    )
    mean = body(LANDMARK).reshape(12, 15, 2, 20, 2).mean((2, 4))
    np.testing.assert_allclose(found.volume("visit_1"), mean, atol=described["slope"] / 2 + 1e-7, rtol=0)


@pytest.mark.parametrize("most", [1, 100, 5000, 10**9])
def test_coarsening_leaves_at_most_so_many_voxels(most: int) -> None:
    factors = coarsening(GRID, most)
    assert GRID.coarsen(factors).n_voxels <= most
    assert factors[1] == factors[2]
    assert most < 10**9 or factors == (1, 1, 1)


def test_the_same_result_gives_the_same_page(tmp_path: Path) -> None:
    folder = save(tmp_path, result(motion=spline()))
    assert write_page(folder).read_bytes() == write_page(folder, tmp_path / "again.html").read_bytes()


def test_the_page_says_what_was_found(tmp_path: Path) -> None:
    words = " ".join(parsed(save(tmp_path, result())).words)
    for told in (
        "simultaneous",
        "Converged",
        "times the noise",
        "folds nowhere",
        "Shift",
        "Yang, Guang",
        "bending",
    ):
        assert told in words


def test_the_volume_has_a_window_even_when_it_is_constant(tmp_path: Path) -> None:
    flat = torch.zeros(GRID.shape)
    found = parsed(save(tmp_path, result(compared=False, volume=flat), quality=None))
    low, high = found.described()["window"]
    assert low < high
    assert found.described()["slope"] > 0


def test_a_volume_that_is_not_finite_is_not_drawn(tmp_path: Path) -> None:
    saved = read_result(save(tmp_path, result(compared=False)))
    endless = replace(saved, volume=torch.full(GRID.shape, torch.inf))
    with pytest.raises(DuotomoError, match="page_volumes: expected the volume 'volume' to be finite"):
        page_volumes.page_volumes(endless)


def test_a_folder_without_a_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected a result at"):
        write_page(tmp_path)


def test_an_index_that_was_edited_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path, result())
    physical = {"physical": {"translation_mm": ["far"]}}
    edited_index(folder, lambda index: index | {"motions": [index["motions"][0] | physical]})
    with pytest.raises(FileError, match=r"expected .*result\.json as write_result wrote it"):
        write_page(folder)


def test_a_page_needs_a_name_that_browsers_know(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected a name that ends in \.html"):
        write_page(save(tmp_path, result()), tmp_path / "page.txt")


def test_a_package_without_the_viewer_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path, result())
    monkeypatch.setattr(page, "viewer_part", viewer_part)
    monkeypatch.setattr(page, "files", lambda _: tmp_path)
    with pytest.raises(DuotomoError, match=r"expected the viewer's viewer\.js.*npm run build") as refused:
        write_page(folder)
    # Nothing is wrong with the result: a run is kept without a page.
    assert not isinstance(refused.value, FileError)


def test_a_fused_volume_is_a_choice_and_the_text_says_what_it_is(tmp_path: Path) -> None:
    made = result()
    made = replace(made, others={**made.others, "fused": made.volume}, fused_mask=made.volume > 0.06)
    words = "the fused volume is from both views in 34 % of the breast"
    folder = save(tmp_path, made, quality=QUALITY | {"fused": {"words": words, "share": 0.34}})
    page = write_page(folder).read_text()
    assert '"title": "Both views where sure"' in page
    assert "The fused volume is from both views in 34 % of the breast." in page
