"""A study in a file, which commands read."""

from __future__ import annotations

from pathlib import Path

import pytest

from duotomo.io import write_study
from tests.cli.tiny import tiny_study


@pytest.fixture(scope="module")
def study_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.h5"
    write_study(path, tiny_study())
    return path
