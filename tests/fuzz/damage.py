"""Damage that any file can suffer, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import SAMPLES, Sample

HEADER = 400
"""Bytes at the start in which bits are flipped first."""

Damage = Callable[[Path, Random], None]


def cut(path: Path, random: Random) -> None:
    """Keep the start of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(1, max(2, int(0.95 * len(data))))])


def flip_header(path: Path, random: Random) -> None:
    """Flip a few bits near the start."""
    _flip(path, random, most=HEADER)


def flip_anywhere(path: Path, random: Random) -> None:
    """Flip a few bits."""
    _flip(path, random, most=None)


def _flip(path: Path, random: Random, *, most: int | None) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 3)):
        data[random.randrange(len(data) if most is None else min(len(data), most))] ^= 1 << random.randrange(
            8
        )
    path.write_bytes(data)


def empty(path: Path, random: Random) -> None:
    """Leave nothing."""
    path.write_bytes(b"")


def junk(path: Path, random: Random) -> None:
    """Put noise in place of the file."""
    path.write_bytes(random.randbytes(random.randint(1, 2000)))


def foreign(path: Path, random: Random) -> None:
    """Put a file of another format under the same name."""
    path.write_bytes(random.choice((b"\x89PNG\r\n\x1a\n" + bytes(60), b"PK\x03\x04" + bytes(60), b"{}\n")))


def folder(path: Path, random: Random) -> None:
    """Put a folder in place of the file."""
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def dangling(path: Path, random: Random) -> None:
    """Put a link to nowhere in place of the file."""
    path.unlink()
    path.symlink_to("nowhere")


def loop(path: Path, random: Random) -> None:
    """Put a link to itself in place of the file."""
    path.unlink()
    path.symlink_to(path.name)


def shut(path: Path, random: Random) -> None:
    """Take the right to read it."""
    path.chmod(0)


_DAMAGES: tuple[tuple[Damage, Category, int], ...] = (
    (cut, Category.TRUNCATED, 2),
    (flip_header, Category.FLIPPED, 3),
    (flip_anywhere, Category.FLIPPED, 2),
    (empty, Category.EMPTY, 1),
    (junk, Category.JUNK, 1),
    (foreign, Category.JUNK, 1),
    (folder, Category.FOLDER, 1),
    (dangling, Category.LINK, 1),
    (loop, Category.LINK, 1),
    (shut, Category.PERMISSION, 1),
)
_RARE = (folder, dangling, loop, shut)


def damaged(seed: int) -> Iterator[Hostile]:
    """Give every sample with every damage; which command is given it, too, is drawn."""
    for number, sample in enumerate(SAMPLES.values()):
        for kind, (damage, category, times) in enumerate(_DAMAGES):
            # The same code looks at paths for all formats.
            if damage in _RARE and ((number + kind) % 4 or sample.name == "checkpoint"):
                continue
            for time in range(times):
                yield _one(sample, damage, category, f"{seed}/{sample.name}/{damage.__name__}/{time}")


def _one(sample: Sample, damage: Damage, category: Category, key: str) -> Hostile:
    random = Random(key)
    flips = damage in (flip_header, flip_anywhere)
    # Flipped data may be accepted, and then computed with: rarely, since that takes time.
    words = random.choice(sample.commands[: 1 if flips and random.random() < 0.6 else 3 if flips else None])
    fate = Fate.DESCRIBED if words[0] == "info" else Fate.REFUSED
    if flips:
        fate = Fate.HARMLESS if sample.summed and words[0] == "info" else Fate.EITHER
    if damage in (cut, empty) and not sample.shut:
        fate = Fate.EITHER

    def make(target: Path) -> None:
        damage(sample.put(target), Random(key))

    return Hostile(name=key, category=category, words=words, make=make, fate=fate)
