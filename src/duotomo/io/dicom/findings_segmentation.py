"""Findings to DICOM's Segmentation: which voxels of the current visit they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.change import Change, Finding
from duotomo.change.change import RESEARCH
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid, voxel_to_world, world_to_voxel
from duotomo.io.dicom.findings_codes import (
    ABNORMAL,
    ALGORITHM,
    BREAST,
    LESION,
    coded,
    equipment,
    instance,
    seen_in,
    tracking,
)
from duotomo.io.dicom.header import quiet
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.instance import SUFFIXES, save
from duotomo.io.libraries import highdicom
from duotomo.io.paths import AnyPath, target

ALGORITHM_FAMILY = ("123106", "DCM", "Multi-Scale/Resolution Filtering")
"""Of those that DICOM has, the nearest: filters of several sizes are held against the data."""

DESCRIPTION = "duotomo findings, research use only"


def write_findings_segmentation(
    path: AnyPath, change: Change, volume: AnyPath, *, identity: Identity | None = None
) -> None:
    """Write findings as a Segmentation: a binary segment for each, a ball of the finding's diameter.

    A voxel is in a finding if its centre is in the ball, or the ball's centre in the voxel. Of two that
    overlap, the surer one has it. Segments are in the order of the findings, and lie in the frame of
    reference of the volume, which the file refers to. An older file is replaced once the new one is complete.

    Parameters
    ----------
    path : str or path
        Ends in `.dcm`.
    change : Change
        With at least one finding.
    volume : str or path
        The DICOM file of `change.volume`, as `write_tomosynthesis` wrote it.
    identity : Identity, optional
        With which the volume was written; as the volume has it, if left out.

    Raises
    ------
    FileError
        If the volume is another one, or the file cannot be written.
    DuotomoError
        If there are no findings.
    """
    where = "write_findings_segmentation"
    path = target(where, path, SUFFIXES)
    if not change.findings:
        raise DuotomoError(
            f"{where}: expected findings; got none, and DICOM has no segmentation without a segment. Write "
            f"the report alone."
        )
    seen = seen_in(where, Path(volume), change, identity)
    with quiet():
        dataset = highdicom().seg.Segmentation(
            source_images=[seen.dataset],
            pixel_array=labels(change.findings, change.grid),
            segmentation_type="BINARY",
            segment_descriptions=[
                _segment(label, finding, seen.identity)
                for label, finding in enumerate(change.findings, start=1)
            ],
            content_label="FINDINGS",
            content_description=f"What changed between two visits. {RESEARCH}"[:64],
            content_creator_name="duotomo^",
            **instance(seen.identity, "SEG", DESCRIPTION),
            **equipment(),
        )
    dimensions = seen.identity.uid("dimension organization of findings")
    for one in (*dataset.DimensionOrganizationSequence, *dataset.DimensionIndexSequence):
        one.DimensionOrganizationUID = dimensions
    seen.identity.put(dataset)
    save(where, path, dataset, seen.identity)


def labels(findings: tuple[Finding, ...], grid: VolumeGrid) -> NDArray[np.uint16]:
    """Return of which finding a voxel is, (z, y, x), from 1; 0 for none."""
    found = np.zeros(grid.shape, dtype=np.uint16)
    # The surest last: it has the voxels of both. No finding is without a voxel for that.
    numbered = list(reversed(list(enumerate(findings, start=1))))
    for voxels in (_ball, _middle):
        for label, finding in numbered:
            z, y, x = voxels(finding, grid).T
            found[z, y, x] = label
    return found


def _ball(finding: Finding, grid: VolumeGrid) -> NDArray[np.int64]:
    """Return the voxels, (n, zyx), whose centres are in a finding."""
    middle = world_to_voxel(grid, finding.place_mm)
    reach = finding.size_mm / 2 / np.array(grid.spacing_mm)
    ends = zip(np.floor(middle - reach), np.ceil(middle + reach), grid.shape, strict=True)
    axes = [np.arange(max(int(low), 0), min(int(high) + 1, n)) for low, high, n in ends]
    near = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    away_mm = np.linalg.norm(voxel_to_world(grid, near) - np.array(finding.place_mm), axis=1)
    inside: NDArray[np.int64] = near[away_mm <= finding.size_mm / 2]
    return inside


def _middle(finding: Finding, grid: VolumeGrid) -> NDArray[np.int64]:
    """Return the voxel, (1, zyx), that a finding's centre is in, or the nearest one."""
    index = np.rint(world_to_voxel(grid, finding.place_mm)).astype(np.int64)
    return np.clip(index, 0, np.array(grid.shape) - 1)[None]


def _segment(label: int, finding: Finding, identity: Identity) -> Any:
    from duotomo import __version__

    library = highdicom()
    name, uid = tracking(finding, identity)
    algorithm = library.AlgorithmIdentificationSequence(
        name=ALGORITHM, family=coded(ALGORITHM_FAMILY), version=__version__, source="duotomo"
    )
    return library.seg.SegmentDescription(
        segment_number=label,
        segment_label=f"{finding.number}: {finding.kind}, {finding.template}"[:64],
        segmented_property_category=coded(ABNORMAL),
        segmented_property_type=coded(LESION),
        algorithm_type="AUTOMATIC",
        algorithm_identification=algorithm,
        tracking_uid=uid,
        tracking_id=name,
        anatomic_regions=[coded(BREAST)],
    )
