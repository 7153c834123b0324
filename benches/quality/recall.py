"""Recall: of how many questions does the block before a question hold the evidence?

python benches/quality/recall.py --record benches/record
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random

from harness import run
from siltstone import ExtractiveModel, RecallConfig, Session, ThresholdCompactor
from siltstone.compaction.material import render
from siltstone.evaluation import Conversation, Dataset
from siltstone.evaluation.report import off_topic
from siltstone.messages import RecalledMessage, read_history
from siltstone.tokens import estimate_tokens
from survival import FIRST_HITS, LEAST, Calls, Rarity, answerable, as_messages, calls_of, said

WINDOWS = {"agent-dev": (6_000, 8_000, 12_000), "locomo-dev": (4_000, 8_000)}  # tokens
STRANGE = 100  # questions of other conversations, for each
SCORES = (0.10, 0.14, 0.20)
HEADER = (
    "| dataset | window | least score | questions | without | with recall | with search | tokens of a block "
    "| of the hits | silent | tokens off topic |"
)


@dataclass(frozen=True, slots=True)
class Found:
    """Sums over questions, and over off-topic ones.

    Attributes:
        questions: How many there are.
        bare: Those whose evidence survives in the request without recall.
        recalled: The same with the block.
        searched: The same with the first hits of a search for the question, as a tool answers them.
        tokens: Of the blocks.
        hit_tokens: Of the hits.
        strange: Off-topic questions.
        silent: The off-topic questions before which nothing was placed.
        strange_tokens: Tokens of what was placed before the others.
    """

    questions: int = 0
    bare: int = 0
    recalled: int = 0
    searched: int = 0
    tokens: int = 0
    hit_tokens: int = 0
    strange: int = 0
    silent: int = 0
    strange_tokens: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))


def main() -> int:
    """2 where there is nothing to measure."""
    return run(__doc__.splitlines()[0], "recall", page)


def page(datasets: Sequence[Dataset]) -> Iterator[str]:
    """The lines of the record."""
    yield from [
        "No model is asked, and all figures are the same in every run.",
        "",
        "Each conversation is a session in a small window, with `ThresholdCompactor()`, `ExtractiveModel()`",
        "and `prepare()` before each answer. Then every question is asked as the user's next message, in a",
        "session that is opened anew and set back after it.",
        f"The evidence of a question survives in a request that has at least {LEAST:.0%} of its rare words.",
        f"*search*: beside the request the {FIRST_HITS} best hits for the question, whole.",
        f"*silent*: of {STRANGE} questions of other conversations for each, names removed, those before",
        "which nothing was placed. In `locomo-dev` each message begins with the speaker's name.",
        "",
        HEADER,
        f"| :--- |{' ---: |' * 10}",
    ]
    for dataset in datasets:
        for window in WINDOWS.get(dataset.name, ()):
            for score, found in measured(dataset, window).items():
                yield _row(dataset.name, window, score, found)


def measured(dataset: Dataset, window: int) -> dict[float, Found]:
    """The hits in *window* tokens, by least score."""
    calls, strange = calls_of(dataset), off_topic(dataset)
    sums = dict.fromkeys(SCORES, Found())
    for conversation in answerable(dataset):
        with tempfile.TemporaryDirectory(prefix="siltstone-recall-") as place:
            play(conversation, calls, window, Path(place))
            drawn = Random(1).sample(strange[conversation.id], min(STRANGE, len(strange[conversation.id])))
            for score in SCORES:
                sums[score] += asked(conversation, drawn, window, score, Path(place))
    return sums


def play(conversation: Conversation, calls: Calls, window: int, place: Path) -> None:
    """The conversation as a session below *place*."""
    names = iter(conversation.turns)
    by_name = all(turn.role == "user" for turn in conversation.turns)
    with _opened(place, window) as session:
        for message in as_messages(conversation, calls):
            if by_name:
                message = {**message, "content": f"{next(names).name}: {message['content']}"}
            if message["role"] == "assistant":
                session.prepare()
            session.append(message)
        session.prepare()


def asked(
    conversation: Conversation, strange: Sequence[str], window: int, score: float, place: Path
) -> Found:
    """Every question of *conversation*, and those that are off its topic, with *score* as the least one."""
    rarity, found = Rarity(conversation), Found()
    with _opened(place, window, RecallConfig(auto_recall_min_score=score)) as session:
        kept = session.history()
        for question in conversation.questions:
            request, block, hits = _ask(session, kept, question.text)
            words = said(request)
            survives = [
                rarity.survives(question.evidence, words | said(more))
                for more in ("", block, "\n".join(hits))
            ]
            tokens, hit_tokens = (
                estimate_tokens(text, "blocks") if text else 0 for text in (block, "\n".join(hits))
            )
            found += Found(1, *map(int, survives), tokens, hit_tokens)
        for text in strange:
            _, block, _ = _ask(session, kept, text)
            tokens = estimate_tokens(block, "blocks") if block else 0
            found += Found(strange=1, silent=int(not block), strange_tokens=tokens)
    return found


def _ask(session: Session, kept: Sequence[object], question: str) -> tuple[str, str, list[str]]:
    """The request for *question* without what is recalled, the block, and the hits of a search."""
    session.observe([*kept, {"role": "user", "content": question}])  # takes the one before it back
    prepared = session.prepare(policy=None)
    rest = [message for message in prepared.messages if not isinstance(message, RecalledMessage)]
    hits = [hit.content for hit in session.search(question, FIRST_HITS)]
    return render(read_history(rest[:-1]), ""), prepared.recalled, hits


def _opened(place: Path, window: int, recall: RecallConfig | None = None) -> Session:
    return Session.open(
        place,
        "recall",
        policy=ThresholdCompactor(),
        model=ExtractiveModel(),
        context_window=window,
        recall=recall or False,
        knowledge=False,
    )


def _row(name: str, window: int, score: float, found: Found) -> str:
    shares = [each / found.questions for each in (found.bare, found.recalled, found.searched)]
    means = found.tokens / found.questions, found.hit_tokens / found.questions
    cells = " | ".join(f"{each:.3f}" for each in shares)
    return (
        f"| {name} | {window:,} | {score:.2f} | {found.questions} | {cells} "
        f"| {means[0]:,.0f} | {means[1]:,.0f} | {found.silent / found.strange:.2f} "
        f"| {found.strange_tokens / found.strange:,.0f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
