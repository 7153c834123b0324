"""The requests that a session prepared: the messages that each showed and left out."""

from __future__ import annotations

from siltstone.session.range_set import RangeSet
from siltstone.session.view import View
from siltstone.values import dataclass

__all__ = ["Request", "Requests"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it was prepared; one that shows nothing before the first.

    Attributes:
        shown: The messages of the log that it showed as they were said.
        tokens: Its tokens by the policy's rule, without recalled context.
    """

    shown: RangeSet = ()
    tokens: int = 0


class Requests:
    """The requests that a worker prepared, as far as it knows them.

    Attributes:
        last: The last one; None where the policy shapes none, and the view is sent.
    """

    def __init__(self) -> None:
        self.last: Request | None = None
        self._redactions = 0
        self._aside: RangeSet = ()

    def sent_tokens(self, view: View) -> int:
        """The tokens of the last request: those of *view*, or fewer where the policy shaped the request."""
        return self.last.tokens if self.last is not None and self.last.tokens else view.tokens

    def aside(self, redactions: int) -> RangeSet:
        """The messages that requests left out and that can be found; none after another redaction."""
        return self._aside if redactions == self._redactions else ()

    def set_aside(self, redactions: int, spans: RangeSet) -> None:
        """Notes *spans* as the messages that can be found, at that number of *redactions*."""
        self._redactions, self._aside = redactions, spans
