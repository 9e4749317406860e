"""What L-BFGS remembers of its last steps: the inverse Hessian that they suggest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.kernels.dispatch import secant_kernels


class Memory:
    """The last steps s and preconditioned changes P y of the gradient, one per row, and with them B.

    `-B g` lies in the span of P g, all P y and all s. So the two-loop recursion runs on coefficients, for
    which it needs only products of vectors: those among the rows are kept, and P is symmetric, so that
    `y . P g = P y . g`. P is applied once a step, to the gradient: P y is a difference. All products of a
    step are read from a GPU at once, those that the next direction needs included.

    size: steps at most. gradient: where the run starts.
    """

    def __init__(
        self,
        size: int,
        gradient: torch.Tensor,
        precondition: Callable[[torch.Tensor], torch.Tensor] | None,
    ) -> None:
        self._size, self._shape, self._precondition = size, gradient.shape, precondition
        # Made when first used: a run of few steps needs few rows.
        self._moved, self._changed = (gradient.new_empty(0, gradient.numel()) for _ in range(2))
        self._steps = np.zeros((size, size))  # s_i . y_j, of a y no older than the s
        self._bends = np.zeros((size, size))  # y_i . P y_j
        self._along_moved, self._along_changed = np.zeros(size), np.zeros(size)  # s_i . g and P y_i . g
        self._scaled = self._preconditioned(gradient)  # P g
        self.last_length = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget all pairs."""
        self._order: list[int] = []  # rows, oldest first

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return len(self._order)

    def add(self, moved: torch.Tensor, changed: torch.Tensor, gradient: torch.Tensor) -> float:
        """Remember a step and how it changed the gradient, in place of the oldest if there is no room.

        gradient: the new one. Returns its norm.
        """
        scaled = self._preconditioned(gradient)
        bent, self._scaled = self._scaled.neg_().add_(scaled).flatten(), scaled
        moved, changed, gradient = moved.flatten(), changed.flatten(), gradient.flatten()
        n_rows = max(self._order, default=-1) + 1
        rows = self._moved[:n_rows], self._changed[:n_rows]
        found = _numbers(
            secant_kernels(gradient.device).products(*rows, changed, gradient),
            *(torch.dot(one, vector) for vector in (changed, gradient) for one in (moved, bent)),
            *(torch.linalg.vector_norm(one, dtype=torch.float64) for one in (moved, changed, gradient)),
        )
        own_step, own_bend, along_moved, along_changed, length, change, size = found[-7:]
        products = found[:-7].reshape(4, n_rows)
        steps, bends, self._along_moved[:n_rows], self._along_changed[:n_rows] = products
        # Only a positive product keeps B positive definite.
        if own_step <= torch.finfo(moved.dtype).eps * length * change:
            return float(size)
        row = self._row()
        self._moved[row], self._changed[row] = moved, bent
        self._steps[:n_rows, row] = steps
        self._bends[:n_rows, row] = self._bends[row, :n_rows] = bends
        self._steps[row, row], self._bends[row, row] = own_step, own_bend
        self._along_moved[row], self._along_changed[row] = along_moved, along_changed
        self.last_length = float(length)
        return float(size)

    def descent(self) -> torch.Tensor:
        """Return `-B g`, g the last gradient."""
        if not self._order:
            return -self._scaled
        last = self._order[-1]
        scale = self._steps[last, last] / self._bends[last, last]
        # The first loop's vector is -(g + Y c), newest first; the second's -scale P (g + Y c) + S d.
        c, d = np.zeros(self._size), np.zeros(self._size)
        for i in reversed(self._order):
            c[i] = -(self._along_moved[i] + self._steps[i] @ c) / self._steps[i, i]
        for i in self._order:
            back = -scale * (self._along_changed[i] + self._bends[i] @ c) + self._steps[:, i] @ d
            d[i] = c[i] - back / self._steps[i, i]
        n_rows = max(self._order) + 1
        along = torch.from_numpy(np.stack([c, d])[:, :n_rows].copy())
        kernels, rows = secant_kernels(self._scaled.device), (self._moved[:n_rows], self._changed[:n_rows])
        direction: torch.Tensor = kernels.combined(self._scaled.flatten(), *rows, along, float(scale))
        return direction.view(self._shape)

    def _row(self) -> int:
        """Return the row of a new pair."""
        if len(self._moved) == 0:
            self._moved, self._changed = (
                rows.new_empty(self._size, rows.shape[1]) for rows in (self._moved, self._changed)
            )
        row = self._order.pop(0) if self.n_pairs == self._size else self.n_pairs
        self._order.append(row)
        return row

    def _preconditioned(self, vector: torch.Tensor) -> torch.Tensor:
        return vector.clone() if self._precondition is None else self._precondition(vector)


def _numbers(*tensors: torch.Tensor) -> NDArray[np.float64]:
    """Return the numbers of some tensors one after the other, waiting for a GPU once."""
    return torch.cat([tensor.double().reshape(-1) for tensor in tensors]).cpu().numpy()
