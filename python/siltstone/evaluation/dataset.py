"""Datasets for measurements: conversations, questions with known evidence, and the formats of files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from siltstone.errors import DatasetError
from siltstone.memory.entry import Entry


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


# Reads a dataset of your own from one JSON file, whose keys are the attributes of the values.

# The keys of each object, and the types of their values.
_DATASET = {"name": str, "conversations": list, "apart": list}
_CONVERSATION = {"id": str, "turns": list, "questions": list, "ordered": bool}
_TURN = {
    "id": (str, int), "text": str, "role": str, "name": (str, type(None)), "kind": str,
    "created_at": (str, int, float, type(None)), "session": (int, type(None)),
}  # fmt: skip
_QUESTION = {"text": str, "evidence": list, "category": str}


def read_dataset(path: str | os.PathLike[str]) -> Dataset:
    """The dataset in the JSON file *path*.

    The file is ``{"name", "conversations", "apart"}``; a conversation ``{"id", "turns", "questions",
    "ordered"}``; a turn ``{"id", "text", "role", "name", "kind", "created_at", "session"}``, with its time as
    ISO 8601 or seconds since 1970; a question ``{"text", "evidence", "category"}``, with its evidence as a
    list of ids of turns. Ids of turns may be integers. Every key with a default may be left out.

    Raises:
        DatasetError: the file is missing or not JSON, a key is unknown or missing, a value has the wrong
            type, or :class:`Conversation` refuses its values.
    """
    given = _object(read_json(path), _DATASET, ("name", "conversations"), f"the dataset in {path!s}")
    return Dataset(
        name=given["name"],
        conversations=tuple(_conversation(each) for each in given["conversations"]),
        apart=frozenset(_strings(given.get("apart", []), "apart")),
    )


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of the JSON file *path*.

    Raises:
        DatasetError: the file is missing, or not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DatasetError(f"cannot read the dataset {os.fspath(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise DatasetError(f"the dataset {os.fspath(path)!r} is not JSON: {error}") from error


def when(text: str) -> datetime:
    """The moment that *text* gives in ISO 8601.

    Raises:
        DatasetError: *text* is not ISO 8601.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise DatasetError(f"a time must be ISO 8601, such as '2023-05-08T13:56', got {text!r}") from error


def _conversation(given: object) -> Conversation:
    values = _object(given, _CONVERSATION, ("id", "turns"), "a conversation")
    return Conversation(
        id=values["id"],
        turns=tuple(_turn(each) for each in values["turns"]),
        questions=tuple(_question(each) for each in values.get("questions", [])),
        ordered=values.get("ordered", True),
    )


def _turn(given: object) -> Turn:
    values = _object(given, _TURN, ("id", "text"), "a turn")
    values["id"] = str(values["id"])
    if isinstance(values.get("created_at"), str):
        values["created_at"] = when(values["created_at"])
    return Turn(**values)


def _question(given: object) -> Question:
    values = _object(given, _QUESTION, ("text", "evidence"), "a question")
    return Question(**values | {"evidence": _strings(values["evidence"], "evidence")})


def _strings(given: list[object], what: str) -> tuple[str, ...]:
    for each in given:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise DatasetError(f"{what!r} must be a list of texts or integers, got {each!r} in it")
    return tuple(str(each) for each in given)


def _object(given: object, keys: Mapping[str, Any], needed: tuple[str, ...], what: str) -> dict[str, Any]:
    """*given* as a dictionary with only these *keys*, each value of its type."""
    if not isinstance(given, dict):
        raise DatasetError(f"{what} must be a JSON object, got {given!r:.80}")
    for key in needed:
        if key not in given:
            raise DatasetError(f"{what} must have the key {key!r}, got {sorted(given)!r}")
    for key, value in given.items():
        if key not in keys:
            raise DatasetError(f"{what} has the unknown key {key!r}; known are {sorted(keys)!r}")
        if not isinstance(value, keys[key]) or (isinstance(value, bool) and keys[key] is not bool):
            raise DatasetError(f"{key!r} of {what} must be {_said(keys[key])}, got {value!r:.80}")
    return dict(given)


def _said(kind: type | tuple[type, ...]) -> str:
    names = {str: "a text", int: "an integer", float: "a number", list: "a list", bool: "true or false"}
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(names.get(each, "null") for each in kinds)


# Finds the recorded datasets, and reads their formats.
#
# The datasets are not part of the package. ``SILTSTONE_DATA`` is their directory, by default
# ``../shared/data`` from the current directory.

DATA = "SILTSTONE_DATA"  #: the environment variable that names the directory


def data_place() -> Path:
    """The directory of the recorded datasets; it need not exist."""
    return Path(os.environ.get(DATA) or Path("..", "shared", "data"))


def load_dataset(name: str, place: str | os.PathLike[str] | None = None) -> Dataset:
    """A recorded dataset.

    Args:
        name: One of ``RECORDED``: ``locomo-dev``, ``agent-dev``, ``madial-en``, ``madial-zh``, ``xquad-dev``.
        place: The directory of its file ``<name>.json``; None is :func:`data_place`.

    Raises:
        DatasetError: the name is unknown, or the file is missing or in another format.
    """
    if name not in RECORDED:
        raise DatasetError(f"there is no recorded dataset {name!r}; known are {sorted(RECORDED)!r}")
    path = Path(data_place() if place is None else place) / f"{name}.json"
    if not path.is_file():
        raise DatasetError(f"no dataset at {str(path)!r}; set {DATA} to the directory that has it")
    try:
        return _recorded(name, read_json(path))
    except (AttributeError, KeyError, TypeError) as error:
        raise DatasetError(f"{str(path)!r} is not in the format of {name}: {error!r}") from error


def _spoken(given: Any) -> Turn:
    """A turn of LoCoMo. A shared image becomes its caption, in brackets after the text."""
    caption = given.get("caption")
    text = f"{given['text']} [shares image: {caption}]" if caption else str(given["text"])
    return Turn(given["id"], text, name=given["speaker"], created_at=when(given["date"]), session=given["n"])


def _of_agent(given: Any) -> Turn:
    """A message of a transcript of an agent: ``{id, speaker, kind, text, date, tool?}``."""
    who = given["speaker"], given.get("tool"), given["kind"]
    return Turn(str(given["id"]), given["text"], *who, when(given["date"]))


def _fact(given: Any) -> Turn:
    """An entry of MADial-Bench: ``{id, text, date}``."""
    return Turn(str(given["id"]), given["text"], kind="fact", created_at=when(given["date"]))


def _sentence(given: Any) -> Turn:
    """A sentence of XQuAD. It has no speaker and no time: all get the same time, the epoch."""
    return Turn(str(given["id"]), given["text"], created_at=0.0)


#: The names of the recorded datasets, with the functions that read a turn of them.
RECORDED: dict[str, Callable[[Any], Turn]] = {
    "locomo-dev": _spoken,
    "agent-dev": _of_agent,
    "madial-en": _fact,
    "madial-zh": _fact,
    "xquad-dev": _sentence,
}


def _recorded(name: str, given: Any) -> Dataset:
    """The recorded dataset *name*.

    ``{conversations: [{id, turns, questions}]}``, where LoCoMo has ``sessions: [{n, turns}]`` in place of the
    turns; or ``{entries, questions}``: facts, not a dialogue. LoCoMo's questions of the category
    ``adversarial`` have no answer, and are apart.
    """
    alone = {"id": name, "turns": given.get("entries"), "questions": given.get("questions")}
    conversations = []
    for each in given["conversations"] if alone["turns"] is None else [alone]:
        turns = each.get("turns") or [
            {**turn, "n": session["n"]} for session in each["sessions"] for turn in session["turns"]
        ]
        read, questions = tuple(map(RECORDED[name], turns)), tuple(map(_asked, each["questions"]))
        conversations.append(Conversation(each["id"], read, questions, ordered=each is not alone))
    apart = frozenset({"adversarial"} if name == "locomo-dev" else ())
    return Dataset(name, tuple(conversations), apart)


def _asked(given: Any) -> Question:
    return Question(given["q"], tuple(map(str, given["evidence"])), given.get("category", "all"))
