"""What L-BFGS remembers of its last steps: the inverse Hessian that they suggest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.kernels.dispatch import secant_kernels

ALIGNED = 16
"""Rows begin at multiples of so many elements, which a GPU reads several at a time."""


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
        # Made when first used: a run of few steps needs few rows. One more, for the step that is looked for.
        self._moved, self._changed = (gradient.new_empty(0, gradient.numel()) for _ in range(2))
        self._steps = np.zeros((size + 1,) * 2)  # s_i . y_j, of a y no older than the s
        self._bends = np.zeros((size + 1,) * 2)  # y_i . P y_j
        self._along_moved, self._along_changed = (np.zeros(size + 1) for _ in range(2))  # s_i . g, P y_i . g
        self._scaled = self._preconditioned(gradient)  # P g
        self.last_length = 0.0
        self._row = 0
        self.clear()

    def clear(self) -> None:
        """Forget all pairs."""
        self._order: list[int] = []  # rows, oldest first

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return len(self._order)

    def add(self, step: float, changed: torch.Tensor, gradient: torch.Tensor) -> float:
        """Remember a step, of this size along the last `descent`, in place of the oldest if there is no room.

        changed: how it changed the gradient. gradient: the new one. Returns its norm.
        """
        moved, bent = self._moved[self._row].mul_(step), self._changed[self._row]
        torch.neg(self._scaled.flatten(), out=bent)
        # Lets the old one go before its successor is made.
        self._scaled = gradient
        self._scaled = self._preconditioned(gradient)
        bent += self._scaled.flatten()
        n_rows = max(self._row, *self._order, 0) + 1
        vectors = changed.flatten(), gradient.flatten()
        found = _numbers(
            secant_kernels(gradient.device).products(self._moved[:n_rows], self._changed[:n_rows], *vectors),
            *(torch.linalg.vector_norm(one, dtype=torch.float64) for one in (moved, *vectors)),
        )
        products, (length, change, size) = found[:-3].reshape(4, n_rows), found[-3:]
        steps, bends, self._along_moved[:n_rows], self._along_changed[:n_rows] = products
        # Only a positive product keeps B positive definite.
        if steps[self._row] > torch.finfo(changed.dtype).eps * length * change:
            self._steps[:n_rows, self._row] = steps
            self._bends[:n_rows, self._row] = self._bends[self._row, :n_rows] = bends
            self._order.append(self._row)
            self.last_length = float(length)
        if self.n_pairs > self._size:
            self._order.pop(0)
        return float(size)

    def descent(self) -> torch.Tensor:
        """Return `-B g`, g the last gradient: a vector that stays until the next one is asked for."""
        if len(self._moved) == 0:
            length = self._scaled.numel()
            shape = self._size + 1, -(-length // ALIGNED) * ALIGNED
            self._moved, self._changed = (self._scaled.new_zeros(shape)[:, :length] for _ in range(2))
        self._row = next(row for row in range(self._size + 1) if row not in self._order)
        direction = self._moved[self._row]
        if not self._order:
            torch.neg(self._scaled.flatten(), out=direction)
            return direction.view(self._shape)
        last = self._order[-1]
        scale = self._steps[last, last] / self._bends[last, last]
        # The first loop's vector is -(g + Y c), newest first; the second's -scale P (g + Y c) + S d.
        c, d = np.zeros(self._size + 1), np.zeros(self._size + 1)
        for i in reversed(self._order):
            c[i] = -(self._along_moved[i] + self._steps[i] @ c) / self._steps[i, i]
        for i in self._order:
            back = -scale * (self._along_changed[i] + self._bends[i] @ c) + self._steps[:, i] @ d
            d[i] = c[i] - back / self._steps[i, i]
        n_rows = max(self._order) + 1
        along = torch.from_numpy(np.stack([c, d])[:, :n_rows].copy())
        rows = self._moved[:n_rows], self._changed[:n_rows]
        kernels = secant_kernels(direction.device)
        kernels.combine(self._scaled.flatten(), *rows, along, float(scale), direction)
        return direction.view(self._shape)

    def _preconditioned(self, vector: torch.Tensor) -> torch.Tensor:
        return vector.clone() if self._precondition is None else self._precondition(vector)


def _numbers(*tensors: torch.Tensor) -> NDArray[np.float64]:
    """Return the numbers of some tensors one after the other, waiting for a GPU once."""
    return torch.cat([tensor.double().reshape(-1) for tensor in tensors]).cpu().numpy()
