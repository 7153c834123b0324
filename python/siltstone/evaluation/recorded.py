"""Finds the recorded datasets, and reads their formats.

The datasets are not part of the package. ``SILTSTONE_DATA`` is their directory, by default ``../shared/data``
from the current directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siltstone.errors import DatasetError
from siltstone.evaluation.dataset import Conversation, Dataset, Question, Turn
from siltstone.evaluation.plain import read_json, when

__all__ = ["DATA", "RECORDED", "data_place", "load_dataset"]

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
        return RECORDED[name](name, read_json(path))
    except (KeyError, TypeError) as error:
        raise DatasetError(f"{str(path)!r} is not in the format of {name}: {error!r}") from error


def _locomo(name: str, given: Any) -> Dataset:
    """LoCoMo: ``{conversations: [{id, sessions: [{n, turns}], questions}]}``; ``adversarial`` is apart.

    Questions of the category ``adversarial`` have no answer. A shared image becomes its caption, in brackets
    after the text.
    """
    conversations = tuple(
        Conversation(
            id=each["id"],
            turns=tuple(
                Turn(
                    id=turn["id"],
                    text=_with_caption(turn),
                    name=turn["speaker"],
                    created_at=when(turn["date"]),
                    session=session["n"],
                )
                for session in each["sessions"]
                for turn in session["turns"]
            ),
            questions=_questions(each["questions"]),
        )
        for each in given["conversations"]
    )
    return Dataset(name, conversations, apart=frozenset({"adversarial"}))


def _with_caption(turn: dict[str, Any]) -> str:
    caption = turn.get("caption")
    return f"{turn['text']} [shares image: {caption}]" if caption else str(turn["text"])


def _agent(name: str, given: Any) -> Dataset:
    """Transcripts of agents: ``{conversations: [{id, turns: [{id, speaker, kind, text, date, tool?}]}]}``."""
    conversations = tuple(
        Conversation(
            id=each["id"],
            turns=tuple(
                Turn(
                    id=str(turn["id"]),
                    text=turn["text"],
                    role=turn["speaker"],
                    name=turn.get("tool"),
                    kind=turn["kind"],
                    created_at=when(turn["date"]),
                )
                for turn in each["turns"]
            ),
            questions=_questions(each["questions"]),
        )
        for each in given["conversations"]
    )
    return Dataset(name, conversations)


def _madial(name: str, given: Any) -> Dataset:
    """MADial-Bench: ``{entries: [{id, text, date}], questions}``; the entries are facts, not a dialogue."""
    turns = tuple(
        Turn(id=str(each["id"]), text=each["text"], kind="fact", created_at=when(each["date"]))
        for each in given["entries"]
    )
    conversation = Conversation(id=name, turns=turns, questions=_questions(given["questions"]), ordered=False)
    return Dataset(name, (conversation,))


def _xquad(name: str, given: Any) -> Dataset:
    """XQuAD: ``{conversations: [{id, language, turns: [{id, text}], questions}]}``; each sentence is a turn.

    The sentences have no speaker and no time: all get the same time, the epoch. The category is the language.
    """
    conversations = tuple(
        Conversation(
            id=each["id"],
            turns=tuple(
                Turn(id=str(turn["id"]), text=turn["text"], created_at=0.0) for turn in each["turns"]
            ),
            questions=_questions(each["questions"]),
        )
        for each in given["conversations"]
    )
    return Dataset(name, conversations)


def _questions(given: Any) -> tuple[Question, ...]:
    return tuple(
        Question(
            text=each["q"],
            evidence=tuple(str(turn) for turn in each["evidence"]),
            category=each.get("category", "all"),
        )
        for each in given
    )


#: The names of the recorded datasets, with the functions that read them.
RECORDED: dict[str, Callable[[str, Any], Dataset]] = {
    "locomo-dev": _locomo,
    "agent-dev": _agent,
    "madial-en": _madial,
    "madial-zh": _madial,
    "xquad-dev": _xquad,
}
