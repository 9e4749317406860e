"""Which breast, seen from where: what DICOM's mammography files must say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from duotomo.io.dicom.header import code, item
from duotomo.io.paths import FileError

VIEWS = {
    "CC": ("399162004", "cranio-caudal"),
    "MLO": ("399368009", "medio-lateral oblique"),
    "ML": ("399260004", "medio-lateral"),
    "LM": ("399352003", "latero-medial"),
    "LMO": ("399099002", "latero-medial oblique"),
    "FB": ("399196006", "caudo-cranial"),
    "SIO": ("399188001", "superolateral to inferomedial oblique"),
    "ISO": ("441555000", "inferomedial to superolateral oblique"),
    "XCCL": ("399192008", "cranio-caudal exaggerated laterally"),
    "XCCM": ("399101009", "cranio-caudal exaggerated medially"),
}
"""The code of SNOMED CT and its meaning, by the abbreviation that View Position has."""

OLDER = {
    "R-10242": "CC",
    "R-10226": "MLO",
    "R-10224": "ML",
    "R-10228": "LM",
    "R-10230": "LMO",
    "R-10244": "FB",
}
"""Codes of views that files have from before SNOMED CT."""

LATERALITIES = {"L": "left", "R": "right"}


@dataclass(frozen=True, kw_only=True)
class BreastView:
    """One breast and its view.

    Parameters
    ----------
    laterality : str, optional
        "L", "R", or None where nobody says.
    view : str
        Such as "MLO". Without a view it is CC, whose axes are those that duotomo gives the patient.
    implant : bool
        Whether there is one.
    gantry_deg : float, optional
        Angle of the gantry from the vertical, positive towards the patient's right; None where nobody says.

    Raises
    ------
    FileError
        If the laterality is neither L nor R, or the view is none of those that
        DICOM has.

    Examples
    --------
    >>> BreastView(laterality="L", view="MLO").view
    'MLO'
    """

    laterality: str | None = None
    view: str = "CC"
    implant: bool = False
    gantry_deg: float | None = None

    def __post_init__(self) -> None:
        if self.laterality not in (*LATERALITIES, None):
            raise FileError(
                f"BreastView: expected laterality as one of {', '.join(LATERALITIES)}; got "
                f"{self.laterality!r}. Leave it out if it is not known."
            )
        if self.view not in VIEWS:
            raise FileError(
                f"BreastView: expected view as one of {', '.join(VIEWS)}; got {self.view!r}. Leave it out "
                f"for CC."
            )

    @classmethod
    def of(cls, dataset: Any) -> BreastView:
        """Return what a mammography dataset says; what it does not say, or says in another way, is left out.

        Parameters
        ----------
        dataset : pydicom.Dataset
            Of a mammogram, projections or a volume.

        Returns
        -------
        BreastView
            Of the first frame.

        Examples
        --------
        >>> BreastView.of(item({"ImageLaterality": "R", "ViewPosition": "MLO"}))
        BreastView(laterality='R', view='MLO', implant=False, gantry_deg=None)
        """
        sides = [str(dataset.get(name) or "") for name in ("ImageLaterality", "Laterality")]
        sides += [str(part.get("FrameLaterality") or "") for part in _anatomies(dataset)]
        return cls(
            laterality=next((side for side in sides if side in LATERALITIES), None),
            view=stated_view(dataset) or "CC",
            implant=str(dataset.get("BreastImplantPresent") or "") == "YES",
        )

    @property
    def frame_laterality(self) -> str:
        """DICOM's value: L, R, or U, "unpaired", which claims neither side."""
        return self.laterality or "U"

    def view_code(self) -> Any:
        """Return the item of DICOM's View Code Sequence.

        Returns
        -------
        pydicom.Dataset
            With an empty sequence of modifiers.
        """
        value, meaning = VIEWS[self.view]
        view = code(value, "SCT", meaning)
        view.update(item({"ViewModifierCodeSequence": []}))
        return view


def stated_view(dataset: Any) -> str | None:
    """Return the view that a mammography dataset states, by code or by name; None where it states none.

    >>> stated_view(item({"ViewCodeSequence": [code("R-10226", "SRT", "medio-lateral oblique")]}))
    'MLO'
    """
    codes = [str(part.get("CodeValue")) for part in dataset.get("ViewCodeSequence") or ()]
    named = [view_of_code(value) for value in codes] + [str(dataset.get("ViewPosition") or "")]
    return next((view for view in named if view in VIEWS), None)


def view_of_code(value: str) -> str:
    """Return the abbreviation of a view by its code, "" for a code that is not known.

    >>> view_of_code("399162004"), view_of_code("R-10242")
    ('CC', 'CC')
    """
    return {known: name for name, (known, _) in VIEWS.items()}.get(value) or OLDER.get(value, "")


def _anatomies(dataset: Any) -> Iterator[Any]:
    for groups in dataset.get("SharedFunctionalGroupsSequence") or ():
        yield from groups.get("FrameAnatomySequence") or ()
    for groups in (dataset.get("PerFrameFunctionalGroupsSequence") or ())[:1]:
        yield from groups.get("FrameAnatomySequence") or ()
