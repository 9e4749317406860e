"""What memory it takes to say what changed."""

from __future__ import annotations

from duotomo.methods import Study

HELD = 200
"""Volumes that scores hold at once, at most: draws, slopes, solves, and spectra of templates. On a CPU they
are fewer; of a GPU, whose transforms take more, it was measured when draws were held longer."""


def change_bytes(study: Study) -> int:
    """Estimate the peak memory of the arrays of `change_of`.

    Parameters
    ----------
    study : Study
        The visits.

    Returns
    -------
    int
        Bytes.
    """
    return HELD * study.grid.n_voxels * study.reference.projections.element_size()
