"""Hostile inputs are tried by two processes at a time, while the tests wait for how each ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest

from tests.fuzz.drawn.pool import Ended, trials


@pytest.fixture(scope="session")
def ends(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Ended]]]:
    """How every input ends that the chosen tests have as `tried_input`."""
    items = [getattr(item, "callspec", None) for item in request.session.items]
    names = [item.params["tried_input"] for item in items if item and "tried_input" in item.params]
    with trials(names, tmp_path_factory.mktemp("fuzz")) as found:
        yield found
