"""Loops that Numba compiles when they are first called, and whose machine code is kept on disk.

Code lies where Numba keeps its own: beside the source, in the user's cache where that is read-only, or in
NUMBA_CACHE_DIR. A file belongs to one function, to the types it is called with, to this processor, to these
versions, and to the source of all kernels, as Numba's own would not: there, what a loop calls can change
unnoticed. A digest guards every byte. What cannot be read, or be written, is compiled again.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit
from numba.core.caching import FunctionCache, NullCache
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.serialize import dumps

LOG = logging.getLogger("duotomo.kernels")
"""Is told, at the level INFO, of every function that is about to be compiled."""

_DIGEST_BYTES = hashlib.sha256().digest_size


def compiled(function: Callable[..., None]) -> Any:
    """Return a function that is compiled when it is first called, without the interpreter's lock."""
    # Nobody calls loops from C.
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
    loops: Any = njit(**options)(function)
    loops._cache = _Kept(function)
    own = getattr(loops, "_compiler", None)
    # None where Numba is told to compile nothing.
    if own is not None:
        loops._compiler = _Compiler(*(getattr(own, name) for name in _FIELDS))
    return loops


_FIELDS = ("py_func", "targetdescr", "targetoptions", "locals", "pipeline_class")


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    """Numba's, without looking for garbage meanwhile: a sixth of its time, as most of what it makes stays."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        with _no_collection():
            return super()._compile_core(args, return_type)


@contextmanager
def _no_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Kept(NullCache):
    """The machine code of one function, for all types that it was called with."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._name = function.__qualname__
        self._numba: Any = None
        # Raised where no folder can be written to.
        with suppress(RuntimeError):
            self._numba = FunctionCache(function)
        self._source = Path(function.__code__.co_filename)

    @property
    def cache_path(self) -> str | None:
        return None if self._numba is None else str(self._numba.cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for these types; None if there is none that can be trusted."""
        target_context.refresh()
        if self._numba is not None:
            # Damage that a digest cannot see would be a file of another program: whatever it raises.
            with suppress(Exception):
                stored = self._path(sig, target_context.codegen()).read_bytes()
                digest, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
                if hashlib.sha256(data).digest() == digest:
                    return self._numba._impl.rebuild(target_context, pickle.loads(data))
        LOG.info("%s is compiled", self._name)
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep the code for these types, where it can be kept."""
        if self._numba is None or not self._numba._impl.check_cachable(cres):
            return
        # A full disk, or a folder that was taken away.
        with suppress(OSError):
            self._numba._impl.locator.ensure_cache_path()
            path = self._path(sig, cres.codegen)
            data = dumps(self._numba._impl.reduce(cres))
            draft = path.with_suffix(f".{os.getpid()}.tmp")
            draft.write_bytes(hashlib.sha256(data).digest() + data)
            draft.replace(path)
            # Of other sources: nobody will ask for them again.
            for old in path.parent.glob(f"{self._numba._impl.filename_base}.*.duo"):
                if old.name.split(".")[-3] != path.name.split(".")[-3]:
                    old.unlink()

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = self._numba._index_key(sig, codegen), numba.__version__, llvmlite.__version__
        words = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        base = self._numba._impl.filename_base
        return Path(self._numba.cache_path, f"{base}.{_sources(self._source.parent)}.{words}.duo")


@cache
def _sources(folder: Path) -> str:
    """Return a digest of the source of all kernels, and of the other modules beside a function."""
    kernels = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted({*kernels.rglob("*.py"), *folder.glob("*.py")}):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:20]
