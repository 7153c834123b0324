"""Fills stores with conversations, asks the questions, and computes the report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, Protocol, TypeAlias, get_args

from siltstone.errors import ConfigError, DatasetError, StoreError
from siltstone.evaluation import report, report as reports
from siltstone.evaluation.dataset import Conversation, Dataset, Question
from siltstone.memory.entry import Entry

# The methods of a store that a measurement needs: few, so that other stores can be measured too.


class Indexed(Protocol):
    """The answer of ``index``, such as a :class:`~siltstone.memory.entry.Receipt`."""

    @property
    def entry_ids(self) -> Sequence[Hashable | None]:
        """An id for each entry, in order; None for an entry that was not kept."""


class Ranked(Protocol):
    """A hit. A :class:`~siltstone.memory.entry.SearchHit` is one."""

    @property
    def entry_id(self) -> Hashable:
        """One of the ids that ``index`` returned."""

    @property
    def score(self) -> float:
        """Higher is better; only abstention compares scores of different queries."""

    @property
    def content(self) -> str:
        """The text of the hit."""


class Measurable(Protocol):
    """A store that can be measured: ``MemoryStore``, ``SimpleMemoryStore``, or your own store.

    A store that works in the background also has a method ``flush``, which waits for that work and returns
    whether it is done; it is called before the first search.
    """

    def index(self, session_id: str, entries: Sequence[Entry], /) -> Indexed:
        """Adds *entries*, so that the next search finds them."""

    def search(self, session_id: str, query: str, /, *, limit: int) -> Sequence[Ranked]:
        """At most *limit* hits, best first.

        ``ranker`` and ``min_score`` are passed too, each only if it was given to :func:`evaluate`.
        """

    def close(self) -> None:
        """Releases all resources."""


Ties: TypeAlias = Literal["store", "earlier"]

SILENT = -math.inf  # the best score of a question without hits: below every score of every store
TIMED = 10  # the hits of a timed search: as many as a tool gives to a model


def evaluate(
    store_factory: Callable[[], Measurable],
    dataset: Dataset,
    *,
    ranker: str | None = None,
    min_score: float = 0.0,
    ties: Ties = "store",
    abstention: bool = True,
) -> reports.Report:
    """The figures of a store on *dataset*; all of them except the times are the same in every run.

    Each conversation gets a store of its own, with one entry for each turn. Each of its questions is a query,
    unchanged. An entry that a store returns twice counts at its first place.

    Args:
        store_factory: A function that makes an empty store: a ``MemoryStore`` in a new directory, a
            ``SimpleMemoryStore``, or another object with ``index``, ``search`` and ``close``. It is called
            once for each conversation, and the store is closed afterwards.
        dataset: The conversations and questions; ``siltstone.evaluation`` has readers of datasets.
        ranker: Passed to every search; None leaves the choice to the store.
        min_score: Passed to every search; 0 leaves nothing out.
        ties: The order of adjacent hits with equal scores: the store's own, or the earlier turn first, to
            compare stores that order ties differently.
        abstention: Whether to ask the questions of other conversations too.

    Returns:
        The figures by category and pooled. Pooled means are over the questions of all conversations together.

    Raises:
        DatasetError: all questions are in categories that the dataset reports apart.
        ConfigError: ``min_score`` is out of 0..1, ``ties`` is unknown, or the store does not have the ranker.
        StoreError: ``index`` did not return an id for every entry, or a hit has an id that it did not return.
    """
    if not 0.0 <= min_score <= 1.0:
        raise ConfigError(f"min_score must be in 0..1, got {min_score}", field="min_score", value=min_score)
    if ties not in get_args(Ties):
        raise ConfigError(f"ties must be one of {get_args(Ties)}, got {ties!r}", field="ties", value=ties)
    foreign = reports.off_topic(dataset) if abstention else {}
    options: dict[str, Any] = {} if ranker is None else {"ranker": ranker}
    if min_score > 0.0:
        options["min_score"] = min_score
    measured = [
        _measure(store_factory, each, foreign.get(each.id, []), dataset.apart, ties, options)
        for each in dataset.conversations
    ]
    return _report(dataset, measured)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of one question."""

    category: str
    recall: tuple[float, ...]
    hit: tuple[float, ...]
    ndcg: float
    mrr: float
    tokens: tuple[float, ...]
    session_hit: tuple[float, ...]
    best: float
    microseconds: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """The results of one conversation: answers, and the best scores of nameless own and other questions."""

    answers: list[_Answer]
    nameless: list[float]
    foreign: list[float]


def _measure(
    store_factory: Callable[[], Measurable],
    conversation: Conversation,
    foreign: Sequence[str],
    apart: frozenset[str],
    ties: Ties,
    options: dict[str, Any],
) -> _Measured:
    store = store_factory()
    try:
        session = _Session(store, conversation, ties, options)
        answers = [session.answer(question) for question in conversation.questions]
        if not foreign:
            return _Measured(answers, [], [])
        nameless = [
            session.best(query)
            for question, query in zip(
                conversation.questions, reports.without_names_in(conversation), strict=True
            )
            if question.category not in apart
        ]
        return _Measured(answers, nameless, [session.best(query) for query in foreign])
    finally:
        store.close()


class _Session:
    """A conversation in a store, with the data to judge its rankings."""

    def __init__(
        self, store: Measurable, conversation: Conversation, ties: Ties, options: dict[str, Any]
    ) -> None:
        receipt = store.index(conversation.id, conversation.entries())
        if len(receipt.entry_ids) != len(conversation.turns):
            raise StoreError(
                f"index() was given {len(conversation.turns)} entries of {conversation.id!r} "
                f"and named {len(receipt.entry_ids)}"
            )
        flush = getattr(store, "flush", None)
        if flush is not None and not flush():  # later vectors would make every run different
            raise StoreError(f"flush() left entries of {conversation.id!r} without vectors")
        self._store = store
        self._id = conversation.id
        self._ties = ties
        self._options = options
        self._places: dict[Hashable, int] = {
            entry_id: place for place, entry_id in enumerate(receipt.entry_ids) if entry_id is not None
        }
        self._turns = {entry_id: conversation.turns[place].id for entry_id, place in self._places.items()}
        self._sessions = (
            {turn.id: str(turn.session) for turn in conversation.turns} if conversation.has_sessions else {}
        )
        if conversation.questions:  # the first search may prepare the store; its time does not count
            self.search(conversation.questions[0].text, TIMED)

    def search(self, query: str, limit: int) -> Sequence[Ranked]:
        return self._store.search(self._id, query, limit=limit, **self._options)

    def answer(self, question: Question) -> _Answer:
        start = time.perf_counter()
        first = self.search(question.text, TIMED)
        microseconds = (time.perf_counter() - start) * 1e6
        hits = self._ranking(question.text)
        ranked = [self._turns[hit.entry_id] for hit in hits]
        evidence = question.evidence
        return _Answer(
            category=question.category,
            recall=tuple(report.recall(ranked, evidence, k) for k in reports.CUTOFFS),
            hit=tuple(report.hit(ranked, evidence, k) for k in reports.CUTOFFS),
            ndcg=report.ndcg(ranked, evidence, 10),
            mrr=report.reciprocal_rank(ranked, evidence, reports.DEPTH),
            tokens=tuple(sum(len(hit.content) for hit in hits[:k]) / 4 for k in reports.CUTOFFS),
            session_hit=self._session_hits(ranked, evidence),
            best=_best(first),
            microseconds=microseconds,
        )

    def best(self, query: str) -> float:
        return _best(self.search(query, TIMED))

    def _ranking(self, query: str) -> list[Ranked]:
        """The hits to judge, each entry once, in the order to judge."""
        first: dict[Hashable, Ranked] = {}
        for hit in self.search(query, reports.DEPTH):
            if hit.entry_id not in self._places:
                raise StoreError(
                    f"a hit in {self._id!r} has the entry id {hit.entry_id!r}, which index() did not give",
                    entry_id=hit.entry_id,
                )
            first.setdefault(hit.entry_id, hit)
        if self._ties == "store":
            return list(first.values())
        runs = groupby(first.values(), key=lambda hit: hit.score)
        return [hit for _, run in runs for hit in sorted(run, key=lambda hit: self._places[hit.entry_id])]

    def _session_hits(self, ranked: Sequence[str], evidence: Sequence[str]) -> tuple[float, ...]:
        if not self._sessions:
            return ()
        sessions = list(dict.fromkeys(self._sessions[turn] for turn in ranked))
        wanted = {self._sessions[turn] for turn in evidence}
        return tuple(report.hit(sessions, wanted, k) for k in reports.SESSION_CUTOFFS)


def _best(hits: Sequence[Ranked]) -> float:
    return hits[0].score if hits else SILENT


def _report(dataset: Dataset, measured: Sequence[_Measured]) -> reports.Report:
    answers = [answer for each in measured for answer in each.answers]
    pooled = [answer for answer in answers if answer.category not in dataset.apart]
    if not pooled:
        raise DatasetError(f"the dataset {dataset.name!r} has no question to be measured by")
    by_category: dict[str, list[_Answer]] = {}
    for answer in answers:
        by_category.setdefault(answer.category, []).append(answer)
    return reports.Report(
        dataset=dataset.name,
        conversations=len(dataset.conversations),
        entries=dataset.entries,
        pooled=_figures(pooled),
        categories={name: _figures(by_category[name]) for name in sorted(by_category)},
        everything=_figures(answers) if len(pooled) < len(answers) else None,
        abstention=_abstention(pooled, measured),
        latency=_latency([answer.microseconds for answer in answers]),
    )


def _figures(answers: Sequence[_Answer]) -> reports.Figures:
    by_session = all(answer.session_hit for answer in answers)
    return reports.Figures(
        questions=len(answers),
        recall=_means(reports.CUTOFFS, [answer.recall for answer in answers]),
        margin=_margins([answer.recall for answer in answers]),
        hit=_means(reports.CUTOFFS, [answer.hit for answer in answers]),
        ndcg=report.mean([answer.ndcg for answer in answers]),
        mrr=report.mean([answer.mrr for answer in answers]),
        tokens=_means(reports.CUTOFFS, [answer.tokens for answer in answers]),
        session_hit=_means(reports.SESSION_CUTOFFS, [a.session_hit for a in answers]) if by_session else None,
    )


def _means(cutoffs: Sequence[int], rows: Sequence[Sequence[float]]) -> dict[int, float]:
    return {k: report.mean(column) for k, column in zip(cutoffs, zip(*rows, strict=True), strict=True)}


def _margins(rows: Sequence[Sequence[float]]) -> dict[int, float]:
    columns = zip(*rows, strict=True)
    return {k: report.margin(column) for k, column in zip(reports.CUTOFFS, columns, strict=True)}


def _abstention(own: Sequence[_Answer], measured: Sequence[_Measured]) -> reports.Abstention | None:
    scores = [answer.best for answer in own]
    nameless = [score for each in measured for score in each.nameless]
    foreign = [score for each in measured for score in each.foreign]
    if not foreign:
        return None
    return reports.Abstention(
        auc=report.area_under_curve(scores, foreign),
        auc_nameless=report.area_under_curve(nameless, foreign),
        off_topic=len(foreign),
        silent=report.mean([float(score == SILENT) for score in scores]),
        silent_off_topic=report.mean([float(score == SILENT) for score in foreign]),
    )


def _latency(samples: Sequence[float]) -> reports.Latency:
    return reports.Latency(*(report.percentile(samples, share) for share in (0.50, 0.95, 0.99)))
