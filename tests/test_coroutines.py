"""Whether a call gives a coroutine is told as ``inspect`` tells it, without importing it."""

from __future__ import annotations

import inspect
from functools import partial
from unittest.mock import AsyncMock, MagicMock

import pytest

from siltstone.coroutines import gives_coroutine


async def of_async(_: object) -> str:
    return "answer"


def of_sync(_: object) -> str:
    return "answer"


class Model:
    async def __call__(self, _: object) -> str:
        return "answer"

    async def ask(self, _: object) -> str:
        return "answer"

    def tell(self, _: object) -> str:
        return "answer"

    @staticmethod
    async def alone(_: object) -> str:
        return "answer"


async def of_generator(_: object):
    yield "answer"


marked = getattr(inspect, "markcoroutinefunction", lambda function: function)(lambda _: of_async(None))

CALLABLES = [
    of_async, of_sync, of_generator, Model(), Model, Model().ask, Model().tell, Model.alone, len, str.upper,
    partial(of_async, None), partial(partial(Model().ask), None), partial(of_sync, None), AsyncMock(),
    MagicMock(), lambda _: None, marked, partial(marked, None),
]  # fmt: skip


@pytest.mark.parametrize("function", CALLABLES, ids=map(str, range(len(CALLABLES))))
def test_it_is_told_as_inspect_tells_it(function):
    expected = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    assert gives_coroutine(function) == expected
