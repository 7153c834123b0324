"""Does what answers a question survive a compaction? The measure, and who writes the summaries.

The evidence of a question survives in a text where at least ``LEAST`` of its rare words are in the text. A
word is rare where its idf is above the median of its conversation, taken over every word of every turn.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from siltstone import ExtractiveModel, Session, ThresholdCompactor
from siltstone._native import words
from siltstone.compaction.material import items_of, lines, render
from siltstone.compaction.prompts import PROMPT
from siltstone.evaluation import Conversation, Dataset, Turn, data_place
from siltstone.llm import EXTRACTIVE, Completion, CompletionRequest, UsageRecord
from siltstone.messages import RecalledMessage, read_history
from siltstone.tokens import estimate_tokens

FIRST_HITS = 5
LEAST = 0.6  # of the rare words of the evidence
SEEDS = range(5)

Writer = Callable[[CompletionRequest], Any]
Raw = dict[str, Any]
Calls = Mapping[tuple[str, str], str]


class Rarity:
    """Which words of a conversation are rare, and whether a question's evidence survives in a text."""

    def __init__(self, conversation: Conversation) -> None:
        self._words = {turn.id: said(turn.text) for turn in conversation.turns}
        counts = Counter(word for found in self._words.values() for word in found)
        idf = {word: math.log(len(self._words) / count) for word, count in counts.items()}
        bound = median(idf[word] for found in self._words.values() for word in found)
        self._rare = {word for word, value in idf.items() if value > bound}

    def of(self, evidence: Iterable[str]) -> set[str]:
        """The rare words of the turns *evidence*; all of their words where none is rare."""
        found = set().union(*(self._words[turn] for turn in evidence))
        return found & self._rare or found

    def survives(self, evidence: Iterable[str], text: set[str]) -> bool:
        """Whether enough of them are among the words *text*."""
        wanted = self.of(evidence)
        return len(wanted & text) >= LEAST * len(wanted)


def said(text: str) -> set[str]:
    """The words of *text*; the escaped line breaks of a call's JSON stand between words too."""
    return set(words(re.sub(r"\\[nrt\"]", " ", text)))


def writers() -> dict[str, list[Writer]]:
    """Who writes a summary, by name; random sentences by each of the seeds."""
    return {
        "ExtractiveModel": [ExtractiveModel()],
        "head": [head],
        "tail": [tail],
        "random sentences": [RandomSentences(seed) for seed in SEEDS],
    }


def quoted(text: str) -> Completion:
    """*text* as an answer that only quotes, as those of the extractive model: it is not judged as an echo."""
    return Completion(text, UsageRecord(EXTRACTIVE))


def head(request: CompletionRequest) -> Completion:
    """The beginning of the material."""
    return quoted(within(material(request), request.max_tokens, lambda text, size: text[:size]))


def tail(request: CompletionRequest) -> Completion:
    """The end of the material."""
    return quoted(within(material(request), request.max_tokens, lambda text, size: text[-size:]))


def within(text: str, tokens: int, part: Callable[[str, int], str]) -> str:
    """The largest *part* of *text* of at most *tokens* by the rule of the policy."""
    sizes = range(1, len(text) + 1)
    return part(text, bisect_right(sizes, tokens, key=lambda size: estimate_tokens(part(text, size))))


class RandomSentences:
    """Lines and sentences of the material, drawn until the budget is full, in their order."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, request: CompletionRequest) -> Completion:
        """The sentences that were drawn."""
        sentences = [
            each for each in re.split(r"\n\s*|(?<=[.!?])\s+|(?<=[。！？])", material(request)) if each
        ]
        order = list(range(len(sentences)))
        random.Random(self._seed).shuffle(order)
        room, chosen = request.max_tokens, []
        for at in order:
            size = estimate_tokens(sentences[at] + "\n") + 1
            if size <= room:
                room -= size
                chosen.append(at)
        return quoted("\n".join(sentences[at] for at in sorted(chosen)))


def material(request: CompletionRequest) -> str:
    """The text that *request* gives to be summarised."""
    return "\n".join(str(message["content"]) for message in request.messages[:-1])


def answerable(dataset: Dataset) -> list[Conversation]:
    """Its conversations with the questions of the pooled figures alone."""
    return [
        replace(each, questions=tuple(one for one in each.questions if one.category not in dataset.apart))
        for each in dataset.conversations
    ]


def as_messages(conversation: Conversation, calls: Calls) -> list[Raw]:
    """*conversation* as messages: an agent's in the words of Anthropic, two people as user and assistant."""
    turns = conversation.turns
    if all(turn.role == "user" for turn in turns):
        return [
            {"role": "user" if turn.name == turns[0].name else "assistant", "content": turn.text}
            for turn in turns
        ]
    return [
        {"role": role, "content": [_block(turn, calls.get((conversation.id, turn.id), "")) for turn in said]}
        for role, said in groupby(turns, key=lambda turn: turn.role)
    ]


def _block(turn: Turn, call: str) -> Raw:
    if turn.kind == "tool_use":
        try:
            arguments = json.loads(turn.text)
        except ValueError:  # cut in the middle
            arguments = {"arguments": turn.text}
        return {"type": "tool_use", "id": call, "name": turn.name, "input": arguments}
    if turn.kind == "tool_result":
        return {"type": "tool_result", "tool_use_id": call, "content": turn.text}
    return {"type": "text", "text": turn.text}


@dataclass(frozen=True, slots=True)
class Survival:
    """How many questions there are, and of how many the evidence survives. Sums are over conversations.

    Attributes:
        questions: All of them.
        lost: Those whose evidence does not survive in the context beside the summary.
        in_context: Those whose evidence survives in summary and context.
        with_search: The same with the first hits of a search.
        of_lost: The lost questions whose evidence survives in the summary.
        tokens: Of the summaries.
    """

    questions: float = 0.0
    lost: float = 0.0
    in_context: float = 0.0
    with_search: float = 0.0
    of_lost: float = 0.0
    tokens: float = 0.0

    def __add__(self, other: Survival) -> Survival:
        return Survival(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    def __truediv__(self, runs: int) -> Survival:
        return Survival(*(one / runs for one in astuple(self)))


def in_session(
    conversation: Conversation,
    messages: Sequence[Raw],
    writer: Writer,
    window: int,
    place: Path,
    **options: Any,
) -> Survival:
    """An agent's session of *messages* in *window* tokens, with `prepare` before each of its steps.

    *options* are those of the session; else it has threshold compaction.
    """
    options = options or {"policy": ThresholdCompactor()}
    with Session.open(place, "evidence", model=writer, context_window=window, **options) as session:
        for message in messages:
            if message["role"] == "assistant":
                session.prepare()
            session.append(message)
        sent = session.prepare().messages  # of a policy that shapes requests less than the history
        history = read_history([raw for raw in sent if not isinstance(raw, RecalledMessage)])
        found = [session.search(question.text, FIRST_HITS) for question in conversation.questions]
    summaries = [message for message in history if message.provenance == "compaction_summary"]
    others = [message for message in history if message.provenance != "compaction_summary"]
    return _survival(
        conversation,
        render(others, ""),
        "\n".join(message.text for message in summaries),
        ["\n".join(hit.content for hit in hits) for hits in found],
    )


def when_asked(conversation: Conversation, window: int, place: Path, **options: Any) -> int:
    """Of how many questions the evidence is in the request that asks it, what is recalled in it included.

    *place* has the session that :func:`in_session` left. Each question is asked in a copy of it.
    """
    rarity = Rarity(conversation)
    kept = 0
    for question in conversation.questions:
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(place, copy, dirs_exist_ok=True)
            with Session.open(copy, "evidence", context_window=window, **options) as session:
                session.append({"role": "user", "content": question.text})
                sent = read_history(session.prepare().messages)
        kept += rarity.survives(question.evidence, said(render(sent, "")))
    return kept


def alone(conversation: Conversation, messages: Sequence[Raw], writer: Writer, share: float) -> Survival:
    """One summary of all of *messages*, of at most *share* of their tokens, and nothing beside it."""
    budget = int(share * sum(estimate_tokens(turn.text) for turn in conversation.turns))
    history = read_history(messages)
    items = items_of(history, "")
    asked = CompletionRequest(
        [{"role": "user", "content": lines(items)}, {"role": "user", "content": PROMPT}],
        budget,
        material=items,
    )
    answer = writer(asked)
    text = answer.text if isinstance(answer, Completion) else answer
    assert estimate_tokens(text, "blocks") <= budget
    return _survival(conversation, "", text, [""] * len(conversation.questions))


def _survival(conversation: Conversation, beside: str, summary: str, found: Sequence[str]) -> Survival:
    rarity = Rarity(conversation)
    context, written = said(beside), said(summary)
    lost, survive, of_lost, with_search = 0, 0, 0, 0
    for question, hits in zip(conversation.questions, found, strict=True):
        is_lost = not rarity.survives(question.evidence, context)
        is_there = rarity.survives(question.evidence, context | written)
        lost += is_lost
        survive += is_there
        of_lost += is_lost and is_there
        with_search += rarity.survives(question.evidence, context | written | said(hits))
    return Survival(
        len(conversation.questions), lost, survive, with_search, of_lost, estimate_tokens(summary, "blocks")
    )


def calls_of(dataset: Dataset, place: Path | None = None) -> dict[tuple[str, str], str]:
    """By conversation and turn of an agent, the id of the call that the turn is, or is the result of."""
    if dataset.name != "agent-dev":
        return {}
    path = (place or data_place()) / f"{dataset.name}.json"
    given = json.loads(path.read_text(encoding="utf-8"))
    return {
        (each["id"], str(turn["id"])): turn["call"]
        for each in given["conversations"]
        for turn in each["turns"]
        if "call" in turn
    }
