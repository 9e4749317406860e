"""What memory it takes to say what changed."""

from __future__ import annotations

from duotomo.methods import Study

HELD = 200
"""Volumes that scores were measured to hold at once: draws, slopes, solves, and spectra of templates."""


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
