"""Cubic splines sampled at the voxels' centres: `(c[i - 1] + 4 c[i] + c[i + 1]) / 6` along some axes."""
