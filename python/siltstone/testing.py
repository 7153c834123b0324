"""Test doubles that follow the contract, for the tests of siltstone and of programs that use it."""

from __future__ import annotations

from collections.abc import Iterable

from siltstone.events import Event
from siltstone.llm import Completion, CompletionRequest


class ScriptedModel:
    """A model that answers from a script, and remembers its requests.

    Args:
        answers: In order: a text, a ``Completion``, or an exception to raise. The last one is given
            again for every further request.

    Attributes:
        requests: The requests, in order.
    """

    def __init__(self, answers: Iterable[str | Completion | BaseException] = ("A summary.",)) -> None:
        self._answers = list(answers)
        self.requests: list[CompletionRequest] = []

    def __call__(self, request: CompletionRequest) -> Completion | str:
        """The next answer of the script."""
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class RecordingHook:
    """A hook that keeps every event, in order.

    Attributes:
        events: The events, in order.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Keeps *event*."""
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        """The events' class names, in order."""
        return [type(event).__name__ for event in self.events]
