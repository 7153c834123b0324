"""Datasets for measurements: conversations, and questions with known evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from siltstone.errors import DatasetError
from siltstone.memory.entry import Entry

__all__ = ["Conversation", "Dataset", "Question", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a conversation: one entry of a store.

    Attributes:
        id: Its name, unique in the conversation; the evidence of a question refers to it.
        text: The text that a store indexes and returns.
        role: The role of the speaker: ``user``, ``assistant``, or a host's own word.
        name: The speaker's or the tool's name.
        kind: The kind of the entry: ``message``, or a host's own word.
        created_at: The time when it was said. A datetime without a zone is UTC.
        session: The number of the sitting it belongs to, if a conversation has several.
    """

    id: str
    text: str
    role: str = "user"
    name: str | None = None
    kind: str = "message"
    created_at: datetime | float | None = None
    session: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that answer it.

    Attributes:
        text: The query, as it is given to a store.
        evidence: Ids of turns of the same conversation; at least one.
        category: The group of the question in the figures.
    """

    text: str
    evidence: tuple[str, ...]
    category: str = "all"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in their order, and the questions about them.

    Attributes:
        id: The session's id in the store.
        turns: The turns, in the order in which they were said.
        questions: The questions about this conversation.
        ordered: Whether the turns follow one another. In a collection of facts they do not: the entries then
            get the empty source range, so that no ranker uses the entry before as context.

    Raises:
        DatasetError: two turns have the same id, a question has no evidence, or its evidence is not a turn.
    """

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...] = ()
    ordered: bool = True

    def __post_init__(self) -> None:
        ids = _once((turn.id for turn in self.turns), f"turns of the conversation {self.id!r}")
        for question in self.questions:
            if not question.evidence:
                raise DatasetError(f"the question {question.text!r} of {self.id!r} has no evidence")
            for each in question.evidence:
                if each not in ids:
                    raise DatasetError(
                        f"the evidence {each!r} of the question {question.text!r} is no turn of {self.id!r}"
                    )

    @property
    def has_sessions(self) -> bool:
        """Whether every turn names its session."""
        return bool(self.turns) and all(turn.session is not None for turn in self.turns)

    def entries(self) -> list[Entry]:
        """The entries for a store: one for each turn, in order. The nth has the source range ``(n, n + 1)``.

        The source range is ``(0, 0)`` if the turns are not ordered.
        """
        return [
            Entry(
                content=turn.text,
                source_range=(place, place + 1) if self.ordered else (0, 0),
                role=turn.role,
                name=turn.name,
                kind=turn.kind,
                created_at=turn.created_at,
            )
            for place, turn in enumerate(self.turns)
        ]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Conversations with questions. Make one by hand, or with the readers of ``siltstone.evaluation``.

    Attributes:
        name: The name in reports.
        conversations: The conversations; each is measured in a store of its own.
        apart: Categories that are left out of the pooled figures and reported separately, such as questions
            without an answer.

    Raises:
        DatasetError: two conversations have the same id.
    """

    name: str
    conversations: tuple[Conversation, ...]
    apart: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        _once((each.id for each in self.conversations), f"conversations of the dataset {self.name!r}")

    @property
    def entries(self) -> int:
        """The number of turns."""
        return sum(len(each.turns) for each in self.conversations)

    @property
    def questions(self) -> int:
        """The number of questions, including those reported apart."""
        return sum(len(each.questions) for each in self.conversations)

    def text_only(self) -> Dataset:
        """The same dataset without names and times: for a ranker that uses only the texts.

        Every turn has the same time, the epoch: without a time, a store would use the time of indexing.
        """
        return self._each_turn(lambda turn: replace(turn, name=None, created_at=0.0), "text only")

    def only(self, *kinds: str) -> Dataset:
        """The same dataset, with blank texts for turns of other kinds, which a store does not keep.

        The turns themselves stay, so evidence in them counts as not found.
        """
        return self._each_turn(
            lambda turn: turn if turn.kind in kinds else replace(turn, text=""), f"only {' and '.join(kinds)}"
        )

    def _each_turn(self, change: Callable[[Turn], Turn], suffix: str) -> Dataset:
        conversations = tuple(
            replace(each, turns=tuple(change(turn) for turn in each.turns)) for each in self.conversations
        )
        return replace(self, name=f"{self.name}, {suffix}", conversations=conversations)


def _once(ids: Iterable[str], what: str) -> set[str]:
    """The *ids* as a set; an error if an id occurs twice."""
    counts = Counter(ids)
    twice = [each for each, count in counts.items() if count > 1]
    if twice:
        raise DatasetError(f"{what} must have different ids, got {twice[0]!r} {counts[twice[0]]} times")
    return set(counts)
