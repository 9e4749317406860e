"""Functions that loops call, compiled as a part of each loop and not by themselves.

Numba optimises each function once alone and turns it into machine code, for callers from Python and from C
too, before it does so again as a part of whatever calls it. Nobody runs the former, and a first run waits
for it. An inner function is typed and lowered once for all loops; what follows happens in the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numba
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import CPUDispatcher


def inner(function: Callable[..., Any], *, fastmath: Iterable[str] = (), forceinline: bool = False) -> Any:
    """Return a function that only compiled loops may call.

    fastmath: what LLVM may do with its numbers, as in `numba.njit`. forceinline: whether it becomes a part of
    whatever calls it, however often that is; otherwise LLVM decides.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    options = {"nopython": True, "error_model": "numpy", "forceinline": forceinline}
    return _Inner(function, {}, {**options, "fastmath": set(fastmath)})


class _Part(JITCodeLibrary):
    """Code of a function and of what it calls, neither optimised nor turned into machine code."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    """Goes as far as LLVM's code, and gives the function a key by which loops find it."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags: Any = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        target = self.targetdescr.target_context
        found = compiler.compile_extra(
            self.targetdescr.typing_context,
            target,
            self.py_func,
            args,
            return_type,
            flags,
            self.locals,
            library=_Part(target.codegen(), self.py_func.__qualname__),
            pipeline_class=self.pipeline_class,
        )
        key = _Key()
        target.insert_user_function(key, found.fndesc, [found.library])
        return found._replace(entry_point=key)


class _Key:
    """Stands for code that has no address."""


class _Inner(CPUDispatcher):
    """A function that compiled loops call, and Python cannot."""

    _compiler: Any

    def __init__(self, function: Callable[..., Any], names: Any, options: dict[str, Any]) -> None:
        super().__init__(function, names, options)
        own = self._compiler
        self._compiler = _Compiler(function, own.targetdescr, options, own.locals, own.pipeline_class)

    def add_overload(self, cres: Any) -> None:
        # Without telling Python's side, which would jump to it.
        self.overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__}: expected to be called by a compiled loop; got Python")
