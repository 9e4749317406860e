"""Options of the programs that a cohort starts, as words of their command lines."""

from __future__ import annotations

from collections.abc import Mapping


def as_words(options: Mapping[str, str | int | bool]) -> list[str]:
    """Return the words of options; True is an option without a value.

    >>> [word.strip("-") for word in as_words({"host": "127.0.0.1", "no_nanny": True})]
    ['host', '127.0.0.1', 'no-nanny']
    """
    words: list[str] = []
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words
