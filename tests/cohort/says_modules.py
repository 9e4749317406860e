"""A program that says which of its words are modules that were there before, and its libraries' threads."""

from __future__ import annotations

import os
import sys

before = [name for name in sys.argv[1:] if name in sys.modules]

if __name__ == "__main__":
    print(*[name for name in before if name != "json"], os.environ["OMP_NUM_THREADS"], len(sys.argv) - 1)
    sys.exit(7)
