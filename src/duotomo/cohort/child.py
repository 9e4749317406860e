"""A module that runs as a process of its own, and dies with the process that started it.

    python -m duotomo.cohort.child PARENT MODULE WORDS...

A worker that is killed takes the command that it started along: nobody is left who writes to the folder of a
case when it is begun again elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def die_with(parent: int) -> None:
    """Let this process be killed when its parent ends; end it if that has happened."""
    # Linux alone has it; elsewhere the lock of the folder still keeps a second writer out.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before that was set.
        os._exit(1)


def main() -> None:
    """Run the module that the command line names, as `python -m` does."""
    parent, module, *words = sys.argv[1:]
    die_with(int(parent))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
