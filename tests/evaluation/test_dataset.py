"""Datasets: their refusals, the entries that a store gets of them, and how they are read."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from siltstone import Entry
from siltstone.errors import DatasetError
from siltstone.evaluation import Conversation, Dataset, Question, Turn, data_place, load_dataset, read_dataset

TURN = Turn("1", "silt settles", "assistant", "Ann", "fact", datetime(2023, 5, 8), 3)


def test_a_store_is_given_an_entry_a_turn_with_all_that_is_known() -> None:
    turns = (TURN, Turn("2", "a second"))
    assert Conversation("a", turns).entries() == [
        Entry("silt settles", (0, 1), "assistant", "Ann", "fact", datetime(2023, 5, 8)),
        Entry("a second", (1, 2)),
    ]
    assert [entry.source_range for entry in Conversation("a", turns, ordered=False).entries()] == [(0, 0)] * 2


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Conversation("a", (TURN, TURN)), "turns of the conversation 'a' must have different ids"),
        (lambda: Conversation("a", (TURN,), (Question("q", ()),)), "'q' of 'a' has no evidence"),
        (lambda: Conversation("a", (TURN,), (Question("q", ("2",)),)), "'2' of the question 'q' is no turn"),
        (lambda: Dataset("d", (Conversation("a", ()),) * 2), "got 'a' 2 times"),
    ],
)
def test_what_does_not_fit_is_refused(build: Any, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        build()


GIVEN: dict[str, Any] = {
    "name": "mine",
    "apart": ["unanswerable"],
    "conversations": [
        {
            "id": "a",
            "ordered": False,
            "turns": [
                {"id": 1, "text": "silt settles", "role": "assistant", "name": "Ann", "kind": "fact",
                 "created_at": "2023-05-08", "session": 3},
                {"id": "2", "text": "a second", "created_at": 1.5},
            ],
            "questions": [
                {"text": "what settles?", "evidence": [1], "category": "c"},
                {"text": "and then?", "evidence": ["2", 1]},
            ],
        },
        {"id": "b", "turns": []},
    ],
}  # fmt: skip


def written(place: Path, given: object) -> Path:
    path = place / "mine.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given), encoding="utf-8")
    return path


def test_a_file_is_read_into_the_values_that_its_keys_name(tmp_path: Path) -> None:
    assert read_dataset(written(tmp_path, GIVEN)) == Dataset(
        "mine",
        (
            Conversation(
                "a",
                (TURN, Turn("2", "a second", created_at=1.5)),
                (Question("what settles?", ("1",), "c"), Question("and then?", ("2", "1"))),
                ordered=False,
            ),
            Conversation("b", ()),
        ),
        frozenset({"unanswerable"}),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object, got \\[\\]"),
        ({"name": "d"}, "must have the key 'conversations'"),
        ({"name": 1, "conversations": []}, "'name' of the dataset .* must be a text, got 1"),
        ({"name": "d", "conversations": [], "turns": []}, "unknown key 'turns'"),
        ({"name": "d", "conversations": [], "apart": [None]}, "'apart' must be a list of texts or integers"),
        ({"name": "d", "conversations": [3]}, "a conversation must be a JSON object, got 3"),
        ({"name": "d", "conversations": [{"id": "a", "turns": [{"id": "1"}]}]}, "must have the key 'text'"),
        (
            {"name": "d", "conversations": [{"id": "a", "turns": [{"id": True, "text": ""}]}]},
            "'id' of a turn must be a text or an integer, got True",
        ),
        (
            {
                "name": "d",
                "conversations": [{"id": "a", "turns": [{"id": 1, "text": "", "created_at": "May"}]}],
            },
            "a time must be ISO 8601.* got 'May'",
        ),
        (
            {
                "name": "d",
                "conversations": [{"id": "a", "turns": [], "questions": [{"text": "", "evidence": [[]]}]}],
            },
            "'evidence' must be a list of texts or integers, got \\[\\] in it",
        ),
    ],
)
def test_a_file_that_is_not_right_says_where(tmp_path: Path, given: object, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        read_dataset(written(tmp_path, given))


def test_recorded_data_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SILTSTONE_DATA", raising=False)
    assert data_place() == Path("../shared/data")
    monkeypatch.setenv("SILTSTONE_DATA", str(tmp_path))
    assert data_place() == tmp_path
    with pytest.raises(DatasetError, match=r"no dataset at '.*locomo-dev.json'; set SILTSTONE_DATA"):
        load_dataset("locomo-dev")
    with pytest.raises(DatasetError, match="no recorded dataset 'locomo'; known are"):
        load_dataset("locomo")


RECORDED: dict[str, tuple[Any, Conversation]] = {
    "locomo-dev": (
        {"conversations": [{
            "id": "c",
            "sessions": [{"n": 3, "turns": [
                {"id": "D3:1", "speaker": "Ann", "text": "look", "date": "2023-05-08T13:56",
                 "caption": "a dog"},
            ]}],
            "questions": [{"q": "what?", "category": "temporal", "evidence": ["D3:1"]}],
        }]},
        Conversation(
            "c",
            (Turn("D3:1", "look [shares image: a dog]", name="Ann",
                  created_at=datetime(2023, 5, 8, 13, 56), session=3),),
            (Question("what?", ("D3:1",), "temporal"),),
        ),
    ),
    "agent-dev": (
        {"conversations": [{
            "id": "c",
            "turns": [{"id": 2, "speaker": "assistant", "kind": "tool_use", "text": "{}",
                       "date": "2026-02-12T16:02", "tool": "Bash", "call": "x"}],
            "questions": [{"q": "what?", "category": "command", "evidence": [2]}],
        }]},
        Conversation(
            "c",
            (Turn("2", "{}", "assistant", "Bash", "tool_use", datetime(2026, 2, 12, 16, 2)),),
            (Question("what?", ("2",), "command"),),
        ),
    ),
    "madial-en": (
        {"entries": [{"id": 1, "text": "a fact", "date": "2023-12-25"}],
         "questions": [{"q": "what?", "q_last": "?", "evidence": [1]}]},
        Conversation(
            "madial-en",
            (Turn("1", "a fact", kind="fact", created_at=datetime(2023, 12, 25)),),
            (Question("what?", ("1",)),),
            ordered=False,
        ),
    ),
    "xquad-dev": (
        {"conversations": [{
            "id": "xquad-ru", "language": "ru",
            "turns": [{"id": 0, "text": "ил оседает"}],
            "questions": [{"q": "что?", "category": "ru", "evidence": [0]}],
        }]},
        Conversation(
            "xquad-ru",
            (Turn("0", "ил оседает", created_at=0.0),),
            (Question("что?", ("0",), "ru"),),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_each_recorded_format_is_read(tmp_path: Path, name: str) -> None:
    given, expected = RECORDED[name]
    (tmp_path / f"{name}.json").write_text(json.dumps(given), encoding="utf-8")
    dataset = load_dataset(name, tmp_path)
    assert (dataset.name, dataset.conversations) == (name, (expected,))
    assert dataset.apart == ({"adversarial"} if name == "locomo-dev" else frozenset())


@pytest.mark.parametrize("given", [{}, [], {"conversations": [{"id": "c"}]}, {"entries": 3}])
@pytest.mark.parametrize("name", RECORDED)
def test_a_file_of_another_format_is_refused(tmp_path: Path, name: str, given: object) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(given), encoding="utf-8")
    with pytest.raises(DatasetError, match=f"is not in the format of {name}"):
        load_dataset(name, tmp_path)
