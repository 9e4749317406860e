"""A module after which no fork can use CUDA, as PyTorch tells it, on a machine with a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.modules["__main__"].CUDA = Path(__file__)  # type: ignore[attr-defined]
torch.cuda._is_in_bad_fork = lambda: True  # type: ignore[assignment]
