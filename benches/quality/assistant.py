"""Dialogues of a user and an assistant whose answers are long: a set that is made of what every Python has.

python benches/quality/assistant.py

Turns are written in ``questions.json``; answers are pages of ``pydoc``, two hundred words each. What is asked
later is what the user had asked, instructions, what was changed, the order of things, all of a theme. Another
dialogue is about one greenhouse from its first turn to its last, so that the words of the project tell
nothing; answers begin with what was asked.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from pydoc_data.topics import topics
from random import Random
from statistics import fmean
from typing import get_args

from siltstone import MemoryStore
from siltstone.evaluation import Conversation, Dataset, Question, Turn, evaluate, load_dataset
from siltstone.memory import SearchOrder

WRITTEN = json.loads((Path(__file__).parent / "questions.json").read_text("utf-8"))
#: Page of ``pydoc``; what the user asks; how that is asked for later, in other words.
TOPICS = WRITTEN["topics"]
#: Wishes of the user for the form of answers, and the later questions for them.
INSTRUCTIONS = WRITTEN["instructions"]
#: A first statement of the user, its replacement, and the question that wants both, the newer one above all.
UPDATES = WRITTEN["updates"]
#: Questions for all that was said of a subject, and the pages that belong to it.
THEMES = WRITTEN["themes"]
#: The name of a turn, the later question or "", and the words of the user.
SAID = WRITTEN["said"]
#: The kind of a question, the turns that answer it, and the question.
TOGETHER = WRITTEN["together"]
DIALOGUES = 2  # each with half of the topics, and answers from other parts of the pages
WORDS = 200  # of an answer
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def assistant_set() -> Dataset:
    """The dialogues, the same in every run of one version of Python."""
    return Dataset("assistant", tuple(map(_dialogue, range(DIALOGUES))))


def project_set() -> Dataset:
    """The dialogue about one project, the same in every run of one version of Python."""
    pages = sorted(topics, key=lambda page: -len(topics[page]))[: len(SAID)]
    Random(7).shuffle(pages)
    said: list[tuple[str, str]] = []
    place: dict[str, str] = {}
    for (known, _, text), page in zip(SAID, pages, strict=True):
        place[known] = str(len(said))
        again = text.split(". ")[0].rstrip(".?")
        answer = " ".join(topics[page].split()[: WORDS - 15])
        said += [("user", text), ("assistant", f"Good point. {again}: here is what I would do. {answer}")]
    questions = [Question(later, (place[known],), "fact") for known, later, _ in SAID if later]
    questions += [
        Question(text, tuple(place[each] for each in known.split()), category)
        for category, known, text in TOGETHER
    ]
    return Dataset("project", (Conversation("project", _turns(said, a_day=16), tuple(questions)),))


def _turns(said: Sequence[tuple[str, str]], a_day: int) -> tuple[Turn, ...]:
    """Turns of who and what, seven minutes apart, and so many of them on a day."""
    moments = (START + timedelta(minutes=7 * at) + timedelta(days=at // a_day) for at in count())
    return tuple(
        Turn(str(at), text, role=who, created_at=moment)
        for at, ((who, text), moment) in enumerate(zip(said, moments, strict=False))
    )


def _dialogue(number: int) -> Conversation:
    draw = Random(number)
    said: list[tuple[str, str, str]] = []  # who, what, and what it is known by
    asked = [(f"topic {page}", question, _answer(page, number)) for page, question, _ in TOPICS]
    draw.shuffle(asked)
    orders = [(f"instruction {at}", text, "Understood.") for at, (text, _) in enumerate(INSTRUCTIONS)]
    firsts = [(f"first {at}", first, "Noted.") for at, (first, _, _) in enumerate(UPDATES)]
    seconds = [(f"second {at}", second, "I will use that.") for at, (_, second, _) in enumerate(UPDATES)]
    half = len(asked) // 2
    before, after = asked[:half] + orders + firsts, asked[half:] + seconds
    for part in (before, after):
        draw.shuffle(part)
        for known, question, answer in part:
            said += [("user", question, known), ("assistant", answer, "")]
    turns = _turns([(who, text) for who, text, _ in said], a_day=30)
    place = {known: at for at, (_, _, known) in enumerate(said) if known}
    return Conversation(f"assistant {number}", turns, tuple(_questions(place)))


def _answer(page: str, number: int) -> str:
    words = topics[page].split()
    start = min(number * WORDS, max(0, len(words) - WORDS))
    return " ".join(words[start : start + WORDS])


def _questions(place: dict[str, int]) -> Iterator[Question]:
    """The later questions; their evidence is the user's own words."""

    def question(text: str, category: str, *known: str) -> Question:
        return Question(text, tuple(str(place[each]) for each in known), category)

    for page, _, later in TOPICS:
        yield question(later, "topic", f"topic {page}")
    for at, (_, later) in enumerate(INSTRUCTIONS):
        yield question(later, "instruction", f"instruction {at}")
    for at, (_, _, later) in enumerate(UPDATES):
        yield question(later, "update", f"first {at}", f"second {at}")
    for theme, pages in THEMES:
        yield question(f"Summarise {theme}.", "theme", *(f"topic {page}" for page in pages))
    for (page, asked, _), (other, also, _) in zip(TOPICS[::2], TOPICS[1::2], strict=False):
        yield question(
            f"What came first: {_clause(asked)}, or {_clause(also)}?",
            "order",
            f"topic {page}",
            f"topic {other}",
        )


def _clause(question: str) -> str:
    """Half of the words of a question, as somebody remembers it."""
    words = question.rstrip("?.").split()
    return " ".join(words[len(words) // 2 :])


def in_time(dataset: Dataset, limit: int = 10) -> dict[str, tuple[float, float]]:
    """For each category the part of the evidence among *limit* hits: the best first, and in order of time."""
    found: dict[str, list[tuple[float, float]]] = {}
    for conversation in dataset.conversations:
        entries = conversation.entries()
        place = {turn.id: entry.source_range for turn, entry in zip(conversation.turns, entries, strict=True)}
        with (
            tempfile.TemporaryDirectory(prefix="siltstone-assistant-") as path,
            MemoryStore.open(path) as store,
        ):
            store.index("dialogue", entries)
            for question in conversation.questions:
                evidence = {place[turn] for turn in question.evidence}
                best, timed = (
                    {hit.source_range for hit in store.search("dialogue", question.text, limit, order=order)}
                    for order in get_args(SearchOrder)
                )
                shares = len(evidence & best) / len(evidence), len(evidence & timed) / len(evidence)
                found.setdefault(question.category, []).append(shares)
                found.setdefault("pooled", []).append(shares)
    return {
        name: (fmean(one for one, _ in rows), fmean(two for _, two in rows)) for name, rows in found.items()
    }


def main() -> int:
    """Prints what the default ranker finds of the set, and what it finds in order of time."""
    place = count()
    own = (assistant_set(), project_set())
    for dataset in own:
        with tempfile.TemporaryDirectory(prefix="siltstone-assistant-") as directory:
            report = evaluate(lambda to=directory: MemoryStore.open(Path(to) / str(next(place))), dataset)
        print(dataset.name)
        for name, figures in {"pooled": report.pooled, **report.categories}.items():
            found = ", ".join(f"R@{k} {figures.recall[k]:.3f}" for k in (1, 5, 10))
            print(f"  {name}: {figures.questions} questions, {found}")
    for dataset in (*own, *map(load_dataset, ("locomo-dev", "agent-dev"))):
        print(f"{dataset.name}, part of the evidence among ten hits: best first, and in order of time")
        for name, (best, timed) in in_time(dataset).items():
            print(f"  {name}: {best:.3f}, {timed:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
