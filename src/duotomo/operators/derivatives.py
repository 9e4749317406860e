"""The bridge to PyTorch's derivatives: reverse mode, forward mode and `torch.func`, for every operator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from duotomo.errors import DuotomoError

if TYPE_CHECKING:
    from duotomo.operators.linear import LinearOperator

Tensors = tuple[torch.Tensor, ...]
Value = TypeVar("Value")


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a tensor, which inside of the transforms of `torch.func` come wrapped.

    For checks and caches, not for results: a wrapped tensor is worth nothing after the transform.
    """
    return torch.func.debug_unwrap(tensor)


def is_tracked(tensor: torch.Tensor) -> bool:
    """Return whether somebody may ask for derivatives in this tensor, forward or backward."""
    if tensor.requires_grad or plain(tensor) is not tensor:
        return True
    dual = torch.autograd.forward_ad.unpack_dual(tensor)  # type: ignore[no-untyped-call]
    return dual.tangent is not None


def eagerly(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that `torch.compile` calls as it is, since it cannot look into the kernels."""
    # As a decorator this would import the compiler, a second or more, whether anybody compiles or not.
    return _disabled(function) if "torch._dynamo" in sys.modules else function


@cache
def _disabled(function: Callable[..., Value]) -> Callable[..., Value]:
    disabled: Callable[..., Value] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return disabled


def outside(run: Callable[..., Value], *tensors: torch.Tensor) -> Value:
    """Return `run(*tensors)`, on plain tensors and outside of the transforms of `torch.func`.

    There NumPy may see the tensors, and what is made of them may be kept.
    """
    if all(plain(tensor) is tensor for tensor in tensors):
        return run(*tensors)
    found: list[Value] = []
    _Outside.apply(lambda *values: found.append(run(*values)), *tensors)  # type: ignore[no-untyped-call]
    return found[0]


def apply(operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
    """Return `A x`, (batch, *range), with its derivatives in x and in `operator.tensors`."""
    result: torch.Tensor = _Apply.apply(x, operator, *operator.tensors)  # type: ignore[no-untyped-call]
    return result


class _Function(torch.autograd.Function):
    """A function of tensors of which `torch.func.vmap` makes a loop: so do the kernels of a batch."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        rows = []
        for i in range(info.batch_size):
            pairs = zip(inputs, in_dims, strict=True)
            rows.append(cls.apply(*(a if dim is None else a.select(dim, i) for a, dim in pairs)))  # type: ignore[no-untyped-call]
        if isinstance(rows[0], torch.Tensor):
            return torch.stack(rows), 0
        return tuple(torch.stack(parts) for parts in zip(*rows, strict=True)), (0,) * len(rows[0])


class _Apply(_Function):
    """`A x`. In x the derivative is A itself, so the backward pass is the transpose."""

    @staticmethod
    def forward(x: torch.Tensor, operator: LinearOperator, *tensors: torch.Tensor) -> torch.Tensor:
        return operator.forward(x.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, ctx.operator, *tensors = inputs
        # Only the derivative in the tensors needs x.
        saved = (x, *tensors) if tensors else ()
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, *tensors = ctx.saved_tensors or (None,)
        by_x, by_tensors = None, (None,) * len(tensors)
        if ctx.needs_input_grad[0]:
            # Through apply again, so that second derivatives exist.
            by_x = _Apply.apply(cotangents[0], ctx.operator.adjoint, *tensors)  # type: ignore[no-untyped-call]
        if any(ctx.needs_input_grad[2:]):
            by_tensors = _PullBack.apply(x, cotangents[0], ctx.operator, *tensors)  # type: ignore[no-untyped-call]
        return by_x, None, *by_tensors

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        x, *tensors = ctx.saved_tensors or (None,)
        d_x, _, *d_tensors = tangents
        parts = []
        if d_x is not None:
            parts.append(_Apply.apply(d_x, ctx.operator, *tensors))  # type: ignore[no-untyped-call]
        if any(tangent is not None for tangent in d_tensors):
            pairs = zip(tensors, d_tensors, strict=True)
            moved = [torch.zeros_like(tensor) if d is None else d for tensor, d in pairs]
            parts.append(_Along.apply(x, ctx.operator, *tensors, *moved))  # type: ignore[no-untyped-call]
        total: torch.Tensor = sum(parts[1:], start=parts[0])
        return total


class _Outside(_Function):
    """Calls a function where PyTorch calls kernels: below all transforms."""

    @staticmethod
    def forward(run: Callable[..., None], *tensors: torch.Tensor) -> torch.Tensor:
        run(*(tensor.detach() for tensor in tensors))
        return torch.empty(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        return None


class _First(_Function):
    """A first derivative in the tensors of an operator, for which there is no second one."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise _no_second_derivative()

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _no_second_derivative()


class _PullBack(_First):
    """The gradient of `<A x, cotangent>` in each tensor of A."""

    @staticmethod
    def forward(
        x: torch.Tensor, cotangent: torch.Tensor, operator: LinearOperator, *tensors: torch.Tensor
    ) -> Tensors:
        return operator.pull_back(x.contiguous(), cotangent.contiguous())


class _Along(_First):
    """The derivative of `A x` as the tensors of A move along tangents."""

    @staticmethod
    def forward(x: torch.Tensor, operator: LinearOperator, *both: torch.Tensor) -> torch.Tensor:
        return operator.along(x.contiguous(), both[len(both) // 2 :])


def _no_second_derivative() -> DuotomoError:
    return DuotomoError(
        "LinearOperator: expected one derivative in the parameters of an operator, such as those of a warp; "
        "got a second one. Leave out create_graph=True, or use Gauss-Newton's Hessian, which needs none."
    )
