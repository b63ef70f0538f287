"""Compiled kernels on disk: numba's own cache, in a directory of ours and stamped with our own key."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from bigfleet.engine.kernels.home import NotBuilt, directory


class _Locator(_CacheLocator):
    """The directory's name says everything that a kernel depends on, so nothing in it is ever stale."""

    def get_cache_path(self) -> str:
        return str(directory())

    def get_source_stamp(self) -> str:
        return directory().name

    def get_disambiguator(self) -> str:
        return ""

    @classmethod
    def from_function(cls, _function: Callable[..., Any], _source_file: str) -> "_Locator":
        return cls()


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # type: ignore[list-item]  # noqa: RUF012 numba's spelling


class _Cache(FunctionCache):
    _impl_class = _Impl


class _NoCompiler:
    """Stands in for numba's compiler in a process that must not compile."""

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiler, name)

    def compile(self, *_arguments: Any) -> Any:
        raise NotBuilt("a kernel is missing in the cache; `make kernels` builds it")


def machine_code(function: Any, signature: str, build: bool) -> Any:
    """The function in machine code: from the cache, or compiled and stored there."""
    dispatcher: Any = njit(nogil=True)(function)
    dispatcher._cache = _Cache(function)
    compiler = dispatcher._compiler
    if not build:
        dispatcher._compiler = _NoCompiler(compiler)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher
