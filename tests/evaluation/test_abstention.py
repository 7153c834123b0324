"""Questions that a conversation does not answer."""

from __future__ import annotations

import pytest

from siltstone.evaluation import Conversation, Dataset, Question, Turn
from siltstone.evaluation.report import off_topic, without_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Ann visit Mount Etna?", "When did visit ?"),
        ("What is Ann's favourite book?", "What is favourite book?"),
        ("Where did O'Neil and Jean-Luc meet?", "Where did and meet?"),
        ("Do I owe what I'd owe Ann?", "Do I owe what I'd owe ?"),
        ("Ann's book was which?", "book was which?"),
        ("Bob's book was which?", "Bob's book was which?"),
        ("2023 was When?", "2023 was ?"),
        ("Ann", ""),
        ("", ""),
        ("Öl auf Élans Wasser", "Öl auf"),
    ],
)
def test_capitalised_words_are_taken_out(text: str, expected: str) -> None:
    assert without_names(text, frozenset({"Ann"})) == expected


def conversation(name: str, *questions: Question) -> Conversation:
    return Conversation(name, (Turn("1", "a text", name=f"{name} Smith"),), questions)


def test_questions_go_to_every_other_conversation_without_their_names() -> None:
    dataset = Dataset(
        "three",
        (
            conversation("Ann", Question("Ann is where in Rome?", ("1",)), Question("why?", ("1",), "apart")),
            conversation("Bob", Question("What did Smith say?", ("1",))),
            conversation("Cid"),
        ),
        apart=frozenset({"apart"}),
    )
    assert off_topic(dataset) == {
        "Ann": ["What did say?"],
        "Bob": ["is where in ?"],
        "Cid": ["is where in ?", "What did say?"],
    }


def test_a_conversation_alone_has_no_question_of_others() -> None:
    assert off_topic(Dataset("one", (conversation("Ann", Question("where?", ("1",))),))) == {"Ann": []}
