"""What a computation depends on, in one line of text."""

from __future__ import annotations

import hashlib

import torch

import duotomo
from duotomo.methods.study import Study


def fingerprint(study: Study, *, method: str, settings: object) -> str:
    """Return `study=HASH method=NAME settings=HASH duotomo=VERSION`: equal where the result is meant to be.

    The study's hash, SHA-256, is over its grids, its geometry and every bit of its data; that of the settings
    over their `repr`. The device is left out: a run may go on elsewhere, up to rounding.

    >>> from duotomo.geometry import Acquisition, VolumeGrid
    >>> from duotomo.methods.study import Visit
    >>> scan = Acquisition.arc(n_views=1, angle_range_rad=0, source_to_detector_mm=660, pivot_height_mm=0,
    ...                        detector_shape=(8, 8), pixel_spacing_mm=(1, 1))
    >>> visit = Visit(projections=torch.ones(1, 8, 8), acquisition=scan)
    >>> study = Study(grid=VolumeGrid.on_detector((4, 8, 8), (1.0, 1.0, 1.0)), visits=(visit,))
    >>> fingerprint(study, method="simultaneous", settings="none").split()[1]
    'method=simultaneous'
    """
    data = hashlib.sha256(study.grid.to_json().encode())
    for visit in study.visits:
        for described in (visit.acquisition, study.grid_of(visit)):
            data.update(described.to_json().encode())
        for values in (visit.projections, visit.weights):
            _add(data, values)
    chosen = hashlib.sha256(repr(settings).encode())
    return (
        f"study={data.hexdigest()} method={method} settings={chosen.hexdigest()} "
        f"duotomo={duotomo.__version__}"
    )


def differing(one: str, other: str) -> list[str]:
    """Return the names of the parts in which two fingerprints differ.

    >>> differing("study=1 method=iterative", "study=1 method=sequential")
    ['method']
    """
    parts, others = (dict(word.partition("=")[::2] for word in text.split()) for text in (one, other))
    return [name for name in {**parts, **others} if parts.get(name) != others.get(name)]


def _add(data: hashlib._Hash, values: torch.Tensor | None) -> None:
    if values is None:
        data.update(b"none")
        return
    array = values.detach().cpu().contiguous().numpy()
    data.update(f"{array.dtype} {array.shape}".encode())
    data.update(array.data)
