"""Finished batches of solves in HDF5 files, one each, so that a computation that was killed can go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import torch

from duotomo.io.hdf5 import FileFormat, group_at, put, put_text, reading, tensor, text, writing
from duotomo.io.paths import FileError, reason
from duotomo.io.run_fingerprint import RunFingerprint
from duotomo.methods.solves import Rows

FORMAT = FileFormat(name="duotomo solves", version=1)

OnNote = Callable[[str], None]
"""Called with what a person may want to know."""


@dataclass(frozen=True)
class SolveFiles:
    """A `SolveStore` in a folder, which is made when the first batch is saved.

    A file that is damaged, or of another computation, is not used: its batch is solved for again. One that
    cannot be written is missed only where the computation is killed. Both are said.

    Parameters
    ----------
    folder : Path
        Of this store alone; the folder above it has to be there.
    fingerprint : RunFingerprint
        Of the computation.
    device : torch.device or str
        Where batches are restored to.
    on_note : callable, optional
        Hears of files that could not be used or written.
    """

    folder: Path
    fingerprint: RunFingerprint
    _: KW_ONLY
    device: torch.device | str = "cpu"
    on_note: OnNote | None = None

    def load(self, name: str, key: str) -> Rows | None:
        """Return a batch, bit for bit as it was saved.

        Parameters
        ----------
        name, key
            As for `SolveStore`.

        Returns
        -------
        mapping of str to torch.Tensor, or None
            None if it is not there, or cannot be used.
        """
        path = self._path(name)
        if not path.exists():
            return None
        try:
            with reading("SolveFiles", path, FORMAT) as file:
                self.fingerprint.check(text(file, "fingerprint"))
                if text(file, "key") != key:
                    raise FileError(
                        "expected solves at this volume and motion; got those of others. Remove the file."
                    )
                rows = group_at(file, "rows")
                axes = ("direction", "number")
                return {str(part): tensor(rows, part, axes).to(self.device) for part in rows}
        except FileError as error:
            self._say(f"{error} Its solves are computed again.")
            return None

    def save(self, name: str, key: str, rows: Rows) -> None:
        """Put a batch in place of another one of this name.

        Parameters
        ----------
        name, key
            As for `SolveStore`.
        rows : mapping of str to torch.Tensor
            Each (direction, number), float32 or float64.
        """
        try:
            self._make()
            with writing("SolveFiles", self._path(name), FORMAT) as file:
                put_text(file, "fingerprint", str(self.fingerprint))
                put_text(file, "key", key)
                group = file.create_group("rows")
                for part, values in rows.items():
                    put(group, part, values)
        except FileError as error:
            # Solves take more room than the result, which is not lost for them.
            self._say(f"{error} The run goes on without the file.")

    def remove(self) -> None:
        """Remove all batches, and the folder unless something else lies there."""
        if self.folder.is_symlink() or not self.folder.is_dir():
            return
        for path in self.folder.glob("*.h5"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.h5"

    def _make(self) -> None:
        """Make the folder, but none above it: somebody has removed the whole run then."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"SolveFiles: expected to make the folder {self.folder}; got: {reason(error)}. Check that "
                f"its place can be written to."
            ) from error

    def _say(self, note: str) -> None:
        if self.on_note is not None:
            self.on_note(note)
