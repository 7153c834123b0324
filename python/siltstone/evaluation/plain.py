"""Reads a dataset of your own from one JSON file, whose keys are the attributes of the values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from siltstone.errors import DatasetError
from siltstone.evaluation.dataset import Conversation, Dataset, Question, Turn

__all__ = ["read_dataset", "read_json", "when"]

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
