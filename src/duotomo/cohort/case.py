"""One woman's breast in a cohort: which scans, and what is computed of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType

from duotomo.errors import DuotomoError

Value = str | bool | int | float | tuple[str | int | float, ...]
"""Of an option, as in a file of settings."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

MANAGED = (
    *("out", "resume", "quiet", "json", "as_json", "settings", "help", "dry_run", "keep_paths", "max_memory"),
    *("log", "inputs", "change", "device", "threads"),
)
"""Options that a cohort gives itself."""


class Command(Enum):
    """What is computed of a case.

    Examples
    --------
    >>> Command("change").value
    'change'
    """

    JOINT = "joint"
    CHANGE = "change"


@dataclass(frozen=True, kw_only=True)
class Case:
    """The scans of one case, and how they are computed with.

    Parameters
    ----------
    name : str
        Of its folder: letters, digits, `.`, `_` and `-`. It stands on the page: it should name nobody.
    visits : tuple of Path
        The current scan, the prior one, and further ones; or one study.
    command : Command
        Volume and motion, or what changed as well.
    options : mapping of str to value
        Of that command, by their names with underscores, such as `thickness`.
    where : str
        Where it stands in the manifest, for errors: "row 3".

    Raises
    ------
    DuotomoError
        If the name is none, there is no scan, or a cohort gives an option itself.

    Examples
    --------
    >>> case = Case(name="woman-1", visits=(Path("2024.dcm"), Path("2023.dcm")))
    >>> case.columns
    ('current', 'prior')
    """

    name: str
    visits: tuple[Path, ...]
    command: Command = Command.JOINT
    options: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    where: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DuotomoError(
                f"Case: expected a name of at most 100 letters, digits, '.', '_' and '-' that begins with a "
                f"letter or digit; got {self.name[:120]!r}. It becomes the name of a folder: choose another."
            )
        if not self.visits:
            raise DuotomoError("Case: expected at least one scan or study in `visits`; got none. Name them.")
        own = sorted({*self.options} & {*MANAGED})
        if own:
            raise DuotomoError(
                f"Case: expected options of one case; got {', '.join(own)}, which the cohort gives. Leave "
                f"them out."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """What the visits are called in a manifest."""
        return tuple(column(number) for number in range(1, len(self.visits) + 1))

    @property
    def place(self) -> str:
        """Where it stands, or its name."""
        return self.where or f"case {self.name}"


def column(visit: int) -> str:
    """Return what a visit, counted from 1, is called in a manifest.

    >>> [column(visit) for visit in (1, 2, 3)]
    ['current', 'prior', 'visit_3']
    """
    return {1: "current", 2: "prior"}.get(visit, f"visit_{visit}")
