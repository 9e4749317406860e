"""The projector's kernels: a sum of separable banded resamplings, forward and transposed."""
