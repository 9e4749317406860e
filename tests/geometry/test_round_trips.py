"""Grids and acquisitions come back as they were: from what they print, from JSON and from a pickle."""

import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.geometry import Acquisition, VolumeGrid
from tests.strategies import acquisitions, grids

KINDS = {VolumeGrid: grids(), Acquisition: acquisitions()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_repr_json_and_pickle_round_trips(kind, data):
    value = data.draw(KINDS[kind])
    assert eval(repr(value)) == value
    assert kind.from_json(value.to_json()) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert hash(dataclasses.replace(value)) == hash(value)
