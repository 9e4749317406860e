"""A small picture of a result: the slice in the middle, seen from above, with the chest wall at the left."""

from __future__ import annotations

from pathlib import Path

from duotomo.io.durable import durable
from duotomo.io.paths import make_folder

VOLUME = "volume.nii.gz"
FOLDER, MOST_PIXELS = "thumbnails", 320
LOW, HIGH = 1.0, 99.7
"""Percentiles of the slice that are black and white."""


def thumbnail_of(out: Path, name: str) -> Path:
    """Return where the picture of a case is, if there is one."""
    return out / FOLDER / f"{name}.png"


def draw_thumbnail(result: Path, target: Path) -> bool:
    """Draw the result in a folder; return whether there was a volume to draw."""
    import nibabel
    import numpy as np
    from PIL import Image

    try:
        image = nibabel.load(result / VOLUME)
        # One slice is read, not the volume.
        numbers = np.asarray(image.dataobj[:, :, image.shape[2] // 2], dtype=np.float32)  # type: ignore[attr-defined]
    except Exception:  # of whatever kind: a cohort does not fail for want of a picture
        return False
    known = numbers[np.isfinite(numbers)]
    if known.size == 0:
        return False
    low, high = np.percentile(known, (LOW, HIGH))
    grey = np.clip((numbers - low) / max(float(high - low), 1e-12), 0.0, 1.0)
    picture = Image.fromarray((255 * np.nan_to_num(grey)).astype(np.uint8))
    scale = MOST_PIXELS / max(picture.size)
    width, height = (max(1, round(scale * n)) for n in picture.size)
    make_folder("cohort", target.parent)
    with durable("cohort", target) as fresh:
        picture.resize((width, height), Image.Resampling.LANCZOS).save(fresh, format="PNG")
    return True
