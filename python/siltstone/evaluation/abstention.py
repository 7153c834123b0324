"""Makes questions that a conversation does not answer: questions of other conversations, without names."""

from __future__ import annotations

import re

from siltstone.evaluation.dataset import Conversation, Dataset

__all__ = ["off_topic", "without_names", "without_names_in"]

# A word begins with a letter and may hold digits, apostrophes and hyphens: O'Neil, Jean-Luc.
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_APOSTROPHE = re.compile("['’]")
_SPACES = re.compile(r"\s{2,}")


def off_topic(dataset: Dataset) -> dict[str, list[str]]:
    """By conversation id: the questions of all other conversations, without names, in order.

    Categories that are reported apart are left out: a question that has no answer in its own conversation
    proves nothing in another conversation.
    """
    asked = {
        each.id: [
            nameless
            for question, nameless in zip(each.questions, without_names_in(each), strict=True)
            if question.category not in dataset.apart
        ]
        for each in dataset.conversations
    }
    return {
        here: [query for there, queries in asked.items() if there != here for query in queries]
        for here in asked
    }


def without_names_in(conversation: Conversation) -> list[str]:
    """The conversation's questions without names, including the names of its speakers."""
    speakers = frozenset(word for turn in conversation.turns for word in _WORD.findall(turn.name or ""))
    return [without_names(question.text, speakers) for question in conversation.questions]


def without_names(text: str, names: frozenset[str] = frozenset()) -> str:
    """*text* without capitalised words; "I" stays, and so does the first word unless it is in *names*.

    A name would show at once that the question is from another conversation, and real users do not ask about
    absent people. The rest of the question is its subject.
    """

    def kept(match: re.Match[str]) -> str:
        word = match[0]
        stem = _APOSTROPHE.split(word)[0]
        stays = stem == "I" or not (stem in names or text[: match.start()].strip())
        return word if stays or not word[0].isupper() else ""

    return _SPACES.sub(" ", _WORD.sub(kept, text)).strip()
