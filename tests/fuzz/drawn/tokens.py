"""Headers that are text, changed word by word: words and lines swapped, repeated, emptied, made absurd."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

SENTINEL = "../../sentinel/kept.txt"
"""From the folder of an input, a file that no command has a reason to open."""

NUMBERS = (
    *("nan", "inf", "-inf", "1e308", "-1e308", "1e-308", "1e400", "-1", "0", "-0.0", "0.5", "1", "3", "007"),
    *(str(2**31), str(2**31 - 1), str(-(2**31)), str(2**32), str(2**63), str(2**64), str(10**400), "1e9"),
    *("1" * 5000, "0." + "3" * 5000, "1e99999", "0x10", "1_000", "1,5", "+3", "--3", "3.", ".5", "٣", "1e"),
)  # fmt: skip
"""What may stand where a number is expected."""

WORDS = (
    *("", " ", "x", "none", "None", "null", "true", "False", "LOCAL", "LIST", "raw", "é", "\u202e", "%s"),
    *("x" * 70_000, "[", "{", "]]", "<", "&amp;", "&x;", "'", '"', "\\", "=", ":", "#", ",", ";", "(0,0,0)"),
    *("MET_DOUBLE", "double", "float", "AffineTransform_double_3_3", "CompositeTransform_double_3_3"),
)  # fmt: skip

PATHS = (
    *(SENTINEL, f"./{SENTINEL}", f"in/../{SENTINEL}", "/etc/passwd", "/proc/self/environ", "/dev/zero", "~"),
    *("..", ".", "", "file:///etc/passwd", "a\\b", "C:\\x", "kept%03d.txt 1 3 1", "LIST 2", "\x00kept.txt"),
)

DATA_KEYS = (
    "ElementDataFile",
    "data file",
    "datafile",
    "HeaderSize",
    "CompressedData",
    "byte skip",
    "line skip",
)

_MOST_CHARACTERS = 10**6

TOKEN = re.compile(r"""[^\s=:,;<>"'\[\]{}()]+""")
NUMBER = re.compile(r"[-+]?[0-9][0-9.eE+-]*")

TextChange = Callable[[str, Random], str]


def _put(text: str, found: re.Match[str] | None, new: str) -> str:
    return text + new if found is None else text[: found.start()] + new + text[found.end() :]


def _any(text: str, random: Random, pattern: re.Pattern[str]) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return random.choice(found) if found else None


def number(text: str, random: Random) -> str:
    """Put an extreme number in place of one."""
    return _put(text, _any(text, random, NUMBER), random.choice(NUMBERS))


def word(text: str, random: Random) -> str:
    """Put an odd word in place of one."""
    return _put(text, _any(text, random, TOKEN), random.choice((*WORDS, *NUMBERS, *PATHS)))


def swap(text: str, random: Random) -> str:
    """Put two words in each other's place."""
    one, two = (_any(text, random, TOKEN) for _ in range(2))
    if one is None or two is None or one.span() == two.span():
        return text
    first, second = sorted((one, two), key=lambda found: found.start())
    between = text[first.end() : second.start()]
    return text[: first.start()] + second[0] + between + first[0] + text[second.end() :]


def repeat(text: str, random: Random) -> str:
    """Write a word many times."""
    found = _any(text, random, TOKEN)
    times = random.choice((2, 3, 50, 5000))
    return text if found is None else _put(text, found, " ".join([found[0][:40]] * times))


def case(text: str, random: Random) -> str:
    """Write a word in capitals, or without them, or with spaces around it."""
    found = _any(text, random, TOKEN)
    if found is None:
        return text
    return _put(
        text, found, random.choice((found[0].upper(), found[0].lower(), f" {found[0]} ", found[0] + "\0"))
    )


def lines(text: str, random: Random) -> str:
    """Leave out, repeat or move a line."""
    rows = text.split("\n")
    at, to = random.randrange(len(rows)), random.randrange(len(rows))
    what = random.randrange(4)
    if what == 0:
        del rows[at]
    elif what == 1:
        most = 1 + _MOST_CHARACTERS // (len(rows[at]) + 1)
        rows[at:at] = [rows[at]] * min(random.choice((1, 2, 2000)), most)
    elif what == 2:
        rows.insert(to, rows.pop(at))
    else:
        rows[at] = rows[at][: random.randrange(len(rows[at]) + 1)]
    return "\n".join(rows)


def separator(text: str, random: Random) -> str:
    """Put another sign between a name and its value."""
    found = _any(text, random, re.compile(r" ?[=:,] ?"))
    return _put(
        text, found, random.choice((":", "=", " : ", ":=", "==", " ", "\t", "\r", "\n", "\0", "\x0b"))
    )


def elsewhere(text: str, random: Random) -> str:
    """Name a file out of the folder, by one of the keys for the data and its variants."""
    key = random.choice(DATA_KEYS)
    key = random.choice(
        (key, key.upper(), key.lower(), f" {key}", f"{key} ", key.replace(" ", "  "), key.title())
    )
    row = f"{key}{random.choice((': ', ' = ', ':', '=', ':=', ' '))}{random.choice(PATHS)}"
    known = _any(text, random, re.compile(r"^(ElementDataFile|data file|encoding).*$", re.MULTILINE))
    if known is not None and random.random() < 0.5:
        return _put(text, known, row)
    rows = text.split("\n")
    rows.insert(random.randrange(len(rows)), row)
    return "\n".join(rows)


CHANGES: tuple[TextChange, ...] = (
    number,
    number,
    number,
    word,
    word,
    swap,
    repeat,
    case,
    lines,
    lines,
    separator,
)
ENCODINGS = ("utf-16", "utf-32", "utf-8-sig", "utf-7", "cp037")


def changed(data: bytes, random: Random, changes: tuple[TextChange, ...] = CHANGES) -> bytes:
    """Return a text after one to three changes; rarely in another encoding."""
    text = data.decode("latin-1")
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice(changes)(text, random)
    if random.random() < 0.04:
        return text.encode(random.choice(ENCODINGS), errors="replace")
    return text.encode("utf-8", errors="replace")
