"""Compares a new fact with known ones: it is new, known, a better wording, or a change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from siltstone.knowledge.base import Fact, FactStore, now_ms

# The words, values and subject of a short text, by which facts are compared.

_WORD: Final = re.compile(r"[^\W_]+(?:[._/:@-][^\W_]+)*")
_STOP: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "to",
        "of",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "and",
        "or",
        "not",
        "no",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "as",
        "we",
        "i",
        "you",
        "they",
        "he",
        "she",
        "our",
        "my",
        "your",
        "their",
        "has",
        "have",
        "had",
        "will",
        "would",
        "should",
        "must",
        "can",
        "could",
        "do",
        "does",
        "did",
        "now",
        "instead",
        "always",
        "never",
        "please",
        "also",
        "then",
        "there",
        "here",
        "than",
        "via",
        "into",
        "onto",
        "over",
        "under",
        "use",
        "uses",
        "used",
        "using",
        "set",
        "sets",
        "switch",
        "switched",
        "switches",
        "change",
        "changed",
        "move",
        "moved",
        "run",
        "runs",
        "running",
        "make",
        "made",
        "go",
        "went",
        "get",
        "got",
        "keep",
        "kept",
        "prefer",
        "prefers",
        "add",
        "added",
        "remove",
        "removed",
        "choose",
        "chose",
        "chosen",
        "decide",
        "decided",
        "replace",
        "replaced",
        "new",
        "old",
        "user",
        "users",
        "user's",
    ]
)
_CHANGE: Final = re.compile(
    r"\b(instead of|instead|switched|switch(?:ing)? to|no longer|now|moved to|changed to|replaced|replaces|"
    r"migrated|renamed|not anymore|any more|anymore|rather than|deprecated)\b|改为|换成|不再|改用|现在|替换",
    re.IGNORECASE,
)
_GIVEN_UP: Final = re.compile(
    r"\b(?:instead of|rather than|no longer|not|moved from|switched from|away from|replac(?:ed|es|ing))\s+"
    r"(?:use |using |the |on |in )*([^\W_]+)",
    re.IGNORECASE,
)
_VALUE: Final = re.compile(
    r"""(?P<quoted>"[^"\n]+"|'[^'\n]+'|`[^`\n]+`)"""
    r"""|(?P<url>\b[a-z][a-z0-9+.-]*://\S+)"""
    r"""|(?P<address>\b[\w.+-]+@[\w-]+\.\w[\w.-]*)"""
    r"""|(?P<path>(?<![\w/])(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]+)*/?)"""
    r"""|(?P<version>\bv?\d+(?:\.\d+)+\b)"""
    r"""|(?P<number>(?<![\w.])\d+(?:[.,]\d+)?%?(?![\w.]*\w))""",
    re.IGNORECASE,
)


def words(text: str) -> frozenset[str]:
    """The words of *text* in lower case, as the documented overlap splits it: at white space."""
    return frozenset(text.lower().split())


def jaccard(one: str, other: str) -> float:
    """The documented overlap: shared words over all words, 0..1; 0 for two empty texts."""
    left, right = words(one), words(other)
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def contains_half(new: str, old: str) -> bool:
    """Whether *new* has more than half of the words of *old*."""
    known = words(old)
    return bool(known) and len(known & words(new)) * 2 > len(known)


def values(text: str) -> frozenset[str]:
    """The numbers, paths, versions, addresses and quoted texts in *text*."""
    return frozenset(found.group().strip("\"'`").rstrip(".,;").lower() for found in _VALUE.finditer(text))


def conflicting(one: str, other: str) -> bool:
    """Whether both texts have values, and each has one that the other lacks."""
    left, right = values(one), values(other)
    return bool(left and right) and not left <= right and not right <= left


def subject(text: str) -> str:
    """The first word of content, in lower case; empty where there is none."""
    for found in _WORD.finditer(text.lower()):
        word = found.group()
        if word not in _STOP and not word.isdigit():
            return word
    return ""


def gives_up(text: str) -> frozenset[str]:
    """The words that *text* gives up: those behind "instead of", "no longer", "moved from"."""
    return frozenset(found[1].lower() for found in _GIVEN_UP.finditer(text))


def says_change(text: str) -> bool:
    """Whether *text* has a word of change: "instead of", "switched", "no longer", "now", "moved to"."""
    return _CHANGE.search(text) is not None


# Compares a new fact with known ones: it is new, known, a better wording, or a change.

Action: TypeAlias = Literal["ADD", "UPDATE", "SUPERSEDE", "NONE"]

_SAME = 0.5  #: the overlap above which two facts say the same
_NEAR = 0.2  #: the overlap above which they are about the same thing
_LONGER = 1.2  #: the ratio of lengths above which the new wording is better


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of a batch of facts.

    Attributes:
        added: New facts, including those that replaced another.
        updated: Facts with a better wording now; their ids stay.
        superseded: Facts that became history.
        known: The number of facts that were known already.
    """

    added: tuple[Fact, ...] = ()
    updated: tuple[Fact, ...] = ()
    superseded: tuple[Fact, ...] = ()
    known: int = 0


def decide(new: Fact, known: Sequence[Fact]) -> tuple[Action, Fact | None]:
    """The effect of *new* on the facts of *known* that hold, and the fact that it affects.

    It supersedes a fact of its type only if it names the thing that changed: it has the same subject, or a
    word of change beside the old subject or the old value. "Metrics now on port 9090" does not change "API on
    port 3000".
    """
    return _decide(new, Held(known))


def learn(store: FactStore, batch: Sequence[Fact]) -> Learned:
    """Adds *batch* to *store*, fact by fact, in one write.

    If two facts of the batch contradict each other, the later one holds; if one contradicts a known fact, the
    one that was said later holds, if both have source ranges. Nothing is deleted: superseded facts stay as
    history. A known fact gains the new source ranges, so learning a batch again changes nothing. If another
    session has a better wording, its fact replaces the old one, which becomes history: so each fact is of one
    session, and is deleted when that session is forgotten.
    """
    known = {fact.id: fact for fact in store.facts()} if batch else {}
    held = Held(known.values())
    first = dict(known)
    added: dict[str, None] = {}
    already = 0
    for new in batch:
        action, old = _decide(new, held)
        if action == "UPDATE" and old is not None and old.session_id != new.session_id:
            action = "SUPERSEDE"
        if action == "ADD" or old is None:
            added[new.id] = None
            changed = [new]
        elif action == "SUPERSEDE" and _was_said_before(new, old):  # it was read late, and is already history
            added[new.id] = None
            changed = [replace(new, superseded_by=old.id, superseded_at=old.created_at)]
        elif action == "SUPERSEDE":
            added[new.id] = None
            changed = [replace(old, superseded_by=new.id, superseded_at=new.created_at or now_ms()), new]
        else:
            already += action == "NONE"
            said = _said_again(old, new)
            changed = [said if action == "NONE" else replace(said, content=new.content, context=new.context)]
        for fact in changed:
            known[fact.id] = fact
            held.put(fact)
    written = [fact for fact in known.values() if first.get(fact.id) != fact]
    store.put(written)
    return Learned(
        tuple(fact for fact in written if fact.id in added),
        tuple(fact for fact in written if fact.id in first and fact.content != first[fact.id].content),
        tuple(fact for fact in written if fact.superseded_by and not _was_superseded(first.get(fact.id))),
        already,
    )


class Held:
    """The facts that hold, indexed by words: a new fact is compared only with those that share a word."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts: dict[str, Fact] = {}
        self._places: dict[str, int] = {}  # of equal facts the first one added comes first
        self._same: dict[bytes, dict[str, None]] = {}
        self._by_word: dict[tuple[str, str], dict[str, None]] = {}
        for fact in facts:
            self.put(fact)

    def put(self, fact: Fact) -> None:
        """Adds *fact*, or replaces the fact of its id; removes it if it does not hold any more."""
        old = self._facts.get(fact.id)
        if old is not None and (old.content, old.type) != (fact.content, fact.type):
            self._let_go(old)
        if fact.superseded_by is not None or fact.deleted_at is not None:
            if fact.id in self._facts:
                self._let_go(self._facts.pop(fact.id))
            return
        self._facts[fact.id] = fact
        self._places.setdefault(fact.id, len(self._places))
        self._same.setdefault(_digest(fact.content), {})[fact.id] = None
        for word in words(fact.content):
            self._by_word.setdefault((fact.type, word), {})[fact.id] = None

    def same(self, content: str) -> Fact | None:
        """The first fact with that text, ignoring case."""
        return next((self._facts[name] for name in self._same.get(_digest(content), ())), None)

    def near(self, new: Fact) -> list[tuple[Fact, float]]:
        """The facts of its type that share a word with *new*, each with the overlap; the nearest first."""
        asked = words(new.content)
        shared: Counter[str] = Counter()
        for word in asked:
            shared.update(list(self._by_word.get((new.type, word), ())))
        found = []
        for name, count in shared.items():
            fact = self._facts[name]
            found.append((fact, count / (len(asked) + len(words(fact.content)) - count)))
        return sorted(found, key=lambda each: (-each[1], -each[0].created_at, self._places[each[0].id]))

    def _let_go(self, fact: Fact) -> None:
        self._same[_digest(fact.content)].pop(fact.id, None)
        for word in words(fact.content):
            self._by_word[fact.type, word].pop(fact.id, None)


def _decide(new: Fact, held: Held) -> tuple[Action, Fact | None]:
    same = held.same(new.content)
    if same is not None:
        return "NONE", same
    if _is_of_a_tool(new):
        return "ADD", None
    ranked = [(fact, overlap) for fact, overlap in held.near(new) if not _is_of_a_tool(fact)]
    for fact, overlap in ranked:
        longer = len(new.content) > _LONGER * len(fact.content)
        says_it = overlap > _SAME or (longer and contains_half(new.content, fact.content))
        same_values = not conflicting(new.content, fact.content)
        if says_it and same_values and not _other_subject(new, fact) and not _gives_up(new, fact):
            return ("UPDATE" if longer else "NONE"), fact
    for fact, overlap in ranked:
        if overlap > _NEAR and _changes(new, fact):
            return "SUPERSEDE", fact
    return "ADD", None


def _is_of_a_tool(fact: Fact) -> bool:
    """Whether the fact is a result of a tool, which stays true whatever the tool returns later."""
    return fact.source.startswith("tool:")


def _changes(new: Fact, old: Fact) -> bool:
    """Whether *new* changes *old*, if both are about related things."""
    if subject(new.content) == subject(old.content) != "":
        return True
    if not says_change(new.content):
        return False
    return _names(new, subject(old.content)) or bool(values(old.content) & values(new.content))


def _other_subject(new: Fact, old: Fact) -> bool:
    """Whether the two have different subjects, and neither names the subject of the other."""
    mine, theirs = subject(new.content), subject(old.content)
    return mine != theirs and not _names(old, mine) and not _names(new, theirs)


def _gives_up(new: Fact, old: Fact) -> bool:
    """Whether *new* says that the subject of *old* is given up: "instead of" it, "no longer" it."""
    given_up = gives_up(new.content)
    return subject(new.content) != subject(old.content) != "" and subject(old.content) in given_up


def _names(fact: Fact, word: str) -> bool:
    return bool(word) and word in words(fact.content.translate(_POINTS))


def _said_again(old: Fact, new: Fact) -> Fact:
    """*old* with the source ranges of *new*; unchanged if it has them already."""
    if old.session_id != new.session_id:
        return replace(old, support=old.support + 1)
    places = tuple(each for each in new.source_ranges if each not in old.source_ranges)
    if new.source_ranges and not places:
        return old
    return replace(old, source_ranges=(*old.source_ranges, *places), support=old.support + 1)


def _was_said_before(new: Fact, old: Fact) -> bool:
    """Whether all of *new* was said before *old*, in the same session."""
    if new.session_id != old.session_id or not new.source_ranges or not old.source_ranges:
        return False
    return max(end for _, end in new.source_ranges) <= min(start for start, _ in old.source_ranges)


def _was_superseded(fact: Fact | None) -> bool:
    return fact is not None and fact.superseded_by is not None


def _digest(content: str) -> bytes:
    from hashlib import sha256  # it loads OpenSSL, which only learning needs

    return sha256(content.strip().lower().encode("utf-8", "replace")).digest()


_POINTS = {ord(char): " " for char in ".,;:!?()[]\"'`"}
