"""A model that waits until a test lets it answer, so that no test depends on time."""

import threading
from typing import Any


class Gate:
    def __init__(self, answer: Any = "What was said.") -> None:
        self.answer = answer
        self.open, self.reached = threading.Event(), threading.Event()
        self.asked = 0

    def __call__(self, request: Any) -> Any:
        self.asked += 1
        self.reached.set()
        assert self.open.wait(300)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer
