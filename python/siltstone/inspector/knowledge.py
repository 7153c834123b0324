"""The page of knowledge: facts with their history and sources, and the rules from corrections."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from siltstone.inspector.sessions import Subject
from siltstone.knowledge import Fact

PAGE = 200  #: facts of a page


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact.

    Attributes:
        fact: Itself.
        state: ``holds``, ``superseded``, ``taken back`` or ``ended``.
        earlier: The facts whose place it took, the newest first.
    """

    fact: Fact
    state: str
    earlier: tuple[Fact, ...]


def known(subject: Subject, session_id: str, query: str = "", *, history: bool = False) -> SimpleNamespace:
    """The knowledge of a session; with *query*, the facts that match it.

    It has:
        facts: The facts of the page, the newest first.
        holding: The number of facts that hold now.
        all: The number of facts, with the facts that do not hold any more.
        rules: The rules from corrections, the rule with the most support first.
        query: The query of the page.
        history: Whether facts that do not hold any more are shown as rows of their own.
    """
    session = subject.session(session_id)
    holding = session.facts(None, MOST)
    everything = session.facts(None, MOST, history=True)
    chosen = session.facts(query or None, PAGE, history=history)
    current = {fact.id for fact in holding}
    before: dict[str, list[Fact]] = {}
    for fact in everything:
        if fact.superseded_by is not None:
            before.setdefault(fact.superseded_by, []).append(fact)
    return SimpleNamespace(
        facts=[ShownFact(fact, _state(fact, current), _earlier(fact, before)) for fact in chosen],
        holding=len(holding),
        all=len(everything),
        rules=session.rules,
        query=query,
        history=history,
    )


MOST = 10_000  #: facts that are counted


def _state(fact: Fact, current: set[str]) -> str:
    if fact.deleted_at is not None:
        return "taken back"
    if fact.superseded_by is not None:
        return "superseded"
    return "holds" if fact.id in current else "ended"


def _earlier(fact: Fact, before: dict[str, list[Fact]]) -> tuple[Fact, ...]:
    """The facts that this fact replaced, newest first."""
    found: list[Fact] = []
    waiting, seen = [fact.id], {fact.id}
    while waiting:
        for each in before.get(waiting.pop(), ()):
            if each.id not in seen:
                seen.add(each.id)
                found.append(each)
                waiting.append(each.id)
    return tuple(sorted(found, key=lambda each: each.created_at, reverse=True))
