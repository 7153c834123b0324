"""OpenAI's SDK: it has no middleware, so its ``create`` methods are wrapped, and get the session's view."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, Generic, Self, TypeVar, cast

from siltstone.adapters.base import (
    AnySession,
    RawDoor,
    at_once,
    begun_again,
    done,
    each_at_once,
    memory_tools,
    sync_session,
)
from siltstone.errors import ConfigError

T = TypeVar("T")

_KEYS: Final = ("messages", "input")  # of Chat Completions, and of Responses
_KEPT_BY_SERVER: Final = ("previous_response_id", "conversation")  # of Responses


def prepared(session: AnySession, create: Callable[..., T]) -> PreparedCreate[T]:
    """A wrapper of *create* that sends the session's view instead of the given list.

    ::

        create = prepared(session, client.chat.completions.create)
        answer = create(model="gpt-5", messages=messages, tools=tools)

    Your list of messages only grows, and the log of the session has the same messages. A list that begins
    again after a restart goes on with the session. If you send only what is new each time, open the session
    with ``unrelated="always"``: answers are logged here then, except streams, which you append.

    If the provider refuses a request as too large, a smaller one is sent, at most twice; of a stream, until
    its first content. The SDK is neither changed nor imported: any function with ``messages=`` or ``input=``
    will do, such as ``litellm.completion``.

    Args:
        session: The session of the conversation, a ``Session``.
        create: ``client.chat.completions.create``, ``client.responses.create``, or a similar function.
    """
    return PreparedCreate(sync_session(session), create, waits=False)


def async_prepared(
    session: AnySession, create: Callable[..., Awaitable[T]]
) -> PreparedCreate[Coroutine[Any, Any, T]]:
    """:func:`prepared` for an async client, with a ``Session`` or an ``AsyncSession``."""
    return PreparedCreate(session, create, waits=True)


class PreparedCreate(Generic[T]):
    """A wrapped ``create`` function, made by :func:`prepared` or :func:`async_prepared`."""

    def __init__(self, session: AnySession, create: Callable[..., Any], *, waits: bool) -> None:
        self.session, self._create, self._door, self._waits = session, create, RawDoor(session), waits

    def tools(self, form: Any = "openai") -> list[dict[str, Any]]:
        """The definitions of ``memory_search`` and ``memory_get``, in the *form* of Chat Completions.

        ``siltstone.tools.dispatch`` runs their calls. The Responses API needs the form ``openai.responses``.
        """
        return [each.definition(form) for each in memory_tools(self.session)]

    def __call__(self, **options: Any) -> T:
        """Calls ``create`` with the view, and returns its answer. Its other errors are raised unchanged.

        Raises:
            ConfigError: neither ``messages`` nor ``input`` is given, or both are; or the server would keep
                the conversation (``previous_response_id``, ``conversation``).
        """
        answer = self._called(options)
        return cast("T", answer if self._waits else at_once(answer))

    async def _called(self, options: dict[str, Any]) -> Any:
        key, waits = _key(options), self._waits
        self._door.model = options.get("model")
        messages = await done(self._door.prepare(_listed(options[key]), waits=waits))

        async def recover(error: Exception) -> None:
            nonlocal messages
            messages = await done(self._door.recover(error, waits=waits))  # or raises the error itself

        async def send() -> Any:
            while True:
                try:
                    stream.newest = await done(self._create(**{**options, key: messages}))
                    return stream.newest
                except Exception as error:
                    await recover(error)

        stream = _Stream(None)
        answer = await send()
        if options.get("stream") and isinstance(answer, AsyncIterable if waits else Iterable):
            stream.events = begun_again(answer, send, recover)
            if not waits:
                stream.events = each_at_once(stream.events)
            return stream
        await self._door.heard(getattr(answer, "usage", None), _said(answer), waits=waits)
        return answer


class _Stream:
    """The SDK's *newest* stream. Its *events* are those of the one that the reader gets."""

    def __init__(self, newest: Any) -> None:
        self.newest = newest
        self.events: Any = None

    def __iter__(self) -> Any:
        return self.events

    def __aiter__(self) -> Any:
        return self.events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.newest.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.newest.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.newest, name)


def _key(options: dict[str, Any]) -> str:
    for name in _KEPT_BY_SERVER:
        if options.get(name) is not None:
            raise ConfigError(
                f"{name}= lets the server keep the conversation, so the session could not keep it within the "
                "window: leave it out, and pass the whole list as input=, with the output of each answer",
                name,
                options[name],
            )
    found = [key for key in _KEYS if options.get(key) is not None]
    if len(found) != 1:
        raise ConfigError(
            f"a call needs either messages= or input=, got {' and '.join(found) or 'neither'}",
            field="messages",
        )
    return found[0]


def _said(answer: Any) -> list[Any]:
    """The messages of a whole answer, as the host would put them into its list; none of a stream."""
    choices, output = getattr(answer, "choices", None), getattr(answer, "output", None)
    if isinstance(choices, list) and choices:
        return [choices[0].message]
    return list(output) if isinstance(output, list) else []


def _listed(given: Any) -> list[Any]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
