"""Whether a program can run here, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Available:
    """True, or false with a reason.

    >>> str(Available("RTK is not installed")), bool(Available("RTK is not installed")), bool(Available())
    ('RTK is not installed', False, True)
    """

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return self.reason


def everywhere(device: str) -> Available:
    """Return that a program runs on any device."""
    return Available()


def installed(module: str, name: str) -> Available:
    """Return whether a module can be imported; `name` is what people call it."""
    return Available() if find_spec(module) else Available(f"{name} is not installed (no module {module})")


def has_gpu() -> Available:
    """Return whether PyTorch sees a GPU."""
    import torch

    return Available() if torch.cuda.is_available() else Available("PyTorch sees no CUDA device")
