"""Questions with one typo each, the same in every run."""

import random
import re
from dataclasses import replace

from siltstone.evaluation import Dataset

_WORD = re.compile(r"[^\W\d_]{5,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def with_typos(dataset: Dataset, seed: int = 7) -> Dataset:
    """*dataset* with an edit in a word of five letters or more of each question that has one."""
    draw = random.Random(seed)
    conversations = tuple(
        replace(
            each, questions=tuple(replace(asked, text=_typo(asked.text, draw)) for asked in each.questions)
        )
        for each in dataset.conversations
    )
    return replace(dataset, conversations=conversations)


def _typo(text: str, draw: random.Random) -> str:
    found = list(_WORD.finditer(text))
    if not found:
        return text
    match = draw.choice(found)
    word, edit = match[0], draw.randrange(4)
    at = draw.randrange(1, len(word))
    letter = draw.choice(_LETTERS if word.isascii() else word)
    if edit == 0:
        word = word[:at] + word[at + 1 :]
    elif edit == 1:
        word = word[:at] + letter + word[at:]
    elif edit == 2:
        word = word[:at] + letter + word[at + 1 :]
    else:
        at = min(at, len(word) - 2)
        word = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return text[: match.start()] + word + text[match.end() :]
