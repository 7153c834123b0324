"""Is a function async? As ``inspect`` says, which takes longer to import than a store to open."""

from __future__ import annotations

from types import CodeType, MethodType

from siltstone.light import partial

__all__ = ["gives_coroutine"]

_MARK = "_is_coroutine_mark"  # the mark that inspect.markcoroutinefunction sets
_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE


def gives_coroutine(function: object) -> bool:
    """Whether a call of *function* gives a coroutine: it, or its ``__call__``, is an ``async def``."""
    return _is_async(function) or _is_async(getattr(type(function), "__call__", None))  # noqa: B004


def _is_async(function: object) -> bool:
    while isinstance(function, MethodType | partial):
        function = function.__func__ if isinstance(function, MethodType) else function.func
    if hasattr(function, _MARK):
        import inspect

        return inspect.iscoroutinefunction(function)
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and bool(code.co_flags & _CO_COROUTINE)
