"""The last request that a session prepared: the messages that it showed and left out."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.session.range_set import RangeSet
from siltstone.session.view import View

__all__ = ["Request", "Requests"]


@dataclass(frozen=True, slots=True)
class Request:
    """A prepared request; empty before the first.

    Attributes:
        shown: The messages of the log that it showed verbatim.
        tokens: Its tokens by the policy's rule, without recalled context.
    """

    shown: RangeSet = ()
    tokens: int = 0


class Requests:
    """The requests that this process prepared for a session.

    Attributes:
        last: The last request; None if the policy shapes no requests, so that the view is sent.
    """

    def __init__(self) -> None:
        self.last: Request | None = None
        self._redactions = 0
        self._aside: RangeSet = ()

    def sent_tokens(self, view: View) -> int:
        """The tokens of the last request: the tokens of *view*, or fewer if the policy shaped the request."""
        return self.last.tokens if self.last is not None and self.last.tokens else view.tokens

    def aside(self, redactions: int) -> RangeSet:
        """The findable messages that requests left out; empty if *redactions* has changed since."""
        return self._aside if redactions == self._redactions else ()

    def set_aside(self, redactions: int, spans: RangeSet) -> None:
        """Notes *spans* as the findable messages, at the session's count of *redactions*."""
        self._redactions, self._aside = redactions, spans
