"""Measures of rankings, questions without an answer, and the reports of both."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from siltstone.evaluation.dataset import Conversation, Dataset

# Measures of a ranking: each is a function with its formula.


def recall(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """The share of the evidence among the first *k*: ``|E ∩ top k| / |E|``, 0..1."""
    wanted = set(evidence)
    return len(wanted.intersection(ranked[:k])) / len(wanted)


def hit(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """1.0 if any evidence is among the first *k*, otherwise 0.0."""
    return float(0 < first_rank(ranked, evidence) <= k)


def ndcg(ranked: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of binary relevance, 0..1.

    ``sum of 1 / log2(rank + 1) over the evidence in the top k``, as a share of the same sum with the
    evidence on the ranks 1 to ``min(k, |E|)``. Source: Järvelin and Kekäläinen 2002, with a gain of 1.
    """
    wanted = set(evidence)
    found = [rank for rank, each in enumerate(ranked[:k], start=1) if each in wanted]
    return _gain(found) / _gain(range(1, min(k, len(wanted)) + 1))


def _gain(ranks: Iterable[int]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank in ranks)


def reciprocal_rank(ranked: Sequence[str], evidence: Collection[str], depth: int) -> float:
    """``1 / rank`` of the first evidence; 0.0 if it comes after *depth*, or not at all."""
    rank = first_rank(ranked, evidence)
    return 1 / rank if 0 < rank <= depth else 0.0


def first_rank(ranked: Sequence[str], evidence: Collection[str]) -> int:
    """The rank of the first evidence, from 1; 0 if there is none."""
    return next((rank for rank, each in enumerate(ranked, start=1) if each in evidence), 0)


def area_under_curve(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How often a positive score exceeds a negative score, 0..1; equal scores count one half.

    ``(sum of the positives' ranks - p (p + 1) / 2) / (p n)``, where equal scores share their mean rank: the
    area under the ROC curve, by Mann and Whitney. Guessing reaches 0.5. Both arguments must have at least one
    score.
    """
    counts: dict[float, tuple[int, int]] = {}
    for score in positive:
        above, below = counts.get(score, (0, 0))
        counts[score] = above + 1, below
    for score in negative:
        above, below = counts.get(score, (0, 0))
        counts[score] = above, below + 1
    # Counted in halves, so that the sum is of integers and exact.
    halves, passed = 0, 0
    for _, (above, below) in sorted(counts.items()):
        halves += above * (2 * passed + below)
        passed += below
    return halves / (2 * len(positive) * len(negative))


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, independent of the order of *values*; 0.0 without values."""
    return math.fsum(values) / len(values) if values else 0.0


def margin(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of their mean: 1.96 standard errors.

    It is the normal approximation, with ``n - 1`` degrees of freedom; 0.0 for fewer than two values.
    """
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    squares = math.fsum((value - middle) ** 2 for value in values)
    return 1.96 * math.sqrt(squares / (len(values) - 1) / len(values))


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that is at least as large as *share* (0..1) of all; 0.0 without samples."""
    if not samples:
        return 0.0
    return sorted(samples)[max(math.ceil(len(samples) * share), 1) - 1]


# Makes questions that a conversation does not answer: questions of other conversations, without names.

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


CUTOFFS = (1, 5, 10, 20)  #: the ks of Recall@k, Hit@k and of the tokens handed over
SESSION_CUTOFFS = (1, 5)  #: the ks of Hit@k over sessions
DEPTH = 100  #: hits that a ranking is read to; a first evidence beyond has a reciprocal rank of 0


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over questions, each 0..1 except the tokens.

    Attributes:
        questions: The number of questions.
        recall: Recall@k, by k: the share of a question's evidence in the top k.
        margin: Half the width of the 95 % confidence interval of Recall@k, by k: how far the same ranker may
            be off on other questions of this kind. Two rankers may differ significantly even if their
            intervals overlap, since they answered the same questions.
        hit: Hit@k, by k: whether any evidence is in the top k.
        ndcg: nDCG@10 with a gain of 1.
        mrr: 1 / rank of the first evidence; 0 beyond rank 100.
        tokens: The tokens of the top k, by k: characters / 4.
        session_hit: Hit@k over sessions, by k: each hit counts for its session, each session once. None if
            the turns have no sessions.
    """

    questions: int
    recall: Mapping[int, float]
    margin: Mapping[int, float]
    hit: Mapping[int, float]
    ndcg: float
    mrr: float
    tokens: Mapping[int, float]
    session_hit: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Abstention:
    """The quality of the best hit's score as a test whether a question has an answer.

    Attributes:
        auc: How often a conversation's own question scores higher than a question of another conversation
            without names, 0..1; 0.5 is guessing. A question without hits is below every question with hits.
        auc_nameless: The same with names removed from the own questions too, so that names give neither side
            away.
        off_topic: The number of questions of other conversations.
        silent: The share of own questions without hits, 0..1.
        silent_off_topic: The share of the other conversations' questions without hits, 0..1.
    """

    auc: float
    auc_nameless: float
    off_topic: int
    silent: float
    silent_off_topic: float


@dataclass(frozen=True, slots=True)
class Latency:
    """The time of a search for 10 hits, in microseconds, without a conversation's first search."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The figures of a store on a dataset. Equal reports found the same; times are not compared.

    Attributes:
        dataset: The dataset's name.
        conversations: The number of conversations.
        entries: The number of turns.
        pooled: The figures over all questions, except those of categories that the dataset reports apart.
        categories: The figures by category, in the order of the names.
        everything: The figures over all questions; None if none are apart.
        abstention: None if there is only one conversation, or if it was not asked for.
        latency: The times; only these differ from run to run.
    """

    dataset: str
    conversations: int
    entries: int
    pooled: Figures
    categories: Mapping[str, Figures]
    everything: Figures | None
    abstention: Abstention | None
    latency: Latency = field(compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The report as nested dictionaries of plain values, ready for JSON."""
        return asdict(self)

    def to_markdown(self) -> str:
        """The figures as a table with a row for each category, and a line on abstention and latency."""
        return "\n".join(
            [
                f"| | {' | '.join(_COLUMNS)} |",
                f"| :--- | {' | '.join(['---:'] * len(_COLUMNS))} |",
                *(f"| {' | '.join(cells)} |" for cells in self._rows()),
                "",
                self._last_line(),
            ]
        )

    def __repr__(self) -> str:
        found = f"R@10 {self.pooled.recall[10]:.3f}, nDCG@10 {self.pooled.ndcg:.3f}"
        return f"<Report of {self.dataset!r}: {self.pooled.questions:,} questions, {found}>"

    def _rows(self) -> list[list[str]]:
        rows = [("pooled", self.pooled)]
        if self.everything is not None:
            rows.append(("everything", self.everything))
        rows += [(f"- {name}", figures) for name, figures in self.categories.items()]
        return [_cells(name, figures) for name, figures in rows]

    def _last_line(self) -> str:
        latency = f"p50 {self.latency.p50:.1f} us, p95 {self.latency.p95:.1f} us a search"
        if self.abstention is None:
            return latency
        auc, nameless = self.abstention.auc, self.abstention.auc_nameless
        return f"abstention AUC {auc:.3f}, without names {nameless:.3f}; {latency}"


_COLUMNS = (
    "questions", "R@1", "R@5", "R@10", "±", "R@20", "nDCG@10", "MRR", "Hit@10", "session Hit@1",
    "session Hit@5", "tokens, top 10",
)  # fmt: skip


def _cells(name: str, figures: Figures) -> list[str]:
    shares = [figures.recall[1], figures.recall[5], figures.recall[10], figures.margin[10]]
    shares += [figures.recall[20], figures.ndcg, figures.mrr, figures.hit[10]]
    sessions = [f"{share:.3f}" for share in (figures.session_hit or {}).values()] or ["", ""]
    counted = [name, f"{figures.questions:,}", *(f"{share:.3f}" for share in shares)]
    return [*counted, *sessions, f"{figures.tokens[10]:.0f}"]
