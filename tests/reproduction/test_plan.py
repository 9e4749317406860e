"""A plan says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from duotomo.errors import DuotomoError
from duotomo.reproduction import DataLevel, Plan


def test_the_folder_with_data_is_the_one_given(tmp_path: Path) -> None:
    assert Plan(level=DataLevel.REAL, data=tmp_path).data_folder("breast-mr") == tmp_path


def test_a_missing_folder_is_asked_for_by_its_name() -> None:
    message = r"breast-mr: expected a folder with third-party data at the level real; got none\. Pass `data`"
    with pytest.raises(DuotomoError, match=message):
        Plan(level=DataLevel.REAL).data_folder("breast-mr")


def test_the_page_that_an_error_names_is_there() -> None:
    root = Path(__file__).parents[2]
    with pytest.raises(DuotomoError, match=r"docs/third_party_data\.md"):
        Plan(level=DataLevel.REAL).data_folder("breast-mr")
    assert (root / "docs" / "third_party_data.md").is_file()
