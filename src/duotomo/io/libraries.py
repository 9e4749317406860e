"""The libraries behind file formats, imported when first used."""

from __future__ import annotations

import functools
import importlib
import logging
import warnings
from typing import Any

from duotomo.io.paths import FileError

ITK = logging.getLogger("SimpleITK")
"""What ITK says."""


def simpleitk() -> Any:
    """Return the module SimpleITK; what ITK says goes to Python's logging, and no longer to the terminal."""
    with warnings.catch_warnings():
        # From SWIG's own types, on Python 3.12 and later; as an error it would end the process.
        warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
        sitk = _library("SimpleITK")
        _listen(sitk)
        return sitk


@functools.cache
def _listen(sitk: Any) -> Any:
    """Have ITK say to Python's logging what it says, and return who hears it: ITK does not keep it."""
    base: Any = sitk.LoggerBase

    class ItkWords(base):  # type: ignore[misc]
        """Hears all that ITK says, for as long as ITK has it."""

        def DisplayText(self, text: str) -> None:
            ITK.info(text.strip())

        def DisplayWarningText(self, text: str) -> None:
            ITK.warning(text.strip())

        def DisplayErrorText(self, text: str) -> None:
            ITK.error(text.strip())

        DisplayGenericOutputText = DisplayDebugText = DisplayText

    words = ItkWords()
    words.SetAsGlobalITKLogger()
    return words


def nibabel() -> Any:
    """Return the module nibabel."""
    return _library("nibabel")


H5PY_ERRORS = (OSError, RuntimeError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""Of h5py, and of what is made of its values, for damaged files."""


def h5py() -> Any:
    """Return the module h5py."""
    return _library("h5py")


def pydicom() -> Any:
    """Return the module pydicom."""
    return _library("pydicom")


def highdicom() -> Any:
    """Return the module highdicom, with its reports and segmentations."""
    _library("highdicom.seg"), _library("highdicom.sr")
    return _library("highdicom")


def tifffile() -> Any:
    """Return the module tifffile."""
    return _library("tifffile")


def scipy_io() -> Any:
    """Return the module scipy.io."""
    return _library("scipy.io")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        remedy = f"Run pip install {name.partition('.')[0]}."
        raise FileError(f"duotomo.io: expected {name} to be installed; got: {error}. {remedy}") from error
