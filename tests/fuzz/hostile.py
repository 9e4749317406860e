"""Inputs that are damaged, absurd or made to do harm: what they are, and how they are told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.fuzz.samples import Words


class Category(Enum):
    """What is wrong with an input."""

    TRUNCATED = "truncated"
    FLIPPED = "flipped bits"
    DTYPE = "wrong type of numbers"
    MISSING = "missing part"
    GEOMETRY = "absurd geometry"
    SIZE = "claimed size"
    BOMB = "bomb"
    ESCAPE = "path out of the folder"
    PICKLE = "pickle"
    LINK = "symbolic link"
    ENTITY = "XML entity"
    NESTING = "deep nesting"
    ENCODING = "not UTF-8"
    EMPTY = "empty"
    FOLDER = "folder in place of a file"
    PERMISSION = "no permission"
    JUNK = "other bytes"
    CRASH = "beyond a reader's memory"
    TERMINAL = "terminal escapes"


class Fate(Enum):
    """How a command may end.

    EITHER: refused; or, where nothing can tell the damage from data, done with finite numbers. HARMLESS:
    refused; or done with the numbers of the whole file. DESCRIBED: refused; or, by `info`, described with
    what is missing.
    """

    REFUSED = "refused"
    EITHER = "either"
    HARMLESS = "harmless"
    DESCRIBED = "described"


@dataclass(frozen=True)
class Hostile:
    """One input, and the command that is given it.

    name: with the mutation and its seed, so that it can be made again. make: writes the input to a folder.
    says: something that the message has to name, beside what was expected.
    """

    name: str
    category: Category
    words: Words
    make: Callable[[Path], None]
    fate: Fate = Fate.REFUSED
    says: str = ""

    def __str__(self) -> str:
        return f"{self.category.value}: {self.name}: {self.words[0]}"
