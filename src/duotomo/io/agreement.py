"""Whether visits belong together: one patient, one side, one view, and not one scan twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from duotomo.errors import DuotomoError

if TYPE_CHECKING:
    import torch

    from duotomo.io.dicom.identity import Identity

PIXELS = "PixelData"
"""Compared by value, whatever the format: DICOM's word stands for them."""

WORDS = {
    "allow_different_patients": "different patients",
    "allow_different_sides": "different sides",
    "allow_different_views": "different views",
    "allow_same_scan": "the same scan twice",
}
"""What each of `Allowed` allows."""


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What visits may be although they then do not belong together; results say so.

    Parameters
    ----------
    allow_different_patients : bool
        Visits may differ in patient ID, its issuer, name, birth date or sex.
    allow_different_sides : bool
        Visits may show the left and the right breast.
    allow_different_views : bool
        Visits may differ in view, as CC and MLO do.
    allow_same_scan : bool
        Two visits may be one scan: the same instance, or the same pixels.

    Examples
    --------
    >>> Allowed(allow_different_sides=True).allow_different_patients
    False
    """

    allow_different_patients: bool = False
    allow_different_sides: bool = False
    allow_different_views: bool = False
    allow_same_scan: bool = False


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Why two visits do not belong together.

    Parameters
    ----------
    kind : str
        The field of `Allowed` that allows it.
    between : tuple of str
        What the two are called.
    attributes : tuple of str
        DICOM's keywords of what differs, or for one scan twice of what is the same.

    Examples
    --------
    >>> both = ("visit 1", "visit 2")
    >>> Conflict(kind="allow_different_sides", between=both, attributes=("ImageLaterality",)).words
    'visit 1 and visit 2 differ in Image Laterality (0020,0062)'
    """

    kind: str
    between: tuple[str, str]
    attributes: tuple[str, ...]

    @property
    def words(self) -> str:
        """The same for people, without a word of the values."""
        from duotomo.io.dicom.header import title

        how = "have the same" if self.kind == "allow_same_scan" else "differ in"
        return f"{' and '.join(self.between)} {how} {', '.join(map(title, self.attributes))}"


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What was found when visits were compared.

    Parameters
    ----------
    conflicts : tuple of Conflict
        Those that were allowed.
    compared, not_compared : tuple of str
        DICOM's keywords of what all visits say, and of what at least one does not.

    Examples
    --------
    >>> Agreement(conflicts=(), compared=("PixelData",), not_compared=()).remark
    ''
    """

    conflicts: tuple[Conflict, ...]
    compared: tuple[str, ...]
    not_compared: tuple[str, ...]

    @property
    def remark(self) -> str:
        """A few words for whoever meets a result: DIFFERENT PATIENTS and the like, "" without a conflict."""
        return remark_of([WORDS[conflict.kind] for conflict in self.conflicts])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold.

        Returns
        -------
        dict
            `conflicts`, each with `what`, `between`, `attributes` and `words`; `compared`; `not_compared`.
        """
        rows = [
            {
                "what": WORDS[conflict.kind],
                "between": list(conflict.between),
                "attributes": list(conflict.attributes),
                "words": conflict.words,
            }
            for conflict in self.conflicts
        ]
        return {
            "conflicts": rows,
            "compared": list(self.compared),
            "not_compared": list(self.not_compared),
        }

    def identities(self, known: Sequence[Identity | None]) -> tuple[Identity | None, ...]:
        """Return identities whose DICOM files say that the visits do not belong together, where that is so.

        Parameters
        ----------
        known : sequence of Identity or None
            Of the visits.

        Returns
        -------
        tuple of Identity or None
            The same ones, if there is no conflict.
        """
        if not self.conflicts:
            return tuple(known)
        from duotomo.io.dicom.identity import Identity

        # Registrations need a frame for each visit, also where both are one scan.
        twice = any(conflict.kind == "allow_same_scan" for conflict in self.conflicts)
        return tuple(
            (one or Identity.anonymous()).remarked(self.remark, again=number if twice else 0)
            for number, one in enumerate(known)
        )


def remark_of(said: Sequence[str]) -> str:
    """Return the remark for values of `WORDS`; what else is said is left out.

    >>> remark_of(["the same scan twice", "different sides", "different sides"])
    'DIFFERENT SIDES, THE SAME SCAN TWICE'
    """
    return ", ".join(words.upper() for words in WORDS.values() if words in said)


def compare_visits(
    where: str,
    identities: Sequence[Identity | None],
    pixels: Sequence[torch.Tensor] | None = None,
    allowed: Allowed | None = None,
    *,
    names: Sequence[str] = (),
    two_views: bool = False,
) -> Agreement:
    """Compare visits pair by pair, as far as their files tell, and raise if they do not belong together.

    What a file does not say is no conflict.

    Parameters
    ----------
    where : str
        Whom an error names.
    identities : sequence of Identity or None
        Of each visit, where known.
    pixels : sequence of torch.Tensor, optional
        Projections or voxels of each visit; without them, two may be of one scan.
    allowed : Allowed, optional
        Nothing, unless given.
    names : sequence of str
        What they are called; "visit 1" and so on, unless given.
    two_views : bool
        They may be two views of one breast, such as CC and MLO: another view is no conflict then.

    Returns
    -------
    Agreement
        With the conflicts that were allowed.

    Raises
    ------
    DuotomoError
        If there are others; the message names the attributes, and none of their values.
    """
    allowed = allowed or Allowed()
    names = names or [f"visit {number}" for number in range(1, len(identities) + 1)]
    found: list[Conflict] = []
    said: dict[str, bool] = {}
    for one, two in combinations(range(len(identities)), 2):
        agreement = _agreement(identities[one], identities[two])
        if pixels is None:
            del agreement["SOPInstanceUID"]
        else:
            agreement[PIXELS] = _same_pixels(pixels[one], pixels[two])
        said |= {name: said.get(name, True) and same is not None for name, same in agreement.items()}
        conflicts = _conflicts((names[one], names[two]), agreement)
        found += [one for one in conflicts if not (two_views and one.kind == "allow_different_views")]
    _refuse(where, [conflict for conflict in found if not getattr(allowed, conflict.kind)])
    return Agreement(
        conflicts=tuple(found),
        compared=tuple(name for name, known in said.items() if known),
        not_compared=tuple(name for name, known in said.items() if not known),
    )


def comparison_refusal(
    identities: Sequence[Identity | None], pixels: Sequence[torch.Tensor] | None = None
) -> str:
    """Return why a breast may not be compared with what it was, although visits may be computed with.

    Other patients, sides and views change everything, and one scan twice nothing. What a file does not say is
    no reason.

    Parameters
    ----------
    identities : sequence of Identity or None
        Of each visit, the current one first, where known.
    pixels : sequence of torch.Tensor, optional
        Projections of each visit; without them, two may be of one scan.

    Returns
    -------
    str
        A sentence that names the attributes, and none of their values; "" if they may be compared.

    Examples
    --------
    >>> comparison_refusal([None])
    'There is one visit only.'
    >>> comparison_refusal([None, None])
    ''
    """
    if len(identities) < 2:
        return "There is one visit only."
    anything = Allowed(**dict.fromkeys(WORDS, True))
    found = compare_visits("comparison_refusal", identities, pixels, anything).conflicts
    kinds = [words for kind, words in WORDS.items() if any(kind == one.kind for one in found)]
    if not found:
        return ""
    return f"The visits are of {' and '.join(kinds)}: {'; '.join(one.words for one in found)}."


def _refuse(where: str, conflicts: Sequence[Conflict]) -> None:
    if not conflicts:
        return
    kinds = [kind for kind in WORDS if any(kind == conflict.kind for conflict in conflicts)]
    raise DuotomoError(
        f"{where}: expected visits of one breast in one view, each of its own scan; got "
        f"{' and '.join(WORDS[kind] for kind in kinds)}: {'; '.join(one.words for one in conflicts)}. Check "
        f"the files; to go on nevertheless, and have results say so, pass "
        f"{' and '.join(f'`{kind}=True`' for kind in kinds)}."
    )


def _agreement(one: Identity | None, two: Identity | None) -> dict[str, bool | None]:
    from duotomo.io.dicom.comparable import COMPARED, INSTANCE, SIDE, VIEW

    if one is None or two is None:
        return dict.fromkeys((*COMPARED, SIDE, VIEW, INSTANCE))
    return one.agreement(two)


def _same_pixels(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.shape == two.shape and bool((one == two).all())


def _conflicts(between: tuple[str, str], agreement: dict[str, bool | None]) -> Iterator[Conflict]:
    from duotomo.io.dicom.comparable import COMPARED, INSTANCE, SIDE, VIEW

    # Attributes that have to agree, and those that must not.
    for kind, names, conflicting in (
        ("allow_different_patients", COMPARED, False),
        ("allow_different_sides", (SIDE,), False),
        ("allow_different_views", (VIEW,), False),
        ("allow_same_scan", (INSTANCE, PIXELS), True),
    ):
        attributes = tuple(name for name in names if agreement.get(name) is conflicting)
        if attributes:
            yield Conflict(kind=kind, between=between, attributes=attributes)
