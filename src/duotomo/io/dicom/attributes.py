"""DICOM's attributes, by keyword."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from duotomo.io.libraries import pydicom


def item(values: Mapping[str, Any]) -> Any:
    """Return a pydicom Dataset with attributes by keyword. A list of datasets becomes a sequence.

    >>> item({"PatientName": "Doe^Jane"}).PatientName
    'Doe^Jane'
    """
    dataset = pydicom().Dataset()
    for keyword, value in values.items():
        setattr(dataset, keyword, value)
    return dataset


def code(value: str, scheme: str, meaning: str) -> Any:
    """Return the item of a code sequence.

    >>> code("76752008", "SCT", "Breast").CodeMeaning
    'Breast'
    """
    return item({"CodeValue": value, "CodingSchemeDesignator": scheme, "CodeMeaning": meaning})


def decimals(values: Iterable[float]) -> list[Any]:
    """Return numbers as DICOM's decimal strings, which have 16 characters: about ten digits.

    >>> [str(value) for value in decimals([0.1, 1 / 3])]
    ['0.1', '0.33333333333333']
    """
    return [pydicom().valuerep.DSfloat(float(value), auto_format=True) for value in values]


def decimal(value: float) -> Any:
    """Return a number as one decimal string."""
    return decimals([value])[0]
