"""What commands would compute, for a cohort: one process answers for all of its cases.

    python -m duotomo.cli._planning

It reads one JSON object for each line of standard input: `{"words": [...]}`, the words of a command line
without `--dry-run`. It answers each with one line on standard output: what `--dry-run --json` says, or
`{"error": ..., "option": ...}`. Before the first question it says which options the commands have.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

COMMANDS = ("joint", "change")


def main() -> None:
    """Answer until there are no more questions."""
    # What libraries print must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"options": {name: _options(name) for name in COMMANDS}}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(plan(json.loads(line)["words"])), file=answers, flush=True)


def plan(words: Sequence[str]) -> dict[str, Any]:
    """Return what a command would compute, or why it would not."""
    import typer

    from duotomo.cli import main as commands

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            typer.main.get_command(commands).main(
                [*words, "--dry-run", "--json", "--quiet"], standalone_mode=False
            )
    except Exception as error:
        # An option that is none, or has another value than it may have.
        if not hasattr(error, "format_message"):
            raise
        return {
            "error": error.format_message(),
            "option": getattr(getattr(error, "param", None), "name", None),
        }
    answer: dict[str, Any] = json.loads(said.getvalue().splitlines()[-1])
    return answer


def _options(command: str) -> list[str]:
    import typer

    from duotomo.cli import main as commands

    group: Any = typer.main.get_command(commands)
    return [str(one.name) for one in group.get_command(None, command).params]


if __name__ == "__main__":
    main()
