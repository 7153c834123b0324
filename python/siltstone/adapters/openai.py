"""OpenAI's SDK: it has no middleware, so its ``create`` methods are wrapped, and get the session's view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from siltstone.adapters.base import AnySession, RawDoor, memory_tools, sync_session
from siltstone.errors import ConfigError

__all__ = ["AsyncPreparedCreate", "PreparedCreate", "async_prepared", "prepared"]

T = TypeVar("T")

_KEYS: Final = ("messages", "input")  # of Chat Completions, and of Responses


def prepared(session: AnySession, create: Callable[..., T]) -> PreparedCreate[T]:
    """A wrapper of *create* that sends the session's view instead of the given list.

    ::

        create = prepared(session, client.chat.completions.create)
        answer = create(model="gpt-5", messages=messages, tools=tools)

    Your list of messages only grows, and the log of the session has the same messages. If the provider
    refuses a request as too large, a smaller one is sent, at most twice. The SDK is neither changed nor
    imported: any function with ``messages=`` or ``input=`` will do, such as ``litellm.completion``.

    Args:
        session: The session of the conversation, a ``Session``.
        create: ``client.chat.completions.create``, ``client.responses.create``, or a similar function.
    """
    return PreparedCreate(sync_session(session), create)


def async_prepared(session: AnySession, create: Callable[..., Awaitable[T]]) -> AsyncPreparedCreate[T]:
    """:func:`prepared` for an async client, with a ``Session`` or an ``AsyncSession``."""
    return AsyncPreparedCreate(session, create)


class _Call(Generic[T]):
    def __init__(self, session: AnySession, create: Callable[..., T]) -> None:
        self.session, self._create, self._door = session, create, RawDoor(session)

    def tools(self, form: Any = "openai") -> list[dict[str, Any]]:
        """The definitions of ``memory_search`` and ``memory_get``, in the *form* of Chat Completions.

        ``siltstone.tools.dispatch`` runs their calls. The Responses API needs the form ``openai.responses``.
        """
        return [each.definition(form) for each in memory_tools(self.session)]


class PreparedCreate(_Call[T]):
    """A wrapped ``create`` function, made by :func:`prepared`."""

    def __call__(self, **options: Any) -> T:
        """Calls ``create`` with the view, and returns its answer. Its other errors are raised unchanged.

        Raises:
            ConfigError: neither ``messages`` nor ``input`` is given, or both are.
        """
        key = _key(options)
        messages = self._door.prepare(_listed(options[key]))
        while True:
            try:
                answer = self._create(**{**options, key: messages})
            except Exception as error:
                messages = self._door.recover(error)  # raises the error itself if it is not an overflow
            else:
                self._door.heard(getattr(answer, "usage", None))
                return answer


class AsyncPreparedCreate(_Call[Awaitable[T]]):
    """A wrapped async ``create`` function, made by :func:`async_prepared`."""

    async def __call__(self, **options: Any) -> T:
        """Calls ``create`` with the view, and returns its answer. Its other errors are raised unchanged.

        Raises:
            ConfigError: neither ``messages`` nor ``input`` is given, or both are.
        """
        key = _key(options)
        messages = await self._door.aprepare(_listed(options[key]))
        while True:
            try:
                answer = await self._create(**{**options, key: messages})
            except Exception as error:
                messages = await self._door.arecover(error)
            else:
                self._door.heard(getattr(answer, "usage", None))
                return answer


def _key(options: dict[str, Any]) -> str:
    found = [key for key in _KEYS if options.get(key) is not None]
    if len(found) != 1:
        raise ConfigError(
            f"a call needs either messages= or input=, got {' and '.join(found) or 'neither'}",
            field="messages",
        )
    return found[0]


def _listed(given: Any) -> list[Any]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
