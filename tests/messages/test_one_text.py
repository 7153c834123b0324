"""A message that is one text is made without its parts, and is the same as one that was made from them."""

import copy
import pickle
from dataclasses import replace

import pytest

from siltstone.errors import InvalidMessageError
from siltstone.messages import InjectedMessage, Message, Part, read_message


def test_a_message_of_one_text_is_the_one_that_was_made_from_its_part():
    raw = {"role": "user", "content": "one text"}
    made = read_message(raw, 7)
    other = Message(7, "user", (Part("text", "one text"),), raw)
    assert made.said == made.text == "one text"
    assert other.said is None
    for like in (made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert like == other
        assert repr(like) == repr(other)
        assert like.parts == other.parts
    assert made.numbered(8) == other.numbered(8) == replace(made, seq=8)
    assert made.parts is made.parts
    with pytest.raises(AttributeError, match="no 'content'"):
        made.content  # noqa: B018
    raw["content"] = "changed"
    assert read_message({"role": "user", "content": ""}, 0).parts == (Part("text", ""),)
    late = read_message({"role": "user", "content": "said"}, 0)
    late.raw["content"] = "changed"
    assert (late.text, late.parts[0].text) == ("said", "said")


@pytest.mark.parametrize(
    ("raw", "dialect"),
    [
        ({"role": "user", "content": "a"}, "openai.chat"),
        ({"role": "tool", "content": "a"}, None),
        ({"role": "developer", "content": "a"}, None),
        ({"role": "user", "content": [{"type": "text", "text": "a"}]}, None),
        (InjectedMessage(role="user", content="a"), None),
    ],
)
def test_any_other_message_is_read_at_once(raw, dialect):
    message = read_message(raw, 0, dialect=dialect)
    assert message.said is None
    assert message.parts[0].text == "a"


@pytest.mark.parametrize("raw", [{"role": ["user"], "content": "a"}, {"role": "user", "content": 1}])
def test_what_is_no_message_is_refused_as_before(raw):
    with pytest.raises(InvalidMessageError):
        read_message(raw, 0)
