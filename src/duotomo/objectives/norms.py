"""Norms and normal equations, accumulated in float64."""

from __future__ import annotations

import torch

CHUNK = 1 << 24
"""Elements that are converted to float64 at once: 128 MiB."""


Scalar = float | torch.Tensor
"""A number; or one that a GPU is still working on, a float64 tensor without axes."""


def half_norm_sq(tensor: torch.Tensor) -> float:
    """Return `|x|^2 / 2`.

    Examples
    --------
    >>> half_norm_sq(torch.tensor([3.0, 4.0]))
    12.5
    """
    return float(pending_half_norm_sq(tensor))


def pending_half_norm_sq(tensor: torch.Tensor) -> Scalar:
    """Return `|x|^2 / 2`, without waiting for a GPU."""
    return 0.5 * scalar(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2


def scalar(number: torch.Tensor) -> Scalar:
    """Return a number that lies on a GPU as it is, any other as a float."""
    return number.double() if number.is_cuda else float(number)


def floats(*numbers: Scalar) -> list[float]:
    """Return numbers as floats, waiting for a GPU once.

    Examples
    --------
    >>> floats(1.0, 2.0)
    [1.0, 2.0]
    """
    pending = [number for number in numbers if isinstance(number, torch.Tensor)]
    arrived = iter(torch.stack(pending).tolist() if pending else [])
    return [next(arrived) if isinstance(number, torch.Tensor) else float(number) for number in numbers]


def normal_equations(
    columns: torch.Tensor, residual: torch.Tensor
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Return `|r|^2 / 2`, `J^T r` and `J^T J`, the latter two in float64 on the CPU.

    Parameters
    ----------
    columns : torch.Tensor
        Columns of J, (parameter, ...).
    residual : torch.Tensor
        r, of the shape of one column.

    Returns
    -------
    value : float
        `|r|^2 / 2`.
    gradient : torch.Tensor
        `J^T r`, (parameter,).
    matrix : torch.Tensor
        `J^T J`, (parameter, parameter).

    Examples
    --------
    >>> normal_equations(torch.tensor([[1.0, 2.0]]), torch.tensor([3.0, 4.0]))
    (12.5, tensor([11.], dtype=torch.float64), tensor([[5.]], dtype=torch.float64))
    """
    rows, residual_row = columns.flatten(1), residual.flatten()
    n_params = len(rows)
    gradient = torch.zeros(n_params, dtype=torch.float64, device=rows.device)
    matrix = torch.zeros(n_params, n_params, dtype=torch.float64, device=rows.device)
    step = max(1, CHUNK // n_params)
    for start in range(0, residual_row.numel(), step):
        wide = rows[:, start : start + step].double()
        gradient += wide @ residual_row[start : start + step].double()
        matrix += wide @ wide.T
    return half_norm_sq(residual), gradient.cpu(), matrix.cpu()
