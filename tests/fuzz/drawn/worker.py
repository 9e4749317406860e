"""A process that runs one hostile input after another, as a shell would, and says how each ended.

`python -m tests.fuzz.drawn.worker FOLDER` reads the name of an input and a folder from each line that it is
given, and answers with a line of JSON. A crash ends it; what it was about to do is known to who asked.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from duotomo.report import page, page_server
from duotomo.report.page import SCRIPT, STYLE
from tests.cli.commands import duotomo
from tests.fuzz.drawn.eyes import Eyes
from tests.fuzz.fixed import named
from tests.fuzz.samples import SAMPLES
from tests.fuzz.watch import SECRET, filled, watched

_ADDRESSES = 6 * 2**30
"""Beyond what the process has at the start: more is refused to it, and shows."""

_WARM = (
    ("scan", 2),
    ("scan", 3),
    ("volume nifti", 2),
    ("result", 0),
    ("dicom", 1),
    ("tiff", 1),
    ("mat", 1),
    ("mha", 1),
)


def _served(*_: object, **__: object) -> None:
    raise typer.Exit(0)


def _prepare(folder: Path) -> None:
    """Leave the viewer out of pages, let `view` end where it would serve, and import and compile the rest."""
    page.viewer_part = {SCRIPT: "1", STYLE: "a {}"}.__getitem__  # type: ignore[assignment]
    page_server.PageServer = _served  # type: ignore[assignment,misc]
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", ".torch.jit.script. is deprecated", DeprecationWarning)
    for name, command in _WARM:
        work = folder / "warm"
        SAMPLES[name].put(work / "in")
        duotomo(*filled(SAMPLES[name].commands[command], work))
        shutil.rmtree(work)
    (pages,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize")
    )
    most = 1024 * int(pages.split()[1]) + _ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def tried(name: str, root: Path, eyes: Eyes, stray: Path) -> dict[str, Any]:
    """Return how an input ended: its exit code, seconds and MiB, and the fault, None if there is none."""
    seen: list[str] = []
    begun, code, grown = time.monotonic(), None, 0
    start = stray.stat().st_size
    try:
        ran, grown = watched(named(name), root, eyes.watching(root, seen))
        code = ran.code
        said = ran.out + ran.err + stray.read_bytes()[start:].decode(errors="replace")
        assert not seen, f"went elsewhere: {seen[:5]}"
        assert "enough memory" not in said, "asked for memory without looking at what there is"
        assert SECRET not in said
        assert said.replace("\n", "").isprintable(), "control characters reach the terminal"
        for path in root.glob("work/out*/**/*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), (
                f"what lies outside is in {path}"
            )
        fault = None
    except AssertionError as error:
        fault = f"{error}"[:1500] or traceback.format_exc()[-1500:]
    except BaseException:
        fault = traceback.format_exc()[-3000:]
    seconds = time.monotonic() - begun
    return {"name": name, "code": code, "seconds": seconds, "mib": grown / 2**20, "fault": fault}


@contextmanager
def _apart(folder: Path) -> Iterator[tuple[Any, Path]]:
    """Give where answers go, and the file in which all lies that libraries print past Python."""
    stray = folder / "stray.txt"
    answers = os.fdopen(os.dup(1), "w")
    with stray.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    yield answers, stray


def main(folder: Path) -> None:
    """Answer every line of the input."""
    os.chdir(folder)
    with _apart(folder) as (answers, stray):
        _prepare(folder)
        eyes = Eyes()
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            name, place = json.loads(line)
            print(json.dumps(tried(name, Path(place), eyes, stray)), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
