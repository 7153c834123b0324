"""Facts, and the contract of a store of facts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from siltstone.errors import ConfigError

FactType: TypeAlias = Literal["decision", "implementation", "config", "issue", "task_state", "architecture"]
"""The types of extracted facts: the documented six."""

MemoryType: TypeAlias = Literal[
    "identity", "goal", "human", "decision", "todo", "preference", "fact", "event", "observation"
]
"""The types of facts that the tool ``memory_save`` takes: the documented nine."""

FACT_TYPES: Final[tuple[str, ...]] = get_args(FactType)

IMPORTANCE: Final[dict[str, float]] = {
    "identity": 1.0, "goal": 0.9, "human": 0.85, "decision": 0.8, "todo": 0.8, "preference": 0.7, "fact": 0.6,
    "event": 0.4, "observation": 0.3,
}  # fmt: skip
"""The importance of a fact by its type, 0..1, unless it is given."""

STANDING: Final = "standing"  #: the tag of a fact that is a wish which holds until it is taken back
KINDS: Final[frozenset[str]] = frozenset({*FACT_TYPES, *IMPORTANCE})


# The tables of words and patterns, which are in files.


@cache
def _tables() -> dict[str, list[tuple[str, str]]]:
    tables: dict[str, list[tuple[str, str]]] = {}
    for line in Path(__file__).with_name("patterns.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            table, key, text = line.split("\t")
            tables.setdefault(table, []).append((key, text))
    return tables


def rows(table: str) -> list[tuple[str, str]]:
    """The keys and texts of a *table* of ``patterns.tsv``."""
    return _tables()[table]


def patterns(table: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The patterns of a *table*, each with its key."""
    parts = [*rows("part"), ("<ACTS>", "|".join(ACTS))]
    found = []
    for key, text in rows(table):
        for name, part in parts:
            text = text.replace(name, part)
        found.append((key, re.compile(text, re.IGNORECASE)))
    return tuple(found)


def pattern(table: str) -> re.Pattern[str]:
    """The only pattern of a *table*."""
    [(_, found)] = patterns(table)
    return found


def words_of(table: str) -> str:
    """The words of a *table*, with spaces between them."""
    return " ".join(text for _, text in rows(table))


ACTS: Final = tuple(words_of("acts").split())  #: verbs of what lasts


@dataclass(frozen=True, slots=True)
class Fact:
    """A short text that is known, with its origin.

    Attributes:
        id: Its own id, never reused.
        type: One of the six documented types, or of the nine of ``memory_save``.
        content: The fact itself, in one sentence.
        context: The subject, if it is not in the sentence.
        created_at: The time when it became known, in milliseconds since 1970.
        superseded_by: The id of the fact that replaced it; it is then history, and never recalled.
        superseded_at: The time of the replacement.
        superseded_because: Why it was replaced.
        valid_until: The time when it ceases to hold; None for never.
        importance: 0..1.
        session_id: The session that it was learned in.
        source_ranges: Half-open ranges of the sequence numbers that it was taken from; several, if it was
            said again.
        topics: Its topics, of the documented table.
        entities: Names, addresses, dates and amounts in it.
        source: Its origin: ``model``, ``pattern``, ``memory_save``, ``tool:<name>``.
        tags: The caller's own words; ``standing`` marks a wish that each request has.
        support: How often it was said.
        deleted_at: The time when it was deleted; None if it was not.
        speaker: Who said it: the role, and the name if the message has one; empty if that is not known.
    """

    id: str
    type: str
    content: str
    context: str = ""
    created_at: int = 0
    superseded_by: str | None = None
    superseded_at: int | None = None
    valid_until: int | None = None
    importance: float = 0.6
    session_id: str = ""
    source_ranges: tuple[tuple[int, int], ...] = ()
    topics: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    source: str = ""
    tags: tuple[str, ...] = ()
    support: int = 1
    deleted_at: int | None = None
    superseded_because: str = ""
    speaker: str = ""

    def holds_at(self, moment: int) -> bool:
        """Whether it was known and valid at *moment*, in milliseconds since 1970."""
        ends = (self.superseded_at, self.valid_until, self.deleted_at)
        return self.created_at <= moment and all(end is None or moment < end for end in ends)


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction by a user: a denied action, and the action that was wanted instead.

    Attributes:
        id: Its own id.
        original: The tool, and the first 200 characters of its arguments.
        corrected: The reason given, or ``denied by the user``.
        context: The tool and the goal.
        created_at: The time, in milliseconds since 1970.
    """

    id: str
    original: str
    corrected: str
    context: str
    created_at: int = 0


class FactStore(Protocol):
    """A store of facts of one session, or of one namespace."""

    def facts(self) -> Sequence[Fact]:
        """All facts, also superseded and deleted ones, in the order of their first writes."""

    def put(self, facts: Sequence[Fact]) -> None:
        """Writes *facts* in one step; a fact with a known id replaces the stored one."""


@dataclass(slots=True)
class InMemoryFacts:
    """A :class:`FactStore` in process memory."""

    _facts: dict[str, Fact] = field(default_factory=dict)

    def facts(self) -> Sequence[Fact]:
        """All facts, in the order of their first writes."""
        return list(self._facts.values())

    def put(self, facts: Sequence[Fact]) -> None:
        """Writes *facts*."""
        self._facts.update({fact.id: fact for fact in facts})


def new_fact(type: str, content: str, **known: object) -> Fact:  # noqa: A002 - the documented word
    """A new fact; id, time and importance are set unless *known* gives them.

    Raises:
        ConfigError: the type is unknown, or the content is empty.
    """
    checked_type(type)
    if not content.strip():
        raise ConfigError("the content of a fact must not be empty", field="content", value=content)
    import uuid  # with platform, hashlib: only a session that learns needs it

    fact = Fact(uuid.uuid4().hex, type, content.strip(), importance=IMPORTANCE.get(type, 0.6))
    known.setdefault("created_at", now_ms())
    return replace(fact, **known)  # type: ignore[arg-type] # replace() names an unknown field itself


def fact_of(body: Mapping[str, Any]) -> Fact:
    """The fact with the fields of *body*, as read from JSON; unknown fields are dropped.

    Raises:
        ConfigError: *body* is not a fact.
    """
    known = {each.name for each in fields(Fact)}
    if not isinstance(body, Mapping) or not all(
        isinstance(body.get(name), str) for name in ("id", "type", "content")
    ):
        raise ConfigError("a fact has an id, a type and a content", field="body", value="")
    read: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in body.items()
        if name in known
    }
    try:
        if "source_ranges" in read:
            read["source_ranges"] = tuple((int(start), int(end)) for start, end in read["source_ranges"])
        return Fact(**read)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the record holds no fact: {error}", field="body", value="") from error


def checked_type(type: str) -> str:  # noqa: A002
    """*type*, if it is a type of facts.

    Raises:
        ConfigError: it is unknown; the message lists the known types.
    """
    if not isinstance(type, str) or type not in KINDS:
        known = ", ".join(dict.fromkeys([*FACT_TYPES, *IMPORTANCE]))
        raise ConfigError(f"unknown type of fact {type!r}; known are {known}", field="type", value=type)
    return type


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
